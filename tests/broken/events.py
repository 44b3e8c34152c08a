"""Broken peers: change streams. They pass on what is said while it is said, and so are layers of their own."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.contract.targets import TOKEN

Frame: TypeAlias = tuple[str, Any]


@dataclass
class Stream:
    """One stream: its brain, what was written to any brain since the peer began, and what it keeps back."""

    brain: str
    written: list[tuple[str, str]]
    kept: list[Frame] = field(default_factory=list)


Tell: TypeAlias = Callable[[Stream, Frame], list[Frame]]


@dataclass(frozen=True)
class StreamPeer:
    name: str
    tell: Tell
    breaks: tuple[str, ...]
    token: str | None = None


def peer(name: str, tell: Tell, *breaks: str, token: str | None = None) -> StreamPeer:
    return StreamPeer(name, tell, tuple(f"http/events/{one}" for one in breaks), token)


def streaming(app: ASGIApp, peer: StreamPeer) -> ASGIApp:
    written: list[tuple[str, str]] = []

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        _, _, brain, rest = (*scope["path"].split("/", 4)[1:], "", "", "")[:4]
        if rest != "events":
            await app(scope, _noting(scope, receive, brain, written), send)
            return
        stream = Stream(brain, written)
        if peer.token is not None:
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {peer.token}".encode())]}

        async def retold(message: Message) -> None:
            if message["type"] == "http.response.body" and message["body"].startswith(b"event: "):
                body = b"".join(map(_encoded, peer.tell(stream, _parsed(message["body"]))))
                message = {**message, "body": body}
            await send(message)

        await app(scope, receive, retold)

    return broken


def _noting(scope: Scope, receive: Receive, brain: str, written: list[tuple[str, str]]) -> Receive:
    """Notes what a request would write, whether it is done or refused."""
    body = b""

    async def noted() -> Message:
        nonlocal body
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body"):
            paths = parse_qs(scope["query_string"].decode()).get("path", [])
            if scope["path"].endswith("batch-ops"):
                paths = [operation["path"] for operation in json.loads(body)["ops"]]
            written.extend((brain, path) for path in paths)
        return message

    return noted


def _parsed(frame: bytes) -> Frame:
    fields = dict(line.split(": ", 1) for line in frame.decode().split("\n") if line)
    data = fields["data"]
    return fields["event"], json.loads(data) if data.startswith("{") else data


def _encoded(frame: Frame) -> bytes:
    event, data = frame
    return f"event: {event}\ndata: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _changes(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Tell:
    return lambda stream, frame: [("change", change(frame[1])) if frame[0] == "change" else frame]


def _created(path: str) -> Frame:
    return "change", {"kind": "created", "path": path, "when": "2026-01-01T00:00:00+00:00"}


def _backwards(stream: Stream, frame: Frame) -> list[Frame]:
    if frame[0] != "change":
        return [frame]
    stream.kept.insert(0, frame)
    return stream.kept if len(stream.kept) == 3 else []


def _of_all_brains(stream: Stream, frame: Frame) -> list[Frame]:
    others = [_created(path) for brain, path in stream.written if brain != stream.brain]
    return [*others, frame] if frame[0] == "change" else [frame]


def _of_old(stream: Stream, frame: Frame) -> list[Frame]:
    old = [_created(path) for brain, path in stream.written if brain == stream.brain]
    return [frame, *old] if frame[0] == "ready" else [frame]


def _too_early(stream: Stream, frame: Frame) -> list[Frame]:
    tried = [_created(path) for brain, path in stream.written if brain == stream.brain]
    return tried if frame[0] == "change" else [frame]


PEERS = [
    peer("a stream begins with another word", lambda _, frame: [("hello", frame[1])], "ready", "put"),
    peer("a stream begins with a change", lambda _, frame: [_created("a.md"), frame], "ready", "put"),
    peer(
        "every change is an update",
        _changes(lambda told: {**told, "kind": "updated"}),
        "put",
        "create",
        "append",
        "delete",
        "rename",
        "batch",
    ),
    peer(
        "every change is a creation",
        _changes(lambda told: {**told, "kind": "created"}),
        "put-again",
        "append",
        "delete",
        "rename",
        "batch",
    ),
    peer(
        "changes have no time",
        _changes(lambda told: {k: v for k, v in told.items() if k != "when"}),
        "put",
        "put-again",
        "append",
        "delete",
        "rename",
        "batch",
        "create",
    ),
    peer(
        "a rename is told by its new path alone",
        _changes(lambda told: {k: v for k, v in told.items() if k != "old_path"}),
        "rename",
    ),
    peer(
        "reasons are kept back",
        _changes(lambda told: {k: v for k, v in told.items() if k != "reason"}),
        "batch-reason",
        "long-reason",
    ),
    peer(
        "paths are told in ASCII",
        _changes(lambda told: {**told, "path": told["path"].encode("ascii", "replace").decode()}),
        "a-path-of-other-scripts",
    ),
    peer("changes come backwards", _backwards, "order"),
    peer("everyone hears of every brain", _of_all_brains, "another-brain"),
    peer("what was before is told too", _of_old, "before", "put-again"),
    peer("changes are told before they are made", _too_early, "batch-refused"),
    peer("everyone may listen", lambda _, frame: [frame], "no-token", token=TOKEN),
]
