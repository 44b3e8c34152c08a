"""Answer streams as platforms send them, and everything that can happen to them on the way. Drawn from one seed."""

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

TRANSCRIPTS = Path(__file__).parents[2] / "contract" / "transcripts"
WORDS = (
    *(
        "otters",
        "hold",
        "hands",
        "größe",
        "naïve",
        "日本語",
        "😀",
        "👩‍👩‍👧",
        "a\u2028b",
        "\x85",
        "\u0000",
        "\\",
        '"',
        "data:",
        "\n",
    ),
    *("event: done", "\r\n\r\n", ": ping", "\ufeff", "\u202e", "{}", "[DONE]", "\ud83d", "é", " ", "  "),
)
EVENT_STREAM = "text/event-stream"
# How a stream ends: as it should, in three kinds of failure, or not at all.
Ending = Literal["end", "reset", "garbage", "slow", "silence", "comments", "unknown events", "empty pieces"]
UNENDED: tuple[Ending, ...] = ("silence", "comments", "unknown events", "empty pieces")


@dataclass(frozen=True)
class Sent:
    """What goes over the wire: chunks of bytes under headers, and how they end."""

    chunks: tuple[bytes, ...]
    daemon: bool
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": EVENT_STREAM})
    ending: Ending = "end"
    # Whether an answer that is whole must come through as one; a cap or a clock may end the others.
    due: bool = True

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


Mutation = Callable[[random.Random, Sent], Sent]


def event(rng: random.Random, kind: str, fields: dict[str, Any]) -> bytes:
    """An event, spelled in one of the ways there are."""
    data = json.dumps({"type": kind, **fields} if rng.random() < 0.7 else fields, ensure_ascii=rng.random() < 0.3)
    # Half a character has no bytes: it can be sent as an escape alone.
    encoded = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", data).encode()
    space = rng.choice([b" ", b" ", b""])
    lines = [b"event:" + space + kind.encode(), b"data:" + space + encoded]
    if rng.random() < 0.1 and b", " in encoded:
        # In two lines: a line end between two tokens of JSON is none of its text.
        lines[1] = lines[1].replace(b", ", b",\ndata: ", 1) if _is_outside_text(encoded) else lines[1]
    elif rng.random() < 0.01:
        # In the middle of a text it is no JSON any more.
        lines[1] = lines[1][:-3] + b"\ndata: " + lines[1][-3:]
    if rng.random() < 0.2:
        lines.insert(rng.randrange(3), rng.choice([b"id: 7", b"retry: 100", b": comment", b"other: x", b"id"]))
    return b"\n".join(lines) + b"\n\n"


def _is_outside_text(encoded: bytes) -> bool:
    return encoded[: encoded.index(b", ")].count(b'"') % 2 == 0 and b"\\" not in encoded


