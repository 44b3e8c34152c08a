"""The daemons' dialect: what is sent, and what each make's answers become."""

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gateway.operations import notes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError, StreamBroken
from gateway.operations.table import JsonObject, Op, Upload
from gateway.upstream.dialects.daemon import DAEMON
from tests.daemons.fake import FakeDaemon, G, Script, T, Traits, Y
from tests.gateway.upstream.platforms import reaching
from tests.served import listening

MAKES = pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
NOTES = {"brain": "notes"}
QUERY = {**NOTES, "query": "spot"}


def decoded(op: Op, answer: Any, **args: Any) -> JsonObject:
    found = DAEMON.routes[op].decode(answer, {**QUERY, **args})
    assert isinstance(found, dict)
    return found


def sent(op: Op, **args: Any) -> Any:
    return DAEMON.routes[op].encode({**QUERY, **args}).json


@pytest.mark.parametrize(
    ("args", "body"),
    [
        ({}, {"query": "spot"}),
        ({"top_k": 3, "scope": "global"}, {"query": "spot", "topK": 3, "filters": {"scope": "global"}}),
        ({"scope": "project"}, {"query": "spot", "filters": {"scope": "project"}}),
        ({"scope": "all", "top_k": None}, {"query": "spot"}),
        ({"scope": None, "sort": "recency"}, {"query": "spot"}),
    ],
)
def test_a_search_is_spelled_their_way(args: JsonObject, body: JsonObject) -> None:
    assert sent(Op.SEARCH, **args) == body


def test_other_requests_are_spelled_their_way() -> None:
    assert sent(Op.ASK) == {"question": "spot", "topK": 8}
    assert sent(Op.ASK, top_k=2) == {"question": "spot", "topK": 2}
    assert sent(Op.CREATE_BARE_BRAIN, slug="a", name="A", visibility="private") == {"brainId": "a", "description": "A"}
    messages = [{"role": "user", "content": "hi"}]
    assert sent(Op.EXTRACT, messages=messages, session_id="s") == {"messages": messages, "sessionId": "s"}
    assert sent(Op.REFLECT, messages=messages, session_id="s", actor_id="a")["actorId"] == "a"
    # Two pages of one title would be one: no daemon is asked to fetch them.
    assert Op.INGEST_URL not in DAEMON.routes


@pytest.mark.parametrize("body", [b"", b"# A", bytes(range(256))])
def test_a_file_is_always_sent_with_its_content(body: bytes) -> None:
    """Without it the daemon would read that path from its own disk."""
    request = sent(Op.INGEST_TEXT, upload=Upload("/etc/passwd", "text/plain", body))
    assert base64.b64decode(request["contentBase64"]) == body
    assert (request["path"], request["title"], request["contentType"]) == ("/etc/passwd", "/etc/passwd", "text/plain")


def test_hits_have_canonical_names_and_keep_what_is_unknown() -> None:
    chunk = {"chunkId": "c", "documentId": "d", "path": "memory/global/a.md", "score": 0.5, "text": "A", "bm25Rank": 1}
    chunk |= {"metadata": {"userKey": 1}, "title": "T"}
    answer = {"chunks": [chunk], "tookMs": 4, "trace": {"fusedCount": 1}, "attempts": []}
    assert decoded(Op.SEARCH, answer) == {
        "query": "spot",
        "brain_id": "notes",
        "took_ms": 4,
        "trace": {"fusedCount": 1},
        "attempts": [],
        "hits": [
            {
                "chunk_id": "c",
                "document_id": "memory/global/a.md",
                "upstream_document_id": "d",
                "path": "memory/global/a.md",
                "score": 0.5,
                "content": "A",
                "bm25_rank": 1,
                "metadata": {"userKey": 1},
                "title": "T",
                "brain_id": "notes",
            }
        ],
    }


@pytest.mark.parametrize("answer", [{"chunks": None}, {"chunks": []}, {"Chunks": None, "TookMs": 0}])
def test_no_hits_are_an_empty_list(answer: JsonObject) -> None:
    found = decoded(Op.SEARCH, answer)
    assert (found["hits"], found["took_ms"]) == ([], 0)
    assert "chunks" not in found


