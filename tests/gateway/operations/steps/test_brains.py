"""Creating brains, where the platform keeps names and where it keeps ids alone."""

import json
from typing import Any

import pytest

from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps import brains
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import Fault, InMemory, lost, refusal

RECORD = "_brain.json"
KEPT = {"name": "My Brain", "visibility": "private"}


def wanted(**other: Any) -> dict[str, Any]:
    return {**KEPT, "slug": "my-brain", "derived": True, **other}


def bare() -> InMemory:
    """Keeps one brain's documents, and takes no id twice."""
    made: set[str] = set()

    def create(args: Args) -> JsonObject:
        if args["slug"] in made:
            raise GatewayError("conflict")
        made.add(str(args["slug"]))
        return {"id": args["slug"], "slug": args["slug"], "name": args["slug"], "visibility": "private"}

    return InMemory(answers={Op.CREATE_BARE_BRAIN: create})


async def test_a_brain_is_created_and_its_name_kept_beside_it() -> None:
    work = bare()
    created = await brains.create_bare(work, wanted(visibility="tenant"))
    assert created == {
        "id": "my-brain",
        "slug": "my-brain",
        "name": "My Brain",
        "visibility": "tenant",
        "visibility_enforced": False,
    }
    assert json.loads(work.files[RECORD]) == {"name": "My Brain", "visibility": "tenant"}
    assert work.sent[-1][1]["brain"] == "my-brain"


async def test_the_same_name_and_visibility_again_is_the_same_brain() -> None:
    work = bare()
    first = await brains.create_bare(work, wanted())
    assert await brains.create_bare(work, wanted()) == {**first, "reused": True}


@pytest.mark.parametrize("other", [{"name": "my brain"}, {"visibility": "public"}])
async def test_another_name_or_visibility_is_a_conflict(other: dict[str, Any]) -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    assert (await refusal(brains.create_bare(work, wanted(**other)))).code == "conflict"
    assert json.loads(work.files[RECORD]) == KEPT


async def test_a_slug_that_was_chosen_is_reused_likewise() -> None:
    work = bare()
    first = await brains.create_bare(work, wanted(derived=False))
    assert await brains.create_bare(work, wanted(derived=False)) == {**first, "reused": True}


@pytest.mark.parametrize("record", [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b"{}", b"[" * 100_000])
async def test_a_brain_that_somebody_else_made_is_a_conflict(record: bytes) -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.files = {RECORD: record}
    assert (await refusal(brains.create_bare(work, wanted()))).code == "conflict"
    assert work.files == {RECORD: record}


async def test_a_brain_without_a_name_that_holds_something_is_somebody_elses() -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.files = {"a.md": b"mine"}
    assert (await refusal(brains.create_bare(work, wanted()))).code == "conflict"
    assert work.files == {"a.md": b"mine"}


@pytest.mark.parametrize("holds", [{}, {".index/x.db": b""}], ids=["nothing", "an index of its own"])
async def test_a_brain_without_a_name_and_without_documents_was_cut_short_and_is_completed(
    holds: dict[str, bytes],
) -> None:
    work = bare()
    first = await brains.create_bare(work, wanted())
    work.files = dict(holds)
    assert await brains.create_bare(work, wanted()) == {"id": "my-brain", "slug": "my-brain", **KEPT} | {
        "visibility_enforced": False
    }
    assert json.loads(work.files[RECORD]) == KEPT
    assert await brains.create_bare(work, wanted()) == {**first, "reused": True}


async def test_whoever_makes_a_brain_at_this_moment_is_given_time_to_name_it() -> None:
    """Between its creation and its record it looks like one that was cut short."""
    work = bare()
    await brains.create_bare(work, wanted())
    named, work.files = work.files, {}
    reads = 0

    def read(args: Args) -> JsonObject:
        nonlocal reads
        reads += 1
        if reads < 3:
            raise GatewayError("not_found")
        return {"body": named[str(args["path"])]}

    work.answers[Op.READ_DOCUMENT] = read
    assert (await refusal(brains.create_bare(work, wanted(name="My brain")))).code == "conflict"
    assert work.files == {}


async def test_a_brain_that_went_before_anyone_looked_is_a_conflict() -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.fails(Op.READ_DOCUMENT, "no_brain")
    assert (await refusal(brains.create_bare(work, wanted()))).code == "conflict"


