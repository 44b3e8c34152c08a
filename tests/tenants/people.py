"""Callers who must never meet, the provider that names them, and a gateway between them and their platform."""

import hashlib
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.app.gateway import Gateway
from gateway.config import signing_keys, token_file
from gateway.config.settings import load
from gateway.http.auth import tokens
from gateway.http.endpoint import HttpOptions, Mount, endpoint
from gateway.operations.caller import Principal
from gateway.operations.names import caller_name
from gateway.surfaces.memory.surface import Memory
from tests.served import Era, listening, messages_of, raw_call
from tests.tenants.platform import AUDIENCE, ISSUER, Brain, Tenant, TenantPlatform

Auth = Literal["jwt", "tokens"]
CANARY = re.compile(r"canary-[0-9a-z]+")
PROVIDER = "https://login.example"
FREE = {"calls_per_second": 1e6, "calls_at_once": 10_000, "asks_at_once": 10_000, "fetches_per_minute": 100_000}


@dataclass(frozen=True)
class Person:
    """One principal: several may be one tenant, by different clients."""

    subject: str
    client: str
    org: str | None
    projects: tuple[str, ...] = ()

    @property
    def tenant(self) -> Tenant:
        return self.subject, self.org, self.projects[0] if len(self.projects) == 1 else None

    @property
    def mark(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()[:10]

    @property
    def canary(self) -> str:
        return f"canary-{name_of(self.tenant)}"

    def principal(self, auth: Auth) -> Principal:
        issuer = PROVIDER if auth == "jwt" else tokens.ISSUER
        return Principal(issuer=issuer, subject=self.subject, client=self.client, org=self.org)


def name_of(tenant: Tenant) -> str:
    return hashlib.sha256(repr(tenant).encode()).hexdigest()[:10]


def twenty() -> list[Person]:
    """One subject by several clients, one client for several organizations, and names made to be mixed up."""
    plain = [
        Person(subject, client, org)
        for subject, client, org in itertools.product(("ann", "ben", "cleo"), ("web", "cli"), (None, "red", "blue"))
    ]
    return [*plain, Person("ann", "web:red", None), Person('ann","web', "", "red")]


def brains_of(tenant: Tenant) -> list[Brain]:
    """The same slugs at every tenant, and one of its own."""
    name = name_of(tenant)
    canary = f"canary-{name}"
    return [
        Brain(f"id-{name}", "notes", tenant, canary),
        Brain(f"hidden-{name}", "by-id", tenant, canary, by_id_alone=True),
        Brain(f"own-id-{name}", f"own-{name}", tenant, canary),
    ]


@dataclass
class Provider:
    """An OAuth provider as far as a gateway sees one: its public keys."""

    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "k1"}))

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/jwks", self._keys)])

    async def _keys(self, _request: Request) -> Response:
        return JSONResponse({"keys": [{**self.key.as_dict(private=False), "use": "sig", "alg": "ES256"}]})

    def token(self, person: Person, scope: str = "brains:admin") -> str:
        now = int(time.time())
        claims = {
            "iss": PROVIDER,
            "aud": f"{ISSUER}/mcp",
            "sub": person.subject,
            "client_id": person.client or None,
            "org_id": person.org,
            "projects": list(person.projects),
            "scope": scope,
            "iat": now,
            "exp": now + 3600,
        }
        said = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}, said, self.key)


@dataclass
class House:
    """A gateway in front of a platform of many, and a token for everybody who lives there."""

    url: str
    app: ASGIApp
    gateway: Gateway
    platform: TenantPlatform
    people: list[Person]
    tokens: dict[Person, str]
    auth: Auth

    def partition(self, person: Person) -> str:
        return person.principal(self.auth).partition

    def request(
        self, person: Person, era: Era, tool: str, arguments: Any, *, path: str = "/mcp", **headers: str
    ) -> dict[str, Any]:
        call = raw_call(era, tool, arguments)
        call["headers"] |= {"authorization": f"Bearer {self.tokens[person]}", **headers}
        return {"url": self.url + path, **call}

    async def call(
        self, http: httpx.AsyncClient, person: Person, era: Era, tool: str, arguments: Any, **options: Any
    ) -> httpx.Response:
        return await http.post(**self.request(person, era, tool, arguments, **options))


def result_of(response: httpx.Response) -> dict[str, Any]:
    return dict(messages_of(response)[-1]["result"])


def words_of(response: httpx.Response) -> str:
    """A refusal, every byte of it but the name of the request."""
    result = result_of(response)
    assert result["isError"], response.text
    said = json.dumps(result, sort_keys=True)
    return said.replace(result["structuredContent"]["request_id"], "")


@contextmanager
def house(directory: Path, people: list[Person], auth: Auth = "jwt", **options: Any) -> Iterator[House]:
    """Everything on loopback ports; the platform is known by name, as cookies go by names."""
    platform = TenantPlatform(foreign_status=options.pop("foreign_status", 404))
    for tenant in dict.fromkeys(person.tenant for person in people):
        platform.brains += brains_of(tenant)
    platform.marks = {person.mark: (person.tenant, person.client) for person in people}
    provider, files = Provider(), directory / "files"
    for person in people:
        own = files / caller_name(person.principal(auth).partition)
        own.mkdir(parents=True, exist_ok=True)
        (own / "note.md").write_text(f"{person.canary} from-{person.mark}-end")
    keys = directory / "keys.json"
    keys.write_bytes(signing_keys.serialize(signing_keys.begin("ES256")))
    with listening(platform.app()) as upstream, listening(provider.app()) as jwks:
        settings = load(
            data_dir=directory,
            upstream_url=upstream.replace("127.0.0.1", "localhost"),
            upstream_auth="internal",
            upstream_audience=AUDIENCE,
            signing_keys_file=keys,
            public_url=ISSUER,
            auth=auth,
            **({"auth_issuer": PROVIDER, "auth_jwks_url": f"{jwks}/jwks"} if auth == "jwt" else {}),
            **{**FREE, **options},
        )
        held = _tokens(people, provider, auth, settings.tokens_path)
        gateway = Gateway(settings, roots=(files,))

        @asynccontextmanager
        async def running() -> AsyncIterator[None]:
            async with gateway.running():
                yield

        app = endpoint(
            {"memory": Mount(gateway.server(Memory(gateway.brain)))},
            running,
            HttpOptions(settings.max_body, settings.max_bodies),
            gateway.door(),
        )
        with listening(app) as url:
            platform.jwks_url = f"{url}/.well-known/jwks.json"
            yield House(url, app, gateway, platform, people, held, auth)


def _tokens(people: list[Person], provider: Provider, auth: Auth, path: Path) -> dict[Person, str]:
    if auth == "jwt":
        return {person: provider.token(person) for person in people}
    made = {person: token_file.make_token() for person in people}
    with token_file.change(path) as records:
        records += [
            token_file.Record(
                id=person.client,
                sha256=token_file.digest(token),
                name="a token",
                subject=person.subject,
                scope="brains:admin",
                org=person.org,
                created=datetime.now(UTC),
            )
            for person, token in made.items()
        ]
    return made
