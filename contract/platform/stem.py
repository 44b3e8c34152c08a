"""The Porter stemmer as SQLite's `porter` tokenizer applies it, so that scoring agrees with the index."""

import re
from collections.abc import Callable, Sequence
from typing import Final

# SQLite leaves tokens outside these lengths alone.
SHORTEST, LONGEST = 3, 64

STEP_2: Final = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize")),
    *(("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful")),
    *(("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
)
STEP_3: Final = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic")),
    *(("ical", "ic"), ("ful", ""), ("ness", "")),
)
STEP_4: Final = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate"),
    *("iti", "ous", "ive", "ize", "al", "er", "ic", "ou"),
)

CONSONANT = r"(?:[^aeiouy]|(?<![^aeiou])y)"
VOWEL = r"(?:[aeiou]|(?<=[^aeiou])y)"
# Where a run of vowels ends and one of consonants begins.
TURN = re.compile(f"{VOWEL}{CONSONANT}")
ANY_VOWEL = re.compile(VOWEL)
SHORT_SYLLABLE = re.compile(f"{CONSONANT}{VOWEL}{CONSONANT}$")


def measure(stem: str) -> int:
    """How many vowel-consonant runs the stem has: Porter's m."""
    return len(TURN.findall(_with_plain_y(stem)))


def _with_plain_y(stem: str) -> str:
    """In a row of y's every other one is a consonant; written as one, so that the patterns need not count them."""
    if "yy" not in stem:
        return stem
    letters = list(stem)
    for place in range(1, len(letters)):
        if letters[place] == "y" and letters[place - 1] == "y" and _is_vowel_y(letters, place - 1):
            letters[place] = "w"
    return "".join(letters)


def _is_vowel_y(letters: Sequence[str], place: int) -> bool:
    return place > 0 and letters[place - 1] not in "aeiou"


def porter(word: str) -> str:
    if not SHORTEST <= len(word.encode()) <= LONGEST:
        return word
    word = _plural(word)
    word = _past_and_gerund(word)
    if word.endswith("y") and ANY_VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, STEP_2, lambda stem: measure(stem) > 0)
    word = _replaced(word, STEP_3, lambda stem: measure(stem) > 0)
    word = _residue(word)
    return _final_e(word)


def _plural(word: str) -> str:
    # A suffix has something before it, here and below.
    if word[1:].endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past_and_gerund(word: str) -> str:
    if word[1:].endswith("eed"):
        return word[:-1] if measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        stem = word.removesuffix(suffix)
        if stem != word and ANY_VOWEL.search(stem):
            return _tidied(stem)
    return word


def _tidied(stem: str) -> str:
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and stem[-1] not in "aeioulsz":
        return stem[:-1]
    if measure(stem) == 1 and _ends_short(stem):
        return stem + "e"
    return stem


def _ends_short(stem: str) -> bool:
    return bool(SHORT_SYLLABLE.search(_with_plain_y(stem))) and stem[-1] not in "wxy"


def _replaced(word: str, table: Sequence[tuple[str, str]], allowed: Callable[[str], bool]) -> str:
    for suffix, instead in table:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + instead if allowed(stem) else word
    return word


def _residue(word: str) -> str:
    if word.endswith("ion") and word[:-3].endswith(("s", "t")):
        return word[:-3] if measure(word[:-3]) > 1 else word
    return _replaced(word, [(suffix, "") for suffix in STEP_4], lambda stem: measure(stem) > 1)


def _final_e(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        if measure(stem) > 1 or (measure(stem) == 1 and not _ends_short(stem)):
            word = stem
    if word.endswith("ll") and measure(word) > 1:
        word = word[:-1]
    return word