def test_what_is_left_out_because_it_is_zero_is_there_again() -> None:
    (hit,) = decoded(Op.SEARCH, {"chunks": [{"documentId": "wiki/a.md"}]})["hits"]
    names = dict.fromkeys(("chunk_id", "document_id", "path"), "wiki/a.md")
    assert hit == {**names, "content": "", "score": 0, "brain_id": "notes"}
    stored = decoded(Op.INGEST_TEXT, {"DocumentID": "wiki/a.md"})
    assert (stored["path"], stored["chunk_count"], stored["duration_ms"]) == ("wiki/a.md", 0, 0)


def test_another_brain_in_an_answer_is_not_painted_over() -> None:
    """Whoever checks the answer must see it."""
    found = decoded(Op.SEARCH, {"brainId": "theirs", "chunks": [{"path": "a.md", "brainId": "theirs"}]})
    assert (found["brain_id"], found["hits"][0]["brain_id"]) == ("theirs", "theirs")


def test_a_hit_is_shown_without_the_end_that_sets_its_note_apart() -> None:
    for path in ("memory/global/a.md", "memory/global/b.md"):
        stored = notes.set_apart(notes.write("A\n", {}), path).decode()
        texts = [stored.rpartition("---\n\n")[2], stored.rpartition("---\n\n")[2].strip(), "A\n\n<!-- 0123456789ab -->"]
        found = decoded(Op.SEARCH, {"chunks": [{"path": path, "text": text} for text in texts]})
        assert [hit["content"] for hit in found["hits"]] == ["A\n", "A\n", "A\n\n<!-- 0123456789ab -->"]


PATHS = ["memory/global/a.md", "memory/project/p/a.md", "memory/agent/a.md", "wiki/a.md", "memory/globally.md"]


@pytest.mark.parametrize(
    ("scope", "kept"),
    [("global", PATHS[:1]), ("project", PATHS[1:2]), ("agent", PATHS[2:3]), ("all", PATHS), (None, PATHS)],
)
def test_hits_of_another_namespace_are_left_out(scope: str | None, kept: list[str]) -> None:
    found = decoded(Op.SEARCH, {"chunks": [{"path": path} for path in PATHS]}, scope=scope)
    assert [hit["path"] for hit in found["hits"]] == kept


@pytest.mark.parametrize(
    "answer",
    [
        {"documentId": "d1", "path": "raw/documents/a.md", "chunkCount": 2, "bytes": 3, "tookMs": 4, "source": "u"},
        {"DocumentID": "d1", "Path": "raw/documents/a.md", "ChunkCount": 2, "Bytes": 3, "TookMs": 4, "Source": "u"},
        {"document_id": "d1", "path": "raw/documents/a.md", "chunk_count": 2, "bytes": 3, "took_ms": 4, "source": "u"},
    ],
    ids=["camel", "pascal", "snake"],
)
def test_a_receipt_is_read_in_every_spelling(answer: JsonObject) -> None:
    assert decoded(Op.INGEST_TEXT, answer) == {
        "status": "completed",
        "document_id": "raw/documents/a.md",
        "upstream_document_id": "d1",
        "path": "raw/documents/a.md",
        "chunk_count": 2,
        "embedded_count": 0,
        "bytes": 3,
        "duration_ms": 4,
        "source": "u",
    }


