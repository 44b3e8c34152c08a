"""Every failure a caller can see, in one place.

* GatewayError(code, message, retryable)     a refusal or a failure, in our own words
  + StreamBroken                             an answer stream that ended before it was done
  + Unsure                                   a write that was sent and got no telling answer
* Absent                                     the platform has no such route; never reaches a caller,
                                             it moves a chain to its next step
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from gateway.operations.table import JsonObject, JsonValue

# code -> (message, retryable). The closed list: a code that is not here cannot be raised.
CATALOGUE: Final[Mapping[str, tuple[str, bool]]] = {
    "no_brain": ("That brain does not exist, or it is not yours. Call memory_list_brains to see yours.", False),
    "not_found": ("There is nothing of that name.", False),
    "validation_error": ("The platform did not accept these arguments.", False),
    "unauthorized": ("The platform did not accept the gateway's credential. Check BRAINS_UPSTREAM_TOKEN.", False),
    "forbidden": ("The credential in use may not do this.", False),
    "insufficient_scope": ("The token in use lacks a scope for this tool.", False),
    "conflict": ("Something else is stored under that name.", False),
    "file_too_large": ("Files over 25 MiB (26,214,400 bytes) are not ingested.", False),
    "payload_too_large": ("This is more than the platform takes in one request. Send it in smaller parts.", False),
    "file_not_allowed": ("That file is outside the directories files may be ingested from.", False),
    "fetch_blocked": ("That address may not be fetched.", False),
    "fetch_failed": ("The page could not be fetched.", True),
    "not_implemented": ("This platform cannot do that.", False),
    "rate_limited": ("The platform asks to slow down.", True),
    "timeout": ("The platform did not answer in time.", True),
    "outcome_unknown": (
        "The platform took the request and gave no telling answer; whether it was stored could not be found out.",
        False,
    ),
    "stream_truncated": ("The answer stopped before it was done.", True),
    "upstream_unavailable": ("The platform cannot be reached at the moment.", True),
    "upstream_error": ("The platform failed to answer this request.", False),
}


class GatewayError(Exception):
    """A failure in words for the caller. `extra` is added to the error object as it is."""

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        retryable: bool | None = None,
        retry_after_seconds: int | None = None,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> None:
        default_message, default_retryable = CATALOGUE[code]
        self.code = code
        self.message = message or default_message
        self.retryable = default_retryable if retryable is None else retryable
        self.retry_after_seconds = retry_after_seconds
        self.extra = dict(extra or {})
        super().__init__(f"{code}: {self.message}")

    def as_json(self, request_id: str) -> JsonObject:
        error: JsonObject = {"code": self.code, "message": self.message, "retryable": self.retryable}
        if self.retry_after_seconds is not None:
            error["retry_after_seconds"] = self.retry_after_seconds
        return {**error, "request_id": request_id, **self.extra}


class Doubt(StrEnum):
    """Why it is not known whether a write was made. This decides what to do if a look finds nothing."""

    LOST = "lost"
    """The connection broke: the write never arrived, or it is done by now."""
    LATE = "late"
    """No answer came in time: the write may still be under way."""
    ANSWERED = "answered"
    """The answer was a failure or nonsense: if the result is not there now, the write was not made."""


class Unsure(GatewayError):
    """A write that may have been made. `failure` is the error to report if it turns out that it was not."""

    def __init__(self, failure: GatewayError, doubt: Doubt) -> None:
        super().__init__("outcome_unknown", retry_after_seconds=failure.retry_after_seconds)
        self.failure = failure
        self.doubt = doubt


class StreamBroken(GatewayError):
    """The stream of an answer said `error`, or ended without `done`."""

    def __init__(self, code: str, message: str | None = None, *, stream_code: str | None = None, **more: Any) -> None:
        """`stream_code` is the platform's own code, which callers are told; `code` stays one of the closed list."""
        super().__init__(code, message, **more)
        self.stream_code = stream_code

    def as_json(self, request_id: str) -> JsonObject:
        said = super().as_json(request_id)
        return said if self.stream_code is None else {**said, "code": self.stream_code}


class Absent(Exception):
    """The platform has no such route. Only a chain may catch this."""