@pytest.mark.parametrize("look", ["forbidden", "timeout", Fault(Absent())], ids=str)
async def test_a_brain_that_cannot_be_looked_into_may_be_our_own(look: Fault | str) -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.fails(Op.READ_DOCUMENT, look, look)
    error = await refusal(brains.create_bare(work, wanted()))
    assert (error.code, error.retryable) == ("outcome_unknown", True)


@pytest.mark.parametrize("doubt", Doubt)
async def test_a_creation_whose_answer_was_lost_is_found_and_named(doubt: Doubt) -> None:
    work = bare().fails(Op.CREATE_BARE_BRAIN, lost(done=True, doubt=doubt))
    created = await brains.create_bare(work, wanted())
    assert (created["id"], created.get("reused")) == ("my-brain", None)
    assert json.loads(work.files[RECORD]) == KEPT
    assert work.ops.count(Op.CREATE_BARE_BRAIN) == 1


async def test_a_creation_whose_answer_was_lost_on_a_brain_of_ours_is_that_brain() -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.fails(Op.CREATE_BARE_BRAIN, lost(done=False))
    assert (await brains.create_bare(work, wanted()))["reused"] is True


@pytest.mark.parametrize("fault", [lost(done=True), lost(done=False), Fault(Absent())], ids=repr)
async def test_a_record_whose_answer_was_lost_or_that_nobody_takes_does_not_undo_the_brain(fault: Fault) -> None:
    work = bare().fails(Op.WRITE_DOCUMENT, fault)
    assert (await brains.create_bare(work, wanted()))["name"] == "My Brain"


@pytest.mark.parametrize("code", ["validation_error", "forbidden", "upstream_error"])
async def test_a_brain_whose_record_cannot_be_kept_is_completed_by_the_same_request(code: str) -> None:
    work = bare().fails(Op.WRITE_DOCUMENT, code)
    error = await refusal(brains.create_bare(work, wanted()))
    assert (error.code, error.retryable) == ("outcome_unknown", True)
    assert (await brains.create_bare(work, wanted()))["name"] == "My Brain"
    assert json.loads(work.files[RECORD]) == KEPT


async def test_a_record_that_is_turned_away_is_written_once_the_platform_takes_it() -> None:
    """The brain is there already: to say that nobody knows would be less than is known."""
    work = bare().fails(Op.WRITE_DOCUMENT, "rate_limited", "upstream_unavailable")
    assert (await brains.create_bare(work, wanted()))["name"] == "My Brain"
    assert json.loads(work.files[RECORD]) == KEPT
    assert work.ops.count(Op.WRITE_DOCUMENT) == 3


async def test_a_platform_that_asks_for_a_long_wait_is_not_waited_for() -> None:
    work = bare().fails(Op.WRITE_DOCUMENT, Fault(GatewayError("rate_limited", retry_after_seconds=60)))
    error = await refusal(brains.create_bare(work, wanted()))
    assert (error.code, error.retry_after_seconds) == ("outcome_unknown", 60)
    assert work.ops.count(Op.WRITE_DOCUMENT) == 1


async def test_a_record_that_is_turned_away_again_and_again_is_given_up() -> None:
    work = bare().fails(Op.WRITE_DOCUMENT, *["rate_limited"] * 10)
    error = await refusal(brains.create_bare(work, wanted()))
    assert (error.code, error.retryable) == ("outcome_unknown", True)
    assert work.ops.count(Op.WRITE_DOCUMENT) == 4


@pytest.mark.parametrize("code", ["validation_error", "forbidden", "timeout", "rate_limited"])
async def test_a_refusal_is_told_as_it_is(code: str) -> None:
    work = bare().fails(Op.CREATE_BARE_BRAIN, code)
    assert (await refusal(brains.create_bare(work, wanted()))).code == code
    assert work.ops == [Op.CREATE_BARE_BRAIN]


