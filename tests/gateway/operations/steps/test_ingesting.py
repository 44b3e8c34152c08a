"""Files and pages on platforms that take what they are given."""

import hashlib
from typing import Any

import pytest

from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps import ingesting
from gateway.operations.table import Args, JsonObject, Op, Upload
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, InMemory, lost, refusal

BODY = b"# Otters\n\nThey hold hands."
SHA256 = hashlib.sha256(BODY).hexdigest()
PATH = f"raw/documents/my-otters-{SHA256[:12]}.md"


def taking() -> InMemory:
    """Stores a file under the name it is given, as such platforms do."""

    def ingest(args: Args) -> JsonObject:
        path = f"raw/documents/{args['upload'].name}.md"
        work.files[path] = args["upload"].body
        return {"status": "completed", "document_id": path, "path": path, "chunk_count": 1, "reused": False}

    work = InMemory(answers={Op.INGEST_TEXT: ingest})
    return work


def file(name: str = "My Otters.md", content_type: str = "text/markdown", body: bytes = BODY) -> dict[str, Any]:
    return {"brain": BRAIN, "upload": Upload(name, content_type, body)}


async def test_a_file_is_ingested_under_a_name_that_only_this_file_has() -> None:
    work = taking()
    answer = await ingesting.ingest_as_text(work, file())
    assert (answer["path"], answer["hash"], answer["chunk_count"]) == (PATH, SHA256, 1)
    assert work.files == {PATH: BODY}


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("My Otters.md", "my-otters"),
        ("archive.tar.gz", "archive-tar"),
        ("README", "readme"),
        (".env", "env"),
        ("../../etc/passwd", "file"),
        ("日本.md", "file"),
        ("x" * 500 + ".md", "x" * 47),
    ],
)
async def test_a_file_name_becomes_a_slug(name: str, stem: str) -> None:
    work = taking()
    assert (await ingesting.ingest_as_text(work, file(name)))["path"] == f"raw/documents/{stem}-{SHA256[:12]}.md"


async def test_two_files_of_one_name_are_two() -> None:
    work = taking()
    await ingesting.ingest_as_text(work, file())
    await ingesting.ingest_as_text(work, file(body=b"other"))
    assert sorted(work.files.values()) == sorted([BODY, b"other"])


async def test_the_same_file_again_is_reused() -> None:
    work = taking()
    await ingesting.ingest_as_text(work, file())
    again = await ingesting.ingest_as_text(work, file())
    assert (again["reused"], again["path"], again["document_id"], again["hash"]) == (True, PATH, PATH, SHA256)
    assert again["status"] == "completed"
    assert work.ops.count(Op.INGEST_TEXT) == 1


async def test_html_is_read_here() -> None:
    work = taking()
    html = b"<html><body><h1>Otters</h1><p>They <b>swim</b>.</p></body></html>"
    answer = await ingesting.ingest_as_text(work, file("otters.html", "text/html", html))
    assert answer["hash"] == hashlib.sha256(html).hexdigest()
    (stored,) = work.files.values()
    assert stored.strip() == b"# Otters\n\nThey **swim**."
    assert next(args for op, args in work.sent if op is Op.INGEST_TEXT)["upload"].content_type == "text/markdown"


@pytest.mark.parametrize("content_type", ["text/html", "application/pdf"])
async def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_stored(content_type: str) -> None:
    work = taking()
    error = await refusal(ingesting.ingest_as_text(work, file("x", content_type, b" ")))
    assert (error.code, error.retryable) == ("validation_error", False)
    assert work.files == {}


@pytest.mark.parametrize("content_type", ["text/markdown", "text/plain", "application/json", "image/png"])
async def test_anything_else_is_sent_as_it_is(content_type: str) -> None:
    work = taking()
    await ingesting.ingest_as_text(work, file("x.bin", content_type, b"\x89\xff"))
    assert list(work.files.values()) == [b"\x89\xff"]


async def test_a_platform_that_cannot_tell_what_it_has_is_sent_nothing() -> None:
    """It would overwrite, and nobody could look afterwards."""
    work = taking()
    work.gone = {Op.STAT_DOCUMENT}
    with pytest.raises(Absent):
        await ingesting.ingest_as_text(work, file())
    assert work.ops == [Op.STAT_DOCUMENT]


