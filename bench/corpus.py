"""A large brain to search in: words as frequent as in real text, and the queries people put to it."""

import random
from collections.abc import Iterator
from itertools import accumulate

WORDS_PER_CHUNK = 150
CHUNKS_PER_DOCUMENT = 10
_VOCABULARY = 60_000
_STOP_WORDS = (
    "the of and to in a is that for it was on with as be by at this are or from an have not had but which you his they "
    "we her she were been their one all would there what so if will can more no out do when who them some could about "
    "time up other into than then only its my our your how did where why"
)
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_QUESTIONS = (
    "what did we decide about the {} and the {} of {}?",
    "how is the {} from {} connected with the {} that was in {}?",
    "why would they have to do the {} when there is no {} or {} in our {}?",
    "where can you find all of the {} about {} and who did the {}?",
)


def _invented(number: int) -> str:
    """A pronounceable word, another for every number."""
    syllables = [_SYLLABLES[number % 70], _SYLLABLES[number // 70 % 70], _SYLLABLES[number // 4900 % 70]]
    return "".join(syllables) + "nx"[number % 2]


class Corpus:
    """Zipf: the word of rank r is 1/r as frequent as the first; stop words come first, as they do in English."""

    def __init__(self, chunks: int) -> None:
        self._documents = chunks // CHUNKS_PER_DOCUMENT
        self._stop_words = frozenset(_STOP_WORDS.split())
        self._words = [*_STOP_WORDS.split(), *(_invented(number) for number in range(_VOCABULARY))]
        self._weights = list(accumulate(1 / rank for rank in range(1, len(self._words) + 1)))

    def documents(self) -> Iterator[tuple[str, str]]:
        """Path and text of each: a heading, and paragraphs that are a chunk each."""
        dice = random.Random(1)
        for n in range(self._documents):
            words = dice.choices(self._words, cum_weights=self._weights, k=WORDS_PER_CHUNK * CHUNKS_PER_DOCUMENT)
            heading = f"# {' '.join(self._content_words(dice, 4))}"
            starts = range(0, len(words), WORDS_PER_CHUNK)
            paragraphs = (" ".join(words[at : at + WORDS_PER_CHUNK]) for at in starts)
            yield f"memory/global/note-{n:06d}.md", "\n\n".join([heading, *paragraphs])

    def queries(self, number: int) -> dict[str, list[str]]:
        dice = random.Random(2)
        rare = [self._words[dice.randrange(20_000, 50_000)] for _ in range(number)]
        few = [" ".join(self._content_words(dice, 2 + n % 2)) for n in range(number)]
        asked = [_QUESTIONS[n % len(_QUESTIONS)] for n in range(number)]
        whole = [form.format(*self._content_words(dice, form.count("{}"))) for form in asked]
        return {"one rare word": rare, "two or three words": few, "a whole question": whole}

    def _content_words(self, dice: random.Random, number: int) -> list[str]:
        """Words as people type them: as frequent as they are in the text, but no stop words."""
        found: list[str] = []
        while len(found) < number:
            drawn = dice.choices(self._words, cum_weights=self._weights, k=number)
            found += [word for word in drawn if word not in self._stop_words]
        return found[:number]
