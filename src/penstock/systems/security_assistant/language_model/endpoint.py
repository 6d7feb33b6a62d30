"""One question to a language model behind an OpenAI-compatible endpoint (`POST …/chat/completions`).

1. An answer is what its form says, checked by pydantic, or there is none: an answer of another form is shown to the
   model with what is wrong, `repairs` times at most. Then the error says what was wrong.
2. A busy or broken endpoint (408, 409, 429, 5xx, a lost connection, no answer in time, an answer that is no answer) is
   asked again after a growing, random wait, or when it says so itself (Retry-After). Everything else is final.
3. Every request is counted before it is sent, and its tokens when it is answered. What the budget does not allow is not
   sent.
4. The key is sent to the endpoint, in a header, and goes nowhere else: no message, no repr, no log, no item. It is
   never sent unencrypted to another machine.
5. Every error tells the tokens that were used until then (`tokens`), so that a failed stage has its cost too.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from penstock.errors import PenstockError
from penstock.extras import extra
from penstock.retry import Backoff
from penstock.server.auth.authorization import is_loopback
from penstock.stored_text import cut

if TYPE_CHECKING:
    import httpx
    from pydantic import BaseModel, ValidationError

URL_VARIABLE: Final = "PENSTOCK_MODEL_URL"
KEY_VARIABLE: Final = "PENSTOCK_MODEL_KEY"
OPENAI_HOST: Final = "api.openai.com"
OPENAI_KEY_VARIABLE: Final = "OPENAI_API_KEY"

_BUSY: Final = frozenset({408, 409, 425, 429})
_LONGEST_ANSWER: Final = 10 * 1024 * 1024
_LONGEST_WAIT: Final = 120.0
"""Seconds that Retry-After may ask for. Above that, the job itself is tried later."""
_SHOWN: Final = 500
_ERRORS_SHOWN: Final = 10
_BACKOFF: Final = Backoff(1.0, 2.0, 30.0)

Form = TypeVar("Form", bound="BaseModel")
Message = dict[str, Any]


class ModelError(PenstockError):
    """A question to the model has no answer; `tokens` were used for it."""

    def __init__(self, message: str, tokens: int = 0) -> None:
        super().__init__(message)
        self.tokens = tokens


class BadModelSettings(ModelError, ValueError):
    """The endpoint, the model or the key is missing or wrong: the message names the variable."""


class ModelRefused(ModelError):
    """The endpoint does not take the request: asking again gives the same answer."""


class ModelUnavailable(ModelError):
    """The endpoint was busy or away for all attempts."""

    retryable = True


class BadModelAnswer(ModelError):
    """The model's answers do not have the form that was asked for."""


class BudgetReached(ModelError):
    """The next request is not in the budget."""


class Budget:
    """Requests and tokens of this process, whoever asks for them. None is no limit."""

    def __init__(self, *, tokens: int | None = None, requests: int | None = None) -> None:
        for name, limit in (("tokens", tokens), ("requests", requests)):
            if limit is not None and limit < 1:
                raise BadModelSettings(f"A budget has at least one of {name}, not {limit}.")
        self.most_tokens, self.most_requests = tokens, requests
        self.tokens = self.requests = 0
        self._lock = threading.Lock()

    def take_request(self) -> None:
        """Raises BudgetReached; otherwise it is counted (3)."""
        with self._lock:
            for name, used, most in (
                ("tokens", self.tokens, self.most_tokens),
                ("requests", self.requests, self.most_requests),
            ):
                if most is not None and used >= most:
                    raise BudgetReached(
                        f"The model's budget of {most:,} {name} is used up ({used:,}). Nothing more was asked. Raise "
                        f"--model-{name}, then `penstock security resume` continues after the last checkpoint."
                    )
            self.requests += 1

    def add_tokens(self, count: int) -> None:
        with self._lock:
            self.tokens += count


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model, and how it is asked. `url` is what stands before `/chat/completions`."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout_seconds: float = 120.0
    retries: int = 5
    repairs: int = 2

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadModelSettings(f"The model's URL is http://… or https://…, such as https://{OPENAI_HOST}/v1.")
        if parts.username or parts.password or parts.query:
            raise BadModelSettings(f"A key does not belong into the model's URL. Set {KEY_VARIABLE} instead.")
        if not self.model:
            raise BadModelSettings("Say which model: --model NAME.")
        if self.key and (not self.key.isascii() or not self.key.isprintable() or " " in self.key):
            raise BadModelSettings(f"{KEY_VARIABLE} is no key: it has a blank, or a character that no key has.")
        if not self.is_local:
            if not self.key:
                wanted = f"{KEY_VARIABLE} (or {OPENAI_KEY_VARIABLE})" if parts.hostname == OPENAI_HOST else KEY_VARIABLE
                raise BadModelSettings(f"{wanted} is not set. Set it to the key of {parts.hostname}.")
            if parts.scheme == "http":
                raise BadModelSettings(f"The key would be sent to {parts.hostname} unencrypted. Give an https:// URL.")

    @property
    def is_local(self) -> bool:
        return is_loopback(urlsplit(self.url).hostname or "")

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], *, model: str, url: str | None = None, **others: Any
    ) -> ModelSettings:
        """With the URL of PENSTOCK_MODEL_URL and the key of PENSTOCK_MODEL_KEY. Raises BadModelSettings.

        OPENAI_API_KEY is taken for api.openai.com, and for no other machine.
        """
        place = url or environment.get(URL_VARIABLE) or f"https://{OPENAI_HOST}/v1"
        key = environment.get(KEY_VARIABLE, "").strip()
        if not key and urlsplit(place).hostname == OPENAI_HOST:
            key = environment.get(OPENAI_KEY_VARIABLE, "").strip()
        return cls(place.rstrip("/"), model, key, **others)


