"""The `being` surface behind a provider: what each scope allows, and a key for a language model that is lent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import TALK
from tests.gateway.http.auth.gateways import HTTP, Guarded, guarded, result
from tests.gateway.surfaces.being.beings import BREAD
from tests.gateway.test_processes import wait_until
from tests.served import Era, listening, raw_call, serving

ERAS: tuple[Era, ...] = ("modern", "legacy")
AT = "/being/mcp/main"
READS: dict[str, dict[str, Any]] = {
    "recall": {"user_message": "bread"},
    "get_context": {},
    "recall_memory": {},
    "search_memory": {"query": "bread"},
    "search_history": {},
    "get_current_time": {},
}
WRITES: dict[str, dict[str, Any]] = {
    "merge_nodes": {"node_ids": "a,b", "summary": "s"},
    "update_memory": {"target": "souls", "action": "get"},
    "update_notes": {"notes": ["n"]},
    "update_relation": {"entity_name": "Ken", "relation_type": "person", "action": "delete"},
    "trigger_patrol": {"messages": []},
}
KEY = "lent-key-0123456789"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("gateway")) as made:
        told = made.call("write", "modern", "update_notes", at=AT, scenes=[BREAD])
        assert told.status_code == 200
        made.call("write", "modern", "trigger_patrol", at=AT, messages=[])
        yield made


@pytest.mark.parametrize("era", ERAS)
def test_a_token_that_may_only_read_reads_and_leaves_no_trace(gateway: Guarded, era: Era) -> None:
    before = gateway.stored()
    for tool, arguments in READS.items():
        answer = gateway.call("read", era, tool, at=AT, **arguments)
        assert answer.status_code == 200
        assert result(answer)["isError"] is False, answer.text
    assert "Rin baked" in gateway.call("read", era, "recall", at=AT, user_message="bread").text
    assert gateway.stored() == before


@pytest.mark.parametrize("era", ERAS)
def test_a_token_that_may_only_read_is_refused_what_writes(gateway: Guarded, era: Era) -> None:
    before = gateway.stored()
    for tool, arguments in WRITES.items():
        answer = gateway.call("read", era, tool, at=AT, **arguments)
        assert answer.status_code == 403, tool
        assert 'scope="brains:read brains:write"' in answer.headers["www-authenticate"]
        refused = result(answer)
        assert "structuredContent" not in refused
        assert refused["content"][0]["text"].startswith("insufficient_scope: ")
    assert gateway.stored() == before


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_that_are_listed_are_those_a_token_may_use(gateway: Guarded, era: Era) -> None:
    for token, tools in (("read", set(READS)), ("write", {*READS, *WRITES})):
        listed = result(gateway.request(token, era, "tools/list", at=AT))["tools"]
        assert {tool["name"] for tool in listed} == tools


def test_a_token_that_may_write_needs_no_more(gateway: Guarded) -> None:
    for tool, arguments in WRITES.items():
        answer = gateway.call("write", "modern", tool, at=AT, **arguments)
        assert answer.status_code == 200
        assert result(answer)["isError"] is (tool == "merge_nodes"), answer.text


def test_only_an_admin_has_the_whole_brain_consolidated(gateway: Guarded) -> None:
    def overviews() -> int:
        return str([rows for table, rows in gateway.stored() if table == "documents"]).count("wiki/_overview.md")

    gateway.call("write", "modern", "trigger_patrol", at=AT, messages=[])
    assert overviews() == 0
    gateway.call("admin", "modern", "trigger_patrol", at=AT, messages=[])
    assert overviews() == 1


def test_without_a_brain_a_caller_is_told_how_to_name_one(gateway: Guarded) -> None:
    answer = gateway.call("read", "modern", "get_context", at="/being/mcp")
    assert result(answer)["content"][0]["text"].startswith("no_brain: There is no such being, or it is not yours.")
    named = gateway.call("read", "modern", "get_context", at="/being/mcp?being_id=main")
    assert json.loads(result(named)["content"][0]["text"])["metadata"]["brain_id"].startswith("brn_")


class Recorded:
    """An application, and what each request to it brought."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self.daemon, self._app = daemon, daemon.app()
        self.fails = False
        """Whether what is written fails, as after an answer."""
        self.seen: list[tuple[str, str | None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            key = headers.get(b"x-llm-api-key")
            asked = f"{scope['method']} {scope['path']}?{scope['query_string'].decode()}"
            self.seen.append((asked, None if key is None else key.decode()))
            if self.fails and scope["path"].endswith("/append"):
                await Response(key, 500)(scope, receive, send)
                return
        await self._app(scope, receive, send)


@contextmanager
def lending(folder: Path) -> Iterator[tuple[Recorded, str]]:
    daemon = FakeDaemon(T, llm=TALK)
    daemon.brains["main"] = {}
    recorded = Recorded(daemon)
    with listening(recorded) as upstream, serving(folder, None, upstream_url=upstream) as served:
        yield recorded, served.url


def test_an_access_token_that_carries_its_being_needs_no_other_name(tmp_path: Path) -> None:
    with guarded(tmp_path, brain_claim="being_id") as gateway:

        def told(being: str, at: str = "/being/mcp") -> str:
            made = raw_call("modern", "get_context", {})
            token = gateway.provider.token(scope="brains:read", being_id=being)
            made["headers"]["authorization"] = f"Bearer {token}"
            answer = HTTP.post(gateway.served.url + at, **made)
            assert answer.status_code == 200, answer.text
            return str(result(answer)["content"][0]["text"])

        metadata = json.loads(told("main"))["metadata"]
        for named in (metadata["being_id"], metadata["brain_id"]):
            assert json.loads(told(named))["metadata"] == metadata
            assert json.loads(told("main", f"/being/mcp?being_id={named}"))["metadata"] == metadata
        assert told("main", "/being/mcp?being_id=other").startswith("forbidden: ")
        assert told("nobody").startswith("no_brain: ")


def test_a_lent_key_reaches_the_platform_with_its_call_and_with_what_that_sets_off(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with lending(tmp_path) as (recorded, url):

        def call(at: str, tool: str, lent: str | None, /, **arguments: Any) -> list[tuple[str, str | None]]:
            place = len(recorded.seen)
            made = raw_call("modern", tool, arguments)
            made["headers"] |= {} if lent is None else {"x-llm-api-key": lent}
            assert HTTP.post(url + at, **made).status_code == 200
            return recorded.seen[place:]

        scenes = [{**BREAD, "feeling": f"joy {n}"} for n in range(10)]
        call(AT, "update_notes", KEY, scenes=scenes)
        wait_until(lambda: any("/main/consolidate" in asked for asked, _ in recorded.seen), "the patrol never came")
        call(AT, "trigger_patrol", KEY, messages=[{"role": "user", "content": "I like tea."}])
        wait_until(lambda: any("/main/extract" in asked for asked, _ in recorded.seen), "nothing was extracted")
        call(AT, "recall", KEY, user_message="bread")
        wait_until(lambda: any("_hits" in asked for asked, _ in recorded.seen), "nothing was counted")

        with_key = {asked for asked, key in recorded.seen if key == KEY}
        assert any("/search" in asked for asked in with_key)
        # The patrol that began by itself, after the answer, and the one that was asked for.
        for later in ("/main/consolidate", "/main/extract", "_hits"):
            assert {key for asked, key in recorded.seen if later in asked} == {KEY}
        # What goes on for somebody else has no key.
        call(AT, "update_notes", None, scenes=[{**BREAD, "feeling": f"grief {n}"} for n in range(10)])
        wait_until(lambda: ("POST /v1/brains/main/consolidate?", None) in recorded.seen, "the patrol never came")
        assert all(key is None for _asked, key in call(AT, "search_memory", None, query="bread"))
        assert all(key is None for _asked, key in call("/kv/mcp/main", "jettson_memory_get", KEY, key="k"))
        for bad in ("two\twords", "k" * 5000):
            assert all(key is None for _asked, key in call(AT, "search_memory", bad, query="bread"))
        recorded.fails, place = True, len(recorded.seen)
        call(AT, "recall", KEY, user_message="bread")
        wait_until(lambda: any("/append" in asked for asked, _ in recorded.seen[place:]), "nothing was counted")
        assert KEY.encode() not in b"".join(body for body, _ in recorded.daemon.brains["main"].values())
    out, err = capfd.readouterr()
    assert "call.served" in out + err
    assert "after.failed" in out + err
    assert KEY not in out + err