@pytest.mark.parametrize(
    ("record", "known"),
    [
        ({"brainId": "b"}, {}),
        ({"brainId": "b", "created": "0001-01-01T00:00:00Z"}, {}),
        ({"brainId": "b", "created": "0001-01-01T00:00:00+00:00"}, {}),
        ({"brainId": "b", "created": "2026-01-01T00:00:00Z"}, {"created_at": "2026-01-01T00:00:00Z"}),
        ({"brainId": "b", "created": None, "description": "said back"}, {}),
        ({"BrainID": "b", "sizeBytes": 3}, {"size_bytes": 3}),
    ],
)
def test_a_brain_is_known_by_its_id_alone(record: JsonObject, known: JsonObject) -> None:
    wanted = {"id": "b", "slug": "b", "name": "b", "visibility": "private", **known}
    assert decoded(Op.CREATE_BARE_BRAIN, record) == wanted
    assert decoded(Op.LIST_BRAINS, {"items": [record], "more": 1}) == {"items": [wanted], "more": 1}


def test_null_lists_and_results_are_nothing() -> None:
    assert decoded(Op.LIST_BRAINS, {"items": None}) == {"items": []}
    assert decoded(Op.EXTRACT, {"memories": None}) == {"memories": []}
    assert decoded(Op.REFLECT, {"result": None}) == {"result": None}
    found = decoded(Op.EXTRACT, {"memories": [{"indexEntry": "i", "tags": ["aB"]}]})
    assert found == {"memories": [{"index_entry": "i", "tags": ["aB"]}]}
    found = decoded(Op.REFLECT, {"result": {"shouldRecordEpisode": True, "heuristics": [{"antiPattern": 1}]}})
    assert found == {"result": {"should_record_episode": True, "heuristics": [{"antiPattern": 1}]}}


NO_TEXT: list[Any] = [3, [], {}, ["a"]]
NO_OBJECT: list[Any] = [None, [], "x", 3, {}]
NO_CHUNKS: list[Any] = [{}, "x", 3, [None], [[]], ["x"], [{}], [{"path": ""}], [{"path": "a", "score": "0.5"}]]
NO_BRAINS: list[Any] = ["x", [None], [{}], [{"brainId": 3}], [{"brainId": ""}], [{"brainId": "b", "created": {}}]]
WRONG: list[tuple[Op, Any]] = [
    *((op, bad) for op in (Op.SEARCH, Op.LIST_BRAINS, Op.INGEST_TEXT, Op.EXTRACT) for bad in NO_OBJECT),
    *((Op.SEARCH, {"chunks": bad}) for bad in NO_CHUNKS),
    *((Op.SEARCH, {"chunks": [{"path": bad}]}) for bad in NO_TEXT),
    *((Op.SEARCH, {"chunks": [{"path": "a", "text": bad}]}) for bad in NO_TEXT),
    *((Op.SEARCH, {"chunks": [{"path": "a", "documentId": bad}]}) for bad in NO_TEXT),
    *((Op.SEARCH, {"chunks": [{"path": "a", "chunkId": bad}]}) for bad in NO_TEXT),
    (Op.SEARCH, {"chunks": [], "tookMs": "long"}),
    *((Op.LIST_BRAINS, {"items": bad}) for bad in NO_BRAINS),
    *((Op.INGEST_TEXT, {"path": bad}) for bad in [*NO_TEXT, None, ""]),
    *((Op.INGEST_TEXT, {"documentId": bad}) for bad in [*NO_TEXT, None, ""]),
    (Op.INGEST_TEXT, {"path": "a", "chunkCount": "many"}),
    (Op.INGEST_TEXT, {"path": "a", "tookMs": "long"}),
    *((Op.REFLECT, {"result": bad}) for bad in ("x", 3)),
    (Op.REFLECT, {"result": []}),
    (Op.CREATE_BARE_BRAIN, {}),
]


@pytest.mark.parametrize(("op", "answer"), WRONG, ids=str)
def test_an_answer_of_another_shape_is_an_error_of_the_platform(op: Op, answer: Any) -> None:
    with pytest.raises(GatewayError) as caught:
        decoded(op, answer)
    assert (caught.value.code, caught.value.retryable) == ("upstream_error", False)


async def reframed(*events: tuple[str, JsonObject]) -> list[JsonObject]:
    async def theirs() -> AsyncGenerator[list[JsonObject], None]:
        yield [{**data, "type": kind} for kind, data in events]

    return [frame async for frames in DAEMON.routes[Op.ASK].reframe(theirs()) for frame in frames]


