"""The way through the pages: a program asks, somebody logs in, and says yes or no. Any replica can serve each step."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.auth.access import http_answer
from gateway.http.auth.login.clients import BadClient, Client, Clients, short_id
from gateway.http.auth.login.forms import BadForm, address_of, cookie_of, form_of, query_of
from gateway.http.auth.login.grants import Asked, Grants
from gateway.http.auth.login.keyring import Broken, Keyring
from gateway.http.auth.login.pages import Form, consent_page, password_page, refusal_page, security_headers
from gateway.http.auth.login.redirects import is_on_this_machine, with_answer
from gateway.http.auth.login.throttle import DOCUMENTS, Places, Throttle, TooMany
from gateway.http.auth.login.users import Users
from gateway.operations import audit, scopes
from gateway.operations.table import JsonObject

log = structlog.get_logger()

_PAGE_SECONDS: Final = 600
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{32}")
_STATE_LENGTH: Final = 2048
_ELSEWHERE: Final = (
    "This page was not opened in this browser, or too long ago. Begin again in the program that sent you here."
)


class _Unclear(Exception):
    """An error that is shown to the person, because it is not known which program to tell."""


class _Wrong(Exception):
    """An error that is sent to the program, in the words of OAuth."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error


@dataclass(frozen=True, slots=True)
class Authorize:
    """Answers at `/authorize`."""

    issuer: str
    clients: Clients
    users: Users
    grants: Grants
    keyring: Keyring
    throttle: Throttle
    documents: Places
    """Limits how many documents of programs are fetched at once: they may be slow, and nobody has logged in yet."""
    login_scope: str

    async def begin(self, request: Request) -> Response:
        """A program has sent a person here."""
        try:
            query = query_of(request)
            redirect_uri, client = await self._program(query, address_of(request))
        except (BadForm, BadClient, _Unclear) as error:
            return _refuse(request, str(error))
        except TooMany as error:
            return _refuse(request, "Too many programs were looked up for you. Try again in a minute.", 429, str(error))
        try:
            asked = self._asked(query, redirect_uri, client)
        except _Wrong as wrong:
            said = {"error": wrong.error, "error_description": str(wrong)}
            if is_on_this_machine(redirect_uri):
                return self._send_back(request, redirect_uri, query.get("state"), **said)
            # Anybody can register an address. So a link to this login sends nobody there before they have seen it.
            _note_wrong(request, said)
            return refusal_page(str(wrong), tell=self._answer(redirect_uri, query.get("state"), said))
        browser = cookie_of(request, self._cookie) or ""
        browser = browser if _BROWSER.fullmatch(browser) else secrets.token_urlsafe(24)
        sealed = self._seal("request", {"asked": asdict(asked)}, browser)
        page = password_page(self._host, asked, Form(sealed, redirect_uri))
        is_https = self.issuer.startswith("https:")
        page.set_cookie(self._cookie, browser, max_age=3600, path="/", secure=is_https, httponly=True, samesite="lax")
        return page

    async def go_on(self, request: Request) -> Response:
        """A person has filled in a page of ours."""
        try:
            given = await form_of(request)
            self._check_origin(request)
            kind = "consent" if "consent" in given else "request"
            said = self._open(kind, given.get(kind, ""), cookie_of(request, self._cookie))
        except BadForm as error:
            return _refuse(request, "What your browser sent cannot be read.", reason=str(error))
        except (Broken, _Unclear) as error:
            return _refuse(request, _ELSEWHERE, reason=str(error))
        asked = Asked(**said["asked"])
        if given.get("decision") == "deny":
            return self._send_back(request, asked.redirect_uri, asked.state, error="access_denied")
        if kind == "consent":
            return self._consented(asked, said, request)
        return await self._logged_in(asked, given, request)

    async def _logged_in(self, asked: Asked, given: Mapping[str, str], request: Request) -> Response:
        form = Form(given["request"], asked.redirect_uri)
        try:
            user = await self.users.log_in(given.get("user", ""), given.get("password", ""), address_of(request))
        except TooMany as error:
            _note_refused(request, "too many tries")
            sentence = "That was tried too often. Wait a minute, and try again."
            page = password_page(self._host, asked, form, sentence, 429)
            page.headers["retry-after"] = str(max(1, round(error.seconds)))
            return page
        if user is None:
            # Without the name: what was typed there may be a password.
            _note_refused(request, "user or password")
            return password_page(self._host, asked, form, "The user name or the password is wrong.", 400)
        # With the user that was checked, because the file may have changed since.
        who = {"user": user.name, "version": user.version(), "login": secrets.token_urlsafe(16)}
        sealed = self._seal("consent", {"asked": asdict(asked), **who}, str(cookie_of(request, self._cookie)))
        return consent_page(self._host, asked, user, Form(sealed, asked.redirect_uri))

    def _consented(self, asked: Asked, said: Mapping[str, Any], request: Request) -> Response:
        user = self.users.named(said["user"], said["version"])
        if user is None:
            return _refuse(request, _ELSEWHERE, reason="the user is gone or has changed")
        http = http_answer(request.scope)
        to_whom: JsonObject = {"caller": user.name, "client": short_id(asked.client), "address": http.address}
        audit.note("login", **to_whom, outcome="ok", request_id=http.request_id)
        log.info("login.granted", user=user.name, client=short_id(asked.client), scope=asked.granted_to(user))
        return self._send_back(
            request, asked.redirect_uri, asked.state, code=self.grants.code(asked, user, said["login"])
        )

    async def _program(self, query: Mapping[str, str], address: str) -> tuple[str, Client]:
        """The program, and the address to which it gets its answer. Raises: BadClient, TooMany, _Unclear."""
        client_id, uri = query.get("client_id"), query.get("redirect_uri")
        if client_id is None:
            raise _Unclear("The program that sent you here does not say which one it is: client_id is missing.")
        if not self.clients.is_fetched(client_id):
            client = await self.clients.find(client_id)
        elif wait := await self.throttle.take(DOCUMENTS, address):
            raise TooMany(wait)
        else:
            with self.documents.held(address):
                client = await self.clients.find(client_id)
        if uri is None or not client.may_redirect_to(uri):
            raise _Unclear("The program that sent you here wants you sent on to where it has not said before.")
        return uri, client

    def _asked(self, query: Mapping[str, str], redirect_uri: str, client: Client) -> Asked:
        """Raises: _Wrong."""
        if "request" in query or "request_uri" in query:
            raise _Wrong("request_not_supported", "Send the parameters themselves.")
        if query.get("response_type") != "code":
            raise _Wrong("unsupported_response_type", "Only response_type=code is served here.")
        if query.get("response_mode", "query") != "query":
            raise _Wrong("invalid_request", "Only response_mode=query is served here.")
        if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(query.get("code_challenge", "")):
            raise _Wrong("invalid_request", "A code_challenge by code_challenge_method=S256 is needed.")
        if query.get("resource", self.grants.audience) != self.grants.audience:
            raise _Wrong("invalid_target", "The resource must be the one that the metadata of this gateway name.")
        if len(query.get("state", "")) > _STATE_LENGTH:
            raise _Wrong("invalid_request", "state is too long.")
        ours = [scope for scope in query.get("scope", "").split() if scope in scopes.ALL]
        return Asked(
            client=query["client_id"],
            name=client.name,
            redirect_uri=redirect_uri,
            challenge=query["code_challenge"],
            scope=max(ours or [self.login_scope], key=scopes.ORDER.index),
            state=query.get("state"),
            signs=client.keys is not None,
        )

    def _check_origin(self, request: Request) -> None:
        """Check that the form is from our own page, as far as the browser says so."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin not in (None, self.issuer) or site not in (None, "same-origin"):
            raise _Unclear("sent by a page of somebody else")

    def _seal(self, kind: str, claims: Mapping[str, Any], browser: str) -> str:
        return self.keyring.seal(kind, {**claims, "browser": _hashed(browser)}, _PAGE_SECONDS)

    def _open(self, kind: str, sealed: str, browser: str | None) -> Mapping[str, Any]:
        """Raises: Broken."""
        said = self.keyring.open(kind, sealed)
        if browser is None or not hmac.compare_digest(_hashed(browser), said["browser"]):
            raise Broken("of another browser")
        return said

    def _send_back(self, request: Request, redirect_uri: str, state: str | None, **answer: str) -> Response:
        if "error" in answer:
            _note_wrong(request, answer)
        there = self._answer(redirect_uri, state, answer)
        return Response(status_code=303, headers={**security_headers(redirect_uri), "location": there})

    def _answer(self, redirect_uri: str, state: str | None, answer: Mapping[str, str]) -> str:
        """The address of a program, with our answer to it in the query."""
        return with_answer(redirect_uri, **answer, state=state, iss=self.issuer)

    @property
    def _host(self) -> str:
        return urlsplit(self.issuer).netloc

    @property
    def _cookie(self) -> str:
        # With this prefix, no other host and no plain http can set it.
        return "__Host-brains-login" if self.issuer.startswith("https:") else "brains-login"


def _hashed(browser: str) -> str:
    return hashlib.sha256(browser.encode()).hexdigest()[:32]


def _refuse(request: Request, sentence: str, status: int = 400, reason: str | None = None) -> Response:
    http_answer(request.scope).reason = reason or sentence
    return refusal_page(sentence, status)


def _note_wrong(request: Request, answer: Mapping[str, str]) -> None:
    http = http_answer(request.scope)
    log.warning(
        "login.refused",
        path="/authorize",
        error=answer["error"],
        reason=answer.get("error_description"),
        address=http.address,
        request_id=http.request_id,
    )


def _note_refused(request: Request, reason: str) -> None:
    """Tell the audit log of a wrong guess, but not the name that was typed, which may be a password."""
    http = http_answer(request.scope)
    http.reason = reason
    audit.note("refused", address=http.address, tool="login", outcome=reason, request_id=http.request_id)
