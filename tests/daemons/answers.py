"""What goes over the wire: refusals, JSON and events, in the words of the daemons."""

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from tests.daemons.traits import Traits

KINDS = {
    400: ("Bad Request", "validation_error"),
    401: ("Unauthorized", "unauthorized"),
    403: ("Forbidden", "forbidden"),
    404: ("Not Found", "not_found"),
    409: ("Conflict", "conflict"),
    413: ("Payload Too Large", "payload_too_large"),
    428: ("Confirmation Required", "confirmation_required"),
    429: ("Too Many Requests", "rate_limited"),
    500: ("Internal Server Error", "internal_error"),
    502: ("Bad Gateway", "bad_gateway"),
    503: ("Service Unavailable", "unavailable"),
}


class Refused(Exception):
    """Ends a request with a problem document."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def problem(status: int, detail: str, traits: Traits, headers: dict[str, str] | None = None) -> Response:
    title, code = KINDS.get(status, ("Error", "error"))
    if status == 400:
        title = traits.bad_request_title
    if status == 428:
        title = traits.confirmation_title
    body = {"status": status, "title": title, "code": code, "detail": detail}
    return JSONResponse(body, status, headers=headers, media_type="application/problem+json")


def no_route(method: str, path: str, allowed: list[str], traits: Traits) -> Response:
    """The answer for a path that is unknown, or known with the `allowed` methods only."""
    if allowed and traits.wrong_method != "missing":
        shown = allowed if traits.wrong_method == "allow" else allowed[:1]
        if traits.head_of_get and "GET" in shown and "HEAD" not in shown:
            shown = [*shown, "HEAD"]
        return PlainTextResponse("Method Not Allowed", 405, headers={"allow": ", ".join(shown)})
    if traits.unknown_route is not None:
        return PlainTextResponse(traits.unknown_route, 404)
    return problem(404, f"no route for {method} {path}", traits)


async def read_body(request: Request, cap: int, status: int = 413) -> bytes:
    body = await request.body()
    if len(body) > cap:
        raise Refused(status, f"body exceeds {cap} bytes")
    return body


async def read_json(request: Request, cap: int, traits: Traits, status: int | None = None) -> dict[str, Any]:
    body = await read_body(request, cap, traits.json_oversize if status is None else status)
    if not body:
        raise Refused(400, "empty body")
    try:
        parsed = json.loads(body.decode("utf-8", "replace"))
    except ValueError as error:
        raise Refused(400, f"invalid JSON: {error}") from None
    return parsed if isinstance(parsed, dict) else {}


def text_of(body: dict[str, Any], key: str, *more: str) -> str:
    """The first of the keys that is a text with something in it."""
    return next((body[name] for name in (key, *more) if isinstance(body.get(name), str) and body[name]), "")


def whole(body: dict[str, Any], key: str, default: int, traits: Traits) -> int:
    value = body.get(key)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if traits.strict_ints and value is not None and (number is None or number != int(number)):
        raise Refused(400, f"invalid JSON: {key} must be an integer")
    return int(number) if number is not None and number > 0 else default


def frame(event: str, data: Any, number: int | None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    identity = "" if number is None else f"id: {number}\n"
    return f"event: {event}\n{identity}data: {text}\n\n".encode()


def stream(events: AsyncIterator[tuple[str, Any]], traits: Traits, cut: int | None = None) -> Response:
    """The events as a stream, which ends without a word after `cut` frames."""

    async def frames() -> AsyncIterator[bytes]:
        number = 0
        async for event, data in events:
            if number == cut:
                return
            number += 1
            yield frame(event, data, number if traits.sse_ids else None)

    headers = {"cache-control": traits.no_cache, "x-accel-buffering": "no"}
    response = StreamingResponse(frames(), headers=headers)
    # Starlette adds a charset to text types; the daemons send none.
    response.headers["content-type"] = "text/event-stream"
    return response