CHUNK = {"chunkId": "c1", "documentId": "d", "path": "wiki/a.md", "score": 1.0, "text": "The sky is blue. " * 40}


async def test_frames_have_canonical_names() -> None:
    found = await reframed(
        ("retrieve", {"chunks": [CHUNK], "topK": 8, "mode": "auto"}),
        ("answer_delta", {"text": "Well: the "}),
        ("answer_delta", {"text": "sky is blue."}),
        ("citation", {"chunkId": "c1", "path": "wiki/a.md", "title": "A", "score": 1.0}),
        ("citation", {"chunkId": "other", "path": "wiki/b.md"}),
        ("usage", {"totalTokens": 3}),
        ("done", {"ok": True}),
    )
    (chunk,) = found[0]["chunks"]
    assert (chunk["chunk_id"], chunk["document_id"], chunk["score"]) == ("c1", "wiki/a.md", 1.0)
    assert chunk["preview"] == str(CHUNK["text"])[:512]
    assert [frame["delta"] for frame in found[1:3]] == ["Well: the ", "sky is blue."]
    assert not any("text" in frame for frame in found)
    citation = {"type": "citation", "chunk_id": "c1", "document_id": "wiki/a.md", "path": "wiki/a.md", "title": "A"}
    assert found[3] == {**citation, "score": 1.0, "quote": "The sky is blue", "answer_start": 6, "answer_end": 21}
    assert (found[4]["quote"], found[4]["answer_start"], found[4]["answer_end"]) == ("", 0, 0)
    assert found[5] == {"type": "usage", "total_tokens": 3}
    assert found[6] == {"type": "done", "ok": True}


@pytest.mark.parametrize(
    ("said", "delta"),
    [({"text": "a"}, "a"), ({"delta": "a"}, "a"), ({"text": None}, ""), ({}, ""), ({"text": "", "delta": "a"}, "a")],
)
async def test_a_delta_comes_by_either_name(said: JsonObject, delta: str) -> None:
    found = await reframed(("answer_delta", said), ("done", {}))
    assert found[0] == {"type": "answer_delta", "delta": delta}


async def test_null_chunks_are_none() -> None:
    assert (await reframed(("retrieve", {"chunks": None, "mode": ""}), ("done", {"ok": True})))[0]["chunks"] == []


BAD_FRAMES: list[tuple[str, JsonObject]] = [
    *(("retrieve", {"chunks": bad}) for bad in NO_CHUNKS),
    *(("retrieve", {"chunks": [{"path": "a", "text": bad}]}) for bad in NO_TEXT),
    *(("retrieve", {"chunks": [{"path": "a", "chunkId": bad}]}) for bad in NO_TEXT),
    *(("answer_delta", {"text": bad}) for bad in NO_TEXT),
    *(("citation", {"path": "a", "chunkId": bad}) for bad in NO_TEXT),
    *(("citation", {"path": bad}) for bad in [*NO_TEXT, None]),
    ("citation", {"chunkId": "c"}),
    ("done", {"ok": False}),
]


@pytest.mark.parametrize(("kind", "data"), BAD_FRAMES, ids=str)
async def test_a_frame_of_another_shape_breaks_the_stream(kind: str, data: JsonObject) -> None:
    with pytest.raises(StreamBroken) as caught:
        await reframed((kind, data), ("done", {"ok": True}))
    assert caught.value.code == "upstream_error"


async def test_a_source_is_looked_for_in_the_answer_a_hundred_times_and_no_more() -> None:
    chunk = {"chunkId": "a", "path": "a.md", "text": "x marks the spot", "score": 1.0}
    cited = [("citation", {"chunkId": "a", "path": "a.md"})] * 120
    said = ("answer_delta", {"text": "x marks the spot"})
    found = await reframed(("retrieve", {"chunks": [chunk]}), said, *cited, ("done", {"ok": True}))
    quotes = [frame["quote"] for frame in found if frame["type"] == "citation"]
    assert quotes == ["x marks the spot"] * 100 + [""] * 20


