"""Creating a brain where the platform keeps its id alone."""

import json
from typing import Any

import pytest

from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.steps import brains
from tests.gateway.steps.inmemory import Fault, InMemory, lost, refusal

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


async def test_a_slug_that_was_chosen_is_never_reused() -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    assert (await refusal(brains.create_bare(work, wanted(derived=False)))).code == "conflict"


@pytest.mark.parametrize("record", [None, b"", b"{", b"null", b"[]", b'"x"', b"\xff", b"{}", b"[" * 100_000])
async def test_a_brain_that_somebody_else_made_is_a_conflict(record: bytes | None) -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.files = {} if record is None else {RECORD: record}
    assert (await refusal(brains.create_bare(work, wanted()))).code == "conflict"
    assert work.files == ({} if record is None else {RECORD: record})


@pytest.mark.parametrize("look", ["no_brain", "forbidden", "timeout", Fault(Absent())], ids=str)
async def test_a_brain_that_cannot_be_looked_into_is_a_conflict(look: Fault | str) -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.fails(Op.READ_DOCUMENT, look)
    assert (await refusal(brains.create_bare(work, wanted()))).code == "conflict"


async def test_a_creation_whose_answer_was_lost_is_not_known_without_a_record() -> None:
    work = bare().fails(Op.CREATE_BARE_BRAIN, lost(done=True))
    assert (await refusal(brains.create_bare(work, wanted()))).code == "outcome_unknown"
    assert RECORD not in work.files


async def test_a_creation_whose_answer_was_lost_on_a_brain_of_ours_is_that_brain() -> None:
    work = bare()
    await brains.create_bare(work, wanted())
    work.fails(Op.CREATE_BARE_BRAIN, lost(done=False))
    assert (await brains.create_bare(work, wanted()))["reused"] is True


@pytest.mark.parametrize("fault", ["timeout", "forbidden", lost(done=True), Fault(Absent())], ids=str)
async def test_a_record_that_cannot_be_kept_does_not_undo_the_brain(fault: Fault | str) -> None:
    work = bare().fails(Op.WRITE_DOCUMENT, fault)
    assert (await brains.create_bare(work, wanted()))["name"] == "My Brain"


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
