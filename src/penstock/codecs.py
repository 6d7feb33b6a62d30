"""Codecs: what a job stores as its payload (arguments, results, checkpoints, steps) is compressed and encrypted.

    app = penstock.App("aws://eu-west-2", codec=[Compression(), Encryption({"2026-11": key, "2025-11": old_key})])

1. Each payload names the codecs that wrote it, in their order, and their keys: what was written without a codec, with
   other ones, or with an older key is read as long as the codec and the key are there.
2. What no codec has written is plain JSON. No JSON begins with the mark of the others.
3. Encryption is bound to the job and to the payload's name: what is put into another job, or into another place of the
   same one, is not read.
4. A program that has not the codec or the key says so (PayloadLocked) and reads nothing.

Not covered are what a job is found and shown by: its id, the names of its task, queue, tenant, keys and checkpoints,
progress and log entries, errors, and files that tasks save.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from penstock.errors import PenstockError
from penstock.extras import extra

MARK: Final = "~"
_LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Of a payload that was compressed: a short text must not become all of a machine's memory."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


@runtime_checkable
class Codec(Protocol):
    """Writes bytes as other bytes, and reads them back."""

    @property
    def name(self) -> str:
        """Of letters, digits, dots and hyphens; it is stored with each payload that it wrote."""

    @property
    def key_id(self) -> str:
        """The key that it writes with, stored too; "" for a codec without keys."""

    def encode(self, data: bytes, context: bytes) -> bytes | None:
        """None leaves the data as they are. `context` names the job and the payload."""

    def decode(self, data: bytes, key_id: str, context: bytes) -> bytes:
        """What was encoded, with the same context. Raises PayloadLocked without the key, ValueError for other data."""


class PayloadLocked(PenstockError):
    """A payload was written by a codec, or with a key, that this program does not have."""

    def __init__(self, what: str, codec: str, key_id: str) -> None:
        with_key = f" with the key {key_id!r}" if key_id else ""
        self.codec = codec
        self.key_id = key_id
        super().__init__(
            f"{what} is encoded by {codec}{with_key}, which this program does not have: give the app its "
            f"{'key' if key_id else 'codec'}, App(codec=…)."
        )


class PayloadDamaged(PenstockError):
    """A payload cannot be decoded: it was changed, or belongs to another job."""


class Compression:
    """zlib, of what is not short. It is read by every program, also without a codec."""

    name: Final = "zlib"
    key_id: Final = ""

    def __init__(self, *, least_bytes: int = 1_024, level: int = 6) -> None:
        self._least_bytes = least_bytes
        self._level = level

    def encode(self, data: bytes, context: bytes) -> bytes | None:
        """None for what is short, and for what would not become shorter."""
        if not self._least_bytes <= len(data) <= _LARGEST_BYTES:
            return None
        packed = zlib.compress(data, self._level)
        return packed if len(packed) < len(data) else None

    def decode(self, data: bytes, key_id: str, context: bytes) -> bytes:
        """What was compressed. Raises ValueError for other data."""
        unpacking = zlib.decompressobj()
        try:
            found = unpacking.decompress(data, _LARGEST_BYTES)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if not unpacking.eof:
            raise ValueError(f"it is cut off, or has more than {_LARGEST_BYTES:,} bytes")
        return found


class Encryption:
    """AES-256 in Galois/counter mode. `keys` are texts of `new_key()` by their ids: the first writes, all of them read.

    To rotate, put a new key first, and keep the old one until the jobs that it wrote have expired. A key is good for
    four billion payloads.
    """

    name: Final = "aes-gcm"

    def __init__(self, keys: Mapping[str, str]) -> None:
        with extra("crypto", "Encryption"):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        if not keys:
            raise PenstockError('Encryption needs a key: Encryption({"2026-11": key}), where key is one of new_key().')
        for key_id in keys:
            if not _NAME.fullmatch(key_id):
                raise PenstockError(f"The id of a key has 1 to 64 letters, digits, dots and hyphens, not {key_id!r}.")
        self.key_id = next(iter(keys))
        self._keys = {key_id: AESGCM(_key_bytes(key_id, key)) for key_id, key in keys.items()}

    def encode(self, data: bytes, context: bytes) -> bytes | None:
        """Encrypts with the first key, and binds it to the context."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._keys[self.key_id].encrypt(nonce, data, context)

    def decode(self, data: bytes, key_id: str, context: bytes) -> bytes:
        """What was encrypted. Raises PayloadLocked without the key, ValueError for changed data or another context."""
        from cryptography.exceptions import InvalidTag

        key = self._keys.get(key_id)
        if key is None:
            raise PayloadLocked("It", self.name, key_id)
        try:
            return key.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], context)
        except InvalidTag:
            raise ValueError("it was changed, or belongs to another job") from None

    def __repr__(self) -> str:
        return f"Encryption({', '.join(self._keys)})"


