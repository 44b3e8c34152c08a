"""The stub of a language model, and the launcher of the real daemon when it cannot start."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemons import real
from tests.daemons.llm import Script, ScriptedLLM
from tests.daemons.real import running_daemon

MEMORY = {"filename": "a.md", "content": "a"}
REFLECTION = {"outcome": "success"}


async def completed(script: Script, system: str = "", *, stream: bool = False) -> httpx.Response:
    transport = httpx.ASGITransport(ScriptedLLM(script).app())
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Well?"}]
    async with httpx.AsyncClient(transport=transport, base_url="http://llm") as client:
        body = {"model": "m", "messages": messages, "stream": stream}
        return await client.post("/v1/chat/completions", json=body)


def content(response: httpx.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


def deltas(response: httpx.Response) -> list[str | None]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line)["choices"][0]["delta"].get("content") for line in lines]


async def test_every_token_is_a_chunk_of_its_own() -> None:
    response = await completed(Script(tokens=["a ", "b"]), stream=True)
    assert deltas(response) == ["a ", "b", None]
    assert response.text.endswith("data: [DONE]\n\n")


async def test_a_cut_stream_ends_without_a_word() -> None:
    response = await completed(Script(tokens=["a ", "b"], cut_after=1), stream=True)
    assert deltas(response) == ["a "]
    assert "[DONE]" not in response.text


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("You are a memory extraction agent.", {"memories": [MEMORY]}),
        ("You are a reflection agent.", REFLECTION),
    ],
)
async def test_the_stages_get_the_json_they_ask_for(system: str, said: dict[str, Any]) -> None:
    script = Script(memories=[MEMORY], reflection=REFLECTION)
    assert json.loads(content(await completed(script, system))) == said
    script.prose = True
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(content(await completed(script, system)))


async def test_a_failing_model_answers_500() -> None:
    assert (await completed(Script(fails=True))).status_code == 500


def program(tmp_path: Path, code: str) -> Path:
    path = tmp_path / "memory"
    path.write_text(f"#!{sys.executable}\n{code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_daemon_that_does_not_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "PROGRAM", program(tmp_path, "raise SystemExit('no disk left')"))
    with pytest.raises(RuntimeError, match=r"(?s)ended with 1; .*no disk left"), running_daemon(tmp_path / "root"):
        pass


def test_nothing_of_the_person_reaches_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("JB_AUTH_TOKEN", "mine")
    code = "import os; raise SystemExit(sorted(os.environ.items()))"
    monkeypatch.setattr(real, "PROGRAM", program(tmp_path, code))
    with pytest.raises(RuntimeError) as raised, running_daemon(tmp_path / "root"):
        pass
    assert "JB_HOME" in str(raised.value)
    assert "mine" not in str(raised.value)
