"""What a case may call its own: words that no other case and no other run has."""

import hashlib
import re
from typing import Any, Final

from contract.parts import Head

# A slug has 64 characters, and some of them say that it is ours and of which run.
NAME_LIMIT: Final = 46
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def short_name(case: Head) -> str:
    """What brains and documents of a case are called: short enough for a slug."""
    return re.sub(r"[^a-z0-9]+", "-", case.id.partition("/")[2].lower()).strip("-")[:NAME_LIMIT].strip("-")


def names_of(case: Head, run: str, page: str | None) -> dict[str, Any]:
    unique = f"{short_name(case)}-{run}"
    return {"unique": unique, "word": _word(unique), "here": f"contract/{unique}", "page": page or ""}


def _word(unique: str) -> str:
    """A word that nobody has written: for searches that must find one note and no other."""
    digest = hashlib.sha256(unique.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:12])
