"""The platforms in which a planted fault is tried, as owners have them, and which cases can reach it there."""

import asyncio
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from contract import case
from contract.case import Case
from contract.outcome import Result
from contract.runner import run
from contract.targets import HttpTarget, client_for
from tests.broken.planting import PLATFORM, Fault, Planted, function_at

# By words alone; with the small model for vectors; with a language model that follows a script.
SetUp: TypeAlias = Literal["words", "vectors", "model"]
SETUPS: Final[tuple[SetUp, ...]] = ("words", "vectors", "model")
# On a busy machine, too, only what hangs takes as long: for a step, and for all the cases of a fault.
PATIENCE: Final = 120.0
SECONDS: Final = 600.0
AT_ONCE: Final = 16
CAUGHT, MISSED = 1, 0

# What is reached before the first case.
START: Final = ""
# For each case: the lines of the platform that it reaches, as `module.py:line`.
Reached: TypeAlias = Mapping[str, frozenset[str]]


@contextmanager
def platform(setup: SetUp) -> Iterator[str]:
    """The reference platform in a set-up. Imported late, so that a fault can be planted before."""
    from contract.platform.app import create_app
    from contract.platform.store import Store
    from gateway.app.embedded import convert_in_child
    from tests.broken.scripts import reads_and_answers
    from tests.contract.platform.serving import served
    from tests.contract.targets import TOKEN, fetch
    from tests.embeddings import offline_embedder
    from tests.models import scripted

    with ExitStack() as stack:
        store = Store.open(
            Path(stack.enter_context(tempfile.TemporaryDirectory())), offline_embedder() if setup == "vectors" else None
        )
        stack.callback(store.close)
        endpoint = None
        if setup == "model":
            model, endpoint = stack.enter_context(scripted())
            model.by_task = reads_and_answers
        app = create_app(store, token=TOKEN, fetch=fetch, convert=convert_in_child, llm=endpoint)
        yield stack.enter_context(served(app))


def checked(url: str, cases: Sequence[Case], tell: Callable[[Result, int, int], None], at_once: int = AT_ONCE) -> None:
    from tests.contract.targets import PAGE, TOKEN

    async def check() -> None:
        async with client_for(url) as client:
            await run(HttpTarget(url, client, TOKEN, PAGE, PATIENCE), cases, at_once=at_once, tell=tell)

    asyncio.run(check())


def reach_of(setup: SetUp, cases: Sequence[Case]) -> Reached:
    """What each case reaches on a sound platform: each is run alone, in a process of its own for all of them.

    Raises: SystemExit, where a case fails without any fault.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_record, args=(setup, cases, theirs))
    process.start()
    theirs.close()
    try:
        found: Reached | str = ours.recv()
    except EOFError:
        found = "the process ended"
    process.join()
    if isinstance(found, str):
        raise SystemExit(f"without any fault, {setup}: {found}: mend that first")
    return found


def _record(setup: SetUp, cases: Sequence[Case], told: Any) -> None:
    import coverage

    watching = coverage.Coverage(source=[str(PLATFORM)], data_file=None, config_file=False, messages=False)
    wrong, tested = list[str](), {START}
    # What is large is large in each set-up, and vectors of it take long.
    applying = [one for one in cases if setup == "words" or one.tries != "sizes"]

    def tell(result: Result, done: int, total: int) -> None:
        if result.is_wrong or result.outcome == "not supported":
            wrong.append(f"{result.case.id}: {result.failure or result.why}")
        if result.outcome == "passed":
            tested.add(result.case.id)
        if done < total:
            watching.switch_context(applying[done].id)

    watching.start()
    with platform(setup) as url:
        watching.switch_context(applying[0].id)
        checked(url, applying, tell, at_once=1)
    watching.stop()
    data = watching.get_data()
    reached: dict[str, set[str]] = {START: set(), **{one.id: set() for one in applying}}
    for path in data.measured_files():
        name = Path(path).relative_to(PLATFORM).with_suffix("").as_posix()
        for line, contexts in data.contexts_by_lineno(path).items():
            for context in contexts:
                if context in reached:
                    reached[context].add(f"{name}.py:{line}")
    told.send("; ".join(wrong[:5]) if wrong else {name: frozenset(reached[name]) for name in tested})
    told.close()


def reaching(fault: Fault, reached: Reached, before: Sequence[Reached] = ()) -> list[str]:
    """The cases that run the function with the fault, those that do least first; all, if it runs before any case.

    Only those that no set-up before this one could test, where those have run every line of it that this one runs.
    """
    around = function_at(fault)
    lines = {f"{fault.module}.py:{line}" for line in around or ()}
    every = around is None or bool(lines & reached[START])
    chosen = [name for name, those in reached.items() if name != START and (every or lines & those)]
    more = lines & _all(reached) - frozenset().union(*(_all(one) for one in before))
    if before and around is not None and not more:
        chosen = [name for name in chosen if all(name not in one for one in before)]
    return sorted(chosen, key=lambda name: (len(reached[name]), name))


def _all(reached: Reached) -> frozenset[str]:
    return frozenset().union(*reached.values())


def forget_platform() -> None:
    """Load what every try needs, but the platform and what imports it: that is loaded again, with the fault."""
    with platform("model"):
        pass
    for name in [one for one in sys.modules if one.startswith(("contract.platform", "gateway", "tests."))]:
        if name not in ("tests.broken.planting", __name__):
            del sys.modules[name]


def tried(fault: Fault, setup: SetUp, cases: Sequence[Case]) -> int:
    """In a process of its own: whether a case fails on the platform with the fault."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_try, args=(fault, setup, cases))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        # A platform that hangs is noticed too, by whoever waits for it.
        process.kill()
        process.join()
        return CAUGHT
    return CAUGHT if process.exitcode else MISSED


def _try(fault: Fault, setup: SetUp, cases: Sequence[Case]) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.meta_path.insert(0, Planted(fault))

    def tell(result: Result, _done: int, _total: int) -> None:
        if result.is_wrong:
            os._exit(CAUGHT)

    try:
        with platform(setup) as url:
            checked(url, cases, tell)
    except BaseException:  # noqa: BLE001  # whatever it is, it was noticed
        os._exit(CAUGHT)
    os._exit(MISSED)


def load_cases() -> list[Case]:
    return [one for one in case.load() if one.speaks("platform")]
