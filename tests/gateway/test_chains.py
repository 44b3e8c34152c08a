"""Which steps fulfil which operation, and what moves a chain on."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway import chains
from gateway.chains import Chain, Step, only, serve
from gateway.errors import CATALOGUE, Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.page import Page


@dataclass
class Platform:
    """Answers the operations it has, fails as told, and remembers what it was asked."""

    has: dict[Op, JsonObject] = field(default_factory=dict)
    fails: dict[Op, GatewayError] = field(default_factory=dict)
    asked: list[tuple[Op, dict[str, Any]]] = field(default_factory=list)

    async def send(self, op: Op, args: Args) -> JsonObject:
        self.asked.append((op, dict(args)))
        if op in self.fails:
            raise self.fails[op]
        if op not in self.has:
            raise Absent
        return self.has[op]

    @property
    def operations(self) -> list[Op]:
        return [op for op, _ in self.asked]


async def refusal(chain: Chain, args: Args, platform: Platform) -> str:
    with pytest.raises(GatewayError) as caught:
        await serve(chain, args, platform.send)
    return caught.value.code


async def test_the_first_step_that_exists_answers() -> None:
    platform = Platform(has={Op.CONSOLIDATE: {"merged": 3}, Op.COMPILE: {"compiled": True}})
    assert await serve(chains.CONSOLIDATE, {"brain": "b"}, platform.send) == {"merged": 3}
    assert platform.asked == [(Op.CONSOLIDATE, {"brain": "b"})]


async def test_an_absent_step_moves_on_to_the_next_with_the_same_arguments() -> None:
    platform = Platform(has={Op.COMPILE: {"compiled": True}})
    assert await serve(chains.CONSOLIDATE, {"brain": "b"}, platform.send) == {"compiled": True}
    assert platform.asked == [(Op.CONSOLIDATE, {"brain": "b"}), (Op.COMPILE, {"brain": "b"})]


async def test_when_no_step_exists_it_is_not_implemented() -> None:
    platform = Platform()
    assert await refusal(chains.CONSOLIDATE, {}, platform) == "not_implemented"
    assert platform.operations == [Op.CONSOLIDATE, Op.COMPILE]


@pytest.mark.parametrize("code", sorted(CATALOGUE))
async def test_no_failure_moves_a_chain_on(code: str) -> None:
    """A timeout or a refusal is an answer: doing something else instead could do the work twice."""
    platform = Platform(has={Op.COMPILE: {}}, fails={Op.CONSOLIDATE: GatewayError(code)})
    assert await refusal(chains.CONSOLIDATE, {}, platform) == code
    assert platform.operations == [Op.CONSOLIDATE]


async def test_recall_in_a_session_asks_the_session() -> None:
    platform = Platform(has={Op.SESSION_RECALL: {"chunks": []}, Op.SEARCH: {"hits": []}})
    assert await serve(chains.RECALL, {"session_id": "s", "query": "q"}, platform.send) == {"chunks": []}
    assert platform.operations == [Op.SESSION_RECALL]


@pytest.mark.parametrize("session", [{}, {"session_id": None}])
async def test_recall_without_a_session_searches(session: dict[str, None]) -> None:
    platform = Platform(has={Op.SESSION_RECALL: {"chunks": []}, Op.SEARCH: {"hits": []}})
    assert await serve(chains.RECALL, {"query": "q", **session}, platform.send) == {"hits": []}
    assert platform.operations == [Op.SEARCH]


async def test_recall_in_a_session_searches_where_sessions_cannot_be_recalled() -> None:
    platform = Platform(has={Op.SEARCH: {"hits": []}})
    assert await serve(chains.RECALL, {"session_id": "s"}, platform.send) == {"hits": []}
    assert platform.operations == [Op.SESSION_RECALL, Op.SEARCH]


async def test_a_step_that_does_not_apply_is_neither_prepared_nor_sent() -> None:
    async def never(args: Args) -> Args:
        raise AssertionError

    platform = Platform(has={Op.SEARCH: {"hits": []}})
    chain = (Step(Op.ASK, when=lambda _args: False, prepare=never), *only(Op.SEARCH))
    assert await serve(chain, {}, platform.send) == {"hits": []}


async def nobody(_url: str) -> Page:
    raise AssertionError("nothing was to be fetched")


async def test_a_platform_that_fetches_itself_is_left_to_it() -> None:
    platform = Platform(has={Op.INGEST_URL: {"document_id": "d"}})
    answer = await serve(chains.ingest_url(nobody), {"url": "https://a.example", "brain": "b"}, platform.send)
    assert answer == {"path": "server", "result": {"document_id": "d"}}


async def test_where_the_platform_cannot_the_gateway_fetches_and_stores() -> None:
    fetched: list[str] = []

    async def fetch(url: str) -> Page:
        fetched.append(url)
        return Page("https://a.example/final", "text/plain", b"# Words\nhere")

    platform = Platform(has={Op.CREATE_DOCUMENT: {"id": "doc"}})
    answer = await serve(chains.ingest_url(fetch), {"url": "https://a.example", "brain": "b"}, platform.send)

    assert answer == {"path": "fallback", "document": {"id": "doc"}}
    assert fetched == ["https://a.example"]
    op, document = platform.asked[-1]
    path = document.pop("path")
    assert path.startswith("raw/documents/words-")
    assert (op, document) == (
        Op.CREATE_DOCUMENT,
        {
            "title": "Words",
            "content": "# Words\nhere",
            "metadata": {"source_url": "https://a.example/final"},
            "source": "ingest",
            "brain": "b",
        },
    )


@pytest.mark.parametrize("code", ["fetch_blocked", "fetch_failed", "timeout", "upstream_error", "forbidden"])
async def test_a_fetch_the_platform_refused_is_not_made_by_the_gateway_instead(code: str) -> None:
    platform = Platform(has={Op.CREATE_DOCUMENT: {}}, fails={Op.INGEST_URL: GatewayError(code)})
    assert await refusal(chains.ingest_url(nobody), {"url": "https://10.0.0.1", "brain": "b"}, platform) == code
    assert platform.operations == [Op.INGEST_URL]


async def test_a_fetch_of_our_own_that_fails_stores_nothing() -> None:
    async def fetch(_url: str) -> Page:
        raise GatewayError("fetch_blocked")

    platform = Platform(has={Op.CREATE_DOCUMENT: {}})
    assert (
        await refusal(chains.ingest_url(fetch), {"url": "https://a.example", "brain": "b"}, platform) == "fetch_blocked"
    )
    assert platform.operations == [Op.INGEST_URL]


async def test_without_a_fetch_of_our_own_it_is_not_implemented() -> None:
    platform = Platform(has={Op.CREATE_DOCUMENT: {}})
    assert (
        await refusal(chains.ingest_url(None), {"url": "https://a.example", "brain": "b"}, platform)
        == "not_implemented"
    )
    assert platform.operations == [Op.INGEST_URL]
