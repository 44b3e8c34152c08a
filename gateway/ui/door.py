"""The door of the page. It lets in the same callers as the tools, by a token in a sealed cookie instead of a header."""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from gateway.brain.limits import Bucket, Limits
from gateway.http.auth.access import Access, http_answer, provider_down
from gateway.http.auth.inbound import Inbound, ProviderDown, Refused
from gateway.operations.errors import GatewayError
from gateway.ui.render import html
from gateway.ui.session import COOKIE_BYTES, Seal, Session, is_secure, set_cookie
from gateway.ui.visit import read_form

LOGIN: Final = "/ui/login"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
# How many tokens can be tried from one address at once, and then one every so many seconds.
_TRIES, _TRY_SECONDS = 10, 6.0
_ADDRESSES: Final = 1024
_WRONG: Final = "This token is not valid here: it is wrong, expired, revoked or meant for another."


class PageAccess(Access):
    """Lets people in as `Access` lets in programs, and sends all others to the login."""

    def _guards(self, path: str) -> bool:
        return True

    def _unauthorized(self, scope: Scope) -> Response:
        return RedirectResponse(LOGIN, 303)

    def _provider_down(self, retry_after: int) -> Response:
        return _refusal(provider_down(retry_after), 503)

    def _too_many(self, error: GatewayError) -> Response:
        return _refusal(error, 429)


def session_in(scope: Scope) -> Session:
    session: Session = scope["state"]["session"]
    return session


def with_token(scope: Scope) -> Scope:
    """The request with the token of its session instead of any token of its own."""
    kept = [header for header in scope["headers"] if header[0] != b"authorization"]
    token = session_in(scope).token
    return {**scope, "headers": kept if token is None else [*kept, (b"authorization", b"Bearer " + token.encode())]}


def refuse(message: str) -> Response:
    return _refusal(GatewayError("forbidden", message), 403)


def _refusal(error: GatewayError, status: int) -> Response:
    values = {"title": "Not allowed" if status == 403 else "Not now", "error": error}
    page = html("error.html", {**_OUTSIDE, **values}, status)
    if error.retry_after_seconds is not None:
        page.headers["retry-after"] = str(error.retry_after_seconds)
    return page


# What templates need for a visitor who is not logged in.
_OUTSIDE: Final = {"brain": None, "proof": "", "is_logged_in": False, "can_write": False, "read_only": False}


class Origins:
    """Tells requests of our own pages from requests that foreign pages cause."""

    def __init__(self, public_url: str | None) -> None:
        public = urlsplit(public_url or "")
        self._public_host = public.netloc.lower()
        self._public = f"{public.scheme}://{self._public_host}" if self._public_host else None

    def is_https(self, scope: Scope) -> bool:
        """Whether a browser speaks https to us, also where a proxy in between does not."""
        is_public = self._public is not None and _header(scope, b"host").lower() == self._public_host
        return scope["scheme"] == "https" or (is_public and str(self._public).startswith("https:"))

    def is_ours(self, scope: Scope) -> bool:
        """Whether a page of ours sent it. A browser says with every POST which page it was."""
        host = _header(scope, b"host").lower()
        origin = _header(scope, b"origin").lower()
        ours = self._public if host == self._public_host else f"{scope['scheme']}://{host}"
        return origin == ours and _header(scope, b"sec-fetch-site") in {"", "same-origin"}

    def is_look(self, scope: Scope) -> bool:
        """Whether a GET may be answered: it is from a person who opens the page, or from a page of ours."""
        site, mode = _header(scope, b"sec-fetch-site"), _header(scope, b"sec-fetch-mode")
        return site in {"", "none", "same-origin"} or mode == "navigate"


def _header(scope: Scope, name: bytes) -> str:
    """A header that is there exactly once; otherwise an empty word."""
    values = [value for header, value in scope["headers"] if header == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


class Login:
    """Takes a token once, and gives a cookie for it."""

    def __init__(self, inbound: Inbound | None, seal: Seal, limits: Limits, clock: Callable[[], float]) -> None:
        self._inbound, self._seal, self._limits = inbound, seal, limits
        self._clock = clock
        self._tries: OrderedDict[str, Bucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if self._inbound is None:
            answer: Response = RedirectResponse("/", 303)
        elif scope["method"] == "POST":
            try:
                answer = await self._log_in(request)
            except GatewayError as error:
                answer = self._ask(request, error.message, 429 if error.code == "rate_limited" else 400)
        else:
            answer = self._ask(request)
        await answer(scope, receive, send)

    async def _log_in(self, request: Request) -> Response:
        assert self._inbound is not None
        form = await read_form(request)
        if not session_in(request.scope).proves(form.get("proof", "")):
            return self._ask(request, "This form was too old. Enter the token again.", 403)
        if wait := self._bucket(request.client.host if request.client else "").take(1, self._clock()):
            page = self._ask(request, f"Too many tokens were tried. Try again in {int(wait) + 1} seconds.", 429)
            page.headers["retry-after"] = str(int(wait) + 1)
            return page
        token = form.get("token", "").strip()
        if not _TOKEN.fullmatch(token):
            return self._ask(request, "Enter a token: one word, without spaces.", 400)
        sealed = self._seal.close(Session(token))
        if len(sealed) > COOKIE_BYTES:
            return self._ask(request, "This token is too long for a cookie, so the page cannot keep it.", 400)
        try:
            principal = await self._inbound.principal(token)
            place = await self._limits.admit_call(principal.partition)
            # The login counts as a call, which ends at once.
            with self._limits.hold_call(principal.partition, place):
                pass
        except Refused as error:
            return self._ask(request, _WRONG, 401, reason=str(error))
        except ProviderDown as error:
            return self._ask(request, provider_down(error.retry_after).message, 503)
        return _go("/", set_cookie(sealed, is_secure=is_secure(request.scope)))

    def _bucket(self, address: str) -> Bucket:
        bucket = self._tries.pop(address, None) or Bucket(1 / _TRY_SECONDS, _TRIES, self._clock())
        self._tries[address] = bucket
        if len(self._tries) > _ADDRESSES:
            self._tries.popitem(last=False)
        return bucket

    def _ask(self, request: Request, problem: str = "", status: int = 200, reason: str | None = None) -> Response:
        """The form. `reason` is for the log, if it is more than the visitor is told."""
        assert self._inbound is not None
        http_answer(request.scope).reason = reason or problem
        values = {"proof": session_in(request.scope).proof, "problem": problem, "wants": self._inbound.wants}
        return html("login.html", {**_OUTSIDE, **values}, status)


def log_out(scope: Scope) -> Response:
    return _go("/", set_cookie("", is_secure=is_secure(scope)))


def _go(where: str, cookie: str) -> Response:
    return RedirectResponse(where, 303, {"set-cookie": cookie})


def adding(send: Send, headers: Mapping[str, str], cookie: str | None) -> Send:
    """A way to answer that adds these headers, and the cookie unless another is set."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [header for header in message.get("headers", ()) if header[0].decode() not in headers]
            ours = [(name.encode(), value.encode()) for name, value in headers.items()]
            if cookie is not None and not any(name == b"set-cookie" for name, _ in given):
                ours.append((b"set-cookie", cookie.encode()))
            message = {**message, "headers": [*given, *ours]}
        await send(message)

    return send_with_headers
