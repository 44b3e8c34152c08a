"""Case files: what is read, and what is said of those that are wrong."""

from pathlib import Path

import pytest
import yaml

from contract import case
from contract.case import BadCase
from contract.mcp_target import pins
from contract.names import NAME_LIMIT, short_name

GOOD = """
what: A thing is so.
requirement: must
source: openapi put_document
area: documents
dialect: both
steps:
  - request: {method: GET, path: "${b}/documents"}
    expect: {status: 200}
"""
ROOT = Path(__file__).parents[2]
WRONG = [
    ("what: A thing is so.\n", "", "what: Field required"),
    ("requirement: must", "requirement: perhaps", "requirement: Input should be 'must' or 'should'"),
    ("area: documents", "area: weather", "area: Input should be"),
    ("dialect: both", "dialect: klingon", "dialect: Input should be"),
    ("status: 200", "status: 200, stauts: 200", "steps.0.expect.stauts: Extra inputs are not permitted"),
    ("status: 200", "json: {}", "steps.0.expect.status: Field required"),
    ("status: 200", "status: 200, json: {any: banana}", "steps.0.expect.json: pattern.any: there is no type"),
    ("method: GET", "method: FETCH", "steps.0.request.method: Input should be"),
    ("method: GET", "method: GET, text: a, json: 1", "steps.0.request: has more than one body"),
    ("method: GET", "method: GET, bytes_base64: '!'", "steps.0.request.bytes_base64: is not base64"),
    ("    expect: {status: 200}\n", "", "steps.0.expect: Field required"),
    ("  - request:", "  - parallel: {times: 1, step: {}}\n  - request:", "steps.0.parallel.times: Input should be"),
    ("  - request:", "  - listening: {meanwhile: []}\n  - request:", "steps.0.listening.request: Field required"),
    (
        GOOD[GOOD.index("  - request:") :],
        "  - listening:\n      request: {method: GET, path: /e}\n      expect: {status: 200}\n"
        "      meanwhile: [{request: {method: GET, path: /a}, expect: {status: 200}}]\n",
        "steps.0.listening: needs take",
    ),
    ("steps:", "steps: [", "is not YAML"),
    (GOOD, "- a list", "should be an object"),
]


def written(folder: Path, text: str) -> Path:
    path = folder / "http" / "a" / "case.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_id_is_the_path_without_its_ending(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    assert [one.id for one in case.load(tmp_path)] == ["http/a/case"]


@pytest.mark.parametrize(("part", "instead", "sentence"), WRONG)
def test_a_bad_case_is_one_sentence_with_file_and_field(tmp_path: Path, part: str, instead: str, sentence: str) -> None:
    assert part in GOOD
    path = written(tmp_path, GOOD.replace(part, instead))
    with pytest.raises(BadCase) as told:
        case.read(path, tmp_path)
    assert str(told.value).startswith(f"{Path('http/a/case.yaml')}: {sentence}")
    assert "\n" not in str(told.value)


def test_cases_are_chosen_by_id_folder_or_pattern() -> None:
    every = case.load()
    assert [one.id for one in case.selected(every, ["http/documents/append"])] == ["http/documents/append"]
    assert {one.area for one in case.selected(every, ["http/batch"])} == {"batch"}
    assert {one.area for one in case.selected(every, ["http/a*", "http/batch/*"])} == {"ask", "batch"}
    assert case.selected(every, []) == every


def test_every_operation_of_the_specification_has_a_case() -> None:
    specification = yaml.safe_load((ROOT / "contract" / "openapi.yaml").read_text(encoding="utf-8"))
    operations = {
        operation["operationId"]
        for path in specification["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    }
    sources = {one.source.removeprefix("openapi ") for one in case.load() if one.source.startswith("openapi ")}
    assert operations - sources == set()
    assert sources - operations == {"info", "bearer"}


def test_every_case_says_where_it_is_demanded() -> None:
    known = ("openapi ", "spec/mcp-tools ", "memory serve, ")
    assert [one.id for one in case.load() if not one.source.startswith(known)] == []


def test_no_two_cases_write_to_the_same_place() -> None:
    names = [short_name(one) for one in case.load()]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= NAME_LIMIT


def test_every_call_case_says_where_it_is_demanded_and_has_names_of_its_own() -> None:
    every = case.load_calls()
    known = {"memory": "spec/mcp-tools "}
    wrong = [
        one.id for one in every if not one.source.startswith((known.get(one.surface, f"spec/{one.surface} "), "ours "))
    ]
    assert wrong == []
    names = [short_name(one) for one in every]
    assert len(set(names)) == len(names)


def test_calls_are_of_tools_that_there_are_and_lie_with_one_of_them() -> None:
    for one in case.load_calls():
        tools = pins()[one.surface]
        assert one.tools <= tools.keys(), one.id
        # Resources are no tool, and have a folder all the same.
        assert one.area == "resource" or any(name.endswith(one.area) for name in tools), one.id
