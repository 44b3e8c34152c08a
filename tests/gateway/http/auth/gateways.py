"""A gateway that asks for access tokens, in front of the embedded brain, and calls with any of them."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from contract.platform.database import FILE_NAME
from gateway.operations.caller import Principal
from gateway.operations.names import caller_name
from tests.gateway.http.auth.provider import PUBLIC_URL, Provider, providing
from tests.served import Era, Served, messages_of, raw_call, serving

# One for all tests, because each loads certificates that nobody here needs; it holds no connection when none is used.
# The tables of what models make after an answer.
MADE_LATER: Final = {"models", "embedded", "vectors"}
HTTP: Final = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
SCOPES: Final[Mapping[str, str]] = {
    "foreign": "openid profile brains:everything notes:admin",
    "read": "openid brains:read",
    "write": "brains:write",
    "admin": "brains:admin",
}
# The least that each tool takes, and the scope it needs. Nothing is fetched: the address is closed.
TOOLS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "memory_search": ("read", {"query": "otters"}),
    "memory_recall": ("read", {"query": "otters"}),
    "memory_ask": ("read", {"query": "What do otters hold?"}),
    "memory_list_brains": ("read", {}),
    "memory_remember": ("write", {"content": "Otters hold hands."}),
    "memory_ingest_file": ("write", {"path": "otters.txt"}),
    "memory_ingest_url": ("write", {"url": "http://127.0.0.1:1/"}),
    "memory_extract": ("write", {"messages": [{"role": "user", "content": "I prefer tea."}], "session_id": "s"}),
    "memory_reflect": ("write", {"session_id": "s"}),
    "memory_create_brain": ("write", {"name": "Another"}),
    "memory_consolidate": ("admin", {}),
    # Of the brain's notes none is at this path.
    "memory_list": ("read", {}),
    "memory_read": ("read", {"path": "none.md"}),
    "memory_update": ("write", {"path": "none.md", "content": "Otters.", "checksum_sha256": "0" * 64}),
    "memory_forget": ("write", {"path": "none.md"}),
}
WITHOUT_A_BRAIN: Final = frozenset({"memory_list_brains", "memory_create_brain"})
ORDER: Final = ("foreign", "read", "write", "admin")


def allows(token: str, needed: str) -> bool:
    return token in ORDER and ORDER.index(token) >= ORDER.index(needed)


@dataclass(frozen=True)
class Guarded:
    """A gateway behind a provider, and tokens of it with every scope."""

    served: Served
    provider: Provider

    def authorization(self, token: str | None) -> dict[str, str]:
        """A header with a token of these scopes; `none` is no header."""
        if token in (None, "none"):
            return {}
        return {"authorization": f"Bearer {self.provider.token(scope=SCOPES[str(token)])}"}

    def post(self, token: str | None, at: str = "/mcp", **request: Any) -> httpx.Response:
        headers = {**request.pop("headers", {}), **self.authorization(token)}
        url = httpx.URL(self.served.url).copy_with(raw_path=at.encode())
        return HTTP.post(url, headers=headers, **request)

    def call(self, token: str | None, era: Era, tool: str, /, *, at: str = "/mcp", **arguments: Any) -> httpx.Response:
        return self.post(token, at, **raw_call(era, tool, arguments))

    def least(self, token: str | None, era: Era, tool: str, brain: str = "main") -> httpx.Response:
        """A call with no more than it takes."""
        named = {} if tool in WITHOUT_A_BRAIN else {"brain": brain}
        return self.call(token, era, tool, **TOOLS[tool][1], **named)

    def request(self, token: str | None, era: Era, method: str, *, at: str = "/mcp", **params: Any) -> httpx.Response:
        """Of anything but a tool."""
        made = raw_call(era, "x", {})
        made["json"]["method"] = method
        made["json"]["params"] = {**params, "_meta": made["json"]["params"]["_meta"]}
        if era == "modern":
            made["headers"]["mcp-method"] = method
            made["headers"]["mcp-name"] = params.get("uri", "")
            if not made["headers"]["mcp-name"]:
                del made["headers"]["mcp-name"]
        return self.post(token, at, **made)

    def stored(self) -> list[tuple[str, list[Any]]]:
        """All that callers have put into the brain's file: rows of every table, but not what models make afterwards."""
        with closing(sqlite3.connect(self.served.data_dir / FILE_NAME)) as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
            kept = sorted(tables - MADE_LATER)
            rows = [(table, database.execute(f'select * from "{table}"').fetchall()) for table in kept]
            # One of the tables says, of each other one, the highest number that was ever given in it.
            return [(table, [row for row in some if row[0] not in MADE_LATER]) for table, some in rows]


def result(response: httpx.Response) -> dict[str, Any]:
    return dict(messages_of(response)[-1]["result"])


@contextmanager
def guarded(folder: Path, **settings: Any) -> Iterator[Guarded]:
    data, root = folder / "data", folder / "files"
    data.mkdir()
    root.mkdir()
    with providing() as provider:
        # Files are each caller's own.
        caller = Principal(issuer=provider.issuer, subject="ada", client="notebook").partition
        own = root / caller_name(caller)
        own.mkdir()
        (own / "otters.txt").write_text("Otters hold hands.")
        door = {"auth": "jwt", "auth_issuer": provider.issuer, "public_url": PUBLIC_URL, "calls_per_second": 1e6}
        with serving(data, root, **{**door, **settings}) as served:
            gateway = Guarded(served, provider)
            # The brain is there, and its file.
            assert gateway.least("admin", "modern", "memory_list_brains").status_code == 200
            yield gateway
