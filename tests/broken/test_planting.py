"""Planted faults are drawn as the page says, and no reason outlives the code that it is about."""

import ast
from pathlib import Path

import pytest
import yaml

from tests.broken import planting
from tests.broken.planted import REASONS, RESULTS
from tests.broken.setups import START, reaching

WRITTEN = yaml.safe_load(REASONS.read_text(encoding="utf-8"))


def test_each_reason_is_about_code_that_is_there() -> None:
    assert [one["at"] for kind in ("no_fault", "missed") for one in WRITTEN[kind] if not _stands(one["at"])] == []


def _stands(at: str) -> bool:
    module, _, code = at.partition(": ")
    return code in ast.unparse(ast.parse((planting.PLATFORM / module).read_text(encoding="utf-8")))


def test_whatever_is_taken_for_no_fault_says_of_which_kind_it_is() -> None:
    assert [one["at"] for one in WRITTEN["no_fault"] if "kind" not in one] == []


def test_every_fresh_hundred_has_its_first_result() -> None:
    assert list(yaml.safe_load(RESULTS.read_text(encoding="utf-8"))) == list(planting.LOOKED_AT)


def a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> planting.Fault:
    (tmp_path / "toy.py").write_text(
        "LIMIT = 3\n\n\ndef small(n):\n    one = n\n    return one < 3\n", encoding="utf-8"
    )
    monkeypatch.setattr(planting, "PLATFORM", tmp_path)
    (fault,) = planting.faults_of("toy")
    return fault


def test_a_fault_is_tried_with_the_cases_that_run_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = a_fault(tmp_path, monkeypatch)
    assert (fault.line, fault.kind, fault.before, fault.after) == (6, "a comparison turned", "one < 3", "one <= 3")
    words = {
        START: frozenset[str](),
        "runs it": frozenset({"toy.py:5", "toy.py:6", "toy.py:1"}),
        "runs less": frozenset({"toy.py:5"}),
        "does not": frozenset({"toy.py:1", "other.py:6"}),
    }
    assert reaching(fault, words) == ["runs less", "runs it"]
    # A later set-up that runs no more of the function tries what could not be tested before.
    assert reaching(fault, {**words, "new": frozenset({"toy.py:6"})}, [words]) == ["new"]
    less = {**words, "runs it": frozenset({"toy.py:5"})}
    assert reaching(fault, words, [less]) == ["runs less", "runs it"]


def test_what_runs_before_any_case_is_tried_with_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = {START: frozenset({"toy.py:5"}), "one": frozenset({"other.py:1"})}
    assert reaching(a_fault(tmp_path, monkeypatch), reached) == ["one"]
