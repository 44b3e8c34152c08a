"""What a person and an agent can see of the platform: `brains-gateway doctor`, and the resource of the same table."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from mcp_types import TextResourceContents
from starlette.responses import HTMLResponse

from contract.platform.meaning import offline
from gateway.app.capabilities import URI
from gateway.app.diagnosis import facts
from gateway.cli.main import main
from gateway.cli.prepare import prepare
from gateway.config.settings import load
from gateway.operations.names import brain_uuid
from gateway.surfaces.catalog import SURFACES
from tests.daemons.fake import BRAIN, FakeDaemon, G, T, Traits, Y
from tests.daemons.real import free_port
from tests.embeddings import answer_never, answer_with, embedding_server
from tests.gateway.conftest import structured
from tests.models import Turn, say, scripted
from tests.served import Era, listening, serving
from tests.test_pins import PIN, PINNED, SERVED
from tests.upstreams import Scripted

TOOLS = [tool["name"] for tool in PIN]


def home_of(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "BRAINS_DATA_DIR": str(tmp_path / "data"), "BRAINS_SURFACES": "memory"}


def doctor(tmp_path: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The command without a process of its own, whose start takes longer than all that is tested here."""
    said, complained = StringIO(), StringIO()
    with (
        mock.patch.dict(os.environ, home_of(tmp_path) | settings),
        chdir(tmp_path),
        redirect_stdout(said),
        redirect_stderr(complained),
        pytest.raises(SystemExit) as ended,
    ):
        main(["doctor", *arguments])
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(arguments, ended.value.code, said.getvalue(), complained.getvalue())


@pytest.mark.slow
def test_as_a_process_of_its_own_it_says_the_same(tmp_path: Path) -> None:
    with daemon() as (fake, url):
        fake.without(f"POST {BRAIN}/consolidate")
        settings = {"BRAINS_UPSTREAM_URL": url}
        alone = subprocess.run(
            [sys.executable, "-m", "gateway", "doctor"],
            env={**home_of(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3]), **settings},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        here = doctor(tmp_path, **settings)
    assert (alone.returncode, alone.stdout, alone.stderr) == (here.returncode, here.stdout, here.stderr)
    assert (here.returncode, here.stderr) == (1, "")


def test_a_variable_that_is_no_setting_and_a_gateway_that_only_reads_are_named(tmp_path: Path) -> None:
    with daemon() as (_, url):
        done = doctor(tmp_path, BRAINS_UPSTREAM_URL=url, BRAINS_AUHT="tokens", BRAINS_READ_ONLY="true")
        status, told = report(tmp_path, BRAINS_UPSTREAM_URL=url, BRAINS_AUHT="tokens", BRAINS_READ_ONLY="true")
    said = "BRAINS_AUHT is not a setting and has no effect: did you mean BRAINS_AUTH?"
    assert f"Doubtful   {said}\n" in done.stdout
    assert "Writes     none: BRAINS_READ_ONLY is set\n" in done.stdout
    assert "All 4 tools can be served." in done.stdout
    assert (told["doubtful"], told["read_only"]) == ([said], True)
    assert status == done.returncode == 0


MODELS = {
    "BRAINS_EMBED_URL": "http://127.0.0.1:9",
    "BRAINS_EMBED_MODEL": "vectors",
    "BRAINS_LLM_URL": "http://127.0.0.1:9",
    "BRAINS_LLM_MODEL": "words",
}


def test_models_that_are_set_in_vain_are_named(tmp_path: Path) -> None:
    with daemon() as (_, url):
        done = doctor(tmp_path, BRAINS_UPSTREAM_URL=url, **MODELS)
        status, told = report(tmp_path, BRAINS_UPSTREAM_URL=url, **MODELS)
        _, without = report(tmp_path, BRAINS_UPSTREAM_URL=url)
    named = "BRAINS_EMBED_URL and BRAINS_LLM_URL are for the embedded brain alone, and a platform is set"
    assert f"Ignored    {named}\n" in done.stdout
    assert told["ignored"] == ["BRAINS_EMBED_URL", "BRAINS_LLM_URL"]
    # It works all the same.
    assert status == done.returncode == 0
    assert "ignored" not in without


