"""What a question asks for, by its words: one fact, a list, a piece of code, or all there is."""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from contract.platform import words

Wanted: TypeAlias = Literal["code", "list", "whole"]

CODE: Final = re.compile(
    r"\b(?:function|code|snippet|script|commands?|sql|regexp?|config(?:uration)?|one-liner|class|method|fonction|"
    r"funktion|"
    r"befehl|commande|función|funzione)\b|\bquery for\b",
    re.IGNORECASE,
)
WHOLE: Final = re.compile(
    r"\b(?:recipes?|recette|rezept|receta|ricetta|recept|steps?|procedure|instructions?|run-?book|guide|how-?to|"
    r"how (?:do|does|can|could|should|would|to|did)|show me|everything|all about|summar(?:y|ise|ize)|minutes|agenda|"
    r"itinerary|étapes|comment (?:faire|fait|on|je)|wie (?:mache|macht|kann|geht|stelle|koche|backe))\b",
    re.IGNORECASE,
)
LIST: Final = re.compile(
    r"\b(?:lists?|check-?lists?|ideas|ingredients|items|options|rules|goals|attendees|members|participants|liste|"
    r"zutaten|ingrédients|ingredientes|ingredienti)\b",
    re.IGNORECASE,
)
# The answer to a question in the plural is seldom one sentence.
PLURAL: Final = re.compile(
    r"\b(?:what|which|quels|quelles|welche)(?: \w{1,20})? (?!is\b|was\b|does\b|this\b|has\b)[a-z]{3,20}s\b",
    re.IGNORECASE,
)
SEVERAL: Final = re.compile(r"[,;]|\b(?:and|also|both|or|versus|vs|und|oder|et|ou|y|e)\b", re.IGNORECASE)

_MONTHS = (
    "jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|février|mar(?:ch|s)?|märz|apr(?:il)?|avril|ma[iy]|mei|june?|juni|juin|july?|"
    "juli|juillet|aug(?:ust)?|août|sep(?:t|tember|tembre)?|o[ck]t(?:ober|obre)?|nov(?:ember|embre)?|de[cz](?:ember)?|décembre"
)
_DAYS = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|"
    "(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|weekdays?|weekends?"
)
_SPANS = "day|week|month|year|hour|minute|noon|midnight|morning|evening|night|tomorrow|today|jour|heure|tag|woche|uhr"
TIME: Final = re.compile(
    rf"\d[:./-]\d|\d ?(?:am|pm|a\.m|p\.m|h|st|nd|rd|th)\b|\b(?:19|20)\d\d\b|\b(?:{_MONTHS}|{_DAYS})\b|"
    rf"\b(?:{_SPANS})s?\b|[年月日時]",
    re.IGNORECASE,
)
NUMBER: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred|thousand|million|once|twice|"
    r"half)\b",
    re.IGNORECASE,
)
NAME: Final = re.compile(
    r"\b(?:Dr|Mrs?|Ms|Prof|Mme|Madame|Monsieur|Herr|Frau)\b|(?<=[^\W\d_.!?,:] )[A-ZÀ-Þ][a-zà-þ]|"
    r"^[A-ZÀ-Þ][a-zà-þ]+ [A-ZÀ-Þ]"
)
# The number of an invoice, a ticket or an error, as in `INV-20417`.
CODE_NUMBER: Final = re.compile(r"\b[A-Za-z]{1,20}(?:[-_][A-Za-z]{1,20}){0,4}[-_]\d{2,20}\b")
ADDRESS: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@\w|\d{3}")

# How a question begins or what it names -> what must be in an answer to it.
TYPES: Final = (
    (
        re.compile(
            r"\b(?:when|what time|until when|by when|since when|how often|how long|birthday|deadline|quand|"
            r"à quelle heure|wann|cuándo|quando|wanneer)\b|いつ|什么时候",
            re.IGNORECASE,
        ),
        TIME,
    ),
    (
        re.compile(
            r"\b(?:how (?:much|many|far|tall|big|old|long|often)|price|cost|number|combien|wie ?viele?|cuánto|"
            r"quanto|hoeveel)\b|多少|いくら",
            re.IGNORECASE,
        ),
        NUMBER,
    ),
    (re.compile(r"\b(?:who|whose|qui|wer|quién|chi|wie heißt)\b|誰|谁", re.IGNORECASE), NAME),
    (re.compile(r"\b(?:e-?mail|phone|telephone|téléphone|telefon)\b", re.IGNORECASE), ADDRESS),
)


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for besides the words."""

    text: str
    wanted: Wanted | None
    types: tuple[re.Pattern[str], ...]
    is_plural: bool
    """Whether it asks for some of a kind,"""
    is_several: bool
    """or for different things."""

    @classmethod
    def read(cls, text: str) -> "Question":
        kinds: tuple[tuple[Wanted, re.Pattern[str]], ...] = (("code", CODE), ("whole", WHOLE), ("list", LIST))
        wanted = next((kind for kind, pattern in kinds if pattern.search(text)), None)
        types = tuple(answer for asked, answer in TYPES if asked.search(text))
        return cls(text, wanted, types, PLURAL.search(text) is not None, SEVERAL.search(text) is not None)

    @property
    def needs_address(self) -> bool:
        """Whether only an address or a number to call can answer it."""
        return ADDRESS in self.types

    @property
    def codes(self) -> list[frozenset[str]]:
        """The words of each number of an invoice, a ticket or an error that it names."""
        return [frozenset(map(words.stem_of, words.every(code))) for code in CODE_NUMBER.findall(self.text)]

    def is_fit(self, text: str) -> bool:
        """Whether a text contains the kind of thing that is asked for: a time, a number, a name."""
        if self.needs_address:
            return ADDRESS.search(text) is not None
        return any(pattern.search(text) for pattern in self.types)
