"""Names for what a run and its cases make: they are unique, and show to which run they belong."""

import hashlib
import re
from typing import Any, Final

from contract.parts import Head

# All names begin like this, with the run's id: 18 of the 64 characters of a slug.
OURS: Final = re.compile(r"contract-[0-9a-f]{8}-")
NAME_LIMIT: Final = 40
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def own_name(run: str, purpose: str) -> str:
    """A name for what a run makes."""
    return f"contract-{run}-{purpose}"


def short_name(case: Head) -> str:
    """The name of the brains and documents of a case: short enough for a slug."""
    return re.sub(r"[^a-z0-9]+", "-", case.id.partition("/")[2].lower()).strip("-")[:NAME_LIMIT].strip("-")


def names_of(case: Head, run: str, page: str | None) -> dict[str, Any]:
    unique = own_name(run, short_name(case))
    return {"unique": unique, "word": _word(unique), "here": f"contract/{unique}", "page": page or "", "run": run}


def _word(unique: str) -> str:
    """A word that is in no other note, for searches that must find exactly one."""
    digest = hashlib.sha256(unique.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:12])