def said(rng: random.Random, most: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def generated(rng: random.Random, *, daemon: bool) -> bytes:
    """A whole answer of a platform or of a daemon."""
    spoken = [said(rng, rng.choice([1, 3, 3, 3, 200])) for _ in range(rng.randint(0, 12))]
    name, score = rng.choice(["a", "b", "größe"]), rng.choice([0, 1, 0.5, -1.25])
    source: dict[str, Any] = {"chunk_id": name, "document_id": name, "score": score, "preview": said(rng, 8)}
    cited = {"chunk_id": name, "document_id": name, "answer_start": 0, "answer_end": 3, "quote": said(rng, 3)}
    done: dict[str, Any] = {"answer": "".join(spoken)} if rng.random() < 0.6 else {"answer": said(rng, 9)}
    if daemon:
        source = {"chunkId": name, "path": f"{name}.md", "score": score, "text": said(rng, 8)}
        cited = {"chunkId": name, "path": f"{name}.md", "title": "x"}
        done = {"ok": True}
    elif rng.random() < 0.3:
        done = {"method": "none"}
    events = [event(rng, "answer_delta", {"text" if daemon else "delta": piece}) for piece in spoken]
    for _ in range(rng.randint(0, 3)):
        events.insert(rng.randint(0, len(events)), event(rng, "citation", cited))
    events.insert(0, event(rng, "retrieve", {"chunks": [source] * rng.randint(0, 3)}))
    return b"".join([*events, event(rng, "done", done)])


def base(rng: random.Random) -> Sent:
    """A stream before anything happened to it."""
    daemon = rng.random() < 0.4
    known = sorted(TRANSCRIPTS.glob("*.sse"))
    whole = rng.choice(known).read_bytes() if not daemon and rng.random() < 0.2 else generated(rng, daemon=daemon)
    newline = rng.choice([b"\n", b"\n", b"\r\n", b"\r"])
    return Sent((whole.replace(b"\n", newline),), daemon)


def parts(rng: random.Random, body: bytes, most: int = 12) -> list[bytes]:
    """The bytes in a few pieces, cut anywhere."""
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(1, most)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def frames(body: bytes) -> list[bytes]:
    """The pieces between blank lines, each with its own."""
    return [piece for piece in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)", body) if piece]


def pieces(rng: random.Random, body: bytes) -> list[bytes]:
    return parts(rng, body) if rng.random() < 0.5 else frames(body)


def among_frames(rng: random.Random, sent: Sent, *inserted: bytes) -> Sent:
    found = frames(sent.body)
    for piece in inserted:
        found.insert(rng.randint(0, len(found)), piece)
    return replace(sent, chunks=tuple(found))


def untouched(rng: random.Random, sent: Sent) -> Sent:
    return replace(sent, chunks=tuple(parts(rng, sent.body, 30)))


def byte_by_byte(_rng: random.Random, sent: Sent) -> Sent:
    return replace(sent, chunks=(*(bytes([byte]) for byte in sent.body[:3000]), sent.body[3000:]))


def cut(rng: random.Random, sent: Sent) -> Sent:
    return replace(sent, chunks=(sent.body[: rng.randrange(len(sent.body))],), ending=rng.choice(["end", "reset"]))


def cut_near_the_end(rng: random.Random, sent: Sent) -> Sent:
    return replace(sent, chunks=(sent.body[: -rng.randint(1, 8)],))


def connection_fails(rng: random.Random, sent: Sent) -> Sent:
    kept = parts(rng, sent.body)
    return replace(
        sent,
        chunks=tuple(kept[: rng.randint(0, len(kept))]),
        ending=rng.choice(["reset", "garbage", "slow"]),
    )


def bytes_flipped(rng: random.Random, sent: Sent) -> Sent:
    body = bytearray(sent.body)
    for _ in range(rng.randint(1, 5)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return replace(sent, chunks=(bytes(body),))


def bits_flipped(rng: random.Random, sent: Sent) -> Sent:
    body = bytearray(sent.body)
    for _ in range(rng.randint(1, 3)):
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    return replace(sent, chunks=(bytes(body),))


def chunks_reordered(rng: random.Random, sent: Sent) -> Sent:
    found = pieces(rng, sent.body)
    first, second = rng.randrange(len(found)), rng.randrange(len(found))
    found[first], found[second] = found[second], found[first]
    return replace(sent, chunks=tuple(found))


def chunks_duplicated(rng: random.Random, sent: Sent) -> Sent:
    found = pieces(rng, sent.body)
    return replace(sent, chunks=tuple(p for piece in found for p in [piece] * rng.choice([1, 1, 1, 2, 3])))


def chunks_deleted(rng: random.Random, sent: Sent) -> Sent:
    found = pieces(rng, sent.body)
    return replace(sent, chunks=tuple(piece for piece in found if rng.random() < 0.8))


def unknown_events(rng: random.Random, sent: Sent) -> Sent:
    kinds = [b"event: ping\ndata: 1\n\n", b'event: thinking\ndata: {"step": 1}\n\n', b'data: {"type": "usage"}\n\n']
    kinds += [b"event: ping\n\n", b"data:\n\n", b"id: 1\n\n", b"retry: 1\n\n", b"event: Done\ndata: {}\n\n", b"x\n\n"]
    kinds += [
        b'event: done \ndata: {"answer": "x"}\n\n',
        b'event:  done\ndata: {"answer": "x"}\n\n',
        b'data: {"type": ["done"]}\n\n',
    ]
    return among_frames(rng, sent, *(rng.choice(kinds) for _ in range(rng.randint(1, 5))))


def comments(rng: random.Random, sent: Sent) -> Sent:
    kinds = [b": keep-alive\n", b":\n\n", b": \xff\xfe\r\n", b":event: done\r", ": größe\n\n".encode()]
    found = re.split(rb"(?<=\n)", sent.body)
    for _ in range(rng.randint(1, 6)):
        found.insert(rng.randint(0, len(found)), rng.choice(kinds))
    return replace(sent, chunks=tuple(piece for piece in found if piece))


def error_frames(rng: random.Random, sent: Sent) -> Sent:
    kinds = [b'event: error\ndata: {"code": "rate_limited", "message": "no", "retryable": true}\n\n']
    kinds += [b'data: {"type": "error"}\n\n', b"event: error\ndata: oops\n\n", b"event: error\ndata: {}\n\n"]
    kinds += [b"event: error\n\n", b'event: error\ndata: {"code": ["x"], "message": 3}\n\n']
    return among_frames(rng, sent, rng.choice(kinds))


def line_ends(rng: random.Random, sent: Sent) -> Sent:
    *lines, rest = re.split(rb"\r\n|\n|\r", sent.body)
    body, careless = b"", rng.random() < 0.2
    for line in lines:
        # After a CR, a blank line that ends in LF is no line: the two are one end.
        joins = line == b"" and body.endswith(b"\r") and not careless
        body += line + rng.choice([b"\r"] if joins else [b"\n", b"\r\n", b"\r"])
    return untouched(rng, replace(sent, chunks=(body + rest,)))


def invalid_text(rng: random.Random, sent: Sent) -> Sent:
    body = sent.body
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(body) + 1)
        body = body[:at] + rng.choice([b"\xff", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"\x85"]) + body[at:]
    return untouched(rng, replace(sent, chunks=(body,)))


def byte_order_marks(rng: random.Random, sent: Sent) -> Sent:
    mark, body = b"\xef\xbb\xbf", sent.body
    at = rng.choice([0, 0, 0, rng.randrange(len(body))])
    marked = body[:at] + mark * rng.choice([1, 1, 2]) + body[at:]
    return replace(sent, chunks=tuple(parts(rng, marked[:6], 4) + parts(rng, marked[6:])))


def early_and_late_done(rng: random.Random, sent: Sent) -> Sent:
    done = event(rng, "done", rng.choice([{"ok": True}, {"answer": "other"}, {"ok": False}, {}, {"answer": 3}]))
    return among_frames(rng, sent, *[done] * rng.randint(1, 2))


def more_frames(rng: random.Random, sent: Sent) -> Sent:
    """Frames where nobody expects them: sources a second time, pieces before any source, citations after `done`."""
    other = {"path": "other.md", "text": "x"} if sent.daemon else {"chunk_id": "other", "document_id": "other"}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("retrieve", {"chunks": [other]}),
        ("citation", other),
        ("answer_delta", {"delta": "more", "text": "more"}),
    ]
    return among_frames(
        rng, sent, *(event(rng, kind, fields) for kind, fields in rng.choices(kinds, k=rng.randint(1, 4)))
    )


