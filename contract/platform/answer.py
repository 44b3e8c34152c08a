"""Answers made of the brain's own sentences: which ones, in what frames, with what citations."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final

from contract.platform import markdown, words
from contract.platform.query import Term
from contract.platform.search import Found, Hit
from contract.platform.wire import JsonObject

PREVIEW: Final = 512
# An answer quotes at most this many sentences, from the best chunks, each worth at least a share of the best one.
SENTENCES, CHUNKS, WORTHWHILE = 3, 5, 0.34
LONGEST_SENTENCE: Final = 400
DELTA_WORDS, DELTA_CHARACTERS = 3, 32
NOTHING_FOUND: Final = "This brain holds nothing on that."


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of the answer, and the stretch of the chunk it was taken from."""

    hit: Hit
    text: str
    sentence: str


def frames(found: Found) -> Iterator[JsonObject]:
    """The events of a whole answer, in the order they are sent."""
    paths = [hit.path for hit in found.hits]
    yield {"type": "retrieve", "chunks": [_retrieved(hit) for hit in found.hits], "paths": paths, "live": True}
    answer = ""
    quotes = choose(found)
    for quote in quotes:
        piece = f" {quote.sentence}" if answer else quote.sentence
        yield from _spoken(piece)
        answer += piece
        yield {
            "type": "citation",
            "chunk_id": quote.hit.chunk_id,
            "document_id": quote.hit.document_id,
            "answer_start": len(answer) - len(quote.sentence),
            "answer_end": len(answer),
            "quote": quote.text,
        }
    if not quotes:
        answer = NOTHING_FOUND
        yield from _spoken(answer)
    yield {"type": "done", "answer": answer, "method": "extractive"}


def encoded(frame: JsonObject) -> bytes:
    """A frame as server-sent event. ASCII only, as some readers break lines at U+0085 and U+2028 too."""
    return f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()


def _retrieved(hit: Hit) -> JsonObject:
    return {
        "chunk_id": hit.chunk_id,
        "document_id": hit.document_id,
        "score": hit.score,
        "preview": hit.text[:PREVIEW],
    }


def _spoken(piece: str) -> Iterator[JsonObject]:
    for delta in deltas(piece):
        yield {"type": "answer_delta", "delta": delta}


def deltas(piece: str) -> Iterator[str]:
    """A piece of the answer, a few words at a time; joined they are the piece."""
    tokens = re.findall(r"\A\s*\S+\s*|\S+\s*", piece) or [piece]
    for at in range(0, len(tokens), DELTA_WORDS):
        some = "".join(tokens[at : at + DELTA_WORDS])
        yield from (some[start : start + DELTA_CHARACTERS] for start in range(0, len(some), DELTA_CHARACTERS))


def choose(found: Found) -> list[Quote]:
    """The sentences that together cover most of the query, best first; each must add something to the others."""
    candidates = [
        (quote, _covered(quote.sentence, found.terms)) for hit in found.hits[:CHUNKS] for quote in _quotes(hit)
    ]
    chosen: list[Quote] = []
    weight = {term.key: term.weight for term in found.terms}
    missing = set(weight)
    best = 0.0
    while candidates and len(chosen) < SENTENCES:
        # max() takes the first of equals: the better chunk, and in it the earlier sentence. fsum() comes to the same in
        # any order, and a set has none.
        quote, keys = max(candidates, key=lambda candidate: fsum(weight[key] for key in candidate[1] & missing))
        gain = fsum(weight[key] for key in keys & missing)
        if gain <= WORTHWHILE * best:
            break
        best = max(best, gain)
        missing -= keys
        chosen.append(quote)
        candidates = [other for other in candidates if other[0].sentence != quote.sentence]
    return chosen or _opening(found.hits)


def _opening(hits: Sequence[Hit]) -> list[Quote]:
    """Where only a title or a tag has matched, the first sentence of the best chunk that has one."""
    return next(([quote] for hit in hits for quote in _quotes(hit)), [])


def _quotes(hit: Hit) -> Iterator[Quote]:
    for start, end in markdown.sentences(hit.text):
        text = hit.text[start : min(end, start + LONGEST_SENTENCE)]
        if end - start > LONGEST_SENTENCE:
            text = text.rsplit(None, 1)[0]
        if sentence := " ".join(text.split()):
            yield Quote(hit, text, sentence)


def _covered(sentence: str, terms: Sequence[Term]) -> set[str]:
    stems, _ = words.tally(sentence, {term.key for term in terms})
    return {term.key for term in terms if term.count_in(sentence, stems)}
