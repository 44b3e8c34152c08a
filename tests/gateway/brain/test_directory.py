"""Which brain a call means, and for how long that is remembered."""

from typing import Any

import pytest

from gateway.brain.directory import Directory, Known
from gateway.operations import names
from gateway.operations.caller import Call, Caller
from gateway.operations.errors import GatewayError
from gateway.operations.table import Args, JsonObject

MAIN, DESK = {"id": "brn_1", "slug": "main"}, {"id": "brn_2", "slug": "desk"}
UUID = names.brain_uuid("brn_1")
CALLED_SO = {"id": "brn_3", "slug": UUID}


class Platform:
    """Lists brains, and counts how often it was asked."""

    def __init__(self, *brains: JsonObject) -> None:
        self.brains, self.asked, self.now = list(brains), 0, 0.0

    async def list(self, _call: Call, _args: Args) -> JsonObject:
        self.asked += 1
        return {"items": self.brains}

    def directory(self, default: str | None = None) -> Directory:
        return Directory(self.list, default=default, clock=lambda: self.now)


def call(subject: str = "local", **caller: Any) -> Call:
    return Call(Caller(subject, **caller))


async def code_of(directory: Directory, who: Call, brain: str | None = None) -> str:
    with pytest.raises(GatewayError) as caught:
        await directory.resolve(who, brain)
    return caught.value.code


@pytest.mark.parametrize(
    ("argument", "preferred", "default", "expected"),
    [
        ("asked", "header", "configured", "asked"),
        (None, "header", "configured", "header"),
        (None, None, "configured", "configured"),
        (None, None, None, "brn_1"),
        (None, "", None, "brn_1"),
    ],
)
async def test_the_nearest_name_wins(
    argument: str | None, preferred: str | None, default: str | None, expected: str
) -> None:
    who = call(preferred=preferred)
    assert await Platform(MAIN, DESK).directory(default).resolve(who, argument) == expected
    assert who.brain == expected


async def test_of_several_brains_the_first_is_named() -> None:
    who = call()
    await Platform(MAIN, DESK).directory().resolve(who, None)
    assert who.brain_note == "brain: main (the first of 2; pass `brain` to choose another)"
    alone = call()
    await Platform(MAIN).directory().resolve(alone, None)
    assert alone.brain_note is None


@pytest.mark.parametrize("brain", ["../x", "", "a/b", ".."])
async def test_a_name_that_is_no_id_is_refused_wherever_it_comes_from(brain: str) -> None:
    directory = Platform(MAIN).directory()
    assert await code_of(directory, call(), brain) == "validation_error"
    assert await code_of(directory, call(ceiling=brain)) == "validation_error"
    if brain:
        assert await code_of(directory, call(preferred=brain)) == "validation_error"


@pytest.mark.parametrize(
    ("argument", "outcome"), [(None, "desk"), ("desk", "desk"), ("brn_2", "desk"), ("main", None), ("brn_1", None)]
)
async def test_below_a_ceiling_there_is_no_other_brain(argument: str | None, outcome: str | None) -> None:
    directory, who = Platform(MAIN, DESK).directory("main"), call(ceiling="desk", preferred="main")
    if outcome is None:
        assert await code_of(directory, who, argument) == "forbidden"
    else:
        assert await directory.resolve(who, argument) == outcome


async def test_below_a_ceiling_one_brain_is_listed() -> None:
    directory = Platform(MAIN, DESK).directory()
    assert (await directory.listing(call(ceiling="desk")))["items"] == [DESK]
    with pytest.raises(GatewayError, match="no_brain"):
        await directory.listing(call(ceiling="other"))


async def test_what_is_seen_below_a_ceiling_is_no_list_for_anybody_else() -> None:
    """Else a call without a brain, right after, would be served by that brain instead of the first."""
    directory = Platform(MAIN, DESK).directory()
    assert await directory.resolve(call(ceiling="desk"), "brn_2") == "desk"
    assert await directory.resolve(call(), None) == "brn_1"


async def test_what_all_see_is_no_list_below_a_ceiling() -> None:
    directory = Platform(MAIN, DESK).directory()
    await directory.resolve(call(), None)
    assert await code_of(directory, call(ceiling="desk"), "main") == "forbidden"


