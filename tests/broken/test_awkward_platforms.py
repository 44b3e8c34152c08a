"""Awkward platforms, over HTTP: a run harms nothing that belongs to the owner, and the card tells the truth."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from contract import case
from contract.command import main
from contract.outcome import Result, Run, Unchecked
from contract.report import Report
from contract.runner import run
from contract.targets import HttpTarget, client_for
from tests.broken.wrapping import Act, Asked, Forward, Said, answers, asks, on, problem, refuses, said, wrapped
from tests.contract.platform.serving import served
from tests.contract.targets import TOKEN, check, failures, reference_app
from tests.daemons.real import free_port

pytestmark = pytest.mark.not_quick
SOME = case.selected(
    case.load(),
    ["http/documents", "http/brains", "http/ask", "http/batch", "http/stages/derive*"],
    # The awkward platforms read queries before they pass them on, and one case sends a query that cannot be read.
    ["sizes", "http/documents/read-at-no-text"],
)
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def platform() -> Iterator[ASGIApp]:
    with reference_app() as app:
        yield app


@pytest.fixture(scope="module")
def plain(platform: ASGIApp) -> Iterator[str]:
    """The platform itself, without what makes it awkward. Its owner has a brain on it."""
    with served(platform) as url:
        with owner(url) as client:
            brain = client.post("/v1/brains", json={"name": "The owner's", "slug": "owner"}).json()["id"]
            query = {"path": "plans/garden.md"}
            client.put(f"/v1/brains/{brain}/documents", params=query, content="# Garden\n\nRoses.").raise_for_status()
        yield url


def owner(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers=HEADERS, trust_env=False)


def holdings(url: str) -> dict[str, list[str]]:
    """The paths in every brain that was not made by a run."""
    with owner(url) as client:
        brains = [one for one in client.get("/v1/brains").json()["items"] if not one["slug"].startswith("contract-")]
        query = {"recursive": "true", "include_generated": "true"}
        listed = {one["slug"]: client.get(f"/v1/brains/{one['id']}/documents", params=query).json() for one in brains}
    return {slug: sorted(one["path"] for one in told["items"]) for slug, told in listed.items()}


def runs_left(url: str) -> list[str]:
    with owner(url) as client:
        return [one["slug"] for one in client.get("/v1/brains").json()["items"] if one["slug"].startswith("contract-")]


@contextmanager
def awkward(platform: ASGIApp, act: Act) -> Iterator[str]:
    with served(wrapped(platform, act)) as url:
        yield url


def checked(platform: ASGIApp, act: Act, cases: list[Any] = SOME) -> Run[HttpTarget]:
    with awkward(platform, act) as url:
        return check(url, cases)


def takes_every_brain(asked: Asked) -> Asked:
    """Send every request to the owner's brain, whichever brain it names."""
    return replace(asked, path=re.sub(r"^/v1/brains/[^/]+/", "/v1/brains/owner/", asked.path))


NO_CREATE = on("POST /v1/brains", lambda _asked, _forward: _answered(problem(404, "not_found", "no route")))
NO_DELETE = on("DELETE .*", lambda _asked, _forward: _answered(said(405)))
NO_LIST = on("GET {b}/documents", lambda _asked, _forward: _answered(problem(501, "not_implemented", "no list")))
NO_SEARCH = on("GET {b}/search", lambda _asked, _forward: _answered(problem(404, "not_found", "no route for it")))
EVERY_BRAIN_IS_ONE = asks("* {b}/.*", takes_every_brain)
NO_MODEL = on(
    "POST {b}/(ask|derive)",
    lambda _asked, _forward: _answered(problem(500, "provider_error", "no LLM provider configured")),
)


async def _answered(what: Said) -> Said:
    return what


async def _slowly(asked: Asked, forward: Forward) -> Said:
    await asyncio.sleep(0.02)
    return await forward(asked)


