"""What the commands of the harness do: list, explain, compare, clean, tokens, and the forms of a report."""

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from contract import case
from contract.command import main
from contract.machines import as_json, unchecked
from contract.masking import masked, secrets_in
from contract.page import as_html
from contract.report import Report
from contract.sources import where_of
from contract.words import cut, shown
from tests.broken.wrapping import Asked, Forward, Said, problem, refuses, wrapped
from tests.contract.platform.serving import served
from tests.contract.targets import TOKEN, check_app, reference_app

SCHEMA = json.loads((Path(case.__file__).parent / "report.schema.json").read_text(encoding="utf-8"))
SOME = ["http/service", "http/documents/put*"]


@pytest.fixture
def url() -> Iterator[str]:
    with reference_app() as app, served(app) as served_at:
        yield served_at


def report_on_a_broken_platform() -> Report:
    """One that has something of everything."""
    broken = refuses("PUT {b}/documents", lambda asked: "x" * 9 in asked.query.get("path", ""), problem(500, "oh"))
    with reference_app() as app:
        escaping = refuses("PUT {b}/documents", lambda asked: ".." in asked.query.get("path", ""), problem(204, "oh"))
        done = check_app(wrapped(wrapped(app, broken), escaping), case.selected(case.load(), SOME), TOKEN)
    return Report(done)


def test_json_is_as_its_schema_says() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    report = report_on_a_broken_platform()
    told = json.loads(as_json(report))
    assert list(Draft202012Validator(SCHEMA).iter_errors(told)) == []
    assert told["findings"][0]["severity"] == "critical"
    assert list(Draft202012Validator(SCHEMA).iter_errors(json.loads(unchecked("a", "b", as_json=True)))) == []


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_else_and_has_every_case() -> None:
    report = report_on_a_broken_platform()
    page = Page()
    page.feed(as_html(report))
    assert [tag for tag, attrs in page.tags if "src" in attrs or "href" in attrs or tag in ("link", "iframe")] == []
    cases = [attrs for tag, attrs in page.tags if tag == "details" and "data-kind" in attrs]
    assert len(cases) == len(report.run.results)
    for one in report.failed:
        assert one.failure is not None
        assert one.case.id in page.text
        assert one.failure.request in page.text
    assert report.verdict() in page.text
    assert "Fix: Resolve the path" in page.text


def test_what_a_server_says_is_text_in_the_page() -> None:
    evil = refuses("GET /healthz", lambda _asked: True, problem(500, "<script>alert(1)</script>"))
    with reference_app() as app:
        done = check_app(wrapped(app, evil), case.selected(case.load(), ["http/service/health"]), TOKEN)
    page = as_html(Report(done))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page


def test_cases_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--only", "critical", "--skip", "mcp"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("http/") and "critical" in line for line in lines[:-1])
    assert lines[-1] == f"{len(lines) - 1} cases."
    assert main(["explain", "mcp/memory/remember/sent-twice"]) == 0
    told = capsys.readouterr().out
    assert "ours docs/writes.md: docs/writes.md" in told
    assert "why          Clients send a call again" in told
    assert "- call: memory_remember" in told
    assert main(["explain", "ask/top-k"]) == 2
    assert "there is no case ask/top-k: do you mean http/ask/top-k?" in capsys.readouterr().err
    assert main(["explain", "http/ask/topk"]) == 2
    assert "http/ask/top-k" in capsys.readouterr().err
    assert main(["explain", "mcp/nothing"]) == 2
    assert "`contract list` names them" in capsys.readouterr().err
    assert main(["explain", "http/ask/top-k"]) == 0
    (file,) = (line.strip() for line in capsys.readouterr().out.splitlines() if line.endswith("openapi.yaml"))
    assert Path(file).is_file()


def test_every_source_can_be_opened() -> None:
    root = Path(__file__).parents[2]
    for one in [*case.load(), *case.load_calls()]:
        where = where_of(one.source)
        assert where
        if one.source.startswith("ours "):
            assert (root / where).exists()


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    told = json.loads(as_json(report_on_a_broken_platform()))
    before.write_text(json.dumps(told), encoding="utf-8")
    for one in told["cases"]:
        one["outcome"] = "passed" if one["outcome"] == "failed" else one["outcome"]
    after.write_text(json.dumps(told), encoding="utf-8")
    assert main(["compare", str(before), str(after)]) == 0
    assert "http/documents/put-a-climbing-path (must): failed → passed" in capsys.readouterr().out
    assert main(["compare", str(after), str(before)]) == 1
    assert "Worse, " in capsys.readouterr().out
    assert main(["compare", str(before), str(before)]) == 0
    assert capsys.readouterr().out.endswith("Nothing changed.\n")
    after.write_text("[]", encoding="utf-8")
    assert main(["compare", str(before), str(after)]) == 2
    assert capsys.readouterr().err == f"contract: {after} is no report of `contract check --json`\n"