async def test_names_that_were_kept_are_listed() -> None:
    listed = {"items": [{"id": "my-brain", "name": "my-brain", "visibility": "private"}], "total": 1}
    work = bare()
    work.answers[Op.LIST_BRAINS] = lambda _args: listed
    plain = await brains.list_named(work, {})
    assert plain == {"items": [{**listed["items"][0], "visibility_enforced": False}], "total": 1}  # type: ignore[index]
    await brains.create_bare(work, wanted(visibility="public"))
    (named,) = (await brains.list_named(work, {}))["items"]
    assert (named["id"], named["name"], named["visibility"]) == ("my-brain", "My Brain", "public")


@pytest.mark.parametrize("record", [b"", b"[]", b"{", b'{"name": 3, "visibility": null}'])
async def test_a_record_that_says_nothing_leaves_the_list_as_it_is(record: bytes) -> None:
    work = bare()
    work.answers[Op.LIST_BRAINS] = lambda _args: {"items": [{"id": "b", "name": "b", "visibility": "private"}]}
    work.files[RECORD] = record
    (named,) = (await brains.list_named(work, {}))["items"]
    assert (named["name"], named["visibility"]) == ("b", "private")


# By a platform that keeps names.


def naming() -> InMemory:
    """Keeps names, lists them two to a page, and takes no slug twice."""
    made: list[JsonObject] = [{"id": f"brn_{n}", "slug": f"b{n}", "name": "B", "visibility": "private"} for n in (1, 2)]

    def create(args: Args) -> JsonObject:
        if any(brain["slug"] == args["slug"] for brain in made):
            raise GatewayError("conflict")
        made.append({"id": f"brn_{len(made) + 1}", **{key: args[key] for key in ("slug", "name", "visibility")}})
        return made[-1]

    def listed(args: Args) -> JsonObject:
        start = int(args["cursor"] or 0)
        return {"items": made[start : start + 2], "next_cursor": str(start + 2) if start + 2 < len(made) else None}

    return InMemory(answers={Op.CREATE_BRAIN: create, Op.LIST_NAMED_BRAINS: listed})


@pytest.mark.parametrize("derived", [True, False])
async def test_a_brain_that_is_listed_as_wanted_is_the_same_brain(derived: bool) -> None:
    work = naming()
    first = await brains.create_named(work, wanted(derived=derived))
    assert "reused" not in first
    assert await brains.create_named(work, wanted(derived=derived)) == {**first, "reused": True}


@pytest.mark.parametrize("other", [{"name": "my brain"}, {"visibility": "public"}])
@pytest.mark.parametrize(("derived", "says"), [(True, "Choose another name, or a slug"), (False, "another slug")])
async def test_a_brain_that_is_listed_otherwise_is_a_conflict(other: dict[str, Any], derived: bool, says: str) -> None:
    work = naming()
    await brains.create_named(work, wanted())
    error = await refusal(brains.create_named(work, wanted(derived=derived, **other)))
    assert (error.code, error.retryable) == ("conflict", False)
    assert says in error.message


async def test_a_named_brain_whose_answer_was_lost_is_found_on_whichever_page_it_is() -> None:
    work = naming().fails(Op.CREATE_BRAIN, lost(done=True))
    assert (await brains.create_named(work, wanted()))["id"] == "brn_3"
    assert work.ops == [Op.CREATE_BRAIN, Op.LIST_NAMED_BRAINS, Op.LIST_NAMED_BRAINS]


async def test_a_named_brain_that_was_not_made_is_asked_for_once_more() -> None:
    work = naming().fails(Op.CREATE_BRAIN, lost(done=False))
    assert (await brains.create_named(work, wanted()))["id"] == "brn_3"
    assert work.ops.count(Op.CREATE_BRAIN) == 2


async def test_a_list_that_cannot_be_had_leaves_a_conflict_in_doubt() -> None:
    work = naming()
    await brains.create_named(work, wanted())
    work.fails(Op.LIST_NAMED_BRAINS, "timeout", "timeout")
    error = await refusal(brains.create_named(work, wanted()))
    assert (error.code, error.retryable) == ("outcome_unknown", True)


async def test_a_list_without_end_is_not_read_to_its_end() -> None:
    work = naming()
    await brains.create_named(work, wanted())
    work.answers[Op.LIST_NAMED_BRAINS] = lambda _args: {"items": [None, {"slug": "x"}], "next_cursor": "again"}
    assert (await refusal(brains.create_named(work, wanted()))).code == "conflict"
    assert work.ops.count(Op.LIST_NAMED_BRAINS) == 20