@dataclass(frozen=True, slots=True)
class Answered(Generic[Form]):
    """The model's answer in its form, and all tokens that it took, repairs included."""

    value: Form
    tokens: int


_SHAPES: Final = ("json_schema", "json_object", "")
"""How an answer's form is asked for: not every endpoint knows the first, and some know none but the words."""


class ModelEndpoint:
    """Asks one model. Safe to share between threads."""

    def __init__(
        self,
        settings: ModelSettings,
        budget: Budget | None = None,
        *,
        wait: Callable[[float], object] = time.sleep,
        draw: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        with extra("models", "A language model"):
            import httpx
        self.settings = settings
        self.budget = budget or Budget()
        self._wait, self._draw, self._now = wait, draw, now
        self._shape = 0
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        # A proxy of the environment is not for an endpoint on this machine.
        self._http = httpx.Client(
            headers=headers,
            timeout=settings.timeout_seconds,
            transport=transport,
            trust_env=not settings.is_local,
        )

    def ask(self, messages: list[Message], form: type[Form]) -> Answered[Form]:
        """The answer in this form (1). Raises ModelError."""
        from pydantic import ValidationError

        talk = list(messages)
        used = 0
        for repair in range(self.settings.repairs + 1):
            try:
                text, tokens, cut_off = self._complete(talk, form)
            except ModelError as error:
                error.tokens += used
                raise
            used += tokens
            try:
                return Answered(form.model_validate_json(_json_of(text)), used)
            except ValidationError as error:
                wrong = "it was cut off before its end" if cut_off else _what_is_wrong(error)
            if repair < self.settings.repairs:
                talk = [*messages, {"role": "assistant", "content": text}, _repair(wrong)]
        raise BadModelAnswer(
            f"{self.settings.model} gave {self.settings.repairs + 1} answers, and none has the form that was asked "
            f"for: {wrong}. Try a model that can answer in JSON, or fewer stages (--model-stages).",
            used,
        )

    def _complete(self, messages: list[Message], form: type[Form]) -> tuple[str, int, bool]:
        """The text of an answer, its tokens, and whether it was cut off."""
        while True:
            shape = _SHAPES[self._shape]
            request: dict[str, Any] = {"model": self.settings.model, "messages": messages}
            if shape:
                request["response_format"] = _response_format(shape, form)
            response = self._send(request)
            if response.status_code in (400, 422) and self._shape + 1 < len(_SHAPES):
                self._shape += 1  # it may not know this way to ask for a form: by the status, as texts differ
                continue
            if response.status_code != 200:
                raise self._refusal(response)
            return self._read(response)

    def _send(self, request: dict[str, Any]) -> httpx.Response:
        """An answer that is final, after as many attempts as it takes (2)."""
        import httpx

        failures = 0
        while True:
            self.budget.take_request()
            asked: float | None = None
            try:
                response = self._post(request)
                if response.status_code not in _BUSY and response.status_code < 500 and _is_whole(response):
                    return response
                reason = f"status {response.status_code}" if response.status_code != 200 else "no answer in the answer"
                asked = self._retry_after(response)
            except httpx.TransportError as error:
                reason = type(error).__name__
            failures += 1
            if failures > self.settings.retries or (asked or 0.0) > _LONGEST_WAIT:
                raise ModelUnavailable(
                    f"{self._place} gave no answer in {failures} attempts, the last time {reason}. The job is tried "
                    "again later; see whether the endpoint is up, and what its limits are."
                )
            self._wait(max(_BACKOFF.wait(failures, self._draw), asked or 0.0))

    def _post(self, request: dict[str, Any]) -> httpx.Response:
        """The answer; one that does not end is cut, and is then no JSON."""
        import httpx

        with self._http.stream("POST", f"{self.settings.url}/chat/completions", json=request) as response:
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > _LONGEST_ANSWER:
                    break
            plain = {name: value for name, value in response.headers.items() if name.lower() == "retry-after"}
            return httpx.Response(response.status_code, headers=plain, content=bytes(body))

    def _read(self, response: httpx.Response) -> tuple[str, int, bool]:
        told = response.json()
        tokens = _tokens_of(told)
        self.budget.add_tokens(tokens)
        choice = told["choices"][0]
        message = choice.get("message") or {}
        if message.get("refusal"):
            raise ModelRefused(f"{self.settings.model} declined: {self._clean(str(message['refusal']))}", tokens)
        return _text_of(message.get("content")), tokens, choice.get("finish_reason") == "length"

    def _refusal(self, response: httpx.Response) -> ModelRefused:
        status = response.status_code
        if status in (401, 403):
            return ModelRefused(f"{self._place} refused the key (status {status}). Check {KEY_VARIABLE}.")
        if status == 404:
            return ModelRefused(
                f"{self._place} has no model {self.settings.model}, or is no OpenAI-compatible endpoint (status 404). "
                f"Check --model and --model-url; the URL most often ends in /v1."
            )
        return ModelRefused(f"{self._place} refused the request (status {status}): {self._clean(response.text)}")

    def _retry_after(self, response: httpx.Response) -> float | None:
        """Seconds, from a number of them or from a date."""
        text = response.headers.get("retry-after", "")
        try:
            return max(0.0, float(text))
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._now())
        except ValueError:
            return None

    @property
    def _place(self) -> str:
        return urlsplit(self.settings.url).netloc

    def _clean(self, text: str) -> str:
        """A stranger's text for a message, without the key (4)."""
        hidden = text.replace(self.settings.key, "…") if self.settings.key else text
        return cut(" ".join(hidden.split()), _SHOWN)