def test_the_token_comes_from_the_environment_or_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["check", "--http", url, "--only", "http/service/no-token"]
    assert main(options) == 2
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    assert main([*options, "--token-file", str(tmp_path / "token")]) == 0
    monkeypatch.setenv("CONTRACT_TOKEN", TOKEN)
    page = tmp_path / "page.html"
    assert main([*options, "--html", str(page)]) == 0
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err + page.read_text(encoding="utf-8")


@pytest.mark.parametrize("padding", [0, *range(280, 340, 3)])
def test_a_secret_that_is_quoted_is_in_no_text(padding: int) -> None:
    """Nor is the half of it that is left where an answer was cut."""
    secrets = secrets_in("s3cr3t-of-mine", [("x-api-key", "Key abcd1234efgh"), ("x-brain", "larch-and-oak")])
    quoted = cut(f"{'.' * padding} s3cr3t-of-mine {shown('s3cr3t-of-mine')} abcd1234efgh larch-and-oak", 320)
    told = masked(quoted, secrets)
    assert [word for word in ("s3cr", "abcd") if word in told] == []
    if not padding:
        assert told == ' … "…" … larch-and-oak'


def test_a_token_that_a_server_quotes_is_in_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def quotes(asked: Asked, forward: Forward) -> Said:
        said = await forward(asked)
        if asked.path.endswith("/documents"):
            return problem(500, "oh", f"{asked.headers['authorization']} is not let in")
        return said if asked.headers.get("authorization", "").endswith(TOKEN) else problem(403, "no", f"not {TOKEN}x")

    files = {kind: tmp_path / kind for kind in ("report", "junit", "html")}
    options = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    with reference_app() as app, served(wrapped(app, quotes)) as url:
        target = ["--http", url, "--only", "http/documents/put*", "--token"]
        assert main(["check", *target, TOKEN, *options]) == 1
        assert main(["record", *target, TOKEN]) == 0
        assert main(["check", *target, f"{TOKEN}x"]) == 2
    told = capsys.readouterr()
    for text in (told.out, told.err, *(file.read_text(encoding="utf-8") for file in files.values())):
        assert TOKEN not in text
    assert "Bearer … is not let in" in told.out
    assert "wants another token" in told.out


def test_a_warning_comes_before_traversal_and_sizes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["check", "--http", url, "--token", TOKEN, "--only", "http/documents/put-a-climbing-path"]
    assert main(options) == 0
    assert "This run tries paths and names that climb out of a brain (1 cases)." in capsys.readouterr().err
    assert main([*options, "--only", "http/service/health", "--skip", "traversal"]) == 0
    assert "tries" not in capsys.readouterr().err


def test_a_run_in_a_brain_that_is_given_leaves_it_as_it_was(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
        client.post("/v1/brains", json={"name": "Mine", "slug": "mine"})
        client.put("/v1/brains/mine/documents", params={"path": "tea.md"}, content="tea")
        options = ["--http", url, "--token", TOKEN, "--brain", "mine"]
        assert main(["check", *options, "--only", "http/documents", "--only", "http/brains/create"]) == 0
        told = capsys.readouterr().out
        assert "it makes brains, and --brain mine says to make none" in told
        assert [one["slug"] for one in client.get("/v1/brains").json()["items"]] == ["main", "mine"]
        listed = client.get("/v1/brains/mine/documents", params={"recursive": "true"}).json()["items"]
        assert [one["path"] for one in listed] == ["tea.md"]
        assert "Left behind: nothing." in told
        assert client.get("/v1/brains/mine/documents/read", params={"path": "tea.md"}).text == "tea"
        client.put("/v1/brains/mine/documents", params={"path": "contract/contract-0123abcd-x/a.md"}, content="left")
        assert main(["clean", *options, "--dry-run"]) == 0
        assert "1 document would be deleted." in capsys.readouterr().out
        assert main(["clean", *options]) == 0
        assert client.get("/v1/brains/mine/documents", params={"dir": "contract"}).json()["items"] == []


def test_only_what_a_run_named_is_cleaned(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["contract-0123abcd-shared", "contract-4567abcd-shared", "contract-law", "mine"]
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
        for name in names:
            client.post("/v1/brains", json={"name": name, "slug": name})
        options = ["clean", "--http", url, "--token", TOKEN]
        assert main([*options, "--dry-run"]) == 0
        assert "2 brains would be deleted." in capsys.readouterr().out
        assert main([*options, "--run", "0123abcd"]) == 0
        assert [one["slug"] for one in client.get("/v1/brains").json()["items"]] == ["main", *names[1:]]
        assert main(options) == 0
        assert [one["slug"] for one in client.get("/v1/brains").json()["items"]] == ["main", "contract-law", "mine"]


def test_a_brain_that_is_given_must_be_there(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--http", url, "--token", TOKEN, "--brain", "nobody-s"]) == 2
    assert capsys.readouterr().out.startswith("there is no brain nobody-s")