async def test_a_list_is_kept_half_a_minute_for_each_caller() -> None:
    platform = Platform(MAIN)
    directory = platform.directory()
    for seconds, asked in ((0, 1), (29, 1), (31, 2)):
        platform.now = seconds
        await directory.resolve(call(), None)
        assert platform.asked == asked
    await directory.resolve(call("somebody else"), None)
    assert platform.asked == 3


async def test_a_list_that_is_forgotten_is_asked_for_again() -> None:
    platform = Platform(MAIN)
    directory = platform.directory()
    await directory.resolve(call(), None)
    await directory.resolve(call("other"), None)
    directory.forget(call())
    await directory.resolve(call("other"), None)
    assert platform.asked == 2
    await directory.resolve(call(), None)
    assert platform.asked == 3


async def test_lists_of_many_callers_do_not_pile_up() -> None:
    platform = Platform(MAIN)
    directory = platform.directory()
    for n in range(1500):
        await directory.resolve(call(f"caller {n}"), None)
    assert len(directory._kept) <= 1000


@pytest.mark.parametrize(
    ("brain", "ref", "expected"),
    [
        (DESK, "desk", "brn_2"),
        (DESK, "brn_2", None),
        ({"id": "desk", "slug": "desk"}, "desk", None),
        ({"slug": "desk"}, "desk", None),
        ({"id": None, "slug": "desk"}, "desk", None),
        (DESK, "other", None),
    ],
)
async def test_the_id_behind_a_slug(brain: JsonObject, ref: str, expected: str | None) -> None:
    assert await Platform(MAIN, brain).directory().id_of(call(), ref) == expected


async def test_an_id_that_is_not_safe_in_a_url_is_refused() -> None:
    with pytest.raises(GatewayError, match="validation_error"):
        await Platform({"id": "../x", "slug": "desk"}).directory().id_of(call(), "desk")


async def test_a_brain_without_a_name_is_nobodys_first_brain() -> None:
    assert await code_of(Platform({"title": "x"}).directory(), call()) == "upstream_error"
    assert await Platform({"slug": "desk"}).directory().resolve(call(), None) == "desk"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"brain_id": "desk"},
        {"brain_id": "brn_2"},
        {"brain_id": None, "hits": None},
        {"hits": [{"brain_id": "brn_2"}, {"brain_id": "desk"}, {}, "odd"]},
        {"hits": [{"brainId": "brn_2", "brain": {"id": "brn_2", "slug": "desk", "name": "x"}}]},
        {"brain": "Desk", "result": {"notes": [[{"brain_slug": "desk"}]]}},
        # What callers gave says nothing of where it lies.
        {"hits": [{"metadata": {"brain": "left", "brain_id": "brn_1"}, "content": "brain_id: brn_1"}]},
        {"hits": [{"front_matter": {"brain": "left"}}]},
    ],
)
async def test_an_answer_for_the_brain_that_was_asked_passes(answer: JsonObject) -> None:
    platform = Platform(MAIN, {**DESK, "name": "Desk"})
    directory = platform.directory()
    for _ in range(2):
        await directory.check(call(), "desk", answer)
    assert platform.asked <= 1


SPELLINGS = ("brain_id", "brainId", "brainID", "BrainId", "BrainID", "brainid", "brain-id", "BRAIN_ID")
OTHERS: list[JsonObject] = [
    {"brain_id": "brn_1"},
    {"hits": [{"brain_id": "desk"}, {"brain_id": "other"}]},
    *({"hits": [{spelling: "brn_1"}]} for spelling in (*SPELLINGS, "brain", "Brain", "brain_slug", "brainSlug")),
    {"hits": [{"brain": {"id": "brn_1"}}]},
    {"hits": [{"brain": {"id": "brn_2", "slug": "main"}}]},
    {"hits": [{"document": {"brainId": "brn_1"}}]},
    {"result": {"memories": [[{"source": {"brain": "main"}}]]}},
    {"memories": [{"brainId": 7}]},
]


@pytest.mark.parametrize("answer", OTHERS, ids=str)
async def test_an_answer_for_another_brain_does_not_pass(answer: JsonObject) -> None:
    with pytest.raises(GatewayError, match="upstream_error"):
        await Platform(MAIN, DESK).directory().check(call(), "desk", answer)