@pytest.mark.parametrize("platform", ["http://127.0.0.1:9", None])
def test_models_that_are_set_in_vain_are_logged_at_the_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], platform: str | None
) -> None:
    settings = load(
        data_dir=tmp_path,
        upstream_url=platform,
        embed_url="http://127.0.0.1:9",
        embed_model="vectors",
        log_format="json",
    )
    prepare(settings)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    named = [(line["event"], line["level"], line["settings"]) for line in lines]
    assert named == ([("settings.ignored", "warning", ["BRAINS_EMBED_URL"])] if platform else [])


def report(tmp_path: Path, **settings: str) -> tuple[int, dict[str, Any]]:
    done = doctor(tmp_path, "--json", **settings)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def routes(found: dict[str, Any]) -> dict[tuple[str, str], str | None]:
    return {(row["tool"], row["case"]): row["route"] for row in found["tools"]}


@contextmanager
def daemon(traits: Traits = T, *, brains: tuple[str, ...] = ("main",)) -> Iterator[tuple[FakeDaemon, str]]:
    fake = FakeDaemon(traits)
    fake.brains.update({brain: {} for brain in brains})
    with listening(fake.app()) as url:
        yield fake, url


@pytest.mark.parametrize("traits", [None, T, Y, G], ids=["embedded", "T", "Y", "G"])
def test_every_surface_is_told_of_with_what_the_platform_lacks_for_it(tmp_path: Path, traits: Traits | None) -> None:
    served = SERVED if traits is None else PINNED
    tools = {(name, tool["name"]) for name, pin in served.items() for tool in pin}
    with ExitStack() as stack:
        more = {} if traits is None else {"BRAINS_UPSTREAM_URL": stack.enter_context(daemon(traits))[1]}
        everything = {**more, "BRAINS_SURFACES": ",".join(SURFACES)}
        code, found = report(tmp_path, **everything)
        told = doctor(tmp_path, **everything).stdout
    assert code == 0
    assert {(row["surface"], row["tool"]) for row in found["tools"]} == tools
    assert all(f"Tool of {name}" in told for name in SURFACES)
    assert f"All {len(tools)} tools can be served." in told
    # What it takes to keep a note: a daemon has no records of documents.
    put = next(row for row in found["tools"] if row["tool"] == "jettson_memory_put")
    assert put["missing"] == ([] if traits is None else ["documents by record"])