async def asked(daemon: FakeDaemon) -> list[JsonObject]:
    daemon.brains["notes"] = {"memory/global/a.md": (b"# A\n\nX marks the spot, they say.", 0.0)}
    with listening(daemon.app()) as url:
        async with reaching(url, DAEMON) as upstream, await upstream.open(Call(), Op.ASK, QUERY) as coming:
            return [frame async for frames in coming for frame in frames]


@MAKES
async def test_every_make_answers_token_by_token_with_true_citations(traits: Traits) -> None:
    found = await asked(FakeDaemon(traits, llm=Script(["They say: ", "x marks ", "the spot", "."])))
    deltas = [frame["delta"] for frame in found if frame["type"] == "answer_delta"]
    (citation,) = [frame for frame in found if frame["type"] == "citation"]
    assert deltas == ["They say: ", "x marks ", "the spot", "."]
    said = "".join(deltas)[citation["answer_start"] : citation["answer_end"]]
    assert (said, citation["quote"]) == ("x marks the spot", "X marks the spot")
    assert citation["document_id"] == "memory/global/a.md"
    assert found[-1]["type"] == "done"


@MAKES
async def test_a_model_that_fails_breaks_the_answer_whatever_done_says(traits: Traits) -> None:
    with pytest.raises(StreamBroken) as caught:
        await asked(FakeDaemon(traits, llm=Script(fails=True)))
    assert (caught.value.code, "127.0.0.1" in caught.value.message) == ("upstream_error", False)


@pytest.mark.parametrize("frames", [0, 1, 2, 3])
@MAKES
@pytest.mark.not_quick
async def test_an_answer_cut_midway_is_not_taken_for_whole(traits: Traits, frames: int) -> None:
    daemon = FakeDaemon(traits, llm=Script())
    daemon.cut_frames = frames
    with pytest.raises(StreamBroken) as caught:
        await asked(daemon)
    assert (caught.value.code, caught.value.retryable) == ("stream_truncated", True)


async def test_a_daemon_without_a_model_says_so() -> None:
    with pytest.raises(StreamBroken) as caught:
        await asked(FakeDaemon(T))
    assert (caught.value.code, "language model" in caught.value.message) == ("not_implemented", True)


@MAKES
async def test_every_make_is_searched_listed_and_written(traits: Traits) -> None:
    daemon = FakeDaemon(traits)
    daemon.brains["notes"] = {
        "memory/global/a.md": (b"# A\n\nspot", 0.0),
        "memory/agent/b.md": (b"# B\n\nspot", 0.0),
        "wiki/c.md": (b"# C\n\nspot", 0.0),
    }
    upload = Upload("unique-name", "text/markdown", b"# New\n\nblot")
    with listening(daemon.app()) as url:
        async with reaching(url, DAEMON) as upstream:
            for scope, least in ((None, 2), ("all", 2), ("global", 1), ("project", 0), ("agent", 0)):
                hits = ((await upstream.send(Call(), Op.SEARCH, {**QUERY, "scope": scope})).answer)["hits"]
                assert len(hits) >= least
                assert all(scope in {None, "all"} or hit["path"].startswith(f"memory/{scope}/") for hit in hits)
                assert all(hit["content"] and hit["brain_id"] == "notes" for hit in hits)
            nothing = (await upstream.send(Call(), Op.SEARCH, {**NOTES, "query": "zebra"})).answer
            assert nothing["hits"] == []
            (brain,) = ((await upstream.send(Call(), Op.LIST_BRAINS, {})).answer)["items"]
            assert brain == {"id": "notes", "slug": "notes", "name": "notes", "visibility": "private"}
            stored = (await upstream.send(Call(), Op.INGEST_TEXT, {**NOTES, "upload": upload})).answer
            assert stored["path"] == stored["document_id"] == "raw/documents/unique-name.md"
            assert json.dumps(stored)
            assert "raw/documents/unique-name.md" in daemon.brains["notes"]
