"""How a call of the model ended: a value, never an exception."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Literal, TypeAlias

Code: TypeAlias = Literal["timeout", "rate_limited", "upstream_unavailable", "upstream_error", "stream_truncated"]

# Nobody waits for longer; a provider that says so is told to the caller, who may.
LONGEST_WAIT: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Finished:
    """All was said. Tokens are what the provider counted, or an estimate where it says nothing."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    is_cut: bool = False
    """Whether the model stopped at its limit of words."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no answer, or only a part of one; `message` is a sentence that quotes nobody."""

    code: Code
    message: str
    retryable: bool
    retry_after: float | None = None
    is_for_all: bool = False
    """Whether any other request would have failed too, so that this one is not the reason."""


TIMED_OUT: Final = Failed("timeout", "the language model did not answer in time", retryable=True)
UNREACHABLE: Final = Failed(
    "upstream_unavailable", "the language model cannot be reached", retryable=True, is_for_all=True
)
CUT_OFF: Final = Failed("stream_truncated", "the language model's answer was cut off", retryable=True)
TOO_LONG: Final = Failed("upstream_error", "the language model's answer is too long", retryable=False)
NO_SENSE: Final = Failed("upstream_error", "the language model sent something that is no answer", retryable=True)
SAID_NOTHING: Final = Failed("upstream_error", "the language model said nothing", retryable=True)
REPEATED: Final = Failed("upstream_error", "the language model repeated what it was told", retryable=False)
NO_JSON: Final = Failed(
    "upstream_error", "the language model did not keep to the form it was asked for", retryable=True
)


def of_status(status: int, retry_after: str | None) -> Failed:
    """What a refusal means. Nothing of its text is used: it may quote the prompt, or the key."""
    wait = _seconds(retry_after)
    if status == 429:
        return Failed("rate_limited", "the language model takes no more calls at the moment", True, wait, True)
    if status in (401, 403):
        return Failed("upstream_error", "the language model refused the key", False, is_for_all=True)
    if status == 404:
        return Failed("upstream_error", "there is no such model, or no chat at that address", False, is_for_all=True)
    if status in (408, 504):
        return TIMED_OUT
    if status >= 500:
        return Failed("upstream_unavailable", f"the language model failed ({status})", True, wait, True)
    return Failed("upstream_error", f"the language model refused the request ({status})", retryable=False)


def _seconds(header: str | None) -> float | None:
    """Both forms of Retry-After, in seconds from now."""
    if not header:
        return None
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", header.strip(), re.ASCII):
        return min(float(header), LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    left = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(math.ceil(left), 0.0), LONGEST_WAIT)