def without_done(rng: random.Random, sent: Sent) -> Sent:
    kept = tuple(piece for piece in frames(sent.body) if b"done" not in piece)
    return replace(sent, chunks=kept, ending=rng.choice(["end", "reset"]))


def other_headers(rng: random.Random, sent: Sent) -> Sent:
    kinds = [
        "text/event-stream; charset=latin-1",
        "text/event-stream;charset=utf-16",
        "Text/Event-Stream",
        "text/plain",
    ]
    kinds += ["text/html", "application/json", "application/octet-stream", "", "text/event-stream, text/html"]
    kind = rng.choice(kinds)
    return replace(untouched(rng, sent), headers={"content-type": kind} if kind else {})


def squeezed(rng: random.Random, sent: Sent) -> Sent:
    """In truth, in truth and damaged, or not at all."""
    headers = {**sent.headers, "content-encoding": rng.choice(["gzip", "gzip", "deflate"])}
    truth = rng.random() < 0.5
    body = gzip.compress(sent.body, mtime=0) if rng.random() < 0.7 else sent.body
    if truth:
        headers, body = {**sent.headers, "content-encoding": "gzip"}, gzip.compress(sent.body, mtime=0)
    elif rng.random() < 0.5:
        body = body[: rng.randrange(len(body))]
    return replace(sent, chunks=tuple(parts(rng, body)), headers=headers, due=truth)


