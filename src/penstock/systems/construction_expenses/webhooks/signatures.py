"""Who sent a webhook: the signatures of Paddle Billing and of Paddle Classic.

1. Billing signs `{ts}:{body}` with HMAC-SHA256, the body byte by byte as it was sent; the `Paddle-Signature` header is
   `ts=…;h1=…`, with several `h1` while a secret is replaced. Hashes are compared in constant time, all of them.
2. Classic sends a form. It signs its fields, sorted and serialized as PHP does it, with RSA and SHA-1; the signature is
   the field `p_signature`.
3. A time that is signed and too far away is refused: what somebody has recorded cannot be sent again later. Billing
   signs each delivery anew. Classic repeats the same alert for three days, so only what is older is late.
4. No secret is in an error, a log or a `repr`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl

from penstock.errors import PenstockError
from penstock.extras import extra
from penstock.webhooks import MOST_SIGNATURES, BadSignature

TOLERANCE_SECONDS: Final = 60.0
"""Of Billing's deliveries. Paddle's own libraries allow 5; a repeat within a minute is the same event, handled once."""
CLASSIC_TOLERANCE_SECONDS: Final = 4 * 86_400.0
"""Classic tries for 72 hours."""
SIGNATURE_FIELD: Final = "p_signature"
SECRET_VARIABLE: Final = "PADDLE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
KEY_VARIABLE: Final = "PADDLE_PUBLIC_KEY"
_SECRET_CHARACTERS: Final = 16
_HEADER_CHARACTERS: Final = 2_000
_MOST_FIELDS: Final = 500
_PEM_END: Final = "-----END PUBLIC KEY-----"


class BadPaddleKey(PenstockError):
    """A secret or a public key that cannot be one; the message shows nothing of it."""


@dataclass(frozen=True)
class PaddleKeys:
    """What webhooks are verified with: Billing's secrets and Classic's public keys, several while one is replaced."""

    secrets: tuple[str, ...] = field(default=(), repr=False)
    public_keys: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if any(len(secret) < _SECRET_CHARACTERS for secret in self.secrets):
            raise BadPaddleKey(
                f"A secret of Paddle Billing has {_SECRET_CHARACTERS} characters at least, such as pdl_ntfset_…; one "
                f"that was given is shorter. Copy it from the notification destination ({SECRET_VARIABLE})."
            )
        _ = self.rsa_keys  # what is no key is refused when the receiver starts

    @cached_property
    def rsa_keys(self) -> tuple[Any, ...]:
        """The public keys as objects. Raises BadPaddleKey, and ExtraMissing where there is a key and no library."""
        if not self.public_keys:
            return ()
        with extra("crypto", "Paddle Classic's signature"):
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
            from cryptography.hazmat.primitives.serialization import load_pem_public_key
        found = []
        for text in self.public_keys:
            try:
                key = load_pem_public_key(text.encode())
            except ValueError:
                key = None
            if not isinstance(key, RSAPublicKey):
                raise BadPaddleKey(
                    "The public key of Paddle Classic is a PEM of an RSA key (-----BEGIN PUBLIC KEY-----); what was "
                    f"given is none. Copy it from Developer Tools > Public Key ({KEY_VARIABLE})."
                )
            found.append(key)
        return tuple(found)


def keys_of(variables: Mapping[str, str], secrets_text: str = "", keys_text: str = "") -> PaddleKeys:
    """The keys of the environment and of files' texts: secrets apart by spaces or commas, keys as PEM.

    A PEM in a variable may have `\\n` for its line ends.
    """
    secrets = re.split(r"[\s,]+", f"{variables.get(SECRET_VARIABLE, '')} {secrets_text}")
    pems = f"{variables.get(KEY_VARIABLE, '')}\n{keys_text}".replace("\\n", "\n")
    parts = [part.strip() for part in pems.split(_PEM_END)]
    complete = [f"{part}\n{_PEM_END}\n" for part in parts[:-1]]
    return PaddleKeys(tuple(one for one in secrets if one), (*complete, *(part for part in parts[-1:] if part)))


def verify_billing(
    body: bytes, header: str, secrets: Sequence[str], now: float, tolerance_seconds: float = TOLERANCE_SECONDS
) -> None:
    """Returns if the body is signed with one of the secrets, and lately. Raises BadSignature."""
    if not secrets:
        raise BadSignature(f"This receiver knows no secret of Paddle Billing ({SECRET_VARIABLE}).")
    if len(header) > _HEADER_CHARACTERS or not header.isascii():
        raise BadSignature("The Paddle-Signature header is no ts=…;h1=….")
    pairs = [part.strip().partition("=") for part in header.split(";")]
    times = [value for name, _, value in pairs if name == "ts"]
    given = [value.lower().encode() for name, _, value in pairs if name == "h1"][:MOST_SIGNATURES]
    if len(times) != 1 or not given or not (times[0].isdigit() and len(times[0]) < 12):
        raise BadSignature("The Paddle-Signature header is no ts=…;h1=….")
    signed = times[0].encode() + b":" + body
    wanted = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(one, other) for one in given for other in wanted]
    if not any(matches):
        raise BadSignature("The webhook is not signed with a secret of this receiver, or was changed on its way.")
    age = now - int(times[0])
    if abs(age) > tolerance_seconds:
        when = f"{age:.0f} s ago" if age > 0 else f"{-age:.0f} s in the future: a clock is wrong"
        raise BadSignature(f"The webhook was signed {when}. {tolerance_seconds:g} s are allowed.")


def classic_fields(body: bytes) -> dict[bytes, bytes]:
    """The fields of Classic's form, in bytes: of two with one name the last, as PHP takes it. Raises BadSignature."""
    try:
        pairs = parse_qsl(
            body.decode("latin-1"), keep_blank_values=True, encoding="latin-1", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise BadSignature(f"The form has more than {_MOST_FIELDS} fields: it is no alert of Paddle's.") from None
    return {name.encode("latin-1"): value.encode("latin-1") for name, value in pairs}  # one character is one byte


def verify_classic(fields: Mapping[bytes, bytes], rsa_keys: Sequence[Any]) -> None:
    """Returns if the fields are signed for one of the keys. Raises BadSignature. Lateness is for `check_age`."""
    given = fields.get(SIGNATURE_FIELD.encode(), b"")
    if not given:
        raise BadSignature(f"The form has no {SIGNATURE_FIELD}: it is not signed.")
    if not rsa_keys:
        raise BadSignature(f"This receiver knows no public key of Paddle Classic ({KEY_VARIABLE}).")
    from cryptography.exceptions import InvalidSignature  # it is there: the keys are made of it
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA1

    try:
        signature = base64.b64decode(given, validate=True)
    except binascii.Error:
        raise BadSignature(f"{SIGNATURE_FIELD} is no base64.") from None
    signed = php_serialized({name: value for name, value in fields.items() if name != SIGNATURE_FIELD.encode()})
    for key in rsa_keys:
        try:
            key.verify(signature, signed, PKCS1v15(), SHA1())  # noqa: S303 - it is what Classic signs with
        except InvalidSignature:
            continue
        return
    raise BadSignature("The webhook is not signed for a public key of this receiver, or was changed on its way.")


def php_serialized(fields: Mapping[bytes, bytes]) -> bytes:
    """`serialize()` of an array of strings after `ksort()`: lengths are in bytes."""
    texts = (_php_string(name) + _php_string(value) for name, value in sorted(fields.items()))
    return b"a:%d:{%s}" % (len(fields), b"".join(texts))


def _php_string(text: bytes) -> bytes:
    return b's:%d:"%s";' % (len(text), text)


def check_age(happened_at: float, now: float, tolerance_seconds: float = CLASSIC_TOLERANCE_SECONDS) -> None:
    """Raises BadSignature for an alert that Classic would no more send, or not yet (3)."""
    if abs(now - happened_at) > tolerance_seconds:
        raise BadSignature(
            f"The alert is of {(now - happened_at) / 86_400:.1f} days ago, and Classic tries for 3 days: it is a copy."
        )
