"""Plants small faults in the reference platform, one at a time, and counts those that the cases catch.

python -m tests.broken.planted              two hundred faults that cases were written for; writes PLANTED.md
python -m tests.broken.planted --fresh 7    a hundred others, by any number; writes PLANTED_FRESH.md
python -m tests.broken.planted --only 7     the seventh alone, with what it changed

Each fault is tried with the cases that run its function, in each set-up of the platform that runs more of it than the
one before, until a case fails.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import yaml

from contract.case import Case
from tests.broken import planting
from tests.broken.planting import DEEPER, HUNDRED, LOOKED_AT, Fault
from tests.broken.setups import CAUGHT, SETUPS, Reached, SetUp, forget_platform, load_cases, reach_of, reaching, tried

HERE: Final = Path(__file__).parent
PAGE, FRESH_PAGE = HERE / "PLANTED.md", HERE / "PLANTED_FRESH.md"
REASONS: Final = HERE / "planted_reasons.yaml"
RESULTS: Final = HERE / "planted_results.yaml"
OWN_TESTS: Final = ("tests/contract/platform",)
NO_REASON: Final = "a case could have caught it"

Verdict: TypeAlias = Literal["caught", "missed", "no fault"]


@dataclass(frozen=True)
class Tried:
    """A fault, what became of it, and why it was not caught or in which set-up it was."""

    fault: Fault
    verdict: Verdict
    why: str

    @property
    def told(self) -> str:
        return f"{self.fault.told} ({self.why})"


class Trial:
    """Knows which cases reach what, in each set-up."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {one.id: one for one in load_cases()}
        self._reached: dict[SetUp, Reached] = {setup: reach_of(setup, load_cases()) for setup in SETUPS}
        forget_platform()
        reasons = yaml.safe_load(REASONS.read_text(encoding="utf-8"))
        self._no_fault: list[dict[str, str]] = reasons["no_fault"]
        self._missed: list[dict[str, str]] = reasons["missed"]

    def of(self, fault: Fault) -> Tried:
        before: list[Reached] = []
        for setup, reached in self._reached.items():
            names = reaching(fault, reached, before)
            if names and tried(fault, setup, [self._cases[name] for name in names]) == CAUGHT:
                return Tried(fault, "caught", setup)
            before.append(reached)
        if (why := _reason(fault, self._no_fault)) is not None:
            if (test := noticed_by_own_tests(fault)) is None:
                return Tried(fault, "no fault", why)
            return Tried(fault, "missed", f"it was taken for no fault, but {test} fails")
        return Tried(fault, "missed", _reason(fault, self._missed) or NO_REASON)


def _reason(fault: Fault, reasons: Sequence[dict[str, str]]) -> str | None:
    """The reason that was written down for this fault: its module, what stands there, and perhaps the kind."""
    for one in reasons:
        module, _, code = one["at"].partition(": ")
        if module == f"{fault.module}.py" and code in fault.whole and one.get("kind", fault.kind) == fault.kind:
            return one["why"]
    return None