def huge(rng: random.Random, sent: Sent) -> Sent:
    """Past one of the caps, which are lowered for this."""
    filler = rng.choice([b"x", b"data: ", b": x\n\n", b"event: ping\ndata: 1\n\n", b"\n", b"data: x\n"])
    many = filler * (rng.randint(20_000, 400_000) // len(filler))
    piece = event(rng, "answer_delta", {"delta": "y" * 1000, "text": "y" * 1000}) * rng.randint(10, 60)
    inserted = rng.choice([many, piece, event(rng, "done", {"answer": "z" * rng.randint(30_000, 40_000)})])
    mutated = among_frames(rng, sent, inserted)
    return replace(mutated, chunks=tuple(parts(rng, mutated.body, 40)), due=False)


def never_ending(rng: random.Random, sent: Sent) -> Sent:
    """It stops somewhere, and the connection stays; or goes on with what says nothing."""
    found = frames(sent.body)
    kept = found[: rng.randint(0, len(found) - 1)] if len(found) > 1 else []
    half = found[len(kept)][:-1][: rng.randrange(20)] if len(kept) < len(found) and rng.random() < 0.5 else b""
    return replace(sent, chunks=(*kept, half), ending=rng.choice(UNENDED), due=False)


MUTATIONS: dict[str, Mutation] = {
    "none, in random chunks": untouched,
    "none, byte by byte": byte_by_byte,
    "line ends of every kind": line_ends,
    "byte order marks": byte_order_marks,
    "comments inserted": comments,
    "unknown events inserted": unknown_events,
    "cut at any byte": cut,
    "cut in the last bytes": cut_near_the_end,
    "connection fails": connection_fails,
    "bytes flipped": bytes_flipped,
    "bits flipped": bits_flipped,
    "chunks reordered": chunks_reordered,
    "chunks duplicated": chunks_duplicated,
    "chunks deleted": chunks_deleted,
    "error frames inserted": error_frames,
    "invalid text inserted": invalid_text,
    "`done` early, late or twice": early_and_late_done,
    "no `done`": without_done,
    "more frames inserted": more_frames,
    "other media types": other_headers,
    "squeezed, truly or not": squeezed,
    "past a cap": huge,
    "never ends": never_ending,
}
_ON_TOP = (bytes_flipped, bits_flipped, chunks_reordered, chunks_duplicated, chunks_deleted, comments, line_ends)


def two_at_once(rng: random.Random, sent: Sent) -> Sent:
    first, second = rng.sample([*_ON_TOP, invalid_text, unknown_events, early_and_late_done, error_frames], 2)
    once = first(rng, sent)
    return second(rng, once) if len(once.body) > 8 else once


MUTATIONS["two of these at once"] = two_at_once


def drawn(seed: int, count: int) -> Iterator[tuple[str, Sent]]:
    """So many streams, each mutation in turn; the same for the same seed."""
    names = list(MUTATIONS)
    for n in range(count):
        rng = random.Random(seed * 1_000_003 + n)
        name = names[n % len(names)]
        yield name, MUTATIONS[name](rng, base(rng))
