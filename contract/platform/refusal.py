"""Everything the platform refuses: one exception, and the HTTP status of each of its codes."""

from typing import Final

STATUS_BY_CODE: Final = {
    "validation_error": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "fetch_blocked": 422,
    "confirmation_required": 428,
    "rate_limited": 429,
    "internal_error": 500,
    "not_implemented": 501,
    "fetch_failed": 502,
    "model_failed": 502,
    "model_timeout": 504,
    "insufficient_storage": 507,
    "quota_exceeded": 507,
}


class Refused(Exception):
    """A request the platform understood and turned down; `detail` is a sentence for the caller."""

    def __init__(self, code: str, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        """Seconds, where it is known when to try again."""


def invalid(detail: str) -> Refused:
    return Refused("validation_error", detail)
