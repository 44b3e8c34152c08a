"""An answer while it comes: the content of its frames so far, also if it never ends properly."""

from collections.abc import Awaitable

from gateway.operations.errors import GatewayError, StreamBroken
from gateway.operations.shared_timer import SharedTimer
from gateway.operations.table import JsonObject
from gateway.surfaces.memory.fields import only

# Fields of the contract, with the default for a platform that leaves them out.
_RETRIEVED: JsonObject = {"chunk_id": "", "document_id": "", "score": 0.0, "preview": ""}
_CITATION: JsonObject = {
    "type": "citation",
    "chunk_id": "",
    "document_id": "",
    "answer_start": 0,
    "answer_end": 0,
    "quote": "",
}
_PREVIEW_LENGTH = 512
_NOTE_LENGTH = 512
_ORIGIN = ("path", "title", "updated_at")
# A slow client slows the platform down. A client that takes nothing for this long would hold it for ever.
TAKEN_SECONDS = 120.0
# How many pieces are sent at once at most: the client has to take them in that time.
TOGETHER = 64
_INCOMPLETE = "What came of the answer is in partial_answer, and is incomplete."


class Answer:
    """Collects the frames of an answer. They may come in any order; the first list of sources counts."""

    def __init__(self) -> None:
        self.citations: list[JsonObject] = []
        self.deltas: list[str] = []
        self.origins: dict[str, JsonObject] = {}
        """Titles, paths and dates of the sources, by the ids of chunks and documents, as far as they were sent."""
        self.note: str | None = None
        """What the platform says of the answer: that no model made it, or that it names no source."""
        self._retrieved: list[JsonObject] | None = None
        self._said: str | None = None

    def take(self, frames: list[JsonObject]) -> tuple[list[str], StreamBroken | None]:
        """Add frames. Returns their pieces of the answer, and the error that ends it if a field is not valid."""
        before = len(self.deltas)
        try:
            for frame in frames:
                if frame["type"] == "answer_delta":
                    self.deltas.append(str(frame.get("delta", "")))
                else:
                    self._take(frame)
        except GatewayError as error:
            return self.deltas[before:], StreamBroken(error.code, error.message)
        return self.deltas[before:], None

    def _take(self, frame: JsonObject) -> None:
        match frame["type"]:
            case "retrieve" if self._retrieved is None:
                chunks = frame.get("chunks") or []
                self._retrieved = [_retrieved(chunk) for chunk in chunks]
                self.origins = {
                    kept[key]: {name: chunk.get(name) for name in _ORIGIN}
                    for kept, chunk in zip(self._retrieved, chunks, strict=True)
                    for key in ("document_id", "chunk_id")
                    if chunk.get("path")
                }
            case "citation":
                self.citations.append(only(_CITATION, frame))
            case "done":
                self._said = answer if isinstance(answer := frame.get("answer"), str) else None
                self.note = note[:_NOTE_LENGTH] if isinstance(note := frame.get("note"), str) and note else None

    @property
    def text(self) -> str:
        """The text that the platform says was the answer, else the pieces."""
        return self._said if self._said is not None else "".join(self.deltas)

    @property
    def retrieved(self) -> list[JsonObject]:
        return self._retrieved or []

    def as_json(self) -> JsonObject:
        said: JsonObject = {"answer": self.text, "citations": self.citations, "retrieved": self.retrieved}
        return said if self.note is None else {**said, "note": self.note}

    def broken_off(self, error: StreamBroken) -> StreamBroken:
        """The error with the pieces that came before it, as a caller without progress has received none of them.

        The text cannot be longer than an answer may be, because the pieces were measured as they came.
        """
        if not (partial := "".join(self.deltas)):
            return error
        stop = "" if error.message.endswith((".", "!", "?", "…")) else "."
        return StreamBroken(
            error.code,
            f"{error.message}{stop} {_INCOMPLETE}",
            retryable=error.retryable,
            retry_after_seconds=error.retry_after_seconds,
            extra={**error.extra, "partial_answer": partial},
            stream_code=error.stream_code,
        )


async def send_within_time(sending: Awaitable[None], timer: SharedTimer) -> None:
    """Wait until the client has taken what was sent to it.

    Raises:
        StreamBroken: it has taken nothing for too long.
    """
    try:
        with timer.limit(TAKEN_SECONDS):
            await sending
    except TimeoutError as error:
        raise StreamBroken("timeout", "The client stopped taking the answer.") from error


def _retrieved(chunk: JsonObject) -> JsonObject:
    kept = only(_RETRIEVED, chunk)
    return {**kept, "preview": kept["preview"][:_PREVIEW_LENGTH]}
