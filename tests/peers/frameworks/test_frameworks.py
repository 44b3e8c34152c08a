"""Agent frameworks of others, whose models read nothing but text: what they send, and what their models are told."""

from collections.abc import Iterator

import pytest

from tests.peers.frameworks.catalog import ALWAYS, NIGHTLY
from tests.peers.frameworks.conversation import END, MEMORIES, SEARCHES
from tests.peers.frameworks.run import TIMEOUT, Run, run
from tests.peers.frameworks.shapes import Json
from tests.test_pins import PIN, SERVED

pytestmark = pytest.mark.timeout(TIMEOUT + 60)
# Formats that OpenAI takes in a strict tool. One other makes it refuse the whole request.
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


EVERY = [*ALWAYS, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)]


@pytest.fixture(scope="module", params=EVERY)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run((ALWAYS | NIGHTLY)[request.param], tmp_path_factory.mktemp(request.param))


def missing(told: str) -> list[int]:
    """The memories that are not there as a whole."""
    return [number for number, memory in enumerate(MEMORIES) if memory not in told]


def found(told: str) -> bool:
    """Whether the beginning of a memory is there."""
    return any(memory[:100] in told for memory in MEMORIES)


def schemas(value: object) -> Iterator[Json]:
    """Every object in a piece of JSON."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from schemas(each)


def assert_all_offered(seen: Run) -> None:
    offered = seen.asked[0].offered
    assert [tool["name"] for tool in PIN if not any(name.endswith(tool["name"]) for name in offered)] == []


def test_the_model_is_offered_every_tool_and_speaks_to_the_end(seen: Run) -> None:
    assert_all_offered(seen)
    assert len(seen.asked) == len(seen.turns)
    assert END in seen.said


def test_what_the_model_remembers_is_stored_as_it_was_written(seen: Run) -> None:
    assert seen.sent("remember")["content"] == MEMORIES[9]
    assert "memory/global/otter-9" in seen.told("remember")


def test_the_model_reads_the_whole_of_ten_memories(seen: Run) -> None:
    assert missing(seen.told("plain")) == []


@pytest.mark.parametrize("turn", list(SEARCHES))
def test_an_argument_that_is_null_or_empty_is_as_good_as_none(seen: Run, turn: str) -> None:
    """What the framework refuses by itself never reaches the gateway."""
    assert len(seen.calls) == len(seen.turns) - 1 - len(seen.framework.refuses)
    assert turn in seen.framework.refuses or found(seen.told(turn))


@pytest.mark.parametrize("seen", ["openai_agents", pytest.param("crewai", marks=pytest.mark.nightly)], indirect=True)
def test_a_tool_that_is_offered_as_strict_is_what_openai_takes(seen: Run) -> None:
    strict = [tool["parameters"] for tool in seen.asked[0].offered.values() if tool.get("strict")]
    assert len(strict) == len(SERVED["memory"])
    nested = list(schemas(strict))
    assert {each["format"] for each in nested if isinstance(each.get("format"), str)} - STRICT_FORMATS == set()
    objects = [each for each in nested if each.get("type") == "object"]
    assert [each for each in objects if set(each["required"]) != set(each["properties"])] == []


@pytest.mark.parametrize("seen", [pytest.param("gemini_cli", marks=pytest.mark.nightly)], indirect=True)
def test_the_argument_that_gemini_cli_adds_to_every_tool_is_no_mistake(seen: Run) -> None:
    (search,) = (tool for name, tool in seen.asked[0].offered.items() if name.endswith("memory_search"))
    assert "wait_for_previous" in search["parametersJsonSchema"]["properties"]
    assert seen.sent("added")["wait_for_previous"] is True
    assert found(seen.told("added"))


@pytest.mark.parametrize("name", EVERY)
def test_a_gateway_that_the_framework_starts_itself_serves_its_model_as_well(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen = run((ALWAYS | NIGHTLY)[name], tmp_path_factory.mktemp(name), stdio=True)
    assert seen.calls == []
    assert_all_offered(seen)
    assert END in seen.said
    assert found(seen.told("plain"))