@pytest.mark.parametrize("code", ["timeout", "no_brain", "forbidden"])
async def test_a_file_is_not_sent_where_nobody_could_look(code: str) -> None:
    work = taking().fails(Op.STAT_DOCUMENT, code)
    assert (await refusal(ingesting.ingest_as_text(work, file()))).code == code
    assert Op.INGEST_TEXT not in work.ops


@pytest.mark.parametrize("doubt", Doubt)
async def test_a_file_whose_answer_was_lost_is_looked_for(doubt: Doubt) -> None:
    work = taking().fails(Op.INGEST_TEXT, lost(done=True, doubt=doubt))
    answer = await ingesting.ingest_as_text(work, file())
    assert (answer["path"], answer["hash"], answer["reused"]) == (PATH, SHA256, False)
    assert work.ops == [Op.STAT_DOCUMENT, Op.INGEST_TEXT, Op.STAT_DOCUMENT]


async def test_a_file_that_is_not_found_again_is_sent_once_more() -> None:
    work = taking().fails(Op.INGEST_TEXT, lost(done=False))
    answer = await ingesting.ingest_as_text(work, file())
    assert (answer["path"], answer["hash"], answer["chunk_count"]) == (PATH, SHA256, 1)
    assert work.ops.count(Op.INGEST_TEXT) == 2


async def test_a_file_that_is_lost_twice_is_not_stored() -> None:
    work = taking().fails(Op.INGEST_TEXT, lost(done=False), lost(done=False))
    error = await refusal(ingesting.ingest_as_text(work, file()))
    assert (error.code, error.retryable) == ("upstream_unavailable", True)
    assert work.ops.count(Op.INGEST_TEXT) == 2


@pytest.mark.parametrize("look", ["timeout", Fault(Absent(), passed_over=1)], ids=str)
async def test_a_file_that_nobody_can_look_for_is_not_known_and_may_be_sent_again(look: Fault | str) -> None:
    work = taking().fails(Op.INGEST_TEXT, lost(done=False))
    looks: list[Fault | str] = [look] if isinstance(look, Fault) else [Fault(GatewayError(look), passed_over=1), look]
    work.fails(Op.STAT_DOCUMENT, *looks)
    error = await refusal(ingesting.ingest_as_text(work, file()))
    assert (error.code, error.retryable) == ("outcome_unknown", True)


@pytest.mark.parametrize(("code", "retryable"), [("payload_too_large", False), ("timeout", True), ("forbidden", False)])
async def test_a_refused_file_is_told_as_it_is(code: str, retryable: bool) -> None:
    work = taking().fails(Op.INGEST_TEXT, code)
    error = await refusal(ingesting.ingest_as_text(work, file()))
    assert (error.code, error.retryable) == (code, retryable)
    assert work.ops == [Op.STAT_DOCUMENT, Op.INGEST_TEXT]


# Pages, by a platform that fetches them.

URL = "https://a.example/"


def fetching(**result: Any) -> InMemory:
    def ingest(_args: Args) -> JsonObject:
        work.files["raw/documents/otters.md"] = BODY
        return {"status": "completed", "path": "raw/documents/otters.md", **result}

    work = InMemory(answers={Op.INGEST_URL: ingest})
    return work


async def ingested(work: InMemory) -> JsonObject:
    return await ingesting.ingest_by_server(work, {"brain": BRAIN, "url": URL})


async def test_a_url_is_looked_at_before_anybody_is_sent_there() -> None:
    work = fetching()
    await ingested(work)
    assert work.vetted == [URL]
    work = fetching()
    work.blocked = {URL}
    assert (await refusal(ingested(work))).code == "fetch_blocked"
    assert work.sent == []


async def test_the_hash_is_that_of_what_was_stored() -> None:
    answer = await ingested(fetching())
    assert (answer["path"], answer["result"]["hash"]) == ("server", SHA256)


async def test_a_hash_that_the_platform_tells_is_passed_on() -> None:
    work = fetching(hash="theirs")
    assert (await ingested(work))["result"]["hash"] == "theirs"
    assert work.ops == [Op.INGEST_URL]


