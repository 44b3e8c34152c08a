"""What a platform says of itself, made fit for a caller: prose passes; what may be an address or a secret does not.

There is no list of what secrets look like that is complete. So it is the other way round: a word stays if it is
plainly a word or a small number.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

MESSAGE_LENGTH: Final = 300
# More than is ever shown is not looked at either.
_LOOKED_AT: Final = 4 * MESSAGE_LENGTH
_TAKEN_OUT: Final = "[…]"
_AROUND: Final = "\"'`‘’“”«»()[]{}<>.,;:!?…*%#$&|~^+=-–—。、"
_ANNOUNCES: Final = ":="
_JOINTS: Final = str.maketrans(dict.fromkeys("'’-", " "))
_WORD_LENGTH, _NUMBER_LENGTH, _MIXED_LENGTH = 24, 6, 3
# What may stand before a secret.
_NAMES_OF_SECRETS: Final = frozenset(
    {"api-key", "apikey", "authorization", "basic", "bearer", "cookie", "credential", "credentials", "key"}
    | {"pass", "passphrase", "passwd", "password", "pin", "pwd", "secret", "session", "token"}
)
# Letters that fill no space.
_FILLERS: Final = "\u115f\u1160"
_SCHEMES: Final = frozenset({"basic", "bearer"})


def clean_message(said: object, secrets: Sequence[str] = ()) -> str | None:
    """A platform's message, on one line, in so many characters; None where nothing of it can be shown.

    `secrets` are those that the platform was shown with the request: it may repeat them.
    """
    if not isinstance(said, str):
        return None
    text = _visible(said[:_LOOKED_AT])
    if len(said) > _LOOKED_AT:
        # What the cut went through may be half a secret.
        text = text.rpartition(" ")[0]
    for secret in secrets:
        text = text.replace(secret, f" {_TAKEN_OUT} ")
    line = " ".join(_words(text))
    if not any(map(str.isalnum, line)):
        return None
    return line if len(line) <= MESSAGE_LENGTH else line[: MESSAGE_LENGTH - 1].rstrip() + "…"


def _visible(text: str) -> str:
    """On one line, and without what is not seen or turns around what is seen."""
    spaced = (" " if c.isspace() else c for c in unicodedata.normalize("NFKC", text))
    return "".join(c for c in spaced if c.isprintable() and c not in _FILLERS)


def _words(text: str) -> Iterator[str]:
    """The words that may be shown; for others, however many in a row, one mark."""
    last, before, ending = "", "", ""
    for word in text.split():
        bare = word.strip(_AROUND)
        follows_a_name = before in _NAMES_OF_SECRETS and (
            before in _SCHEMES or ending[-1:] in _ANNOUNCES or not (bare.isalpha() and bare.islower())
        )
        is_shown = not bare or (_is_plain(bare) and not follows_a_name)
        shown = word if is_shown else _TAKEN_OUT
        if bare:
            before, ending = bare.lower(), word
        else:
            ending += word
        if not (shown == _TAKEN_OUT == last):
            yield shown
        last = shown


def _is_plain(bare: str) -> bool:
    """Whether this is a word, a few of them joined, or a small number."""
    if "," in bare or "." in bare:
        digits = bare.replace(",", "").replace(".", "", 1)
        return len(digits) <= 2 * _NUMBER_LENGTH and _is_number(digits)
    pieces = bare.translate(_JOINTS).split(" ")
    return len(pieces) <= _NUMBER_LENGTH and all(map(_is_plain_piece, pieces))


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