def noticed_by_own_tests(fault: Fault) -> str | None:
    """The first of the platform's own tests that fails with the fault, if one does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.broken.plant", "-p", "no:cacheprovider"]
    environment = {**os.environ, "TIER": "test", "PLANT": f"{fault.module} {fault.line} {fault.kind} {fault.before}"}
    done = subprocess.run(
        [*command, *OWN_TESTS], cwd=HERE.parents[1], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split()[1] if failed else "the run of its own tests"


def tried_until(faults: Sequence[Fault], count: int, trial: Trial, at_once: int) -> list[Tried]:
    """The first faults that are faults, so many of them, with those among them that are none."""
    done: list[Tried] = []
    left = iter(faults)
    with ThreadPoolExecutor(at_once) as pool:
        while (missing := count - sum(one.verdict != "no fault" for one in done)) > 0:
            batch = [fault for fault, _ in zip(left, range(missing), strict=False)]
            if not batch:
                break
            for one in pool.map(trial.of, batch):
                done.append(one)
                if one.verdict != "caught":
                    sys.stdout.write(f"{one.verdict}: {one.told}\n")
                    sys.stdout.flush()
    return done


def page_of(done: Sequence[Tried], number: int | None, first: dict[Any, str]) -> str:
    counted = [one for one in done if one.verdict != "no fault"]
    caught = [one for one in counted if one.verdict == "caught"]
    kinds, of_kind = Counter(one.fault.kind for one in counted), Counter(one.fault.kind for one in caught)
    where = Counter(one.why for one in caught)
    fresh = "" if number is None else f" --fresh {number}"
    lines = [
        "# Planted faults",
        "",
        f"Small faults that `python -m tests.broken.planted{fresh}` plants in the reference platform, one at a time,",
        "and how many of them the cases for platforms catch. The page is generated. Never edit it by hand.",
        "",
        "Each fault is tried in three set-ups, until a case fails: the platform by words alone, with vectors, and",
        "with a language model that follows a script.",
        "",
        *(_HISTORY if number is None else _of_fresh(first)),
        "",
        f"Caught: {len(caught)} of {len(counted)}, {len(caught) * 100 // len(counted)}%.",
        f"By words alone {where['words']}, with vectors {where['vectors']} more, with a model {where['model']} more.",
        "",
        "| Fault | Planted | Caught |",
        "|---|---|---|",
        *(f"| {kind} | {planted} | {of_kind[kind]} |" for kind, planted in sorted(kinds.items())),
        "",
        "## Not caught",
        "",
        *_listed(done, "missed"),
        *_RULE,
        *_listed(done, "no fault"),
    ]
    return "\n".join(lines).rstrip() + "\n"


_RULE: Final = (
    "## No faults",
    "",
    "These change no answer that any caller gets, and are not counted. The rule: no case fails in any set-up, none",
    "of the platform's own tests (`tests/contract/platform`) fails, and the reason is written down in",
    "`planted_reasons.yaml`. The program checks the first two each time. In a fresh hundred, the next fault of the",
    "draw is taken instead.",
    "",
)
_HISTORY: Final = (
    "Cases were written after seeing what the first runs missed. Of the first hundred, 59 were caught at first, then",
    "88, then 95; of the second hundred, 76 at first. So these faults are no fair sample any more;",
    "[PLANTED_FRESH.md](PLANTED_FRESH.md) has a fresh one.",
)


def _of_fresh(first: dict[Any, str]) -> Iterator[str]:
    yield "None of these is among the two hundred of [PLANTED.md](PLANTED.md), which cases were written for, nor in an"
    yield "earlier fresh hundred. Besides the modules of those, faults are planted in:"
    yield f"{', '.join(DEEPER)}."
    yield ""
    yield "What each fresh hundred gave when it was first tried, before anybody had looked at it:"
    yield ""
    yield "| Number | First result |"
    yield "|---|---|"
    for one, result in first.items():
        yield f"| {one} | {result} |"


def _listed(done: Sequence[Tried], verdict: Verdict) -> Iterator[str]:
    """The misses of the cases first, then by reason."""
    those = [one for one in done if one.verdict == verdict]
    for why in sorted({one.why for one in those}, key=lambda why: (why != NO_REASON, why)):
        yield f"{why[0].upper()}{why[1:]}:"
        yield ""
        yield from (f"- {one.fault.told}" for one in those if one.why == why)
        yield ""
    if not those:
        yield "None."
        yield ""


def _first_results(number: int, done: Sequence[Tried]) -> dict[Any, str]:
    """What each fresh hundred gave at first. A new one is added, and none is ever changed."""
    results: dict[Any, str] = yaml.safe_load(RESULTS.read_text(encoding="utf-8"))
    if number not in results:
        verdicts = Counter(one.verdict for one in done)
        counted = verdicts["caught"] + verdicts["missed"]
        outside = f", and {verdicts['no fault']} no faults" if verdicts["no fault"] else ""
        results[number] = f"{verdicts['caught']} of {counted}{outside}"
        RESULTS.write_text(
            "# What each fresh hundred gave when it was first tried. Written by tests/broken/planted.py.\n"
            + yaml.safe_dump(results, sort_keys=False),
            encoding="utf-8",
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, action="append", metavar="N", help="one fault, by its number from 1")
    parser.add_argument("--fresh", type=int, metavar="N", help="a hundred others, by any number")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the page goes")
    arguments = parser.parse_args()
    number: int | None = arguments.fresh
    if number is not None and number not in LOOKED_AT:
        sys.stdout.write(f"{number} is a new number: add it to LOOKED_AT in tests/broken/planting.py\n")
    faults = planting.known() if number is None else planting.fresh(number)
    trial = Trial()
    if arguments.only:
        for n in arguments.only:
            one = trial.of(faults[n - 1])
            sys.stdout.write(f"{one.verdict}: {one.told}\n")
        return
    done = tried_until(faults, len(faults) if number is None else HUNDRED, trial, arguments.at_once)
    output = arguments.output or (PAGE if number is None else FRESH_PAGE)
    output.write_text(page_of(done, number, {} if number is None else _first_results(number, done)), encoding="utf-8")
    verdicts = Counter(one.verdict for one in done)
    sys.stdout.write(f"{verdicts['caught']} of {verdicts['caught'] + verdicts['missed']} caught; see {output}\n")


if __name__ == "__main__":
    main()