@pytest.mark.parametrize("look", ["not_found", "timeout", "upstream_error", Fault(Absent())], ids=str)
async def test_a_page_that_cannot_be_read_back_is_stored_all_the_same(look: Fault | str) -> None:
    """Were its absence passed on, the page would be fetched and stored a second time."""
    answer = await ingested(fetching().fails(Op.READ_DOCUMENT, look))
    assert answer == {"path": "server", "result": {"status": "completed", "path": "raw/documents/otters.md"}}


async def test_an_answer_without_a_path_is_passed_on() -> None:
    work = InMemory(answers={Op.INGEST_URL: lambda _: {"status": "queued", "job_id": "j"}})
    assert await ingested(work) == {"path": "server", "result": {"status": "queued", "job_id": "j"}}


# Where the platform chooses the name: asked again, it says what it has.


def by_platform(path: str = "p.md") -> InMemory:
    """Knows a file again by its bytes."""

    def ingest(args: Args) -> JsonObject:
        is_known = args["upload"].body in work.files.values()
        work.files[path] = args["upload"].body
        return {"status": "completed", "path": path, "reused": is_known}

    work = InMemory(answers={Op.INGEST_FILE: ingest})
    return work


async def outcome(work: InMemory, op: Op) -> str:
    try:
        await (ingesting.ingest_by_platform(work, file()) if op is Op.INGEST_FILE else ingested(work))
    except GatewayError as error:
        return f"{error.code}, {'again' if error.retryable else 'never again'}"
    return "stored"


async def asked(op: Op, *faults: Fault | str) -> tuple[str, int]:
    """What comes of such a request, and how often it was sent."""
    work = (by_platform() if op is Op.INGEST_FILE else fetching()).fails(op, *faults)
    return await outcome(work, op), work.ops.count(op)


BY_THE_PLATFORM = pytest.mark.parametrize("op", [Op.INGEST_FILE, Op.INGEST_URL])


@BY_THE_PLATFORM
@pytest.mark.parametrize("doubt", Doubt)
async def test_what_was_lost_on_its_way_is_asked_for_again_and_not_for_ever(op: Op, doubt: Doubt) -> None:
    for done in (True, False):
        assert await asked(op, lost(done=done, doubt=doubt)) == ("stored", 2)
        assert await asked(op, *[lost(done=done, doubt=doubt)] * 2) == ("stored", 3)
    assert await asked(op, *[lost(done=False, doubt=doubt)] * 4) == ("outcome_unknown, again", 4)


@BY_THE_PLATFORM
async def test_a_refusal_after_a_loss_does_not_say_that_nothing_is_stored(op: Op) -> None:
    for code in ("upstream_unavailable", "rate_limited", "validation_error", "fetch_failed"):
        assert await asked(op, lost(done=True), code, code, code) == ("outcome_unknown, again", 4)


async def test_a_file_that_is_kept_where_we_would_keep_it_is_found_without_asking_again() -> None:
    work = by_platform(PATH).fails(Op.INGEST_FILE, lost(done=True))
    answer = await ingesting.ingest_by_platform(work, file())
    assert (answer["path"], answer["hash"], answer["reused"]) == (PATH, SHA256, False)
    assert work.ops == [Op.INGEST_FILE, Op.STAT_DOCUMENT]


@pytest.mark.parametrize("look", ["timeout", "forbidden", Fault(Absent())], ids=str)
async def test_a_file_that_nobody_can_look_for_is_asked_for_again(look: Fault | str) -> None:
    work = by_platform(PATH).fails(Op.INGEST_FILE, lost(done=True)).fails(Op.STAT_DOCUMENT, look)
    assert (await ingesting.ingest_by_platform(work, file()))["reused"] is True
    assert work.ops.count(Op.INGEST_FILE) == 2


async def test_the_id_of_a_file_that_is_found_is_the_platforms() -> None:
    work = taking()
    await ingesting.ingest_as_text(work, file())
    work.answers[Op.STAT_DOCUMENT] = lambda _args: {"path": PATH, "document": {"id": "doc_7"}}
    assert (await ingesting.ingest_as_text(work, file()))["document_id"] == "doc_7"


@BY_THE_PLATFORM
async def test_a_refusal_at_once_is_told_as_it_is(op: Op) -> None:
    assert await asked(op, "upstream_unavailable") == ("upstream_unavailable, again", 1)
    assert await asked(op, "validation_error") == ("validation_error, never again", 1)
