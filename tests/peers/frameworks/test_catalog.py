"""Every framework is pinned and described, and no framework is left over."""

import json
import re

from tests.peers.frameworks.catalog import ALWAYS, HERE, NIGHTLY, PEERS, ROOT
from tests.peers.tried import PEERS_TIER, TRIED, file_of

FRAMEWORKS = ALWAYS | NIGHTLY


def test_every_framework_has_a_row_in_the_page_and_every_row_a_framework() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Agent frameworks\n")[2]
    rows = re.findall(r"^\| (\w+) \| `", section.partition("\n## ")[0], re.MULTILINE)
    assert rows == list(FRAMEWORKS)
    assert len(rows) == 12


def test_enough_clients_list_and_call_over_both_transports_and_each_by_tests_that_are_there() -> None:
    both = [one for one in TRIED if one.calls_over_both]
    assert len(both) >= 12
    assert len([one for one in both if one.tier == PEERS_TIER]) >= 4
    tests = {test for one in TRIED for test in one.tests}
    assert [t for t in tests if f"def {t.partition('::')[2]}(" not in file_of(t).read_text(encoding="utf-8")] == []


def test_everything_is_pinned_by_name_and_version() -> None:
    lines = [
        line
        for path in (HERE / "requirements").iterdir()
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.startswith("# ")
    ]
    assert [line for line in lines if re.fullmatch(r"[\w.-]+==[\w.]+", line) is None] == []
    packages = [json.loads((folder / "package.json").read_text(encoding="utf-8")) for folder in (PEERS, HERE)]
    versions = [version for package in packages for version in package["dependencies"].values()]
    assert [version for version in versions if re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", version) is None] == []


def test_every_program_and_every_file_of_pins_belongs_to_a_framework() -> None:
    programs = {path.stem for path in (HERE / "programs").iterdir() if path.is_file()}
    pins = {path.stem for path in (HERE / "requirements").iterdir()}
    assert programs <= set(FRAMEWORKS)
    assert pins == {path.stem for path in (HERE / "programs").glob("*.py")}
