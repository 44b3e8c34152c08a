"""Baselines: the known failures of a target, so that new ones stand out and the list only shrinks."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import yaml

from contract.outcome import Result
from contract.words import cut

ABSENT: Final = object()


class BadBaseline(Exception):
    """A baseline that cannot be read; the text is one sentence."""


def read(path: Path) -> dict[str, str]:
    """The expected failures by case id, each with its reason.

    Raises: BadBaseline.
    """
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadBaseline(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadBaseline(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    failures = written.get("failures", ABSENT) if isinstance(written, dict) else ABSENT
    failures = {} if failures is None else failures
    if not isinstance(failures, dict):
        raise BadBaseline(f"{path} should hold `failures:`, an object of case ids and reasons")
    for name, reason in failures.items():
        if not isinstance(reason, str) or not reason.strip():
            raise BadBaseline(f"{path} should say why {name} fails")
    return {str(name): reason for name, reason in failures.items()}


def stale(expected: Mapping[str, str], results: Iterable[Result], known: Collection[str]) -> list[str]:
    """Entries that no longer fail, or name no case. Cases that were not run this time are not counted."""
    passed = {result.case.id for result in results if not result.is_wrong and result.outcome != "not tested"}
    return [name for name in expected if name not in known or name in passed]


def written(target: str, results: Iterable[Result]) -> str:
    """A baseline of everything that fails, as YAML, with what was seen as the reason."""
    failures = {
        result.case.id: cut(result.failure.expected if result.failure else result.why, 160)
        for result in results
        if result.is_wrong
    }
    head = f"# Expected failures: {target}.\n"
    head += (
        "# Written by `contract record`; say in your own words why each is so. An entry that passes fails the run.\n"
    )
    return head + yaml.safe_dump({"failures": failures}, allow_unicode=True, width=110)
