"""What a run and its cases may call their own: names that nobody else has, and that tell whose they are."""

import hashlib
import re
from typing import Any, Final

from contract.parts import Head

# Everything that a run makes begins so, with the run's id: 18 of the 64 characters that a slug has.
OURS: Final = re.compile(r"contract-[0-9a-f]{8}-")
NAME_LIMIT: Final = 40
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def own_name(run: str, purpose: str) -> str:
    """A name for what a run makes."""
    return f"contract-{run}-{purpose}"


def short_name(case: Head) -> str:
    """What brains and documents of a case are called: short enough for a slug."""
    return re.sub(r"[^a-z0-9]+", "-", case.id.partition("/")[2].lower()).strip("-")[:NAME_LIMIT].strip("-")


def names_of(case: Head, run: str, page: str | None) -> dict[str, Any]:
    unique = own_name(run, short_name(case))
    return {"unique": unique, "word": _word(unique), "here": f"contract/{unique}", "page": page or "", "run": run}


def _word(unique: str) -> str:
    """A word that nobody has written: for searches that must find one note and no other."""
    digest = hashlib.sha256(unique.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:12])
