"""The documents tell the truth: tables are current, links lead somewhere, what is named exists, versions agree."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import gateway
from tests.docs import MARKED, PAGES, ROOT, TABLES, with_tables

README_LINES, README_BYTES = 180, 10 * 1024
ARCHITECTURE_LINES = 80
LINE_LENGTH = 120
# Counted by `python -m tests.gateway.requests`, and held current by its own test.
COUNTED = {"requests"}

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
URL = re.compile(r"https?://\S+")
EVENT = re.compile(r"[a-z_]+\.[a-z_]+")
PATH = re.compile(r"`((?:gateway|contract|tests|bench|deploy|docs)/[^`\s]*)`")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    """A page without its code and without what is generated."""
    return FENCED.sub("", MARKED.sub("", text_of(page)))


def events_of(node: ast.AST) -> list[str]:
    """The events that a call of the log names, first or behind the level."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log")), args=[*args]):
            said = [part.value for arg in args for part in ast.walk(arg) if isinstance(part, ast.Constant)]
            return [event for event in said if isinstance(event, str) and EVENT.fullmatch(event)]
    return []


def anchors_of(page: Path) -> set[str]:
    """What links to the headings of a page end with, as GitHub makes it."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", FENCED.sub("", text_of(page)), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


def is_dead(link: str, page: Path) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return not target.exists() or bool(anchor and anchor not in anchors_of(target))


def of_pages(faults: Callable[[Path], Iterable[str]]) -> list[tuple[str, str]]:
    """What is wrong with any page. All are looked at in one test, so that no tier leaves one out."""
    return [(str(page.relative_to(ROOT)), fault) for page in PAGES for fault in faults(page)]


def test_generated_tables_are_current() -> None:
    stale = [page.name for page in PAGES if with_tables(text_of(page)) != text_of(page)]
    assert stale == [], "run: .venv/bin/python -m tests.docs"


def test_every_generated_table_has_a_place_and_every_place_a_table() -> None:
    markers = [re.findall(r"<!-- ([a-z ]+): generated -->", text_of(page)) for page in PAGES]
    places = [MARKED.findall(text_of(page)) for page in PAGES]
    assert {name for names in markers for name in names} == set(TABLES) | COUNTED
    assert [len(names) for names in markers] == [len(found) for found in places]


def test_the_changelog_knows_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    dated = {version for version, date in headings[1:] if re.fullmatch(r" - \d{4}-\d\d-\d\d", date)}
    assert dated == {version for version, _ in headings[1:]}
    assert gateway.__version__ in dated


def test_links_between_pages_lead_somewhere() -> None:
    def dead_links(page: Path) -> Iterable[str]:
        links = [link for link in LINK.findall(prose_of(page)) if not re.match(r"https?:|mailto:", link)]
        return (link for link in links if is_dead(link, page))

    assert of_pages(dead_links) == []


def test_the_readme_leads_to_every_page() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in LINK.findall(text_of(ROOT / "README.md"))}
    assert [page.name for page in PAGES if page.resolve() not in linked and page.name != "README.md"] == []


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert of_pages(lambda page: set(re.findall(r"`make ([a-z-]+)", text_of(page))) - targets) == []


def test_files_that_are_named_exist() -> None:
    """`<surface>` in a path stands for any name."""

    def missing(page: Path) -> Iterable[str]:
        patterns = {path: re.sub(r"<[^>]+>", "*", path).rstrip("/") for path in PATH.findall(prose_of(page))}
        return (path for path, pattern in patterns.items() if not any(ROOT.glob(pattern)))

    assert of_pages(missing) == []


def test_every_event_of_the_log_is_in_the_manual() -> None:
    manual = text_of(ROOT / "docs" / "operating.md")
    sources = [ast.parse(text_of(path)) for path in (ROOT / "gateway").rglob("*.py")]
    events = {event for source in sources for node in ast.walk(source) for event in events_of(node)}
    assert {"call.served", "http.refused", "limits.local"} <= events
    assert {event for event in events if f"`{event}`" not in manual} == set()


def test_lines_are_short() -> None:
    def long_lines(page: Path) -> Iterable[str]:
        lines = prose_of(page).splitlines()
        return (line for line in lines if len(URL.sub("", LINK.sub("]()", line))) > LINE_LENGTH)

    assert of_pages(long_lines) == []


def test_the_front_page_and_the_architecture_stay_short() -> None:
    readme, architecture = text_of(ROOT / "README.md"), text_of(ROOT / "ARCHITECTURE.md")
    assert len(readme.splitlines()) <= README_LINES
    assert len(readme.encode()) <= README_BYTES
    assert len(architecture.splitlines()) <= ARCHITECTURE_LINES


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
