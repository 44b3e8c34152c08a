"""The page as an application: its door, its views, and the headers that keep what it shows from doing anything."""

import time
from typing import Final

from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.brain.limits import Limits
from gateway.http.admission import Admission
from gateway.http.auth.inbound import Inbound
from gateway.ui import ask_view, brain_views, door, note_views
from gateway.ui.door import LOGIN, Login, Origins, PageAccess
from gateway.ui.render import STATIC
from gateway.ui.session import Seal, Session, is_secure, set_cookie
from gateway.ui.visit import Form, PageServices, Visit, get, post

_STATIC: Final = "/ui/static/"
# Forms hold one note at most, and a note that is longer than this cannot be edited here.
_FORM_BYTES: Final = 4 * 1024 * 1024
_ROOM: Final = 32 * 1024 * 1024
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": with that, browsers send no Origin with a form either, by which we recognise our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_KEPT: Final = {**_HEADERS, "cache-control": "public, max-age=31536000, immutable"}
_NOT_OURS: Final = "Another page than this one sent that, so nothing was done. Load the page again, and repeat it."


class Page:
    """Serves people. Who they are, and what they may see and do, is decided as for tools."""

    def __init__(
        self, services: PageServices, inbound: Inbound | None, limits: Limits, seal: Seal, public_url: str | None
    ) -> None:
        self._seal, self._origins = seal, Origins(public_url)
        routes = [
            *brain_views.routes(services),
            *note_views.routes(services),
            *ask_view.routes(services),
            post("/ui/logout", _log_out, services),
            get("/{path:path}", brain_views.nothing, services),
        ]
        self._login: ASGIApp = _admitted(Login(inbound, seal, limits, time.monotonic))
        self._inside = PageAccess(_admitted(Router(routes)), inbound, None, limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(_STATIC):
            await _static(scope)(scope, receive, door.adding(send, _KEPT, None))
            return
        scope = {**scope, "state": {**scope.get("state", {}), "is_https": self._origins.is_https(scope)}}
        known = self._seal.session_of(scope)
        session = known or Session()
        scope["state"]["session"] = session
        cookie = set_cookie(self._seal.close(session), is_secure=is_secure(scope)) if known is None else None
        await self._app_for(scope)(scope, receive, door.adding(send, _HEADERS, cookie))

    def _app_for(self, scope: Scope) -> ASGIApp:
        if scope["method"] not in {"GET", "HEAD", "POST"}:
            return Response(status_code=405, headers={"allow": "GET, HEAD, POST"}, media_type="text/html")
        is_allowed = self._origins.is_ours(scope) if scope["method"] == "POST" else self._origins.is_look(scope)
        if not is_allowed:
            return door.refuse(_NOT_OURS)
        return self._login if scope["path"] == LOGIN else self._behind_door

    async def _behind_door(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._inside(door.with_token(scope), receive, send)


def _admitted(app: ASGIApp) -> ASGIApp:
    return Admission(app, _ROOM, _FORM_BYTES, is_json=False)


def _static(scope: Scope) -> Response:
    body, media_type = STATIC.get(scope["path"].removeprefix(_STATIC), (b"", ""))
    if not body or scope["method"] not in {"GET", "HEAD"}:
        return Response(status_code=404, media_type="text/html")
    return Response(body, media_type=media_type)


async def _log_out(visit: Visit, _form: Form) -> Response:
    return door.log_out(visit.request.scope)