def _response_format(shape: str, form: type[BaseModel]) -> dict[str, Any]:
    if shape == "json_object":
        return {"type": "json_object"}
    schema = {"name": form.__name__, "schema": _strict(form.model_json_schema()), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


_NOT_STRICT: Final = ("default", "title", "description", "minLength", "maxLength", "maxItems", "minimum", "maximum")


def _strict(schema: Any, names: bool = False) -> Any:
    """As strict endpoints want it: every member is required, and there is no other. pydantic checks the limits.

    `names`: the members' names are keys here, and none of them is a keyword.
    """
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: _strict(one, name in ("properties", "$defs"))
        for name, one in schema.items()
        if names or name not in _NOT_STRICT
    }
    if not names and "properties" in schema:
        kept |= {"additionalProperties": False, "required": list(schema["properties"])}
    return kept


def _is_whole(response: httpx.Response) -> bool:
    """Whether an answer of status 200 has a choice in it: a proxy's page, or half of an answer, has none."""
    if response.status_code != 200:
        return True
    try:
        told = response.json()
    except ValueError:
        return False
    choices = told.get("choices") if isinstance(told, dict) else None
    return isinstance(choices, list) and bool(choices) and isinstance(choices[0], dict)


def _tokens_of(told: dict[str, Any]) -> int:
    """As the endpoint counts them; one that does not tell the sum tells its parts."""
    usage = told.get("usage")
    if not isinstance(usage, dict):
        return 0
    numbers = {name: value for name, value in usage.items() if isinstance(value, int) and value >= 0}
    return numbers.get("total_tokens", numbers.get("prompt_tokens", 0) + numbers.get("completion_tokens", 0))


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _json_of(text: str) -> str:
    """The JSON of an answer: what stands outside of its braces, a fence or a greeting, is left out."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else text


def _what_is_wrong(error: ValidationError) -> str:
    """By place: `components.3.designator: Field required`."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(str(part) for part in one['loc']) or 'the answer'}: {one['msg']}" for one in found]
    more = f" and {len(lines) - _ERRORS_SHOWN} more" if len(lines) > _ERRORS_SHOWN else ""
    return cut("; ".join(lines[:_ERRORS_SHOWN]), _SHOWN) + more


def _repair(wrong: str) -> Message:
    text = f"This answer cannot be used: {wrong}. Answer again with the whole JSON object, and nothing else."
    return {"role": "user", "content": text}