def test_a_platform_that_ignores_the_brain_is_written_no_document(platform: ASGIApp, plain: str) -> None:
    before = holdings(plain)
    with awkward(platform, EVERY_BRAIN_IS_ONE) as url:
        with pytest.raises(Unchecked, match=r"seems to ignore which brain is named: .* lists 1 documents") as told:
            check(url, SOME)
        assert "--brain NAME" in str(told.value)
    assert holdings(plain) == before
    # The run did not delete the brain that it made, because it could not know which brain would be deleted.
    assert len(runs_left(plain)) == 1
    assert main(["clean", "--http", plain, "--token", TOKEN]) == 0
    assert (runs_left(plain), holdings(plain)) == ([], before)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (EVERY_BRAIN_IS_ONE, r"brn_\w+ was just made, and a search in it finds 1"),
        (
            asks("* /v1/brains/contract-[^/]*/search", takes_every_brain),
            r"a search in contract-\w+-nowhere, a brain that does not exist, is answered as if it did",
        ),
    ],
    ids=["one brain for all", "one brain for unknown ones"],
)
def test_a_platform_that_cannot_list_and_ignores_the_brain_is_written_no_document(
    platform: ASGIApp, plain: str, act: Act, why: str
) -> None:
    before = holdings(plain)
    with awkward(wrapped(platform, act), NO_LIST) as url, pytest.raises(Unchecked, match=why) as told:
        check(url, SOME)
    assert "seems to ignore which brain is named" in str(told.value)
    assert "Give --brain NAME if what the run writes may go there" in str(told.value)
    assert holdings(plain) == before
    assert len(runs_left(plain)) == 1
    assert main(["clean", "--http", plain, "--token", TOKEN]) == 0


def test_a_platform_that_shows_nothing_of_its_brains_is_written_no_document(platform: ASGIApp, plain: str) -> None:
    """Neither a list nor a search: this one ignores the brain, and nobody can see that."""
    before = holdings(plain)
    with awkward(wrapped(wrapped(platform, EVERY_BRAIN_IS_ONE), NO_LIST), NO_SEARCH) as url:
        made = Report(check(url, SOME))
    (first,) = (one for one in made.findings if one.title.startswith("no document was written"))
    assert len(first.blocked) > 50
    assert "Give --brain NAME if what the run writes may go there" in " ".join(made.text().split())
    assert holdings(plain) == before
    # The first brain stays, because nobody knows which one would be deleted; those of the cases of brains go.
    assert [name.split("-")[2] for name in runs_left(plain)] == ["shared"]
    assert main(["clean", "--http", plain, "--token", TOKEN]) == 0


def test_a_platform_that_cannot_list_and_keeps_brains_apart_is_judged(platform: ASGIApp, plain: str) -> None:
    before = holdings(plain)
    some = case.selected(SOME, ["http/documents/read*", "http/documents/list*"])
    done = checked(platform, NO_LIST, some)
    outcomes = {kind: {one.outcome for one in done.results if f"/{kind}" in one.case.id} for kind in ("read", "list")}
    assert outcomes["read"] == {"passed"}
    assert "failed" in outcomes["list"]
    assert (holdings(plain), runs_left(plain)) == (before, [])


def test_a_list_that_hangs_blames_no_brain(platform: ASGIApp, plain: str) -> None:
    """A server that is slow or dying is told as that, and nothing is written to it."""
    asked_for = list[str]()

    async def for_ever(asked: Asked, _forward: Forward) -> Said:
        asked_for.append(asked.method)
        await asyncio.Event().wait()
        raise AssertionError

    before = holdings(plain)
    some = case.selected(SOME, ["http/documents/put*"])
    with awkward(platform, on("* {b}/.*", for_ever)) as url:
        made = Report(check(url, some, seconds=1))
    assert [one.title.partition(":")[0] for one in made.findings] == ["no answer"]
    assert (len(made.findings[0].blocked), set(asked_for) - {"POST"}) == (len(some), {"GET"})
    assert holdings(plain) == before
    assert main(["clean", "--http", plain, "--token", TOKEN]) == 0


