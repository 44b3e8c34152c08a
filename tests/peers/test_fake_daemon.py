"""The fake daemon answers as the real one does: the same requests, in the same order, to both."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.daemons.fake import FakeDaemon, Script, T
from tests.daemons.llm import ScriptedLLM
from tests.daemons.real import running_daemon
from tests.daemons.steps import PAGE, SCRIPTS, STEPS, TOKEN, B, Step, b64
from tests.served import listening

# The first test waits for seven pairs of daemons and every request to them.
pytestmark = pytest.mark.timeout(300)

# What is blanked in every answer, because it is another at every run or is not the fake's to know.
BLANK = {
    "tookMs": "time",
    "score": "BM25 and its kin are the daemon's own",
    "bm25Rank": "as the score",
    "attempts": "how the daemon searched",
}
WORDS = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
    (r"note-\d{8}t\d{9}z", "note-<time>"),
    (r"session-[0-9a-z]{8,}", "session-<time>"),
    (r'invalid JSON: [^"\\]*(\\"[^"\\]*)*"', 'invalid JSON: <words>"'),  # The words of the JSON parser.
    (r"(E[A-Z]+: [a-z ]+|is a directory\)),? [^\"]*\"", r'\1, <place>"'),
    (r"note_\d{13}", "note_<time>"),
    (r"http://127\.0\.0\.1:\d+/v1/", "<model>/v1/"),
]
# Steps whose bodies differ, and why; status and media type are the same even there.
DIFFERENT = {
    "search a singular": "the index stems words; the fake knows whole words",
    "search a typo": "the index guesses file names from parts of words; the fake does not guess",
    "reflect on heuristics, then list": "each heuristic becomes a note; the fake writes the reflection alone",
}


def answer(step: Step, client: httpx.Client) -> dict[str, Any]:
    body: dict[str, Any] = {"content": step.content} if step.json is None else {"json": step.json}
    with client.stream(step.method, step.path, headers=step.headers, **body) as response:
        # An endless stream is left after its first frame.
        text = next(response.iter_text()) if step.endless else response.read().decode("utf-8", "replace")
    media = response.headers.get("content-type", "").split(";")[0]
    caching = response.headers.get("cache-control")
    return {"status": response.status_code, "media": media, "caching": caching, "body": normalised(media, text)}


def normalised(media: str, text: str) -> Any:
    for pattern, shown in WORDS:
        text = re.sub(pattern, shown, text)
    if media == "text/event-stream":
        frames = [dict(line.split(": ", 1) for line in part.split("\n")) for part in text.strip().split("\n\n")]
        return [{**frame, "data": blanked(parsed(frame["data"]))} for frame in frames]
    return blanked(parsed(text))


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def blanked(value: Any) -> Any:
    if isinstance(value, list):
        return [blanked(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {key: "<blank>" if key in BLANK else blanked(item) for key, item in value.items()}
    if isinstance(trace := shown.get("trace"), dict):
        # The rest tells how the daemon searched.
        shown["trace"] = {key: trace.get(key) for key in ("mode", "originalQuery")}
    for key in ("chunks", "memories"):
        if isinstance(shown.get(key), list) and all("path" in hit for hit in shown[key]):
            # The order follows the scores.
            shown[key] = sorted(shown[key], key=lambda hit: str(hit["path"]))
    return shown


def page_server() -> Starlette:
    def page(_request: Any) -> Response:
        return PlainTextResponse(PAGE)

    return Starlette(routes=[Route("/page", page)])


Answers = dict[str, tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """What both daemons said to every step."""
    seen: Answers = {}
    with ExitStack() as stack:
        page = stack.enter_context(listening(page_server())) + "/page"
        for name, script in SCRIPTS.items():
            token = TOKEN if name == "token" else None
            llm = stack.enter_context(listening(ScriptedLLM(script).app())) if script else None
            fake = FakeDaemon(T, llm=script, token=token, pages={page: ("text/plain", PAGE.encode())})
            with (
                running_daemon(tmp_path_factory.mktemp(name), llm_url=llm, token=token) as real_url,
                listening(fake.app()) as fake_url,
                httpx.Client(base_url=real_url, timeout=60, trust_env=False) as real_client,
                httpx.Client(base_url=fake_url, timeout=60, trust_env=False) as fake_client,
            ):
                for step in STEPS:
                    if step.daemon == name:
                        told = with_page(step, page)
                        seen[step.name] = answer(told, real_client), answer(told, fake_client)
        yield seen


def with_page(step: Step, page: str) -> Step:
    return replace(step, json={"url": page}) if step.json == {"url": "{page}"} else step


def test_every_step_has_a_name_of_its_own() -> None:
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)
    assert set(DIFFERENT) <= set(names)


@pytest.mark.parametrize("name", [step.name for step in STEPS])
def test_the_fake_answers_as_the_real_daemon(answers: Answers, name: str) -> None:
    real, fake = answers[name]
    if name in DIFFERENT:
        assert real.pop("body") != fake.pop("body"), "no difference any more"
    assert fake == real


@pytest.fixture(params=["real", "fake"])
def speaking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Script]]:
    """A daemon of either kind whose model speaks slowly, and its script."""
    script = Script(tokens=["one ", "two ", "three ", "four"], delay=0.2)
    with ExitStack() as stack:
        if request.param == "real":
            llm = stack.enter_context(listening(ScriptedLLM(script).app()))
            yield stack.enter_context(running_daemon(tmp_path, llm_url=llm)), script
        else:
            yield stack.enter_context(listening(FakeDaemon(T, llm=script).app())), script


def test_tokens_arrive_while_the_model_still_speaks(speaking: tuple[str, Script]) -> None:
    url, script = speaking
    seen: list[tuple[str, int]] = []
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        client.post("/v1/brains", json={"brainId": "b1"})
        with client.stream("POST", f"{B}/ask", json={"question": "Count"}) as response:
            data = (json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line[:5] == "data:")
            seen.extend((item["text"], script.said) for item in data if "text" in item)
    assert [text for text, _ in seen] == script.tokens
    assert seen[0][1] < len(script.tokens)


def test_events_tell_of_changes_alike(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as real_url, listening(FakeDaemon(T).app()) as fake_url:
        assert changes(fake_url) == changes(real_url)


def changes(url: str) -> list[dict[str, Any]]:
    """The frames that a few writes make."""
    op = {"type": "write", "path": "c.md", "content_base64": b64("x")}
    writes = [
        Step("create", "PUT", f"{B}/documents?path=a.md", content=b"x"),
        Step("update", "PUT", f"{B}/documents?path=a.md", content=b"y"),
        Step("rename", "POST", f"{B}/documents/rename", json={"from": "a.md", "to": "b.md"}),
        Step("delete", "DELETE", f"{B}/documents?path=b.md"),
        Step("batch", "POST", f"{B}/documents/batch-ops", json={"ops": [op], "reason": "import"}),
    ]
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        client.post("/v1/brains", json={"brainId": "b1"})
        with client.stream("GET", f"{B}/events") as response:
            lines = response.iter_lines()
            frames = [frame(lines)]
            for write in writes:
                answer(write, client)
                frames.append(frame(lines))
    return frames


def frame(lines: Iterator[str]) -> dict[str, Any]:
    fields = dict(line.split(": ", 1) for line in iter(lines.__next__, ""))
    data = parsed(fields["data"])
    return {**fields, "data": data | {"when": "<time>"} if isinstance(data, dict) else data}