def test_the_embedded_brain_can_do_everything(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Platform   the embedded brain in {tmp_path / 'data'}\nDialect    platform\nBrain ")
    assert done.stdout.endswith("All 15 tools can be served.\n")
    assert all(f"\n{tool} " in done.stdout or f"\n{tool}, " in done.stdout for tool in TOOLS)


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
def test_every_make_of_the_daemon_can_serve_all_tools(tmp_path: Path, traits: Traits) -> None:
    with daemon(traits) as (fake, url):
        code, found = report(tmp_path, BRAINS_UPSTREAM_URL=url)
    assert (code, found["dialect"], found["problems"], found["all_served"]) == (0, "daemon", [], True)
    assert {row["tool"] for row in found["tools"]} == set(TOOLS)
    assert routes(found)["memory_remember", ""] == "PUT /v1/brains/{brain}/documents"
    assert found["brain"] == {"id": "main", "why": "the only one"}
    assert fake.brains == {"main": {}}


def test_what_is_missing_is_said_tool_by_tool_and_is_an_exit_code(tmp_path: Path) -> None:
    with daemon() as (fake, url):
        fake.without(f"POST {BRAIN}/consolidate")
        code, found = report(tmp_path, BRAINS_UPSTREAM_URL=url)
        told = doctor(tmp_path, BRAINS_UPSTREAM_URL=url)
        code_without_fetch, without_fetch = report(tmp_path, BRAINS_UPSTREAM_URL=url, BRAINS_FETCH="off")
    assert (code, told.returncode, code_without_fetch) == (1, 1, 1)
    assert [row["tool"] for row in found["tools"] if not row["served"]] == ["memory_consolidate"]
    (problem,) = found["problems"]
    assert problem["message"] == "memory_consolidate cannot be served: the platform lacks consolidate, compile."
    assert "Files      ingested from" in told.stdout
    (by_url,) = [row for row in found["tools"] if row["tool"] == "memory_ingest_url"]
    assert (by_url["route"], by_url["how"]) == ("PUT /v1/brains/{brain}/documents", "fetched here, stored there")
    assert "ingest by URL that keeps every page" in by_url["missing"]
    assert "10 of 11 tools can be served." in told.stdout
    assert "1. not_implemented: memory_consolidate cannot be served" in told.stdout
    unserved = [row["tool"] for row in without_fetch["tools"] if not row["served"]]
    assert unserved == ["memory_ingest_url", "memory_consolidate"]


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
def test_what_to_expect_of_each_make_of_the_daemon_is_said(tmp_path: Path, traits: Traits) -> None:
    """Of what was not tried, it says what may be."""
    with daemon(traits) as (fake, url):
        _, found = report(tmp_path, BRAINS_UPSTREAM_URL=url)
        told = doctor(tmp_path, BRAINS_UPSTREAM_URL=url).stdout
    expected = " ".join(found["caveats"])
    assert all(f"\n  - {caveat}\n" in told for caveat in found["caveats"])
    assert "Pages are fetched by the gateway" in expected
    assert "index files (MEMORY.md)" in expected
    is_plain = traits is not T
    assert ("only memory_ask says so" in expected) is not is_plain
    for one in ('with nothing but "ok"', "memory/agent/", "only one of several notes"):
        assert (one in expected) is is_plain
    # Nobody was asked a question to find that out.
    assert "POST /v1/brains/main/ask" not in fake.requests


def test_a_platform_that_can_do_everything_has_nothing_to_expect(tmp_path: Path) -> None:
    _, found = report(tmp_path)
    assert found["caveats"] == []


@pytest.mark.parametrize("dialect", ["platform", "daemon"])
def test_a_dialect_that_was_given_is_looked_at_too(tmp_path: Path, dialect: str) -> None:
    with daemon() as (fake, url):
        fake.without(f"POST {BRAIN}/reflect")
        code, found = report(tmp_path, BRAINS_UPSTREAM_URL=url, BRAINS_DIALECT=dialect)
    assert (code, found["dialect"]) == (1, dialect)
    told = [problem["message"] for problem in found["problems"] if "BRAINS_DIALECT" in problem["message"]]
    assert told == (
        [] if dialect == "daemon" else ["BRAINS_DIALECT is platform, but this platform speaks daemon. Unset it."]
    )
    unserved = {row["tool"] for row in found["tools"] if not row["served"]}
    if dialect == "daemon":
        assert unserved == {"memory_reflect"}
    else:
        assert unserved >= {"memory_search", "memory_reflect", "memory_ingest_file"}


def test_a_brain_that_may_not_fetch_cannot_ingest_pages(tmp_path: Path) -> None:
    code, found = report(tmp_path, BRAINS_FETCH="off")
    assert code == 1
    assert [row["tool"] for row in found["tools"] if not row["served"]] == ["memory_ingest_url"]


@pytest.mark.parametrize(
    ("brains", "settings", "brain"),
    [
        (("a", "b"), {}, {"id": "a", "why": "the first of 2"}),
        (("a", "b"), {"JB_BRAIN": "b"}, {"id": "b", "why": "the configured default"}),
        (("a", "b"), {"JB_BRAIN": brain_uuid("b")}, {"id": "b", "why": "the configured default"}),
    ],
)
def test_the_brain_that_would_be_used_is_named_with_the_reason(
    tmp_path: Path, brains: tuple[str, ...], settings: dict[str, str], brain: dict[str, str]
) -> None:
    with daemon(brains=brains) as (_, url):
        code, found = report(tmp_path, BRAINS_UPSTREAM_URL=url, **settings)
    assert (code, found["brain"]) == (0, brain)


@pytest.mark.parametrize(("brains", "settings"), [((), {}), (("a",), {"JB_BRAIN": "gone"})])
def test_a_brain_that_is_not_there_is_a_problem(
    tmp_path: Path, brains: tuple[str, ...], settings: dict[str, str]
) -> None:
    with daemon(brains=brains) as (_, url):
        code, found = report(tmp_path, BRAINS_UPSTREAM_URL=url, **settings)
    assert (code, [problem["code"] for problem in found["problems"]]) == (1, ["no_brain"])
    told = f"{found['problems'][0]['message']} {found['problems'][0]['remedy']}"
    assert told.count("memory_create_brain") == 1


def test_a_platform_that_cannot_be_asked_is_said_with_what_to_do(tmp_path: Path) -> None:
    secret = {"BRAINS_UPSTREAM_TOKEN": "hunter2"}
    html = Scripted({"GET /v1/brains": lambda _request: HTMLResponse("<h1>Welcome</h1>")})
    nothing = Scripted()
    locked = FakeDaemon(token="right")
    with listening(html.app()) as page, listening(nothing.app()) as bare, listening(locked.app()) as closed:
        cases = {
            f"http://127.0.0.1:{free_port()}": "upstream_unavailable",
            page: "upstream_error",
            bare: "upstream_error",
            closed: "forbidden",
        }
        for url, expected in cases.items():
            done = doctor(tmp_path, BRAINS_UPSTREAM_URL=url, **secret)
            assert done.returncode == 1
            assert f"1. {expected}: " in done.stdout
            assert done.stdout.endswith("No tool can be served.\n")
            assert "hunter2" not in done.stdout + done.stderr
            assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_same_table_is_a_resource(tmp_path: Path, era: Era) -> None:
    with daemon(brains=("main",)) as (_, url), serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http(era) as client:
            (resource,) = await client.list_resources()
            assert (str(resource.uri), resource.mime_type) == (URI, "application/json")
            (content,) = await client.read_resource(URI)
            assert isinstance(content, TextResourceContents)
            found = json.loads(content.text)
            stored = structured(await client.call_tool("memory_remember", {"content": "x"}))
    assert routes(found)["memory_remember", ""] == stored["route"]
    assert url not in content.text
    assert [row["tool"] for row in found["tools"] if not row["served"]] == ["memory_ingest_file"]


async def test_the_resource_says_what_is_wrong_instead_of_failing(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http("modern") as client:
            (content,) = await client.read_resource(URI)
    assert isinstance(content, TextResourceContents)
    assert [problem["code"] for problem in json.loads(content.text)["problems"]] == ["upstream_unavailable"]


@pytest.mark.needs_offline_model
def test_the_model_that_embeds_is_told_with_how_far_it_is(tmp_path: Path) -> None:
    told = doctor(tmp_path)
    assert "\nEmbedding  all-MiniLM-L6-v2-int8, offline, 0 of 0 chunks\n" in told.stdout
    code, found = report(tmp_path)
    assert (code, found["models"]["embedding"]["state"]) == (0, "ready")
    assert found["models"]["embedding"]["meanwhile"]["name"] == "wordllama-minilm-256"


@pytest.mark.needs_offline_model
def test_the_small_model_alone_is_told(tmp_path: Path) -> None:
    told = doctor(tmp_path, BRAINS_EMBED_MODEL="small")
    assert "\nEmbedding  wordllama-minilm-256, offline, 0 of 0 chunks\n" in told.stdout


def test_a_model_that_has_notes_to_read_is_told_with_the_one_that_serves_meanwhile() -> None:
    meanwhile = {"name": "small", "source": "offline", "state": "ready", "embedded": 9, "chunks": 9}
    model = {"name": "large", "source": "offline", "state": "building", "embedded": 4, "chunks": 9}
    said = dict(
        facts({"dialect": "", "brain": None, "models": {"embedding": {**model, "meanwhile": meanwhile}}}, "", "", "")
    )
    expected = "large, offline, 4 of 9 chunks, more to come; until then small, offline, 9 of 9 chunks"
    assert said["Embedding"] == expected


def test_where_there_is_no_small_model_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "PACKAGE", "no-such-package")
    told = doctor(tmp_path)
    assert "\nEmbedding  all-MiniLM-L6-v2-int8, offline, 0 of 0 chunks\n" in told.stdout
    told = doctor(tmp_path, BRAINS_EMBED_MODEL="small")
    assert "\nEmbedding  off: notes are found by their words alone\n" in told.stdout
    assert told.returncode == 0


def test_a_service_for_embeddings_that_works_is_told_as_such(tmp_path: Path) -> None:
    with embedding_server() as service:
        told = doctor(tmp_path, BRAINS_EMBED_URL=f"{service.url}/v1", BRAINS_EMBED_MODEL="small")
    assert told.returncode == 0
    assert "\nEmbedding  small, by BRAINS_EMBED_URL, 0 of 0 chunks\n" in told.stdout


def test_a_service_for_embeddings_that_fails_is_a_problem(tmp_path: Path) -> None:
    with embedding_server() as service:
        service.answer = answer_with(401)
        settings = {"BRAINS_EMBED_URL": service.url, "BRAINS_EMBED_MODEL": "small", "BRAINS_EMBED_KEY": "hunter2"}
        told = doctor(tmp_path, **settings)
    assert told.returncode == 1
    assert "The embedding model small answered 401; notes are found by their words alone. Check BRAINS_EMBED_URL" in (
        told.stdout
    )
    assert "hunter2" not in told.stdout + told.stderr


def test_a_service_for_embeddings_that_is_silent_is_a_problem(tmp_path: Path) -> None:
    with embedding_server() as service:
        service.answer = answer_never
        told = doctor(tmp_path, BRAINS_EMBED_URL=service.url, BRAINS_EMBED_MODEL="small")
    assert told.returncode == 1
    assert "The embedding model small has not answered for 5 s; notes are found by their words alone." in told.stdout


def test_chunks_that_a_service_refuses_are_told() -> None:
    model = {"name": "m", "source": "endpoint", "state": "ready", "embedded": 4, "chunks": 5, "refused": 1}
    said = dict(facts({"dialect": "", "brain": None, "models": {"embedding": model}}, "", "", ""))
    assert said["Embedding"] == "m, by BRAINS_EMBED_URL, 4 of 5 chunks, 1 refused"


@pytest.mark.needs_offline_model
async def test_readiness_tells_of_the_model_once_the_embedded_brain_runs(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        async with httpx.AsyncClient(base_url=served.url) as http:
            assert "models" not in (await http.get("/readyz")).json()
            async with served.over_http("modern") as client:
                await client.call_tool("memory_remember", {"content": "Otters swim."})
            ready = await http.get("/readyz")
    assert ready.status_code == 200
    embedding = ready.json()["models"]["embedding"]
    assert (embedding["state"] in ("building", "ready"), embedding["chunks"]) == (True, 1)
    meanwhile = embedding["meanwhile"]
    assert (meanwhile["state"], meanwhile["embedded"], meanwhile["chunks"]) == ("ready", 1, 1)


def test_without_a_language_model_that_is_said(tmp_path: Path) -> None:
    assert "\nLanguage   no model: answers are made by rule; BRAINS_LLM_URL sets one\n" in doctor(tmp_path).stdout


def test_a_language_model_that_works_is_told_as_such(tmp_path: Path) -> None:
    with scripted(say("ok")) as (model, endpoint):
        told = doctor(tmp_path, BRAINS_LLM_URL=endpoint.url, BRAINS_LLM_MODEL="scripted")
    assert "\nLanguage   scripted, by BRAINS_LLM_URL, works\n" in told.stdout
    assert told.returncode == 0
    assert [asked["messages"] for asked in model.asked] == [[{"role": "user", "content": "Say ok."}]]


def test_a_language_model_that_fails_is_a_problem(tmp_path: Path) -> None:
    with scripted(Turn(status=401)) as (_, endpoint):
        settings = {"BRAINS_LLM_URL": endpoint.url, "BRAINS_LLM_MODEL": "scripted", "BRAINS_LLM_KEY": "hunter2"}
        told = doctor(tmp_path, **settings)
    assert told.returncode == 1
    assert "The language model scripted does not work: the language model refused the key. Answers are made by" in (
        told.stdout
    )
    assert "hunter2" not in told.stdout + told.stderr
