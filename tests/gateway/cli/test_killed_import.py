"""An import is killed by `kill -9` and repeated: nothing is lost, and nothing is stored twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path

import pytest

from contract.platform.app import create_app
from contract.platform.store import Store
from gateway.operations.parallel import AT_ONCE
from tests.daemons.fake import FakeDaemon, T
from tests.faults.faults import Fault, Point, Request, hold
from tests.faults.proxy import proxying
from tests.gateway.cli.dying import POINTS
from tests.gateway.cli.running import run
from tests.served import listening

pytestmark = [pytest.mark.not_quick, pytest.mark.slow]

# Enough notes for four batches. The last kill comes in the second batch.
NOTES = {f"memory/global/note-{n:02}.md": f"# Note {n}\n\nThe {n}. of many.\n" for n in range(4 * AT_ONCE)}
KILLS = 10
# Moments of an exchange: the head of the request is there, half of its body, all of it, its effect, and the answer.
MOMENTS = (Point.head, Point.body_half, Point.delivered, Point.committed, Point.answered)

Killed = Callable[[str, int, int], dict[str, str]]
"""Starts an import into a new brain of this name, and kills it in the n-th write. Returns the brain's settings."""


@pytest.fixture
def lines(tmp_path: Path) -> bytes:
    """The export of another brain."""
    given = [json.dumps({"path": path, "content": content}) + "\n" for path, content in NOTES.items()]
    assert run(tmp_path, "import", "-", stdin="".join(given)).returncode == 0
    assert run(tmp_path, "export", "lines.jsonl").returncode == 0
    return (tmp_path / "lines.jsonl").read_bytes()


def importing(home: Path, *command: str, **settings: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": os.getcwd(), "BRAINS_LOG_LEVEL": "error", **settings}
    told = [sys.executable, "-m", *command, "import", "lines.jsonl"]
    return subprocess.Popen(told, cwd=home, env=environment, stderr=subprocess.DEVNULL)


@contextmanager
def embedded(home: Path) -> Iterator[Killed]:
    def kill(name: str, nth: int, moment: int) -> dict[str, str]:
        settings = {"BRAINS_DATA_DIR": str(home / name), "BRAINS_DEFAULT_BRAIN": "main"}
        assert run(home, "brains", **settings).returncode == 0
        point = list(POINTS)[moment % len(POINTS)]
        with importing(home, "tests.gateway.cli.dying", str(nth), point, **settings) as process:
            assert process.wait(60) == -signal.SIGKILL
        return settings

    yield kill


@contextmanager
def behind_a_proxy(home: Path, url: str) -> Iterator[Killed]:
    with proxying(url) as proxy:

        def kill(name: str, nth: int, moment: int) -> dict[str, str]:
            settings = {"BRAINS_UPSTREAM_URL": url, "BRAINS_DEFAULT_BRAIN": name}
            assert run(home, "brains", "create", name, **settings).returncode == 0
            victim = Future["subprocess.Popen[bytes]"]()
            writes = count(1)

            def plan(request: Request) -> Fault | None:
                is_meant = request.method == "PUT" and next(writes) == nth
                return hold(MOMENTS[moment % len(MOMENTS)], lambda: victim.result(60).kill()) if is_meant else None

            proxy.plan = plan
            with importing(home, "gateway", **{**settings, "BRAINS_UPSTREAM_URL": proxy.url}) as process:
                victim.set_result(process)
                assert process.wait(60) == -signal.SIGKILL
            # What it sent before it was killed still arrives. Wait for that before looking.
            assert proxy.settled(60)
            return settings

        yield kill


@pytest.fixture(params=["embedded", "daemon", "platform"])
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killed]:
    with ExitStack() as stack:
        if request.param == "embedded":
            yield stack.enter_context(embedded(tmp_path))
            return
        store = Store.open(tmp_path / "platform")
        stack.callback(store.close)
        app = FakeDaemon(T).app() if request.param == "daemon" else create_app(store, token=None)
        yield stack.enter_context(behind_a_proxy(tmp_path, stack.enter_context(listening(app))))


def test_an_import_killed_at_ten_points_and_repeated_is_whole_and_nothing_is_there_twice(
    killed: Killed, lines: bytes, tmp_path: Path
) -> None:
    halfway = []
    for nth, moment in zip(range(1, KILLS + 1), cycle(range(len(MOMENTS) * len(POINTS))), strict=False):
        settings = killed(f"killed-{nth}", nth, moment)
        halfway.append(len(json.loads(run(tmp_path, "list", "--json", **settings).stdout)))
        again = run(tmp_path, "import", "lines.jsonl", **settings)
        assert again.returncode == 0, again.stderr
        new, there = len(NOTES) - halfway[-1], halfway[-1]
        assert f"{new} notes are new, {there} were there already, 0 replaced another." in again.stderr
        brain = settings["BRAINS_DEFAULT_BRAIN"]
        kept = json.loads(run(tmp_path, "who", "--paths", "--json", "--brain", brain, **settings).stdout)["kept"]
        assert sorted(one["path"] for one in kept if one["path"].startswith("memory/")) == sorted(NOTES)
        assert run(tmp_path, "export", f"again-{nth}.jsonl", **settings).returncode == 0
        assert (tmp_path / f"again-{nth}.jsonl").read_bytes() == lines
    # Some kills came in the first batch, some after it, and none when the import was done.
    assert min(halfway) <= AT_ONCE <= max(halfway) < len(NOTES), halfway
