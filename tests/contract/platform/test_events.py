"""The change stream: what is told, to whom, how it ends, and that nobody who listens costs those who write."""

import json
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from contract.platform import changes
from contract.platform.app import create_app
from contract.platform.changes import Behind
from contract.platform.library import Operation
from contract.platform.refusal import Refused
from contract.platform.store import Store
from tests.contract.platform.conftest import Json
from tests.contract.platform.old_files import write_file_of_version
from tests.contract.platform.serving import served
from tests.contract.platform.specification import Specification
from tests.contract.platform.test_store import writer
from tests.daemons.real import free_port

ROOT = Path(__file__).parents[3]


class Listener:
    """A stream that was opened, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def event(self) -> dict[str, Any]:
        fields = dict(line.split(": ", 1) for line in iter(self._lines.__next__, ""))
        return {**fields, "data": json.loads(fields["data"]) if fields["event"] == "change" else fields["data"]}

    def change(self) -> Json:
        event = self.event()
        assert event["event"] == "change", event
        data: Json = event["data"]
        return data

    def left(self) -> int:
        """How many events come until the stream ends."""
        return sum(line == "" for line in self._lines)


@contextmanager
def listening(url: str, path: str = "/v1/brains/main") -> Iterator[Listener]:
    with (
        httpx.Client(base_url=url, timeout=30, headers={"authorization": "Bearer a-test-token"}) as client,
        client.stream("GET", f"{path}/events") as response,
    ):
        assert response.status_code == 200
        listener = Listener(response)
        assert listener.event() == {"event": "ready", "id": "1", "data": "ok"}
        yield listener


@contextmanager
def opened(data_dir: Path, **settings: Any) -> Iterator[tuple[Store, str]]:
    """A server of its own, for tests that look behind it."""
    store = Store.open(data_dir)
    app = create_app(store, token=None)
    app.state.platform = replace(app.state.platform, **settings)
    try:
        with served(app) as url:
            yield store, url
    finally:
        store.close()


def test_every_write_is_told_as_described(
    client: httpx.Client, url: str, brain: str, specification: Specification
) -> None:
    def documents(method: str, path: str) -> None:
        answer = client.request(method, f"{brain}/documents", params={"path": path}, content=b"tea")
        assert answer.status_code == 204

    with listening(url, brain) as listener:
        assert listener.response.headers["content-type"].startswith("text/event-stream")
        assert listener.response.headers["cache-control"] == "no-store"
        documents("PUT", "a.md")
        documents("PUT", "a.md")
        client.post(f"{brain}/documents/append", params={"path": "log.txt"}, content=b"one")
        client.post(f"{brain}/documents/append", params={"path": "log.txt"}, content=b"two")
        client.post(f"{brain}/documents/rename", json={"from": "a.md", "to": "log.txt"})
        client.post(f"{brain}/documents/rename", json={"from": "log.txt", "to": "log.txt"})
        documents("DELETE", "log.txt")
        ops = [{"type": "write", "path": "b.md", "content_base64": ""}, {"type": "delete", "path": "b.md"}]
        client.post(f"{brain}/documents/batch-ops", json={"ops": ops, "reason": "tidy up"})
        client.post(f"{brain}/documents", json={"content": "leaves", "path": "c\u2028ñ.md"})
        client.post(f"{brain}/sessions/s/messages", json={"role": "user", "content": "I like tea."})
        told = [listener.event() for _ in range(10)]
    for event in told:
        specification.validate({"$ref": "#/components/schemas/ChangeEvent"}, event["data"])
    assert [event["id"] for event in told] == [str(number) for number in range(2, 12)]
    changed = [{key: value for key, value in event["data"].items() if key != "when"} for event in told]
    assert changed[:9] == [
        {"kind": "created", "path": "a.md"},
        {"kind": "updated", "path": "a.md"},
        {"kind": "created", "path": "log.txt"},
        {"kind": "updated", "path": "log.txt"},
        {"kind": "renamed", "path": "log.txt", "old_path": "a.md"},
        {"kind": "deleted", "path": "log.txt"},
        {"kind": "created", "path": "b.md", "reason": "tidy up"},
        {"kind": "deleted", "path": "b.md", "reason": "tidy up"},
        {"kind": "created", "path": "c\u2028ñ.md"},
    ]
    assert changed[9]["path"].startswith("memory/global/")


def test_what_was_refused_or_rolled_back_is_not_told(data_dir: Path) -> None:
    with opened(data_dir) as (store, url), listening(url) as listener:
        main = store.brain("main")
        with pytest.raises(Refused):
            store.documents.delete(main, "missing.md")
        with pytest.raises(Refused):
            store.documents.batch(main, [Operation("write", "a.md"), Operation("delete", "missing.md")])
        store.documents.put(main, "b.md", b"")
        assert listener.change()["path"] == "b.md"


def test_changes_of_another_brain_are_not_told(data_dir: Path) -> None:
    with opened(data_dir) as (store, url), listening(url) as listener:
        other = store.create_brain("Other")
        store.documents.put(other, "theirs.md", b"")
        store.documents.batch(other, [Operation("write", "theirs.md")], "secret")
        store.documents.put(store.brain("main"), "ours.md", b"")
        assert listener.change()["path"] == "ours.md"


def test_what_another_process_writes_is_told(data_dir: Path) -> None:
    with opened(data_dir) as (_, url), listening(url) as listener:
        with writer(data_dir, "elsewhere", 1, 1) as process:
            process.communicate(timeout=60)
        assert [listener.change()["path"] for _ in range(2)] == ["elsewhere/0.md", "log.txt"]


def test_a_missing_brain_is_refused_before_the_stream_begins(
    client: httpx.Client, specification: Specification
) -> None:
    answer = client.get("/v1/brains/ghost/events")
    assert (answer.status_code, answer.json()["detail"]) == (404, "brain not found: ghost")
    assert ("events", 404) in specification.seen


def test_no_token_is_refused_before_the_stream_begins(url: str) -> None:
    assert httpx.get(f"{url}/v1/brains/main/events").status_code == 401


def test_a_ping_comes_while_nothing_happens(data_dir: Path) -> None:
    with opened(data_dir, ping_seconds=0.01) as (store, url), listening(url) as listener:
        assert listener.event() == {"event": "ping", "id": "2", "data": "keepalive"}
        store.documents.put(store.brain("main"), "a.md", b"")
        assert any(listener.event()["event"] == "change" for _ in range(1000))


def test_the_stream_of_a_deleted_brain_ends(data_dir: Path) -> None:
    with opened(data_dir) as (store, url), listening(url) as listener:
        store.delete_brain(store.brain("main"))
        assert listener.left() == 0


def test_a_listener_who_leaves_leaves_nothing_behind(data_dir: Path) -> None:
    inside, changed = [0], threading.Condition()
    store = Store.open(data_dir)
    app = create_app(store, token=None)

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        inside[0] += 1
        try:
            await app(scope, receive, send)
        finally:
            with changed:
                inside[0] -= 1
                changed.notify_all()

    with served(counted) as url:
        for _ in range(3):
            with listening(url), listening(url):
                assert inside[0] == 2
            with changed:
                assert changed.wait_for(lambda: inside[0] == 0, timeout=30)
    store.close()


SERVER = """
import sys, uvicorn
from pathlib import Path
from contract.platform.app import create_app
from contract.platform.store import Store
app = create_app(Store.open(Path(sys.argv[1])), token=None)
# Without a limit on waiting: a stream that does not end by itself is never ended.
uvicorn.run(app, port=int(sys.argv[2]), log_level="critical", timeout_graceful_shutdown=None)
"""


def test_an_open_stream_does_not_hold_up_a_server_that_is_told_to_stop(data_dir: Path) -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(data_dir), str(port)], cwd=ROOT)
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
            assert client.get(f"{url}/healthz", timeout=30).status_code == 200
        with listening(url) as listener:
            process.send_signal(signal.SIGTERM)
            assert listener.left() == 0
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()


def test_the_log_stays_small_and_who_is_behind_is_told(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEPT", 20)
    monkeypatch.setattr(changes, "READ_AT_ONCE", 8)
    store = Store.open(data_dir)
    main, other = store.brain("main"), store.create_brain("Other")
    began = store.changes.latest()
    for number in range(20):
        store.documents.put(main, f"{number}.md", b"")
    read: list[str] = []
    since = began
    while since < store.changes.latest():
        some, since = store.changes.after(main, since)
        assert len(some) <= 8
        read += [change.path for change in some]
    assert read == [f"{number}.md" for number in range(20)]
    assert store.changes.after(other, began) == ([], began + 20)
    store.documents.put(other, "one-more.md", b"")
    with pytest.raises(Behind):
        store.changes.after(main, began)
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM changes").fetchone() == (20,)
    store.close()


@pytest.mark.slow
def test_a_listener_who_is_too_slow_is_left_without_a_word(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unread is in the log and in the buffers of the connection, and nowhere else."""
    monkeypatch.setattr(changes, "KEPT", 2000)
    long = "x" * 1000
    with opened(data_dir) as (store, url), listening(url) as listener:
        main = store.brain("main")
        for number in range(60):
            store.documents.batch(main, [Operation("write", f"{long}/{number}-{one}") for one in range(250)])
        assert listener.left() < 60 * 250


def test_numbers_are_not_given_again_when_a_brain_is_deleted(data_dir: Path) -> None:
    store = Store.open(data_dir)
    other = store.create_brain("Other")
    store.documents.put(other, "a.md", b"")
    before = store.changes.latest()
    store.delete_brain(other)
    store.documents.put(store.brain("main"), "b.md", b"")
    assert [change.path for change in store.changes.after(store.brain("main"), before)[0]] == ["b.md"]
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        assert connection.execute("SELECT path FROM changes").fetchall() == [("b.md",)]
    store.close()


def test_a_file_from_before_the_log_gets_one(data_dir: Path) -> None:
    write_file_of_version(1, data_dir)
    store = Store.open(data_dir)
    store.documents.put(store.brain("main"), "a.md", b"")
    assert store.changes.latest() == 1
    assert [brain.slug for brain in store.brains()] == ["main"]
    store.close()


def test_a_long_reason_is_cut(data_dir: Path) -> None:
    store = Store.open(data_dir)
    main = store.brain("main")
    store.documents.batch(main, [Operation("write", "a.md")], "why " * 1000)
    told, _ = store.changes.after(main, 0)
    assert told[0].reason == ("why " * 1000)[:512]
    store.close()
