"""One request to the page: who makes it, what they may do, and the page they get."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gateway.brain.brain import Brain
from gateway.brain.shelf import Shelf
from gateway.http.auth.access import http_answer
from gateway.mcp.recent_calls import RecentCalls
from gateway.mcp.run import REFUSALS, note_call, require_scope
from gateway.operations import audit, scopes
from gateway.operations.caller import Call, Caller, HttpAnswer, Principal
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject
from gateway.ui.client_entry import ClientEntry
from gateway.ui.render import html
from gateway.ui.session import Session

log = structlog.get_logger()

_FIELDS: Final = 20
_PATH_LENGTH: Final = 1024
# code -> the status of the page that shows the error. All other codes are failures of the platform.
_STATUS: Final = {
    "no_brain": 404,
    "not_found": 404,
    "validation_error": 400,
    "forbidden": 403,
    "insufficient_scope": 403,
    "conflict": 409,
    "payload_too_large": 413,
    "rate_limited": 429,
    "not_implemented": 501,
}

# The prefix of the names that the page's own calls have in the log.
PAGE: Final = "page: "

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Status:
    """How the gateway is: what `doctor` says, in its lines, and what it says of each tool."""

    lines: list[tuple[str, str]]
    report: JsonObject


@dataclass(frozen=True, slots=True)
class PageServices:
    """What the page is given to work with."""

    brain: Brain
    status: Callable[[Call], Awaitable[Status]]
    clients: tuple[ClientEntry, ...] = ()
    recent: RecentCalls = field(default_factory=RecentCalls)
    read_only: bool = False
    tells_callers_apart: bool = False
    """Whether a token says who the visitor is. If not, every visitor who is let in owns everything."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a view works with."""

    request: Request
    services: PageServices

    @property
    def session(self) -> Session:
        session: Session = self.request.scope["state"]["session"]
        return session

    @property
    def principal(self) -> Principal:
        principal: Principal = self.request.scope["state"]["principal"]
        return principal

    @property
    def brain_name(self) -> str:
        return str(self.request.path_params["brain"])

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.services.brain)

    @property
    def can_write(self) -> bool:
        return scopes.WRITE in self.principal.scopes and not self.services.read_only

    def asked(self, name: str) -> str:
        return self.request.query_params.get(name, "").strip()

    def path_of(self, call: Call, given: str) -> str:
        """The path of a note that the visitor names.

        Raises: GatewayError: not_found.
        """
        path = given.removeprefix("/")
        if not path or len(path) > _PATH_LENGTH:
            raise GatewayError("not_found")
        # The owner of everything may look at all files, as at a terminal.
        return self.shelf.seen_path(call, path) if self.services.tells_callers_apart else path

    def own_path_of(self, call: Call, given: str) -> str:
        """The path of a note that they may change. If callers are different people, surfaces have rules for notes.

        Raises: GatewayError.
        """
        path = self.path_of(call, given)
        return self.shelf.own_path(call, path) if self.services.tells_callers_apart else path

    @asynccontextmanager
    async def call(self, name: str, scope: str = scopes.READ, *, brain: str | None = None) -> AsyncIterator[Call]:
        """Make a call of theirs, like that of a tool: on this brain or that of the URL, with their scopes, and logged.

        Raises: GatewayError: insufficient_scope.
        """
        http = http_answer(self.request.scope)
        call = Call(self._caller(brain or self.request.path_params.get("brain"), http), http.request_id, surface="page")
        call.tool = f"{PAGE}{name}"
        started, status = time.perf_counter(), "cancelled"
        try:
            require_scope(call, scope)
            yield call
            status = "ok"
        except GatewayError as error:
            status = error.code
            if status in REFUSALS:
                audit.note("refused", **audit.of_call(call), outcome=status)
                # So that it gets no second line.
                http.refusal = error
            raise
        except Exception:
            status = "crashed"
            raise
        finally:
            note_call(call, "page", call.tool, status, time.perf_counter() - started, self.services.recent)

    def _caller(self, in_url: str | None, http: HttpAnswer) -> Caller:
        principal = self.principal
        return Caller(
            principal.partition,
            ceiling=in_url if principal.brain is None else principal.brain,
            in_url=in_url,
            principal=principal,
            project=principal.projects[0] if len(principal.projects) == 1 else None,
            http=http,
        )

    def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        common = {
            "proof": self.session.proof,
            "brain": self.request.path_params.get("brain"),
            "is_logged_in": self.session.token is not None,
            "can_write": self.can_write,
            "read_only": self.services.read_only,
        }
        return html(template, common | values, status)

    def failed(self, error: GatewayError) -> HTMLResponse:
        # The other messages may name a note.
        http_answer(self.request.scope).reason = error.message if error.code in _TOLD else error.code
        title = _TITLES.get(error.code, _FAILED)
        page = self.page("error.html", _STATUS.get(error.code, 502), title=title, error=error)
        if error.retry_after_seconds is not None:
            page.headers["retry-after"] = str(error.retry_after_seconds)
        return page


# Whose message the log tells, too.
_TOLD: Final = REFUSALS | {"rate_limited", "payload_too_large"}
_FAILED: Final = "That did not work"
_TITLES: Final = {
    "no_brain": "No such brain",
    "not_found": "Nothing here",
    "forbidden": "Not allowed",
    "insufficient_scope": "Not allowed",
    "conflict": "Changed meanwhile",
    "rate_limited": "Too fast",
}

View = Callable[[Visit], Awaitable[Response]]
Action = Callable[[Visit, Form], Awaitable[Response]]


def get(path: str, view: View, services: PageServices) -> Route:
    async def endpoint(request: Request) -> Response:
        visit = Visit(request, services)
        return await _answer(visit, view(visit))

    return Route(path, endpoint, methods=["GET"])


def post(path: str, action: Action, services: PageServices) -> Route:
    """A change. It needs a form of ours, which holds the word of this browser's session."""

    async def endpoint(request: Request) -> Response:
        visit = Visit(request, services)
        return await _answer(visit, _act(visit, action))

    return Route(path, endpoint, methods=["POST"])


async def _act(visit: Visit, action: Action) -> Response:
    form = await read_form(visit.request)
    if not visit.session.proves(form.get("proof", "")):
        raise GatewayError("forbidden", "This form is too old. Go back, load the page again, and repeat it.")
    return await action(visit, form)


async def read_form(request: Request) -> Form:
    """Raises: GatewayError: validation_error."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise GatewayError("validation_error", "Send a form, as the page does.")
    try:
        fields = parse_qs(
            (await request.body()).decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except ValueError:
        raise GatewayError("validation_error", "This form cannot be read: it is no text in UTF-8.") from None
    return {name: values[-1] for name, values in fields.items()}


async def _answer(visit: Visit, answering: Awaitable[Response]) -> Response:
    try:
        return await answering
    except GatewayError as error:
        return visit.failed(error)
    except Exception:
        log.exception("page.crashed", path=visit.request.url.path)
        return visit.failed(GatewayError("upstream_error", "The gateway failed; its log says why."))
