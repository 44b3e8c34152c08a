"""Answers in the brain's own words: the frames they are sent in, and what they cite."""

import json
import re
from collections.abc import Iterator
from typing import Final

from contract.platform.choice import choose, nearest
from contract.platform.question import Question
from contract.platform.quotes import Quote
from contract.platform.search import Found, Hit
from contract.platform.wire import JsonObject

PREVIEW: Final = 512
DELTA_WORDS, DELTA_CHARACTERS = 3, 32
NOTHING_FOUND: Final = "This brain holds nothing on that."
# Stand before the quotes of the nearest note or notes, which may not be the answer.
NOT_IN_THESE_WORDS: Final = "Nothing says so in these words. The nearest note says:"
NOT_IN_THESE_WORDS_OF_SEVERAL: Final = "Nothing says so in these words. The nearest notes say:"


def frames(found: Found, query: str = "") -> Iterator[JsonObject]:
    """The events of a whole answer, in the order they are sent."""
    yield retrieved(found)
    answer, question = "", Question.read(query)
    quotes, are_apart, last = choose(found, question), False, ""
    if not quotes and (quotes := nearest(found, question)):
        are_apart = len({quote.hit.document_id for quote in quotes}) > 1
        answer = NOT_IN_THESE_WORDS_OF_SEVERAL if are_apart else NOT_IN_THESE_WORDS
        yield from spoken(answer)
    for quote in quotes:
        is_next = are_apart and quote.hit.document_id != last
        piece = f"{_between(answer, quote, is_next)}{quote.said}" if answer else quote.said
        last = quote.hit.document_id
        yield from spoken(piece)
        answer += piece
        yield {
            "type": "citation",
            "chunk_id": quote.hit.chunk_id,
            "document_id": quote.hit.document_id,
            "answer_start": len(answer) - len(quote.said),
            "answer_end": len(answer),
            "quote": quote.text,
        }
    if not quotes:
        answer = NOTHING_FOUND
        yield from spoken(answer)
    yield {"type": "done", "answer": answer, "method": "extractive"}


def retrieved(found: Found) -> JsonObject:
    """The event with the sources of an answer. Titles and dates are beside the chunks, which have few fields."""
    return {
        "type": "retrieve",
        "chunks": [_thin(hit) for hit in found.hits],
        "paths": [hit.path for hit in found.hits],
        "titles": [hit.title for hit in found.hits],
        "updated_at": [hit.updated_at for hit in found.hits],
        "live": True,
    }


def encoded(frame: JsonObject) -> bytes:
    """A frame as server-sent event. ASCII only, as some readers break lines at U+0085 and U+2028 too."""
    return f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()


def _thin(hit: Hit) -> JsonObject:
    return {
        "chunk_id": hit.chunk_id,
        "document_id": hit.document_id,
        "score": hit.score,
        "preview": hit.text[:PREVIEW],
    }


def _between(answer: str, quote: Quote, is_next: bool) -> str:
    """Sentences follow on one line. Text with lines of its own, and the next of several notes, is set apart."""
    return "\n\n" if is_next or "\n" in answer or "\n" in quote.said else " "


def spoken(piece: str) -> Iterator[JsonObject]:
    for delta in deltas(piece):
        yield {"type": "answer_delta", "delta": delta}


def deltas(piece: str) -> Iterator[str]:
    """A piece of the answer in parts of a few words. Joined, they are the piece."""
    tokens = re.findall(r"\A\s*\S+\s*|\S+\s*", piece) or [piece]
    for at in range(0, len(tokens), DELTA_WORDS):
        some = "".join(tokens[at : at + DELTA_WORDS])
        yield from (some[start : start + DELTA_CHARACTERS] for start in range(0, len(some), DELTA_CHARACTERS))
