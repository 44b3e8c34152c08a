"""A gateway in front of a MemoAI core, and people of several organizations who call it over HTTP."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import httpx

from gateway.config.reread_file import replace_file
from tests.canaries.hosted import EVERYTHING, by_jwt, internal
from tests.canaries.world import PLATFORM_AUDIENCE, PUBLIC_URL, Issuer, issuing
from tests.memoai.fake import FakeCore
from tests.served import Era, listening, messages_of, raw_call, serving

INTERNAL_KEY = "internal-key-osprey"
SAID = "Memo recorded successfully: "


@dataclass(frozen=True)
class Person:
    """Somebody with a token, at one of the surfaces."""

    http: httpx.Client
    url: str
    token: str | None
    project: str | None
    era: Era = "modern"
    at: str = "/memo/mcp"

    def but(self, **changed: Any) -> Self:
        return replace(self, **changed)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result, good or bad."""
        request = raw_call(self.era, tool, arguments)
        if self.token is not None:
            request["headers"]["authorization"] = f"Bearer {self.token}"
        if self.project is not None:
            request["headers"]["x-memoai-project"] = self.project
        return dict(messages_of(self.http.post(self.url + self.at, **request))[-1]["result"])

    def text(self, tool: str, **arguments: Any) -> str:
        result = self.call(f"memoai_memo_{tool}", **arguments)
        (block,) = result["content"]
        assert not result.get("isError"), block["text"]
        assert "structuredContent" not in result
        return str(block["text"])

    def search(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        return list(json.loads(self.text("search", query=query, **arguments)))

    def record(self, content: str, **arguments: Any) -> str:
        said = self.text("record", content=content, **arguments)
        assert said.startswith(SAID)
        return said.removeprefix(SAID)

    def error(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call: text alone, in the shape of the contract."""
        result = self.call(f"memoai_memo_{tool}", **arguments)
        assert result["isError"], result
        assert "structuredContent" not in result
        (key, said), *others = json.loads(result["content"][0]["text"]).items()
        assert (key, others) == ("error", [])
        return dict(said)


@dataclass
class World:
    core: FakeCore
    http: httpx.Client
    url: str
    issuer: Issuer
    settings: dict[str, Any]
    """Those of the gateway."""

    def person(self, subject: str = "ada", org: str | None = "acme", *projects: str, **claims: Any) -> Person:
        said = {"org_id": org, "projects": list(projects), **claims}
        token = self.issuer.token(subject, EVERYTHING, **{k: v for k, v in said.items() if v is not None})
        return Person(self.http, self.url, token, projects[0] if projects else None)


def core_settings(directory: Path, **more: Any) -> dict[str, Any]:
    """Those that a core wants."""
    key_file = directory / "internal-key"
    replace_file(key_file, INTERNAL_KEY.encode())
    return internal(directory, internal_key_file=key_file, **more)


@contextmanager
def memo_world(directory: Path, **settings: Any) -> Iterator[World]:
    """`settings` besides those that every such gateway has."""
    with ExitStack() as stack:
        issuer = stack.enter_context(issuing())
        core = FakeCore(INTERNAL_KEY, PLATFORM_AUDIENCE, PUBLIC_URL)
        core_url = stack.enter_context(listening(core.app()))
        chosen = {"upstream_url": core_url, "calls_per_second": 1e6, **core_settings(directory), **by_jwt(issuer)}
        served = stack.enter_context(serving(directory / "data", None, **{**chosen, **settings}))
        core.keys_url = served.url + "/.well-known/jwks.json"
        http = stack.enter_context(httpx.Client(trust_env=False, timeout=30))
        yield World(core, http, served.url, issuer, {**chosen, **settings})
