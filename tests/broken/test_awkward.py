"""Awkward servers come to no harm, and are told of one cause once."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from contract import case, cleaning
from contract.command import main
from contract.mcp_target import McpTarget
from contract.outcome import Result, Run, Unchecked
from contract.pipe import PipeSession
from contract.report import Report
from contract.rpc import HttpSession
from contract.runner import run_calls
from tests.broken import awkward
from tests.broken.calls import Act, BrokenSession, answers
from tests.contract.servers import check_calls, check_command, stdio_command
from tests.contract.targets import reference_app
from tests.contract.test_call_cases import new_brain
from tests.served import Served, listening, serving

pytestmark = pytest.mark.not_quick
# Enough of each kind: what writes, what needs a brain of its own, what needs a model.
SOME = case.selected(
    case.load_calls(),
    ["mcp/memory/remember", "mcp/memory/create_brain", "mcp/memory/ask", "mcp/memory/consolidate", "mcp/memory/search"],
    ["sizes"],
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        reference_app(token=None) as app,
        listening(app) as platform,
        serving(tmp_path_factory.mktemp("data"), None, upstream_url=platform) as served,
    ):
        asyncio.run(new_brain(served, "The owner's"))
        yield served


def checked(gateway: Served, act: Act, cases: list[Any] = SOME, **more: Any) -> Run[Any]:
    return check_calls(f"{gateway.url}/mcp", cases, broken=lambda session: BrokenSession(session, act), **more)


Way: TypeAlias = Callable[..., Run[Any]]
SLOW_WAYS = [pytest.param(way, marks=pytest.mark.slow) for way in ("stdio", "HTTP without the direct path")]


@pytest.fixture(params=["HTTP", *SLOW_WAYS])
def by_each_way(request: pytest.FixtureRequest, gateway: Served, tmp_path: Path) -> Iterator[Way]:
    """The same run by every way in."""
    if request.param == "HTTP":
        yield partial(checked, gateway)
    elif request.param == "stdio":
        yield partial(checked_command, stdio_command(gateway, "memory"))
    else:
        with serving(tmp_path, None, upstream_url=gateway.upstream_url, direct="off") as other:
            yield partial(checked, other)


def checked_command(command: str, act: Act, cases: list[Any] = SOME, **more: Any) -> Run[Any]:
    return check_command(command, cases, broken=lambda session: BrokenSession(session, act), **more)


def holdings(gateway: Served) -> dict[str, list[str]]:
    """The paths in every brain that no run made."""
    with httpx.Client(base_url=gateway.upstream_url or "", trust_env=False) as client:
        brains = [one for one in client.get("/v1/brains").json()["items"] if not one["slug"].startswith("contract-")]
        query = {"recursive": "true", "include_generated": "true"}
        listed = {one["slug"]: client.get(f"/v1/brains/{one['id']}/documents", params=query).json() for one in brains}
    return {slug: sorted(one["path"] for one in told["items"]) for slug, told in listed.items()}


STOPPED = {
    "schemas without properties": (awkward.SCHEMAS_SAY_NOTHING, "does not show how to name a brain: the schema of"),
    "no tool to make a brain": (awkward.NO_CREATE, "has no memory_create_brain, so the run has no brain of its own"),
    "brains are ignored": (awkward.IGNORES_BRAIN, "seems to ignore which brain is named: memory_search in a brain"),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_run_stops_before_the_first_write_where_it_cannot_say_which_brain_is_meant(
    gateway: Served, by_each_way: Way, name: str
) -> None:
    act, sentence = STOPPED[name]
    before = holdings(gateway)
    with pytest.raises(Unchecked, match=f"nothing was written, because .* {sentence}") as told:
        by_each_way(act)
    assert "--anywhere" in str(told.value)
    assert holdings(gateway) == before


def test_a_vocabulary_without_brains_is_not_written_to_unasked(gateway: Served) -> None:
    before = holdings(gateway)
    with pytest.raises(Unchecked, match="has tools that name no brain"):
        check_calls(f"{gateway.url}/kv/mcp", case.load_calls(), anywhere=False)
    assert holdings(gateway) == before
    reading = case.selected(case.load_calls(), ["mcp/kv/*/definition"])
    assert {one.outcome for one in check_calls(f"{gateway.url}/kv/mcp", reading, anywhere=False).results} == {"passed"}


def test_a_brain_that_is_given_is_named_in_every_call_and_no_other_is_made(gateway: Served) -> None:
    given = asyncio.run(new_brain(gateway, "Given"))
    before = holdings(gateway)
    with httpx.Client(base_url=gateway.upstream_url or "", trust_env=False) as client:
        brains = len(client.get("/v1/brains").json()["items"])
        done = checked(gateway, awkward.SCHEMAS_SAY_NOTHING, brain=given)
        assert len(client.get("/v1/brains").json()["items"]) == brains
    after = holdings(gateway)
    assert {slug: paths for slug, paths in after.items() if slug != "given"} == {
        slug: paths for slug, paths in before.items() if slug != "given"
    }
    assert len(after["given"]) > len(before["given"])
    assert f"writes left in your brain {given}" in done.target.leftovers[0]
    assert any("says to make none" in one.why for one in done.results if one.outcome == "not tested")


def test_what_a_run_makes_has_its_name(gateway: Served, by_each_way: Way) -> None:
    before = holdings(gateway)
    done = by_each_way(awkward.both())
    assert holdings(gateway) == before
    assert [name for name in done.target.left if not name.startswith(f"contract-{done.target.run}-")] == []
    assert f"Left behind: {len(done.target.left)} brains" in Report(done).text()


def test_a_whole_run_makes_no_more_brains_than_its_cases_need(gateway: Served) -> None:
    every = case.selected(case.load_calls(), ["mcp/memory"], ["sizes"])
    done = checked(gateway, awkward.both(), every)
    made = [name.removeprefix(f"contract-{done.target.run}-") for name in done.target.left]
    # For the run, for what would disturb it, and what is made to be looked at: each is named by its purpose.
    assert len(made) <= 8, made


def test_a_slow_server_is_judged_like_any_other(gateway: Served, by_each_way: Way) -> None:
    before = holdings(gateway)
    some = case.selected(SOME, ["mcp/memory/create_brain", "mcp/memory/search"])
    assert Report(by_each_way(awkward.is_slow(), some)).findings == []
    assert holdings(gateway) == before


# One that dies counts its calls, so each run has its own.
CAUSES: dict[str, tuple[Callable[[], Act], str, int]] = {
    "no brain can be made": (
        lambda: awkward.CREATE_FAILS,
        "memory_create_brain fails: internal_error: the disk of brain",
        1,
    ),
    "nothing can be remembered": (
        lambda: awkward.REMEMBER_FAILS,
        "memory_remember fails: internal_error: the store is",
        1,
    ),
    "it dies in the middle": (lambda: awkward.dies_after(20), "no answer: the command ended with status 137", 1),
    "it hangs": (awkward.hangs, "nothing was written, because memory_search of", 0),
}


@pytest.mark.parametrize("name", CAUSES)
def test_one_cause_is_one_finding(gateway: Served, by_each_way: Way, name: str) -> None:
    make, title, findings = CAUSES[name]
    act = make()
    before = holdings(gateway)
    if not findings:
        with pytest.raises(Unchecked, match=title):
            by_each_way(act)
        assert holdings(gateway) == before
        return
    made = Report(by_each_way(act))
    assert holdings(gateway) == before
    assert [one.title.startswith(title) for one in made.findings] == [True] * findings
    assert len(made.findings[0].blocked) > 10
    assert len(made.text().splitlines()) < 40
    assert not made.holds


def test_a_tool_that_hangs_is_told_once_and_the_others_are_still_tried(gateway: Served) -> None:
    done = checked(gateway, awkward.never_answers("memory_ask"))
    (finding,) = Report(done).findings
    assert finding.title == "no answer: there was no answer within 30 seconds"
    assert {one.case.id.split("/")[2] for one in finding.results} == {"ask"}
    assert finding.blocked != []
    others = [one for one in done.results if not one.case.id.startswith("mcp/memory/ask/")]
    assert {one.outcome for one in others} - {"passed"} <= {"not tested"}
    assert [one for one in others if one.is_wrong] == []


def test_no_model_is_no_failure(by_each_way: Way) -> None:
    made = Report(by_each_way(awkward.NO_MODEL))
    assert made.findings == []
    assert made.holds
    (why,) = (why for why in made.untested() if "model" in why)
    assert why == "the server has no model: provider_error: no LLM provider configured"
    assert made.run.target.capabilities["model"].startswith("none: ")


def test_a_tool_that_is_not_listed_is_not_supported(gateway: Served) -> None:
    made = Report(checked(gateway, awkward.NO_ASK))
    assert [one.case.id for one in made.failed] == ["mcp/memory/ask/definition"]
    gaps = [one for one in made.run.results if one.outcome == "not supported"]
    assert {one.why for one in gaps} == {"the server has no tool memory_ask"}


DELETE_NOTHING = {"kv": "jettson_memory_delete", "team": "memory_forget"}


@pytest.mark.parametrize("surface", DELETE_NOTHING)
def test_a_server_that_deletes_nothing_fails_its_definition_alone_and_what_stays_is_counted(
    gateway: Served, surface: str
) -> None:
    tool = DELETE_NOTHING[surface]
    given = asyncio.run(new_brain(gateway, f"For {surface}"))
    before = holdings(gateway)
    done = check_calls(
        f"{gateway.url}/{surface}/mcp/{given}",
        case.load_calls(),
        anywhere=True,
        broken=lambda session: BrokenSession(session, awkward.offers_no(tool)),
    )
    after = holdings(gateway)
    changed = {slug for slug in after if after[slug] != before[slug]}
    # What the team tools write, each case forgets: without that tool, they write nothing.
    assert changed == ({"for-kv"} if surface == "kv" else set())
    short = tool.removeprefix("jettson_memory_").removeprefix("memory_")
    made = Report(done)
    assert [one.case.id for one in made.failed] == [f"mcp/{surface}/{short}/definition"]
    assert {one.why for one in done.results if one.outcome == "not supported"} == {f"the server has no tool {tool}"}
    assert done.target.capabilities["tools"] == f"all but {tool}"
    assert f"Left behind: what {done.target.written} writes left in the brain that the server chose" in made.text()


@pytest.mark.slow
def test_a_command_that_is_killed_in_the_middle_is_one_finding(gateway: Served) -> None:
    before = holdings(gateway)
    session = PipeSession(stdio_command(gateway, "memory"))

    def tell(_result: Result, done: int, _total: int) -> None:
        if done == 20:
            assert session._process is not None
            os.killpg(session._process.pid, signal.SIGKILL)

    async def run_until_it_dies() -> Run[McpTarget]:
        return await run_calls(McpTarget("gateway", session), SOME, tell=tell)

    made = Report(asyncio.run(run_until_it_dies()))
    (finding,) = made.findings
    assert finding.title.startswith("no answer: the command ended with status -9")
    assert len(finding.blocked) > 10
    assert holdings(gateway) == before


def test_a_schema_is_judged_by_what_it_does_and_a_number_by_its_value(gateway: Served) -> None:
    act = awkward.both(awkward.SPELLED_OTHERWISE, answers("memory_ask", awkward.progress_in_floats))
    cases = case.selected(case.load_calls(), ["mcp/memory/*/definition", "mcp/memory/ask/progress*"])
    done = checked(gateway, act, cases)
    assert {
        one.case.id: one.failure for one in done.results if one.outcome == "failed" and "ingest_file" not in one.case.id
    } == {}


def test_a_brain_that_is_made_without_an_id_is_told(gateway: Served) -> None:
    (first, *_) = Report(checked(gateway, awkward.MAKES_NOTHING)).findings
    assert first.title.startswith("memory_create_brain fails: it tells no id") or first.failed


def cleaned(gateway: Served, act: Act, **more: Any) -> tuple[list[str], list[str]]:
    """What cleaning by the tools says, and what it leaves."""

    async def clean() -> tuple[list[str], list[str]]:
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            target = McpTarget("it", BrokenSession(HttpSession(f"{gateway.url}/mcp", client, {}, None), act))
            return await cleaning.clean_calls(target, more.get("run"), for_real=True), target.left

    return asyncio.run(clean())


def test_what_a_run_left_goes_by_a_tool_if_there_is_one_and_is_named_if_not(
    gateway: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    before = holdings(gateway)
    few = case.selected(SOME, ["mcp/memory/create_brain/is-listed"])
    done = checked(gateway, awkward.both(), few)
    assert main(["clean", "--mcp", f"{gateway.url}/mcp", "--run", done.target.run, "--dry-run"]) == 0
    assert "would stay, because no tool of" in capsys.readouterr().out
    assert main(["clean", "--mcp", f"{gateway.url}/mcp", "--run", done.target.run]) == 1
    told, left = cleaned(gateway, awkward.both(), run=done.target.run)
    assert sorted(left) == sorted(done.target.left) != []
    assert all(name in told[0] for name in left)
    assert "contract clean --http URL" in told[1]
    told, left = cleaned(gateway, awkward.deletes_brains(str(gateway.upstream_url)), run=done.target.run)
    assert (told, left) == (["1 brain deleted."], [])
    assert main(["clean", "--mcp", f"{gateway.url}/mcp", "--run", done.target.run]) == 0
    assert holdings(gateway) == before
    assert main(["clean", "--mcp", f"{gateway.url}/mcp", "--anywhere"]) == 2


def test_the_platform_is_clean_after_the_command(gateway: Served) -> None:
    """Last in this file: all that the runs above left is deleted, and nothing else."""
    before = holdings(gateway)
    assert main(["clean", "--http", str(gateway.upstream_url)]) == 0
    with httpx.Client(base_url=gateway.upstream_url or "", trust_env=False) as client:
        left = [one["slug"] for one in client.get("/v1/brains").json()["items"]]
    assert [slug for slug in left if slug.startswith("contract-")] == []
    assert holdings(gateway) == before