async def test_more_brains_than_can_be_kept_are_an_error() -> None:
    async def page(_call: Call, _args: Args) -> JsonObject:
        return {"items": [{"id": "a"}] * 1000, "next_cursor": "more"}

    with pytest.raises(GatewayError, match="more brains"):
        await Directory(page).listing(call())


@pytest.mark.parametrize("ref", ["brn_2", "desk"])
async def test_a_brain_is_known_by_its_id_and_slug_and_asked_for_once(ref: str) -> None:
    platform = Platform(MAIN, DESK)
    directory, who = platform.directory(), call(ceiling=ref)
    assert await directory.known(who, ref) == Known("brn_2", "desk")
    platform.now = 3600.0
    assert await directory.known(who, ref) == Known("brn_2", "desk")
    assert platform.asked == 1
    # What one caller may see says nothing of another.
    platform.brains = []
    assert await directory.known(call("else"), ref) == Known(ref, ref)


async def test_a_brain_that_cannot_be_looked_up_is_called_as_it_was_named() -> None:
    async def refused(_call: Call, _args: Args) -> JsonObject:
        raise GatewayError("forbidden")

    assert await Directory(refused).known(call(), "desk") == Known("desk", "desk")
    # One that comes later is found then.
    platform = Platform(MAIN)
    directory = platform.directory()
    assert await directory.known(call(), "desk") == Known("desk", "desk")
    platform.brains, platform.now = [MAIN, DESK], 3600.0
    assert await directory.known(call(), "desk") == Known("brn_2", "desk")


@pytest.mark.parametrize("brains", [[MAIN, CALLED_SO], [CALLED_SO, MAIN]], ids=["before", "after"])
async def test_nobody_takes_over_a_uuid_by_calling_a_brain_so(brains: list[JsonObject]) -> None:
    directory, bound = Platform(*brains).directory(), call(ceiling=UUID)
    assert await directory.resolve(call(), UUID) == "brn_1"
    assert await directory.known(call(), UUID) == Known("brn_1", "main")
    assert (await directory.listing(bound))["items"] == [MAIN]
    assert await directory.resolve(bound, "main") == "brn_1"
    assert await code_of(directory, bound, "brn_3") == "forbidden"
    assert await code_of(directory, call(ceiling="brn_3"), UUID) == "forbidden"


@pytest.mark.parametrize("who", [call(), call(ceiling=UUID), call(preferred=UUID)], ids=["argument", "URL", "header"])
async def test_the_uuid_of_a_brain_that_is_gone_names_none(who: Call) -> None:
    directory = Platform(DESK, CALLED_SO).directory()
    assert await code_of(directory, who, UUID) == "no_brain"
    assert await directory.id_of(call(), UUID) is None
    assert await directory.known(call(), UUID) == Known(UUID, UUID)
    assert await directory.resolve(call(), "brn_3") == "brn_3"


async def test_a_uuid_that_is_the_id_of_a_brain_names_that_brain() -> None:
    assert await Platform(MAIN, {"id": UUID, "slug": "x"}).directory().resolve(call(), UUID) == "brn_1"
    assert await Platform(DESK, {"id": UUID, "slug": "x"}).directory().resolve(call(), UUID) == UUID


async def test_the_uuid_of_a_brain_that_is_newer_than_the_list_is_found() -> None:
    platform = Platform(DESK)
    directory = platform.directory()
    await directory.resolve(call(), None)
    platform.brains = [DESK, MAIN]
    assert await directory.resolve(call(), UUID) == "brn_1"


async def test_a_default_that_is_a_uuid_is_chosen_by_the_id_of_its_brain_or_said_to_be_missing() -> None:
    assert (await Platform(MAIN).directory(UUID).choice(call(), None))[0] == "brn_1"
    with pytest.raises(GatewayError, match=f"There is no brain {UUID}, the default of this gateway"):
        await Platform(DESK).directory(UUID).resolve(call(), None)


async def test_where_brains_have_no_ids_a_uuid_is_derived_from_the_slug() -> None:
    assert await Platform({"slug": "desk"}).directory().resolve(call(), names.brain_uuid("desk")) == "desk"
