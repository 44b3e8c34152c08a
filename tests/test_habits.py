"""What CI, hooks and checklists tell people and machines to run can be run."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML_FILES = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml"]
PAGES = [ROOT / "RELEASE.md", ROOT / ".github" / "pull_request_template.md"]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in parsed(workflow)["jobs"].values() for step in job["steps"]]


def made(command: str) -> set[str]:
    """The targets of every `make` in a text."""
    lines = re.findall(r"\bmake((?: [A-Z]+=\S+)*(?: [a-z][a-z-]*)+)", command)
    return {word for line in lines for word in line.split() if "=" not in word}


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_every_file_can_be_read(path: Path) -> None:
    assert isinstance(parsed(path), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_there_are_with_actions_of_a_version(path: Path) -> None:
    found = steps(path)
    assert made("\n".join(step.get("run", "") for step in found)) - TARGETS == set()
    uses = [step["uses"] for step in found if "uses" in step]
    assert [name for name in uses if re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", name) is None] == []


def test_hooks_run_targets_that_there_are() -> None:
    entries = [hook["entry"] for repo in parsed(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert made("\n".join(entries)) == {"check"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_checklist_names_targets_and_files_that_there_are(path: Path) -> None:
    said = re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
    assert {target for text in said for target in made(text)} - TARGETS == set()
    files = {text for text in said if re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.(py|md|txt)", text)} - {"docs/decisions.md"}
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []


def test_what_is_promised_is_what_is_tested() -> None:
    """Every version of Python from the lowest that is declared."""
    versions = parsed(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    lowest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    minors = [int(version.removeprefix("3.")) for version in versions]
    assert lowest == f">={versions[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_the_newest_version_of_the_changelog_is_this_one() -> None:
    entries = re.findall(r"^## \[(\S+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert entries[:2] == ["Unreleased", __version__]
