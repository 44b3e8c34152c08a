"""Operations on a platform that does as it is told: which requests are made, and what comes of them."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tenacity import wait_none

from gateway.brain.brain import Brain
from gateway.ingest.web_page import Page
from gateway.operations import names
from gateway.operations.caller import Call, Caller, Principal
from gateway.operations.errors import GatewayError
from gateway.operations.table import Op
from gateway.upstream import retry
from gateway.upstream.credentials import Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from tests.gateway.operations.steps.inmemory import hurry
from tests.served import listening
from tests.upstreams import Answer, Scripted


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(retry, "_BACKOFF", wait_none())


BRAINS = {"items": [{"id": "brn_1", "slug": "main"}, {"id": "brn_2", "slug": "desk"}]}


@asynccontextmanager
async def opened(answers: dict[str, Answer], **options: Any) -> AsyncIterator[tuple[Brain, Scripted]]:
    platform = Scripted(answers)
    with listening(platform.app()) as url:

        async def endpoint() -> Endpoint:
            return Endpoint(url)

        deadlines = options.pop("deadlines", Deadlines())
        upstream = Upstream((options.pop("dialect", PLATFORM),), endpoint, deadlines=deadlines)
        try:
            yield Brain(upstream, **options), platform
        finally:
            await upstream.close()


def problem(status: int, detail: str, code: str) -> Answer:
    body = {"status": status, "title": "x", "detail": detail, "code": code}
    return lambda _request: JSONResponse(body, status, media_type="application/problem+json")


NO_BRAIN = problem(404, "brain not found: desk", "not_found")


async def test_a_slug_is_tried_by_id_on_a_platform_that_takes_ids_alone() -> None:
    found = {"query": "x", "hits": []}
    answers: dict[str, Answer] = {
        "GET /v1/brains": lambda _request: BRAINS,
        "GET /v1/brains/desk/search": NO_BRAIN,
        "GET /v1/brains/brn_2/search": lambda _request: found,
    }
    async with opened(answers) as (brain, platform):
        assert await brain.serve(Call(), "desk", "search", {"query": "x"}) == found
        assert platform.requests == ["GET /v1/brains/desk/search", "GET /v1/brains", "GET /v1/brains/brn_2/search"]


async def test_a_brain_that_is_nowhere_stays_no_brain() -> None:
    answers = {"GET /v1/brains": lambda _request: BRAINS, "GET /v1/brains/other/search": NO_BRAIN}
    async with opened(answers) as (brain, _):
        with pytest.raises(GatewayError) as caught:
            await brain.serve(Call(), "other", "search", {"query": "x"})
        assert caught.value.code == "no_brain"


async def test_the_uuid_of_a_brain_that_is_gone_leads_to_no_brain_that_is_called_so() -> None:
    listed, uuid = [{"id": "brn_1", "slug": "main"}], names.brain_uuid("brn_1")
    answers: dict[str, Answer] = {
        "GET /v1/brains": lambda _request: {"items": listed},
        "GET /v1/brains/brn_1/search": NO_BRAIN,
        f"GET /v1/brains/{uuid}/search": lambda _request: {"hits": []},
    }
    async with opened(answers) as (brain, platform):
        assert await brain.listed(Call(), uuid)
        for brains in (listed, [{"id": "brn_2", "slug": uuid}]):
            await brain.known(Call(Caller(preferred=uuid)))
            listed[:] = brains
            with pytest.raises(GatewayError) as caught:
                await brain.serve(Call(), uuid, "search", {"query": "x"})
            assert caught.value.code == "no_brain"
        assert not await brain.listed(Call(), uuid)
        assert f"GET /v1/brains/{uuid}/search" not in platform.requests


async def test_the_first_brain_is_looked_up_once_in_a_while() -> None:
    answers: dict[str, Answer] = {
        "GET /v1/brains": lambda _request: BRAINS,
        "GET /v1/brains/brn_1/search": lambda _request: {"hits": []},
    }
    async with opened(answers) as (brain, platform):
        for _ in range(3):
            await brain.serve(Call(), None, "search", {"query": "x"})
        assert platform.requests.count("GET /v1/brains") == 1
        other = Call(Caller(partition="somebody else"))
        await brain.serve(other, None, "search", {"query": "x"})
        assert platform.requests.count("GET /v1/brains") == 2


async def test_without_any_brain_there_is_no_brain() -> None:
    async with opened({"GET /v1/brains": lambda _request: {"items": []}}) as (brain, _):
        with pytest.raises(GatewayError) as caught:
            await brain.serve(Call(), None, "search", {"query": "x"})
        assert caught.value.code == "no_brain"


async def test_all_pages_of_the_brain_list_are_one_list() -> None:
    pages = {"": {"items": [{"id": "1"}], "next_cursor": "b", "total": 2}, "b": {"items": [{"id": "2"}]}}

    def page(request: Request) -> Any:
        return pages[request.query_params.get("cursor", "")]

    async with opened({"GET /v1/brains": page}) as (brain, _):
        listed = await brain.list_brains(Call())
        assert listed == {"items": [{"id": "1"}, {"id": "2"}], "next_cursor": "b", "total": 2}


async def test_a_brain_list_that_is_none_is_an_upstream_error() -> None:
    async with opened({"GET /v1/brains": lambda _request: {"items": "none"}}) as (brain, _):
        with pytest.raises(GatewayError) as caught:
            await brain.list_brains(Call())
        assert caught.value.code == "upstream_error"


async def test_consolidation_falls_back_to_compiling_when_the_route_is_absent() -> None:
    async with opened({"POST /v1/brains/main/compile": lambda _request: {"compiled": 3}}) as (brain, platform):
        call = Call()
        assert await brain.serve(call, "main", "consolidate", {}) == {"compiled": 3}
        assert platform.requests == ["POST /v1/brains/main/consolidate", "POST /v1/brains/main/compile"]
        assert call.route == "POST /v1/brains/{brain}/compile"


async def test_a_failure_is_no_absence() -> None:
    answers = {
        "POST /v1/brains/main/consolidate": problem(500, "boom", "internal_error"),
        "POST /v1/brains/main/compile": lambda _request: {},
    }
    async with opened(answers) as (brain, platform):
        with pytest.raises(GatewayError) as caught:
            await brain.serve(Call(), "main", "consolidate", {})
        assert caught.value.code == "upstream_error"
        assert platform.requests == ["POST /v1/brains/main/consolidate"]


async def test_what_no_route_can_do_is_not_implemented() -> None:
    async with opened({}) as (brain, platform):
        with pytest.raises(GatewayError) as caught:
            await brain.serve(Call(), "main", "consolidate", {})
        assert caught.value.code == "not_implemented"
        assert len(platform.requests) == 2


async def fetched(url: str) -> Page:
    return Page(url, "text/plain", b"# Otters\n\nThey hold hands.")


async def test_a_page_is_fetched_here_when_the_platform_has_no_route_for_it() -> None:
    async def create(request: Request) -> Any:
        return {"id": "doc_1", **(await request.json())}

    async with opened({"POST /v1/brains/main/documents": create}, fetch=fetched) as (brain, platform):
        answer = await brain.ingest_url(Call(), "main", "https://example.com/otters")
        assert answer["path"] == "fallback"
        assert answer["document"]["title"] == "Otters"
        assert answer["document"]["metadata"] == {"source_url": "https://example.com/otters"}
        assert platform.requests == ["POST /v1/brains/main/documents/ingest/url", "POST /v1/brains/main/documents"]


@pytest.mark.parametrize(
    ("status", "code", "expected", "requests"),
    [
        (422, "fetch_blocked", "fetch_blocked", 1),
        (502, "fetch_failed", "fetch_failed", 1),
        # It may be stored: the platform is asked again, and nobody else.
        (500, "x", "outcome_unknown", 4),
    ],
)
async def test_a_page_the_platform_would_not_fetch_is_not_fetched_here(
    status: int, code: str, expected: str, requests: int
) -> None:
    answers = {"POST /v1/brains/main/documents/ingest/url": problem(status, "x", code)}
    async with opened(answers, fetch=fetched) as (brain, platform):
        with pytest.raises(GatewayError) as caught:
            await brain.ingest_url(Call(), "main", "https://example.com/")
        assert caught.value.code == expected
        assert platform.requests == ["POST /v1/brains/main/documents/ingest/url"] * requests


def stat_of(content: str, title: str, metadata: dict[str, str]) -> Answer:
    document = {"id": "doc_1", "checksum_sha256": names.checksum(content), "title": title, "metadata": metadata}
    return lambda _request: {"path": "x", "is_dir": False, "document": document}


async def stall(request: Request) -> Response:
    """Takes the request, and says nothing until the other side gives up."""
    await request.body()
    await asyncio.wait_for(request.receive(), 30)
    return Response()


async def test_a_write_whose_answer_was_lost_is_looked_for() -> None:
    answers: dict[str, Answer] = {
        "POST /v1/brains/main/documents": stall,
        "GET /v1/brains/main/documents/stat": stat_of("otters", "otters", {}),
    }
    async with opened(answers, deadlines=Deadlines(read=0.5)) as (brain, _):
        call = Call()
        stored = await brain.remember(call, "main", "otters", None, [], None)
        assert (stored["id"], stored.get("reused")) == ("doc_1", None)
        assert call.route == "POST /v1/brains/{brain}/documents"


@pytest.mark.parametrize(
    ("found", "expected", "sent"),
    [
        (stat_of("other", "otters", {}), ("conflict", False), 1),
        (stat_of("otters", "otters", {"tags": "a"}), ("conflict", False), 1),
        (NO_BRAIN, ("outcome_unknown", True), 1),
        (problem(404, "not found: it", "not_found"), ("outcome_unknown", True), 4),
    ],
    ids=["other words", "other tags", "no look", "nothing"],
)
@pytest.mark.not_quick
async def test_a_write_without_an_answer_that_is_not_found_is_told_by_what_is_found(
    found: Answer, expected: tuple[str, bool], sent: int
) -> None:
    answers = {"POST /v1/brains/main/documents": stall, "GET /v1/brains/main/documents/stat": found}
    async with opened(answers, deadlines=Deadlines(read=0.5)) as (brain, platform):
        with pytest.raises(GatewayError) as caught:
            await brain.remember(Call(), "main", "otters", None, [], None)
        assert (caught.value.code, caught.value.retryable) == expected
        assert platform.requests.count("POST /v1/brains/main/documents") == sent


async def test_messages_stop_at_the_first_failure_and_say_how_far_they_came() -> None:
    seen: list[Any] = []

    async def append(request: Request) -> Any:
        seen.append(await request.json())
        if len(seen) == 3:
            return problem(503, "x", "busy")(request)
        return {"id": f"msg_{len(seen)}", **seen[-1]}

    messages = [{"role": "user", "content": str(n)} for n in range(5)]
    async with opened({"POST /v1/brains/main/sessions/s/messages": append}) as (brain, _):
        with pytest.raises(GatewayError) as caught:
            await brain.append_messages(Call(), "main", "s", messages, "ada")
        assert caught.value.extra == {"appended": 2, "remaining": 3}
        assert [message["content"] for message in seen] == ["0", "1", "2"]
        assert seen[0]["metadata"] == {"skip_extract": True, "actor_id": "ada"}


async def test_only_the_last_message_lets_the_platform_extract() -> None:
    seen: list[Any] = []

    async def append(request: Request) -> Any:
        seen.append(await request.json())
        return seen[-1]

    messages = [{"role": "user", "content": str(n)} for n in range(3)]
    async with opened({"POST /v1/brains/main/sessions/s/messages": append}) as (brain, _):
        records = await brain.append_messages(Call(), "main", "s", messages, None)
    assert [message["metadata"]["skip_extract"] for message in seen] == [True, True, False]
    # What a caller may not see of a record, its metadata, is left out.
    assert records == {"messages": messages}


async def test_a_platform_that_cannot_answer_says_so() -> None:
    async with opened({}) as (brain, _):
        with pytest.raises(GatewayError) as caught:
            await anext(brain.ask(Call(), "main", {"query": "x"}))
        assert caught.value.code == "not_implemented"


async def test_a_brain_made_by_a_lost_request_is_ours() -> None:
    listed = {"items": [{"id": "brn_9", "slug": "my-brain", "name": "My Brain", "visibility": "private"}]}
    answers: dict[str, Answer] = {"POST /v1/brains": stall, "GET /v1/brains": lambda _request: listed}
    async with opened(answers, deadlines=Deadlines(read=0.5)) as (brain, _):
        created = await brain.create_brain(Call(), "My Brain", None, "private")
        assert (created["id"], created.get("reused")) == ("brn_9", None)


async def test_a_brain_that_is_there_already_is_reused_by_the_route_that_creates_brains() -> None:
    answers: dict[str, Answer] = {
        "POST /v1/brains": problem(409, "already exists", "conflict"),
        "GET /v1/brains/my-brain/documents/read": lambda _request: {"name": "My Brain", "visibility": "private"},
    }
    async with opened(answers, dialect=DAEMON) as (brain, _):
        call = Call()
        created = await brain.create_brain(call, "My Brain", None, "private")
        assert (created["id"], created["reused"]) == ("my-brain", True)
        assert (call.brain, call.route) == ("my-brain", "POST /v1/brains")


async def test_a_new_brain_is_seen_at_once_whoever_listed_the_brains_meanwhile() -> None:
    arrived, may_answer = threading.Event(), threading.Event()
    listed: list[dict[str, str]] = [{"id": "brn_1", "slug": "main"}]

    async def create(_request: Request) -> Any:
        arrived.set()
        await asyncio.to_thread(may_answer.wait, 20)
        listed.append({"id": "brn_2", "slug": "desk"})
        return listed[-1]

    answers: dict[str, Answer] = {
        "POST /v1/brains": create,
        "GET /v1/brains": lambda _request: {"items": listed},
        "GET /v1/brains/brn_1/search": lambda _request: {"hits": []},
        "GET /v1/brains/desk/search": NO_BRAIN,
        "GET /v1/brains/brn_2/search": lambda _request: {"hits": []},
    }
    async with opened(answers) as (brain, platform):
        creating = asyncio.ensure_future(brain.create_brain(Call(), "Desk", None, "private"))
        assert await asyncio.to_thread(arrived.wait, 20)
        await brain.serve(Call(), None, "search", {"query": "x"})
        may_answer.set()
        await creating
        call = Call()
        await brain.serve(call, None, "search", {"query": "x"})
        assert call.brain_note is not None
        assert "the first of 2" in call.brain_note
        assert platform.requests.count("GET /v1/brains") == 2


async def test_a_brain_in_the_url_is_all_there_is() -> None:
    async with opened({}) as (brain, platform):
        with pytest.raises(GatewayError) as caught:
            await brain.create_brain(Call(Caller(ceiling="main")), "Desk", None, "private")
        assert caught.value.code == "forbidden"
        assert platform.requests == []


async def test_what_was_begun_on_one_brain_is_not_begun_again_on_another() -> None:
    """As when the first brain is deleted while messages are appended to it."""
    listed = [{"id": "brn_1", "slug": "main"}]

    def append(request: Request) -> Any:
        if listed[0]["id"] != "brn_1":
            return NO_BRAIN(request)
        listed[:] = [{"id": "brn_2", "slug": "desk"}]
        return {"id": "msg_1"}

    answers: dict[str, Answer] = {
        "GET /v1/brains": lambda _request: {"items": listed},
        "POST /v1/brains/brn_1/sessions/s/messages": append,
        "POST /v1/brains/brn_2/sessions/s/messages": lambda _request: {"id": "msg_2"},
    }
    messages = [{"role": "user", "content": str(n)} for n in range(2)]
    async with opened(answers) as (brain, platform):
        with pytest.raises(GatewayError) as caught:
            await brain.append_messages(Call(), None, "s", messages, None)
        assert (caught.value.code, caught.value.extra) == ("no_brain", {"appended": 1, "remaining": 1})
        assert "POST /v1/brains/brn_2/sessions/s/messages" not in platform.requests


@pytest.mark.parametrize("session", ["../x", "", "a/b", "_x"])
async def test_a_session_that_is_no_id_is_refused_before_anything_is_sent(session: str) -> None:
    async with opened({}) as (brain, platform):
        for sending in (
            brain.append_messages(Call(), "main", session, [{"role": "user", "content": "x"}], None),
            brain.close_session(Call(), "main", session),
            brain.recall(Call(), "main", {"query": "x", "session_id": session}),
        ):
            with pytest.raises(GatewayError, match="validation_error: session_id"):
                await sending
        assert platform.requests == []


async def test_a_message_in_a_session_has_a_length() -> None:
    async with opened({"POST /v1/brains/main/sessions/s/messages": lambda _request: {}}) as (brain, platform):
        for length, sent in ((1_000_000, 1), (1_000_001, 1)):
            sending = brain.append_messages(Call(), "main", "s", [{"role": "user", "content": "x" * length}], None)
            if length > 1_000_000:
                with pytest.raises(GatewayError, match="validation_error"):
                    await sending
            else:
                await sending
            assert platform.requests.count("POST /v1/brains/main/sessions/s/messages") == sent


async def test_who_speaks_has_a_length_for_it_is_kept_with_every_message() -> None:
    messages, actor = [{"role": "user", "content": "x"}] * 500, "a" * 513
    async with opened({"POST /v1/brains/main/sessions/s/messages": lambda _request: {}}) as (brain, platform):
        for sending in (
            brain.append_messages(Call(), "main", "s", messages, actor),
            brain.store_transcript(Call(), "main", messages, actor),
        ):
            with pytest.raises(GatewayError, match="validation_error: actor_id must have at most 512 characters"):
                await sending
        assert platform.requests == []
        await brain.append_messages(Call(), "main", "s", messages[:1], actor[1:])
        assert "POST /v1/brains/main/sessions/s/messages" in platform.requests


async def test_a_page_is_fetched_once_whichever_way_it_is_stored() -> None:
    seen: list[str] = []

    async def fetch(url: str) -> Page:
        seen.append(url)
        return await fetched(url)

    def missing(_request: Request) -> Any:
        return problem(404, "not found", "not_found")(_request)

    answers: dict[str, Answer] = {
        "GET /v1/brains/main/documents/read": missing,
        "POST /v1/brains/main/documents/batch-ops": lambda _request: {"committed": True},
    }
    async with opened(answers, fetch=fetch) as (brain, platform):
        call = Call()
        answer = await brain.ingest_url(call, "main", "https://example.com/otters")
        assert answer["path"] == "fallback"
        assert call.route == "POST /v1/brains/{brain}/documents/batch-ops"
        assert "PUT /v1/brains/main/documents" in platform.requests, "tried, and found absent"
    assert seen == ["https://example.com/otters"]


async def test_what_goes_on_after_an_answer_is_seen_through_when_the_gateway_ends() -> None:
    extracting, may_answer = threading.Event(), threading.Event()

    async def extract(_request: Request) -> Any:
        extracting.set()
        await asyncio.to_thread(may_answer.wait, 20)
        return {"memories": [{"name": "Otters", "content": "They hold hands."}]}

    log: list[bytes] = []

    async def append(request: Request) -> Response:
        log.append(await request.body())
        return Response(status_code=204)

    answers: dict[str, Answer] = {
        "POST /v1/brains/main/documents/append": append,
        "GET /v1/brains/main/documents/read": lambda _request: Response(b"".join(log)),
        "POST /v1/brains/main/extract": extract,
        "POST /v1/brains/main/documents/batch-ops": lambda _request: {"committed": 1},
    }
    async with opened(answers, dialect=DAEMON) as (brain, platform):
        call = Call()
        answer = await brain.append_messages(call, "main", "s", [{"role": "user", "content": "x"}], None)
        assert (answer["extraction"], call.route) == ("started", "POST /v1/brains/{brain}/documents/append")
        assert await asyncio.to_thread(extracting.wait, 20)
        assert call.route == "POST /v1/brains/{brain}/documents/append", "what goes on later is another call"
        closing = asyncio.ensure_future(brain.close(30))
        await asyncio.sleep(0)
        assert not closing.done()
        may_answer.set()
        await closing
        assert platform.requests[-2:] == [
            "POST /v1/brains/main/documents/batch-ops",
            "POST /v1/brains/main/documents/append",
        ]
        assert b'"through":1' in log[-1]


@pytest.mark.parametrize(
    ("operation", "args", "route", "missing"),
    [
        ("remember", {"content": "x"}, "PUT /v1/brains/{brain}/documents", (Op.CREATE_DOCUMENT,)),
        ("consolidate", {}, "POST /v1/brains/{brain}/consolidate", ()),
        ("create_brain", {}, "POST /v1/brains", (Op.CREATE_BRAIN,)),
        ("recall", {"session_id": "s"}, "POST /v1/brains/{brain}/search", (Op.SESSION_RECALL, Op.RECALL)),
    ],
)
async def test_how_an_operation_would_be_served_is_told_without_doing_it(
    operation: str, args: dict[str, Any], route: str, missing: tuple[Op, ...]
) -> None:
    async with opened({}, dialect=DAEMON) as (brain, platform):
        way = await brain.way(Call(), operation, args)
        assert (way.route, way.missing) == (route, missing)
        assert way.how
        assert platform.requests == []


async def test_a_default_brain_that_does_not_exist_is_named() -> None:
    answers = {"GET /v1/brains": lambda _request: BRAINS, "GET /v1/brains/gone/search": NO_BRAIN}
    async with opened(answers, default="gone") as (brain, _):
        with pytest.raises(GatewayError) as caught:
            await brain.serve(Call(), None, "search", {"query": "x"})
        assert caught.value.code == "no_brain"
        assert "There is no brain gone" in caught.value.message
        with pytest.raises(GatewayError) as named:
            await brain.serve(Call(), "gone", "search", {"query": "x"})
        assert "default" not in named.value.message


@pytest.mark.parametrize("shared", [True, False])
async def test_a_platform_tells_nobody_how_much_it_has_of_what_they_may_not_see(shared: bool) -> None:
    """Also where all that was found is theirs: what is counted was not all asked for."""
    hits = [{"path": "memory/global/a.md", "score": 1.0, "content": "x", "brain_id": "brn_1"}]
    found = {"query": "x", "brain_id": "brn_1", "hits": hits, "took_ms": 1, "total": 57, "best": {"content": "x"}}
    ann = Principal("https://login.example", "ann", "client", "acme")
    call = Call(Caller(ann.partition, principal=ann, ceiling="brn_1"))
    answers: dict[str, Answer] = {
        "GET /v1/brains": lambda _request: JSONResponse(BRAINS),
        "GET /v1/brains/brn_1/search": lambda _request: JSONResponse(found),
    }
    async with opened(answers, shared=shared) as (brain, _):
        told = await brain.search(call, None, {"query": "x", "top_k": 1})
    assert told["hits"] == hits
    assert {"total", "best"} & told.keys() == (set() if shared else {"total", "best"})
