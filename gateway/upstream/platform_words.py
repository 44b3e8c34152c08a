"""Cleans a platform's message for a caller: prose passes, but not words that may be an address or a secret.

No list of all forms of secrets can be complete. So it works the other way round: a word stays if it is clearly
a word or a small number.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MESSAGE_LENGTH: Final = 300
# Only as much text is looked at as can be shown.
_LOOKED_AT: Final = 4 * MESSAGE_LENGTH
_TAKEN_OUT: Final = "[…]"
_AROUND: Final = "\"'`‘’“”«»()[]{}<>.,;:!?…*%#$&|~^+=-–—→⇒。、"
_JOINTS: Final = str.maketrans(dict.fromkeys("'’-", " "))
_WORD_LENGTH, _NUMBER_LENGTH, _MIXED_LENGTH, _MOST_CAPITALS = 24, 6, 3, 12
# The signs between the name of a secret and the secret, and those where the secret ends at the latest.
_ANNOUNCES: Final = frozenset(":=>|→⇒")
_BEFORE_SIGNS: Final = re.compile(r"[^:=>|→⇒(\[]*")
_LINKS: Final = frozenset({"given", "is", "provided", "received", "sent", "used", "value", "was"})
_ENDS: Final = (",", ";", ".")
_SCHEMES: Final = frozenset({"basic", "bearer", "digest"})
_NAMES: Final = frozenset(
    {"authorization", "cookie", "credential", "key", "pass", "passphrase", "passwd", "password", "pin", "pw", "pwd"}
    | {"secret", "session", "signature", "token"}
)
# What a name of a secret ends in: `DB_PASSWORD`, `access-token` and `apiKey` are names too.
_NAMES_OF_SECRETS: Final = tuple(name + plural for name in _NAMES | _SCHEMES for plural in ("", "s"))
# Letters that are not visible.
_FILLERS: Final = "\u115f\u1160"


def clean_message(said: object, secrets: Sequence[str] = ()) -> str | None:
    """A platform's message, on one line, in so many characters; None if no part of it can be shown.

    `secrets` are those that the platform was shown with the request: it may repeat them.
    """
    if not isinstance(said, str):
        return None
    text = _visible(said[:_LOOKED_AT])
    if len(said) > _LOOKED_AT:
        # The last word was cut, and may be half a secret.
        text = text.rpartition(" ")[0]
    for secret in secrets:
        text = text.replace(secret, f" {_TAKEN_OUT} ")
    line = " ".join(_words(text))
    if not any(map(str.isalnum, line)):
        return None
    return line if len(line) <= MESSAGE_LENGTH else line[: MESSAGE_LENGTH - 1].rstrip() + "…"


def _visible(text: str) -> str:
    """On one line, without characters that are invisible or reverse the direction of text."""
    spaced = (" " if c.isspace() else c for c in unicodedata.normalize("NFKC", text))
    return "".join(c for c in spaced if c.isprintable() and c not in _FILLERS)


def _words(text: str) -> Iterator[str]:
    """The words that may be shown; for others, however many in a row, one mark."""
    last, announced = "", _Announced()
    for word in text.split():
        bare = word.strip(_AROUND)
        is_secret = announced.covers(word, bare)
        shown = word if not bare or (_is_plain(bare) and not is_secret) else _TAKEN_OUT
        if not (shown == _TAKEN_OUT == last):
            yield shown
        last = shown


@dataclass
class _Announced:
    """What the text has said about a secret so far."""

    name: str = ""
    """The name of a secret that was just said, if one was."""
    is_aside: bool = False
    """Within parentheses that follow that name."""
    is_told: bool = False
    """The secret itself is being told."""

    def covers(self, word: str, bare: str) -> bool:
        """Whether the next word may be part of a secret."""
        if not bare:
            self.is_told |= bool(self.name) and not _ANNOUNCES.isdisjoint(word)
            return False
        if self.is_told and not (bare.lower() in _SCHEMES and word.endswith(bare)):
            # After a comma, one of several may follow.
            self.is_told = not word.endswith(_ENDS) or (word.endswith(",") and self.name.endswith("s"))
            self.name = self.name if self.is_told else ""
            return True
        is_secret = self.is_told or self._may_follow(bare)
        self._listen(word, bare)
        return is_secret

    def _may_follow(self, bare: str) -> bool:
        """Whether a secret may follow its name like this, without a sign. Tokens are also what models count."""
        if not self.name or self.name.endswith("tokens"):
            return False
        return self.name in _SCHEMES or not (bare.isalpha() and bare.islower())

    def _listen(self, word: str, bare: str) -> None:
        """Remember the name of a secret, also across words about it: `Password (admin): …`, `key 2 is: …`."""
        is_within = bool(self.name) and (self.is_aside or word.startswith("("))
        self.is_aside = is_within and ")" not in word
        if not (is_within or (self.name and (bare.lower() in _LINKS or _is_number(bare)))):
            self.name = _secret_named(word)
        self.is_told = bool(self.name) and not _ANNOUNCES.isdisjoint(word.lstrip(_AROUND))
        if word.endswith(".") and not self.is_told:
            self.name = ""


def _secret_named(word: str) -> str:
    """The name of a secret that a word begins with; empty if it does not."""
    start = _BEFORE_SIGNS.match(word.lstrip(_AROUND))
    name = start[0].rstrip(_AROUND + "_0123456789").lower() if start else ""
    return name if name.endswith(_NAMES_OF_SECRETS) else ""


def _is_plain(bare: str) -> bool:
    """Whether this is a word, a few of them joined, or a small number."""
    if "," in bare or "." in bare:
        digits = bare.replace(",", "").replace(".", "", 1)
        return len(digits) <= 2 * _NUMBER_LENGTH and _is_number(digits)
    pieces = bare.translate(_JOINTS).split(" ")
    return (
        len(pieces) <= _NUMBER_LENGTH
        and all(map(_is_plain_piece, pieces))
        and sum(map(str.isdigit, bare)) <= _NUMBER_LENGTH
        and sum(c.isascii() and c.isupper() for c in bare) <= _MOST_CAPITALS
        and sum(not (piece.isalpha() or piece.isdecimal()) for piece in pieces if piece) <= 1
    )


def _is_plain_piece(piece: str) -> bool:
    if piece.isalpha():
        # Some scripts put no spaces between words, and no secret is written in them.
        return len(piece) <= _WORD_LENGTH or not any(c.isascii() for c in piece)
    return (
        not piece
        or (len(piece) <= _NUMBER_LENGTH and _is_number(piece))
        or (len(piece) <= _MIXED_LENGTH and piece.isalnum())
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