def test_documents_that_cannot_be_listed_in_a_given_brain_are_said_to_stay(
    platform: ASGIApp, plain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with owner(plain) as client:
        client.post("/v1/brains", json={"name": "Unlisted", "slug": "unlisted"}).raise_for_status()
    with awkward(platform, NO_LIST) as url:
        main(["check", "--http", url, "--token", TOKEN, "--brain", "unlisted", "--only", "http/documents/put-then*"])
        told = " ".join(capsys.readouterr().out.split())
        assert "what the run wrote to your brain unlisted, because its documents cannot be listed" in told
        assert main(["clean", "--http", url, "--token", TOKEN, "--brain", "unlisted"]) == 2
    assert holdings(plain)["unlisted"] != []
    assert main(["clean", "--http", plain, "--token", TOKEN, "--brain", "unlisted"]) == 0
    assert holdings(plain)["unlisted"] == []


def test_a_platform_that_makes_no_brain_is_told_once(platform: ASGIApp, plain: str) -> None:
    before = holdings(plain)
    made = Report(checked(platform, NO_CREATE))
    (first,) = (one for one in made.findings if one.title.startswith("POST /v1/brains fails: 404"))
    assert len(first.blocked) > 50
    assert "--brain NAME plays in one of yours" in made.text()
    assert holdings(plain) == before
    assert runs_left(plain) == []


def test_a_platform_that_deletes_nothing_keeps_what_the_card_names(platform: ASGIApp, plain: str) -> None:
    before = holdings(plain)
    done = checked(platform, NO_DELETE)
    assert holdings(plain) == before
    assert len(runs_left(plain)) == len(done.target.left) == len(done.target.brains) > 1
    assert all(name.startswith(f"contract-{done.target.run}-") for name in runs_left(plain))
    made = Report(done)
    assert f"Left behind: {len(done.target.left)} brains that could not be deleted: " in made.text()
    assert {one.case.id.split("/")[2].split("-")[0] for one in made.failed} <= {"delete", "after"}
    assert main(["clean", "--http", plain, "--token", TOKEN, "--run", done.target.run]) == 0
    assert (runs_left(plain), holdings(plain)) == ([], before)


def test_documents_that_cannot_be_deleted_from_a_given_brain_are_named(platform: ASGIApp, plain: str) -> None:
    with owner(plain) as client:
        client.post("/v1/brains", json={"name": "Given", "slug": "given"}).raise_for_status()
    before = holdings(plain)
    with awkward(platform, refuses("DELETE .*", lambda _asked: True, said(405))) as url:
        code = main(["check", "--http", url, "--token", TOKEN, "--brain", "given", "--only", "http/documents/put*"])
    after = holdings(plain)
    assert code == 0
    assert {**after, "given": []} == before
    assert all("/contract-" in path for path in after["given"])
    assert after["given"] != []
    assert main(["clean", "--http", plain, "--token", TOKEN, "--brain", "given"]) == 0
    assert holdings(plain) == before


def test_a_platform_without_a_model_fails_nothing(platform: ASGIApp, plain: str) -> None:
    done = checked(platform, NO_MODEL)
    made = Report(done)
    assert failures(done) == {}
    assert done.target.capabilities["model"].startswith("none: ")
    assert [why for why in made.untested() if "model" in why] != []


REFUSING = case.selected(
    SOME, ["http/documents/put*", "http/documents/*missing*", "http/brains/*missing*", "http/ask/*missing*"]
)
AS_JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("act", "title"),
    [
        (
            answers("* .*", lambda told: replace(told, headers=AS_JSON) if told.status >= 400 else told),
            r"\d+ routes: a refusal should be application/problem\+json, not application/json",
        ),
        (
            answers("* .*", lambda told: problem(403, "forbidden") if b"brain not found" in told.body else told),
            r"\d+ routes: the status should be 404, not 403",
        ),
    ],
    ids=["in another form", "with another status"],
)
def test_a_platform_that_refuses_otherwise_is_told_so_once(platform: ASGIApp, plain: str, act: Act, title: str) -> None:
    made = Report(checked(platform, act, REFUSING))
    (finding,) = made.findings
    assert re.fullmatch(title, finding.title)
    # It refuses, if in its own way: nothing has escaped.
    assert finding.severity == "must"
    assert len(finding.failed) == len(made.failed) > 3
    assert "fix       Mend it where all refusals are made" in made.text()
    assert len(made.text().split("\n\n")[0].splitlines()) < 10


