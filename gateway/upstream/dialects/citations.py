"""Where an answer uses the words of a source: the quote, and its place in the answer."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

_WORD = re.compile(r"\w+(?:['’.,]\w+)*")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
# More text than this is not looked at: an answer must not wait for its citations.
LOOKED_AT = 20_000
_QUOTE_LENGTH = 300
_SHARED_WORDS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """A quote of a source, and its place in the answer; 0 to 0 if the answer does not contain it."""

    quote: str
    start: int = 0
    end: int = 0


def find_span(source: str, answer: str) -> Span:
    """The longest run of words that source and answer share, else the sentence of the source nearest to the answer."""
    source, answer = source[:LOOKED_AT], answer[:LOOKED_AT]
    ours, theirs = _words(answer), _words(source)
    said, written = [word.group().lower() for word in ours], [word.group().lower() for word in theirs]
    # The matcher ignores words that are frequent in a long source, which also keeps it from quadratic time.
    run = SequenceMatcher(None, said, written).find_longest_match()
    first, last = _unbroken(ours[run.a : run.a + run.size], theirs[run.b : run.b + run.size])
    # The quote of a source of one or two words is these words.
    if last - first >= min(_SHARED_WORDS, len(written)) and last > first:
        quote = source[theirs[run.b + first].start() : theirs[run.b + last - 1].end()]
        return Span(quote, ours[run.a + first].start(), ours[run.a + last - 1].end())
    return Span(_nearest_sentence(source, set(said)))


def _words(text: str) -> list[re.Match[str]]:
    """Words, without those that are too long for a quote."""
    return [word for word in _WORD.finditer(text) if word.end() - word.start() <= _QUOTE_LENGTH]


def _unbroken(ours: list[re.Match[str]], theirs: list[re.Match[str]]) -> tuple[int, int]:
    """The longest part of a run that fits into a quote, with the same marks between its words in both texts."""
    best, start = (0, 0), 0
    for n, word in enumerate(theirs):
        if n > 0 and _between(ours, n) != _between(theirs, n):
            start = n
        while word.end() - theirs[start].start() > _QUOTE_LENGTH:
            start += 1
        if n + 1 - start > best[1] - best[0]:
            best = start, n + 1
    return best


def _between(words: list[re.Match[str]], n: int) -> str:
    """The signs before each word and after the last one, without spaces."""
    return "".join(words[n].string[words[n - 1].end() : words[n].start()].split())


def _nearest_sentence(source: str, said: set[str]) -> str:
    sentences = [sentence for match in _SENTENCE.finditer(source) if (sentence := match.group().strip())]
    nearest = max(sentences, key=lambda s: len(said & {w.lower() for w in _WORD.findall(s)}), default="")
    return nearest[:_QUOTE_LENGTH]
