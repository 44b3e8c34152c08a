"""A gateway as it is hosted for others, in front of a platform that notes everything it is sent."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet

from gateway.cli import key
from gateway.config.reread_file import replace_file
from gateway.config.token_file import Record, digest, make_token
from gateway.http.auth.tokens import ISSUER
from gateway.operations import names, scopes
from gateway.operations.caller import Principal
from tests.canaries.world import (
    FILE_NAME,
    PLATFORM_AUDIENCE,
    PUBLIC_URL,
    Agent,
    Issuer,
    Recording,
    Seen,
    issuing,
    recorded_platform,
)
from tests.served import Era, serving

EVERYTHING = " ".join(scopes.ORDER)


@dataclass
class Hosted:
    """A gateway in front of a platform that notes everything, and what is needed to call it."""

    url: str
    platform: Recording
    http: httpx.Client
    issuer: Issuer
    directory: Path
    tokens: list[Record] = field(default_factory=list)

    @property
    def seen(self) -> list[Seen]:
        return self.platform.seen

    def agent(self, token: str | None, era: Era = "modern") -> Agent:
        return Agent(self.http, self.url, token, era)

    def person(self, subject: str = "ada", scope: str = EVERYTHING, era: Era = "modern", **claims: Any) -> Agent:
        """Somebody with an access token of the provider, and a file of their own to ingest."""
        principal = Principal(self.issuer.url, subject, claims.get("client_id", ""), claims.get("org_id"))
        self._give_a_file(principal)
        return self.agent(self.issuer.token(subject, scope, **claims), era)

    def with_api_token(self, name: str = "ada") -> Agent:
        token = make_token()
        record = {"id": name, "sha256": digest(token), "name": name, "subject": name, "scope": scopes.ADMIN}
        self.tokens.append(Record.model_validate(record | {"created": "2026-01-01T00:00:00Z"}))
        body = {"tokens": [entry.model_dump(mode="json") for entry in self.tokens]}
        replace_file(self.directory / "tokens.json", json.dumps(body).encode())
        self._give_a_file(Principal(ISSUER, name, name))
        return self.agent(token)

    def published(self) -> KeySet:
        return KeySet.import_key_set(self.http.get(self.url + "/.well-known/jwks.json").json())

    def claims(self, seen: Seen) -> dict[str, Any]:
        """What the platform reads in a token once it has verified it with the published keys."""
        assert seen.bearer is not None
        token = jwt.decode(seen.bearer, self.published(), algorithms=["ES256", "Ed25519"])
        return dict(token.claims)

    def _give_a_file(self, principal: Principal) -> None:
        own = self.directory / "files" / names.caller_name(principal.partition)
        own.mkdir(exist_ok=True)
        (own / FILE_NAME).write_text("Otters hold hands.\n", encoding="utf-8")


def keys_file(directory: Path) -> Path:
    path = directory / "keys.json"
    if not path.exists():
        key.create_keys(path, "ES256")
    return path


def internal(directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "upstream_auth": "internal",
        "upstream_audience": PLATFORM_AUDIENCE,
        "signing_keys_file": keys_file(directory),
        "public_url": PUBLIC_URL,
        **more,
    }


def by_jwt(issuer: Issuer) -> dict[str, Any]:
    return {"auth": "jwt", "auth_issuer": issuer.url, "public_url": PUBLIC_URL}


@contextmanager
def hosted(directory: Path, dialect: str = "platform", **settings: Any) -> Iterator[Hosted]:
    """`settings` besides those that every such gateway has."""
    with ExitStack() as stack:
        files = directory / "files"
        files.mkdir(exist_ok=True)
        (files / FILE_NAME).write_text("Otters hold hands.\n", encoding="utf-8")
        if not (directory / "tokens.json").exists():
            replace_file(directory / "tokens.json", b'{"tokens": []}')
        issuer = stack.enter_context(issuing())
        platform = stack.enter_context(recorded_platform(dialect, directory))
        chosen = by_jwt(issuer) if settings.pop("jwt", False) else {}
        chosen = {"tokens_file": directory / "tokens.json", "upstream_url": platform.url} | chosen | settings
        served = stack.enter_context(serving(directory / "data", files, **chosen))
        http = stack.enter_context(httpx.Client(trust_env=False, timeout=30))
        yield Hosted(served.url, platform, http, issuer, directory)