def test_a_platform_that_asks_for_no_token_is_told_so_once_and_critically(plain: str) -> None:
    some = case.selected(case.load(), ["http/service/*token*", "http/documents/put-then*"])
    with reference_app(token=None) as app, served(app) as url:
        made = Report(check(url, some))
    (first,) = (one for one in made.findings if one.severity == "critical")
    assert first.title.endswith("a request without a token, or with a wrong one, is served as if it had the right one")
    assert len(first.failed) >= 3
    # What differs from that stays a finding of its own.
    assert {one.case.id for one in made.failed} - {one.case.id for one in first.failed} == {
        "http/service/token-before-route"
    }


def test_a_slow_platform_is_judged_like_any_other(platform: ASGIApp, plain: str) -> None:
    before = holdings(plain)
    made = Report(checked(platform, _slowly))
    assert made.findings == []
    assert (holdings(plain), runs_left(plain)) == (before, [])


def test_a_route_that_hangs_is_told_once_and_the_others_are_still_tried(platform: ASGIApp, plain: str) -> None:
    async def for_ever(_asked: Asked, _forward: Forward) -> Said:
        await asyncio.Event().wait()
        raise AssertionError

    some = case.selected(SOME, ["http/ask", "http/documents/list*"])
    with awkward(platform, on("POST {b}/ask", for_ever)) as url:
        done = check(url, some, seconds=1)
    (finding,) = Report(done).findings
    assert finding.title.startswith("no answer: ")
    assert {one.case.id.split("/")[1] for one in finding.results} == {"ask"}
    assert {one.outcome for one in done.results if one.case.area == "documents"} == {"passed"}


@contextmanager
def platform_process(data: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A platform that can be killed."""
    port = free_port()
    command = [sys.executable, "-m", "gateway", "platform", "--port", str(port)]
    environment = {**os.environ, "BRAINS_DATA_DIR": str(data)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("platform.listening" in line for line in process.stderr), "the platform did not start"
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_platform_that_dies_in_the_middle_is_one_finding(tmp_path: Path) -> None:
    with platform_process(tmp_path) as (url, process):
        with httpx.Client(base_url=url, trust_env=False) as client:
            client.post("/v1/brains", json={"name": "The owner's", "slug": "owner"}).raise_for_status()
        before = anonymous_brains(url)

        def tell(_result: Result, done: int, _total: int) -> None:
            if done == 20:
                process.kill()
                process.wait()

        async def run_until_it_dies() -> Run[HttpTarget]:
            async with client_for(url) as client:
                return await run(HttpTarget(url, client), SOME, at_once=1, tell=tell)

        made = Report(asyncio.run(run_until_it_dies()))
    assert [one.title.startswith("no answer: ") for one in made.findings] == [True]
    assert len(made.findings[0].blocked) > 50
    assert made.run.target.left == sorted(made.run.target.brains)
    with platform_process(tmp_path) as (url, _):
        left = anonymous_brains(url) - before
        assert [name for name in left if not name.startswith(f"contract-{made.run.target.run}-")] == []
        assert len(left) == len(made.run.target.left)
        assert main(["clean", "--http", url]) == 0
        assert anonymous_brains(url) == before


def anonymous_brains(url: str) -> set[str]:
    with httpx.Client(base_url=url, trust_env=False) as client:
        return {one["slug"] for one in client.get("/v1/brains").json()["items"]}
