"""Gateways where people log in, and somebody who does: a browser that fills in forms, and a program that asks."""

import base64
import hashlib
import html
import itertools
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import httpx

from gateway.app.http_app import http_app
from gateway.app.login import login_of
from gateway.config import user_file
from gateway.config.passwords import hash_password
from gateway.config.settings import load
from tests.served import listening, raw_call

PASSWORD: Final = "otters hold hands"
REDIRECT: Final = "http://127.0.0.1:9/callback"
READ, WRITE, ADMIN = "brains:read", "brains:write", "brains:admin"
# A hash that takes no time. What the command makes takes half a second.
CHEAP: Final = (2, 1, 1)


class Clock:
    """What time it is, to a gateway."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).timestamp()

    def __call__(self) -> float:
        return self.now

    def go_on(self, seconds: float) -> None:
        self.now += seconds


def patient() -> Callable[[], float]:
    """Ticks by which everybody has waited long enough before each request: nobody is told to slow down."""
    passed = itertools.count(0, 31)
    return lambda: float(next(passed))


def add_user(data: Path, name: str = "ada", password: str = PASSWORD, **more: Any) -> None:
    """As the command does it, in no time."""
    user = user_file.User(
        name=name,
        password=hash_password(password, CHEAP),
        **{"subject": name, "scope": ADMIN, "created": datetime.now(UTC), **more},
    )
    with user_file.change(data / "users.json") as users:
        users.append(user)


@contextmanager
def house(
    data: Path,
    clock: Callable[[], float] = time.time,
    ticks: Callable[[], float] = time.monotonic,
    public_url: str | None = None,
    **settings: Any,
) -> Iterator[str]:
    """The address of a gateway, which says that it is the public one."""
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    given = {"auth": "password", "public_url": public_url or url, "single_tenant": True, "calls_per_second": 1e6}
    with patch("gateway.app.login.login_of", partial(login_of, clock=clock, ticks=ticks)):
        app = http_app(load(data_dir=data, **{**given, **settings}))
    with listening(app, bound):
        yield url


@dataclass
class Person:
    """Somebody with a browser, and the program that they use."""

    url: str
    """Where the gateway is; the browser goes there, whatever the gateway calls itself."""
    issuer: str = ""
    client_id: str = ""
    redirect_uri: str = REDIRECT
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    cookies: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.issuer = self.issuer or self.url

    @property
    def resource(self) -> str:
        return f"{self.issuer}/mcp"

    def send(self, method: str, path: str, **what: Any) -> httpx.Response:
        """As the browser: with its cookies, which it keeps, and without following redirects."""
        headers = dict(what.pop("headers", {}))
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = httpx.request(method, self.url + path, headers=headers, trust_env=False, timeout=60, **what)
        for said in answer.headers.get_list("set-cookie"):
            name, _, value = said.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def register(self, **more: Any) -> httpx.Response:
        wanted = {"client_name": "A notebook", "redirect_uris": [self.redirect_uri], **more}
        answer = httpx.post(f"{self.url}/register", json=wanted, trust_env=False, timeout=60)
        if answer.status_code == 201:
            self.client_id = answer.json()["client_id"]
        return answer

    def query(self, **more: str | None) -> dict[str, str]:
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": "a state",
            "scope": f"{READ} {WRITE}",
            "resource": self.resource,
            "code_challenge": challenge(self.verifier),
            "code_challenge_method": "S256",
            **more,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def begin(self, **more: str | None) -> httpx.Response:
        if not self.client_id:
            self.register()
        return self.send("GET", "/authorize", params=self.query(**more))

    def fill(self, page: httpx.Response, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
        """Send the form of a page, with what is hidden in it."""
        said = {"origin": self.issuer, "sec-fetch-site": "same-origin"} if headers is None else headers
        return self.send("POST", "/authorize", data={**hidden(page), **fields}, headers=said)

    def enter(self, page: httpx.Response, user: str = "ada", password: str = PASSWORD) -> httpx.Response:
        return self.fill(page, user=user, password=password, decision="log-in")

    def code(self, user: str = "ada", **more: str | None) -> str:
        """All the way through the pages."""
        done = self.fill(self.enter(self.begin(**more), user), decision="allow")
        assert done.status_code == 303, done.text
        told = answer_of(done)
        assert (told["iss"], told["state"]) == (self.issuer, "a state")
        return told["code"]

    def token(self, **given: str | None) -> httpx.Response:
        said = {"client_id": self.client_id, **given}
        data = {name: value for name, value in said.items() if value is not None}
        return httpx.post(f"{self.url}/token", data=data, trust_env=False, timeout=60)

    def redeem(self, code: str, **more: str | None) -> httpx.Response:
        given = {"redirect_uri": self.redirect_uri, "code_verifier": self.verifier, "resource": self.resource, **more}
        return self.token(grant_type="authorization_code", code=code, **given)

    def refresh(self, token: str, **more: str | None) -> httpx.Response:
        return self.token(grant_type="refresh_token", refresh_token=token, **more)

    def log_in(self, user: str = "ada", **more: str | None) -> dict[str, Any]:
        answer = self.redeem(self.code(user, **more))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def call(
        self, token: str, tool: str = "memory_list_brains", path: str = "/mcp", **arguments: Any
    ) -> httpx.Response:
        request = raw_call("modern", tool, arguments)
        request["headers"]["authorization"] = f"Bearer {token}"
        return httpx.post(f"{self.url}/mcp", **request, trust_env=False, timeout=60)

    def status(self, token: str) -> int:
        return self.call(token).status_code


def challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def hidden(page: httpx.Response) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
    return {name: html.unescape(value) for name, value in found}


def answer_of(response: httpx.Response) -> dict[str, str]:
    """What the program is told, by way of the browser."""
    there = urlsplit(response.headers["location"])
    return {name: values[0] for name, values in parse_qs(there.query).items()}
