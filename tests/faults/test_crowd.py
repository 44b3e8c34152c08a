"""A crowd of answers, at a size for every day: `make proof` has the thousand."""

import asyncio
import time
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.app.http_app import http_app
from gateway.config.settings import load
from tests.faults.crowd import KEPT_ALIVE, SMALL, Crowd, Size, Storyteller, come_and_go, judged, one_call, run, settled
from tests.faults.plain import Platform, Told
from tests.served import listening


class Watched:
    """An application, and the tasks of the loop it runs on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        await self._app(scope, receive, send)

    def tasks(self) -> list[str]:
        assert self._loop is not None
        return sorted(str(task.get_coro()) for task in asyncio.all_tasks(self._loop) if not task.done())


@pytest.mark.slow
def test_a_crowd_gets_its_own_answers_and_leaves_nothing_behind() -> None:
    part = run(full=False)
    assert part.failures == [], part.rows


@pytest.mark.slow
def test_a_crowd_leaves_no_task_behind(tmp_path: Path) -> None:
    story = Storyteller(SMALL)
    with Platform(story).running() as platform:
        app = Watched(http_app(load(data_dir=tmp_path, upstream_url=platform.url, dialect="platform")))
        with listening(app) as url:
            port = int(url.rpartition(":")[2])
            one_call(port)
            come_and_go(Size(streams=4, deltas=4, pause=0.01, rounds=1), 0, port, story, platform)
            before = app.tasks()
            crowd = come_and_go(SMALL, 1, port, story, platform)
            assert crowd.wrong() == []
            assert settled(lambda: len(app.tasks()) <= len(before), 5), app.tasks()


SIZE = Size(streams=4, deltas=3, pause=0.1, rounds=1)


def finished(size: Size = SIZE) -> tuple[Crowd, Storyteller]:
    """A round in which all went well: two stayed, two left after a word, and the platform saw it."""
    crowd, story, now = Crowd(size, 1), Storyteller(size, most=size.streams), time.monotonic()
    for n in range(size.streams):
        name = f"r1c{n}"
        words = size.words(name)
        if crowd.leave_after(n) is None:
            crowd.told[name] = Told(200, words, {"structuredContent": {"answer": "".join(words)}})
            story.done[name] = now
        else:
            crowd.told[name] = Told(200, words[:1], left_at=now)
            story.gone_at[name] = now + 0.1
    return crowd, story


def test_the_judge_is_content_with_what_is_promised() -> None:
    assert judged(*finished(), right_after=KEPT_ALIVE, later=1) == []


def test_the_judge_sees_words_of_another() -> None:
    crowd, story = finished()
    crowd.told["r1c0"].progress = SIZE.words("r1c1")
    crowd.told["r1c2"].progress = SIZE.words("r1c0")[:1]
    first, second = judged(crowd, story, right_after=0, later=0)
    assert "r1c0 heard" in first
    assert "r1c2 left" in second


def test_the_judge_sees_half_an_answer() -> None:
    crowd, story = finished()
    crowd.told["r1c1"].result = {"structuredContent": {"answer": "r1c1/0 "}}
    crowd.told["r1c0"].result = None
    assert len(judged(crowd, story, right_after=0, later=0)) == 2


def test_the_judge_sees_connections_that_stay() -> None:
    crowd, story = finished()
    assert len(judged(crowd, story, right_after=KEPT_ALIVE + 1, later=1)) == 1
    assert len(judged(crowd, story, right_after=KEPT_ALIVE, later=2)) == 1


def test_the_judge_sees_connections_nobody_closes() -> None:
    crowd, story = finished()
    del story.gone_at["r1c3"]
    assert "1 upstream connections were not closed" in judged(crowd, story, right_after=KEPT_ALIVE, later=1)[-1]


@pytest.mark.parametrize("late", [1.5, 30.0])
def test_the_judge_sees_connections_that_go_late(late: float) -> None:
    crowd, story = finished()
    story.gone_at = {name: at + late for name, at in story.gone_at.items()}
    assert len(judged(crowd, story, right_after=KEPT_ALIVE, later=1)) == 1