def new_key() -> str:
    """A new key for Encryption, at random. Keep it where secrets are kept, not beside the jobs."""
    return base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode()


def _key_bytes(key_id: str, key: str) -> bytes:
    try:
        data = base64.urlsafe_b64decode(key)
    except (ValueError, TypeError):
        data = b""
    if len(data) != _KEY_BYTES:  # the key itself is not shown
        raise PenstockError(f"The key {key_id!r} is no text of penstock.codecs.new_key().")
    return data


class CodecChain:
    """The codecs of an app, in the order in which they write."""

    def __init__(self, codecs: Codec | Sequence[Codec] | None = None) -> None:
        chain = () if codecs is None else codecs if isinstance(codecs, Sequence) else (codecs,)
        for one in chain:
            if not isinstance(one, Codec):
                raise PenstockError(f"{one!r:.100} is no codec: it has a name, a key_id, encode and decode.")
            if not _NAME.fullmatch(one.name) or (one.key_id and not _NAME.fullmatch(one.key_id)):
                raise PenstockError(f"A codec's name and key_id are letters, digits, dots and hyphens: {one!r:.100}.")
        self._chain = tuple(chain)
        self._readers: dict[str, Codec] = {Compression.name: Compression(), **{one.name: one for one in self._chain}}
        self.writes = bool(self._chain)
        """Whether `encode` changes anything."""

    def encode(self, text: str, job_id: str, name: str) -> str:
        """The text as it is stored: `~args;zlib,aes-gcm:2026-11~` and base64."""
        data, used = text.encode(), []
        context = _context(job_id, name)
        for codec in self._chain:
            found = codec.encode(data, context)
            if found is not None:
                data = found
                used.append(f"{codec.name}:{codec.key_id}" if codec.key_id else codec.name)
        return f"{MARK}{name};{','.join(used)}{MARK}{base64.b64encode(data).decode()}" if used else text

    def decode(self, text: str, job_id: str, name: str | None = None) -> str:
        """The text that was encoded; `name`, where it is known, must be the payload's own (3)."""
        head, _, body = text[len(MARK) :].rpartition(MARK)
        stored_name, _, used = head.rpartition(";")
        what = f"{stored_name} of {job_id}"
        if name is not None and name != stored_name:
            raise PayloadDamaged(f"{name} of {job_id} holds what was stored as {stored_name}.")
        context = _context(job_id, stored_name)
        try:
            data = base64.b64decode(body, validate=True)
            for step in reversed(used.split(",")):
                codec_name, _, key_id = step.partition(":")
                codec = self._readers.get(codec_name)
                if codec is None:
                    raise PayloadLocked(what, codec_name, key_id)
                data = codec.decode(data, key_id, context)
            return data.decode()
        except PayloadLocked as locked:
            raise PayloadLocked(what, locked.codec, locked.key_id) from None
        except (ValueError, binascii.Error) as error:
            raise PayloadDamaged(f"{what} cannot be decoded: {error}.") from error


def _context(job_id: str, name: str) -> bytes:
    return f"penstock\n{job_id}\n{name}".encode()
