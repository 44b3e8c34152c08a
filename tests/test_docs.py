"""The documents tell the truth: generated tables are current, names exist, versions agree."""

import re
import subprocess
from pathlib import Path

import pytest

import gateway
from tests.docs import README, ROOT, with_tables

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "contract/README.md"]


def test_the_generated_tables_of_the_readme_are_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: .venv/bin/python -m tests.docs"


def test_the_changelog_knows_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?{re.escape(gateway.__version__)}\]?", changelog, re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_that_are_named_exist(document: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / document).read_text(encoding="utf-8")))
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


def test_nothing_names_a_place_outside_the_repository() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    banned = re.compile(r"--(extra-)?index-url|file:///|/home/[a-z]+/|/root/")
    offending = [
        name
        for name in tracked
        if name.endswith((".md", ".toml", ".txt", ".yaml", ".cfg", "Makefile", "Dockerfile"))
        and (ROOT / name).is_file()
        and banned.search((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert offending == []


def test_the_image_runs_the_command_and_data_is_on_a_volume() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert len(re.findall(r"^FROM ", dockerfile, re.MULTILINE)) == 2
    for needed in ("USER gateway", "HEALTHCHECK", "VOLUME /data", 'CMD ["brains-gateway", "serve"]'):
        assert needed in dockerfile
    copied = re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE)
    sources = [source for line in copied for source in line.split()[:-1]]
    assert [source for source in sources if not Path(ROOT / source).exists()] == []
