"""Ask, with a model: its answer as it is said, each claim with the note that it cites."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

from contract.platform import markdown, words
from contract.platform.llm.citing import Cited, Marks, Opening, Said
from contract.platform.llm.client import Chat
from contract.platform.llm.outcome import CUT_OFF, REPEATED, SAID_NOTHING, TOO_LONG, Failed, Finished
from contract.platform.llm.prompt import Prompt, Source, fitting
from contract.platform.search import Found, Hit
from contract.platform.wire import JsonObject

LONGEST_ANSWER: Final = 100_000
LONGEST_QUOTE: Final = 400
WITHOUT_SOURCES: Final = "The model named no note for this answer."
CUT: Final = "The model stopped before the end: its limit of words was reached."


async def frames(
    chat: Chat, question: str, found: Found, by_rule: list[JsonObject], key: str | None = None
) -> AsyncGenerator[JsonObject, None]:
    """The events of an answer. Where the model fails before its first word, they are those of the answer by rule."""
    yield by_rule[0]
    if not found.hits:
        # There is nothing to answer from, and no need to ask.
        for frame in by_rule[1:]:
            yield frame
        return
    sources = [Source(hit.title or hit.path, hit.text, hit.updated_at) for hit in found.hits]
    prompt, opening, marks = Prompt("answer"), Opening(), Marks()
    hits = found.hits[: len(fitting(sources))]
    is_cited, held = False, ""
    result: Finished | Failed = CUT_OFF
    async with aclosing(chat.stream("ask", prompt.messages(sources, question), key)) as pieces:
        async for piece in pieces:
            if not isinstance(piece, str):
                result = piece
                break
            said = opening.feed(piece)
            if said is None or prompt.fence in held + said:
                result = REPEATED
                break
            said, held = _hold_back(held + said, prompt.fence)
            for frame in _frames(marks.feed(said), marks, hits):
                is_cited |= frame["type"] == "citation"
                yield frame
            if len(marks.answer) > LONGEST_ANSWER:
                result = TOO_LONG
                break
    if isinstance(result, Finished) and not marks.answer and not marks.is_holding and not held:
        result = SAID_NOTHING
    if isinstance(result, Failed):
        for frame in _failed(result, marks.answer, by_rule):
            yield frame
        return
    for frame in (*_frames(marks.feed(held), marks, hits), *_frames(marks.finish(), marks, hits)):
        is_cited |= frame["type"] == "citation"
        yield frame
    note = CUT if result.is_cut else "" if is_cited else WITHOUT_SOURCES
    yield {"type": "done", "answer": marks.answer, "method": "model", **({"note": note} if note else {})}


def _hold_back(text: str, fence: str) -> tuple[str, str]:
    """What can be told, and the end of it that may become the fence when more is said."""
    held = next((n for n in range(min(len(fence) - 1, len(text)), 0, -1) if text.endswith(fence[:n])), 0)
    return text[: len(text) - held], text[len(text) - held :]


def _failed(failure: Failed, said: str, by_rule: list[JsonObject]) -> Iterator[JsonObject]:
    if said:
        message = f"{failure.message}: what was said so far is not the whole answer"
        yield {"type": "error", "code": failure.code, "message": message, "retryable": failure.retryable}
        return
    yield from by_rule[1:-1]
    yield {**by_rule[-1], "note": f"The notes' own words, because {failure.message}."}


def _frames(events: Iterator[Said | Cited], marks: Marks, hits: list[Hit]) -> Iterator[JsonObject]:
    for event in events:
        if isinstance(event, Said):
            yield {"type": "answer_delta", "delta": event.text}
        # One that names what was not there to be read has nothing that speaks for it.
        elif 1 <= event.number <= len(hits):
            hit = hits[event.number - 1]
            yield {
                "type": "citation",
                "chunk_id": hit.chunk_id,
                "document_id": hit.document_id,
                "answer_start": event.start,
                "answer_end": event.end,
                "quote": quote(hit, marks.answer[event.start : event.end]),
            }


def quote(hit: Hit, claim: str) -> str:
    """The sentence of a chunk that shares most with a claim; the first where none does."""
    said = _telling(claim)
    sentences = [hit.text[start:end] for start, end in markdown.sentences(hit.text)] or [hit.text]
    # max() takes the first of equals.
    return max(sentences, key=lambda sentence: len(said & _telling(sentence)))[:LONGEST_QUOTE]


def _telling(text: str) -> set[str]:
    return {*words.stems(text), *words.grams(text).split()}
