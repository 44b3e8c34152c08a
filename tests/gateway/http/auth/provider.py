"""An OAuth provider on a loopback port: metadata, keys, faults on demand, and any token signed by any key."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.served import listening

PUBLIC_URL: Final = "https://brains.example"
AUDIENCE: Final = f"{PUBLIC_URL}/mcp"
# What a challenge asks a client to log in with.
LOGIN_SCOPE: Final = "brains:read brains:write"
OPENID: Final = "/.well-known/openid-configuration"
OAUTH: Final = "/.well-known/oauth-authorization-server"
KEYS: Final = "/keys"

# What a provider may answer instead of its keys. It stands for metadata as well.
FAULTS: Final[Mapping[str, Callable[[], Response]]] = {
    "500": lambda: JSONResponse({"error": "server_error"}, 500),
    "404": lambda: JSONResponse({"error": "not_found"}, 404),
    "429": lambda: JSONResponse({"error": "slow_down"}, 429),
    "no content": lambda: Response(status_code=204),
    "html": lambda: HTMLResponse("<html><body>Down for maintenance</body></html>"),
    "empty body": lambda: Response(b""),
    "not utf-8": lambda: Response(b'{"keys": ["\xff\xfe"]}'),
    "a list": lambda: JSONResponse([]),
    "null": lambda: JSONResponse(None),
    "oversized": lambda: JSONResponse({"keys": [], "filler": "x" * 600_000}),
    "a long number": lambda: Response(b'{"keys": ' + b"9" * 5000 + b"}"),
    "nested deeply": lambda: Response(b'{"keys": ' + b"[" * 100_000),
    "redirect": lambda: RedirectResponse("/elsewhere", 302),
}


@cache
def _made(kind: str, n: int) -> Key:
    """Different for different numbers; made once, because that takes a while."""
    if kind == "RSA":
        return RSAKey.generate_key(2048)
    return OKPKey.generate_key("Ed25519") if kind == "Ed25519" else ECKey.generate_key(kind)


def rsa(n: int = 0) -> Key:
    return _made("RSA", n)


def ec(n: int = 0, curve: str = "P-256") -> Key:
    return _made(curve, n)


def ed(n: int = 0) -> Key:
    return _made("Ed25519", n)


def public(key: Key, kid: str | None, **fields: Any) -> dict[str, Any]:
    named = {} if kid is None else {"kid": kid}
    return {**key.as_dict(private=False), "use": "sig", **named, **fields}


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed_raw(header: bytes, payload: bytes, key: Key, algorithm: str) -> str:
    """Whatever the bytes are: nobody checks that they make sense."""
    text = f"{encoded(header)}.{encoded(payload)}"
    signature = JWSRegistry.algorithms[algorithm].sign(text.encode(), key)
    return f"{text}.{encoded(signature)}"


def signed(header: Mapping[str, Any], claims: Any, key: Key, algorithm: str) -> str:
    return signed_raw(json.dumps(header).encode(), json.dumps(claims).encode(), key, algorithm)


class Provider:
    """Serves its metadata and keys, counts who asks, and fails as it is told."""

    def __init__(self) -> None:
        self.url = ""
        self.path = ""
        self.keys: list[dict[str, Any]] = []
        self.fault: str | None = None
        self.metadata: dict[str, Any] = {}
        self.requests: list[str] = []
        self.served_at: tuple[str, ...] = (OPENID, OAUTH)
        self.held = False
        """Whether answers are kept back until it is False again."""
        self.publish()

    @property
    def issuer(self) -> str:
        return self.url + self.path

    def publish(self, *more: dict[str, Any]) -> None:
        """The keys that tokens of `token` are signed with, one of each kind, and more."""
        self.keys = [public(rsa(), "r"), public(ec(), "e"), public(ed(), "o"), *more]

    def asked_for(self, path: str) -> int:
        return self.requests.count(path)

    def claims(self, now: float | None = None, **changed: Any) -> dict[str, Any]:
        """Those of a good token. What is changed to `...` is left out."""
        moment = int(time.time() if now is None else now)
        claims = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ada",
            "client_id": "notebook",
            "scope": "brains:read",
            "iat": moment,
            "exp": moment + 600,
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not ...}

    def token(self, now: float | None = None, header: Mapping[str, Any] | None = None, **changed: Any) -> str:
        """A good token, but for what is changed in its header or claims."""
        said = {"alg": "ES256", "kid": "e", "typ": "at+jwt", **(header or {})}
        said = {name: value for name, value in said.items() if value is not ...}
        return signed(said, self.claims(now, **changed), ec(), "ES256")

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._answer)])

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        self.requests.append(path)
        while self.held and not await request.is_disconnected():  # noqa: ASYNC110  # told by another thread
            await asyncio.sleep(0.01)
        if path == "/elsewhere":
            return JSONResponse({"keys": self.keys})
        if self.fault is not None:
            return FAULTS[self.fault]()
        if path == KEYS:
            return JSONResponse({"keys": self.keys})
        if path in self._metadata_paths():
            return JSONResponse({"issuer": self.issuer, "jwks_uri": self.url + KEYS, **self.metadata})
        return Response(status_code=404)

    def _metadata_paths(self) -> set[str]:
        both = {OPENID: self.path.rstrip("/") + OPENID, OAUTH: OAUTH + self.path.rstrip("/")}
        return {both[form] for form in self.served_at}


@contextmanager
def providing(path: str = "") -> Iterator[Provider]:
    provider = Provider()
    provider.path = path
    with listening(provider.app()) as url:
        provider.url = url
        yield provider
