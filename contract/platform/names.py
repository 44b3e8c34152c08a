"""Names the platform checks or derives: paths, slugs, ids, session ids."""

import hashlib
import json
import re
import unicodedata
from typing import Final
from urllib.parse import quote

from contract.platform.refusal import invalid

PATH_LIMIT: Final = 1024
SLUG_LIMIT: Final = 64
TITLE_LIMIT: Final = 512
SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,255}")
BRAIN_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
OWN_TREE: Final = re.compile(r"memory/(?:project|agent)/[^/]+/")
# The folders for messages of sessions, and for reflections.
SAID: Final = "sessions/"
OF_SESSIONS: Final = (SAID, "reflections/")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def path(raw: str) -> str:
    """The canonical form of a document path.

    Raises: Refused, when it is not relative, clean and printable.
    """
    clean = raw.removeprefix("/")
    if not 1 <= len(clean) <= PATH_LIMIT:
        raise invalid(f"path must have 1 to {PATH_LIMIT} characters")
    if CONTROL.search(clean) or "\\" in clean:
        raise invalid("path must not hold control characters or backslashes")
    if any(segment in {"", ".", ".."} for segment in clean.split("/")):
        raise invalid("path must not hold empty, '.' or '..' segments")
    return clean


def directory(raw: str) -> str:
    """A directory to list; the empty string is the root of the brain."""
    return path(raw.removesuffix("/")) if raw not in {"", "/"} else ""


def base_name(document_path: str) -> str:
    return document_path.rpartition("/")[2]


def stem(document_path: str) -> str:
    name = base_name(document_path)
    return name.rpartition(".")[0] or name


def is_indexed(document_path: str) -> bool:
    return document_path.endswith(".md") and not base_name(document_path).startswith("_")


def tree(document_path: str) -> str:
    """The folder that decides who may see a document: a project's or an agent's; empty for all others."""
    found = OWN_TREE.match(document_path)
    return found[0] if found else ""


def own_tree(owner: str | None) -> str:
    """The tree that belongs to one caller; empty if callers are not told apart."""
    return "" if owner is None else f"memory/agent/{owner}/"


def slug(text: str, otherwise: str) -> str:
    # `normalize` takes the square of the length of a row of accents.
    plain = unicodedata.normalize("NFKD", text[:PATH_LIMIT]).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_LIMIT].strip("-") or otherwise


def brain_slug(name: str) -> str:
    return slug(name, f"brain-{digest(name)[:8]}")


def session_id(raw: str) -> str:
    if not SESSION_ID.fullmatch(raw):
        raise invalid("a session id has 1 to 256 letters, digits or . _ : @ - and begins with a letter or digit")
    return raw


def session_folder(session: str) -> str:
    """The folder for the messages of a session. The beginning of the session's id says who may see it."""
    return f"{SAID}{quote(session, safe='')}/"


def said_path(session: str, seq: int) -> str:
    """The note of one message of a session."""
    return f"{session_folder(session)}{seq:06d}.md"


def is_said(document_path: str) -> bool:
    """Whether a document is a message of a session."""
    return document_path.startswith(SAID)


def reflection_path(session: str) -> str:
    return f"reflections/{quote(session, safe='')}.md"


def digest(*parts: object) -> str:
    """64 hex digits of the parts; a single string is hashed as it is."""
    if len(parts) == 1 and isinstance(parts[0], str):
        text = parts[0]
    else:
        text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def identifier(prefix: str, *parts: object) -> str:
    return f"{prefix}_{digest(prefix, *parts)[:24]}"
