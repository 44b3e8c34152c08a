"""Ids, paths and derived names: what may stand in a URL, and what the same write is always called."""

import base64
import hashlib
import json
import re
import unicodedata
import uuid
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import unquote

from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonValue

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
# No controls, no wildcards, no look-alikes of a slash, no halves of surrogate pairs.
_PATH_CHARACTERS = re.compile(
    r"[^\x00-\x1f\x7f-\x9f\\?#%;:*\"<>|\u2028-\u202e\u2044\u2066-\u2069\u2215\u29f5\u29f8\u29f9\ud800-\udfff]+"
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CAPITAL = re.compile(r"[A-Z]")
_ESCAPED_LENGTH = 180
FOLDED_LENGTH = 1024
PRIVATE_TREE = re.compile(r"memory/agent/(u-[^/]+)")
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)}
)
_RESERVED_TREES = re.compile(
    r"sessions/|memory/agent/u-|memory/global/(kv|team|being)/|memory/project/[^/]+/(team|memo)/"
    r"|memory/(.+/)?memory\.md$",
    re.IGNORECASE,
)
_INDEX = re.compile(r"memory/(.+/)?memory\.md", re.IGNORECASE)
_INDEXED_TREE = re.compile(r"memory/(global|project/[^/]+)/")
_BETWEEN_PATHS = re.compile(r"[\s()\[\]<>`*:,]+")
# A line of an index as daemons write it: `- [Title](name.md) — …` or `- name.md: …`.
_INDEX_LINE = re.compile(r"- (?:\[(?>.*?\]\()([^()]*+)\)(?: — .*)?|([^:]*+): .*)")
_HEADING = re.compile(r"^#{1,6}[ \t](.+)$", re.MULTILINE)
_VISIBLE = re.compile(r"\S")
_TITLE_LENGTH = 512
# An actor's name is kept with every message, and with every note that is extracted from one.
_ACTOR_LENGTH = 512
_UUID_LENGTH = 36
_BRAINS = uuid.uuid5(uuid.NAMESPACE_DNS, "brains.brains-gateway")
_SEGMENT_BYTES = 255
# Our names and trees are made from at most this much of a text, because `normalize` puts a row of accents in order,
# which takes the square of its length.
_FOLDED_LENGTH = 1024


def check_id(value: str, field: str) -> str:
    """An id that is safe as one segment of a URL.

    Raises:
        GatewayError: validation_error, naming the field.
    """
    if _ID.fullmatch(value) and value.strip("."):
        return value
    raise GatewayError(
        "validation_error",
        f"{field} must be 1 to 128 letters, digits or any of . : - _ and begin with a letter or digit.",
    )


def check_actor(actor_id: str | None) -> None:
    """Check that the name of an actor is not too long.

    Raises:
        GatewayError: validation_error.
    """
    if actor_id is not None and len(actor_id) > _ACTOR_LENGTH:
        raise GatewayError("validation_error", f"actor_id must have at most {_ACTOR_LENGTH} characters.")


def check_path(value: str) -> str:
    """A path inside a brain that a caller may write to, without its leading slash.

    Raises:
        GatewayError: validation_error or forbidden, saying what a path looks like.
    """
    path = value.removeprefix("/")
    segments = path.split("/")
    if not path.endswith(".md") or not all(_is_plain_segment(segment) for segment in segments):
        raise GatewayError(
            "validation_error",
            "path must be a plain relative path that ends in .md, for example memory/global/running.md.",
        )
    # Folded as a platform may do it: a name that only looks different is reserved too.
    folded = unicodedata.normalize("NFKC", path)
    if _RESERVED_TREES.match(folded) or any(segment.startswith("_") for segment in folded.split("/")):
        raise GatewayError("forbidden", "That path is reserved for the gateway's own notes. Choose another.")
    return path


def is_plain_path(path: str) -> bool:
    """Whether a path leads nowhere else, and is not that of a file that is kept beside notes."""
    folded = unicodedata.normalize("NFKC", path).split("/")
    return all(map(_is_plain_segment, path.split("/"))) and not any(segment.startswith("_") for segment in folded)


def _is_plain_segment(segment: str) -> bool:
    folded = unicodedata.normalize("NFKC", segment)
    decoded = unquote(unquote(unquote(folded)))
    return (
        _PATH_CHARACTERS.fullmatch(segment) is not None
        and len(segment.encode()) <= _SEGMENT_BYTES
        and decoded == folded
        and not {"/", "\\"} & set(folded)
        and folded == folded.strip()
        and not folded.startswith(("-", "~"))
        and not folded.endswith(".")
        and folded.split(".")[0].strip().lower() not in _DEVICE_NAMES
    )


def is_word(text: str) -> bool:
    """Whether it can be a key, a namespace or a project: it can be a file's name once its capitals are escaped."""
    return _WORD.fullmatch(text) is not None


is_project = is_word
# Scopes of entries that are no projects.
RESERVED_SCOPES = ("private", "global")


def escape(word: str) -> str:
    """A word as a file's name. File systems that fold capitals would take `Talk` and `talk` for one file."""
    name = _CAPITAL.sub(lambda capital: "!" + capital.group().lower(), word)
    return name if len(name) <= _ESCAPED_LENGTH else f"{name[:100]}!!{digest(word)[:32]}"


def unescape(name: str) -> str | None:
    """The word that a file's name was made from; None where a part of it is a hash."""
    return None if "!!" in name else re.sub(r"!([a-z])", lambda found: found.group(1).upper(), name)


def slug(text: str, *, empty: str, length: int = 64) -> str:
    """Lower-case ASCII words joined by dashes; `empty` where no letter or digit is left."""
    ascii_text = unicodedata.normalize("NFKD", text[:_FOLDED_LENGTH]).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_text).strip("-")[:length].rstrip("-") or empty


def brain_uuid(brain_id: str) -> str:
    """A brain's id as a UUID: as it is where it is one, else always the same one that is derived from it."""
    return brain_id if is_uuid(brain_id) else str(uuid.uuid5(_BRAINS, brain_id))


def is_brain(ref: str, brain_id: str | None, slug: str | None) -> bool:
    """Whether this names the brain: its id, its slug, or the UUID that is derived from its id.

    A name that may be such a UUID is never taken for a slug, because anybody may choose it as a slug. If there are
    no ids, the slug is the id.
    """
    if not is_derived_uuid(ref):
        return ref in (brain_id, slug)
    own = brain_id or slug
    return own is not None and brain_uuid(own) == ref


def is_uuid(text: str) -> bool:
    try:
        return len(text) == _UUID_LENGTH and str(uuid.UUID(text)) == text
    except ValueError:
        return False


def is_derived_uuid(text: str) -> bool:
    """Whether it looks as UUIDs of ours do, which are derived from something."""
    return is_uuid(text) and uuid.UUID(text).version == 5


def brain_slug(name: str) -> str:
    return slug(name, empty=f"brain-{digest(name)[:8]}")


def digest(value: JsonValue) -> str:
    """The sha256 of a value's canonical JSON: equal writes have equal digests."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def title_of(content: str) -> str:
    """The first heading, else the first line that says something."""
    headings = (_heading(match.group(1)) for match in _HEADING.finditer(content[:65_536]))
    text = next((heading for heading in headings if heading), None) or _first_line(content)
    printable = "".join(c if c.isprintable() else " " for c in text).strip()
    return " ".join(printable.split())[:_TITLE_LENGTH].strip() or "Untitled"


def _first_line(content: str) -> str:
    """The first line that says something, as much of it as could make a title."""
    first = _VISIBLE.search(content)
    return content[first.start() : first.start() + 16 * _TITLE_LENGTH].splitlines()[0] if first else ""


def _heading(text: str) -> str:
    """A heading's words, without the #s that may close it. By hand: a pattern for them takes quadratic time."""
    stripped = text.strip()
    opened = stripped.rstrip("#")
    return opened.rstrip() if not opened or opened[-1].isspace() else stripped


def memory_path(title: str, digest_: str) -> str:
    return f"memory/global/{slug(title, empty='note')}-{digest_[:12]}.md"


def transcript_path(digest_: str) -> str:
    return f"raw/documents/transcript-{digest_[:12]}.md"


def page_path(title: str, digest_: str) -> str:
    return f"raw/documents/{slug(title, empty='page')}-{digest_[:12]}.md"


def document_id(brain: str, path: str) -> str:
    return f"doc_{digest([brain, path])[:24]}"


@lru_cache(maxsize=4096)
def caller_name(subject: str) -> str:
    """A caller as part of a path. Nobody can read from it who the caller is."""
    return digest(["caller", subject])[:16]


@lru_cache(maxsize=4096)
def private_tree(issuer: str, subject: str) -> str:
    """The folder below `memory/agent/` that belongs to one person, whatever client they use."""
    hashed = hashlib.sha256(f"{issuer}\0{subject}".encode()).digest()
    return "u-" + base64.b32encode(hashed).decode().lower()[:26]


def fold_path(path: str) -> str:
    """As a platform may read it."""
    # Putting a row of accents in order takes the square of its length, and our folders begin early in a path.
    path = path[:FOLDED_LENGTH]
    return (path if path.isascii() else unicodedata.normalize("NFKC", path)).removeprefix("/").casefold()


def is_private_of_others(path: str, own: str) -> bool:
    """Whether a path is in the private folder of another person."""
    private = PRIVATE_TREE.match(fold_path(path))
    return private is not None and private[1] != own


def may_end(path: str) -> bool:
    """Whether a note at this path may still be stored after it has expired or was replaced by another."""
    return path.removeprefix("/").startswith(("memory/global/kv/", "memory/global/being/nodes/"))


def may_be_over(paths: Sequence[str]) -> bool:
    """Whether one of these may be such a note, or an index: one look for all, because it is asked of every hit."""
    lines = "\n".join(paths).lower()
    return "memory.md" in lines or "global/kv/" in lines or "global/being/" in lines


def is_index(path: str) -> bool:
    """Whether it is an index of notes that a daemon writes when it consolidates. It may name notes that are gone."""
    return path[-9:].lower() == "memory.md" and _INDEX.fullmatch(path.removeprefix("/")) is not None


def listed_in_index(path: str, line: str) -> set[str]:
    """All notes that a line of an index may name, by its own folder."""
    folder = path.removeprefix("/").rpartition("/")[0]
    # As `- [Title](name.md)`, or as `- name.md: …`; a name may have spaces in it.
    link = line.partition("](")[2].partition(")")[0]
    first = line.removeprefix("- ").partition(".md:")[0] + ".md" if ".md:" in line else ""
    named = (*_BETWEEN_PATHS.split(line), link, first)
    return {f"{folder}/{word.removeprefix('./')}" for word in named if word.endswith(".md")}


def described_in_index(line: str) -> str | None:
    """The note that a line of an index describes, by the folder of that index; None if no daemon wrote the line."""
    found = _INDEX_LINE.fullmatch(line)
    name = (found[1] or found[2] or "") if found else ""
    is_note = name.endswith(".md") and not name.startswith("memory/")
    return name if is_note and all(map(_is_plain_segment, name.split("/"))) else None


def is_unlisted(path: str) -> bool:
    """Whether a list of documents may leave it out although it is there: platforms take such names for their own."""
    return "/_" in path


def index_of(path: str) -> str | None:
    """The index that may tell of a note: one for what is global, and one for each project."""
    tree = _INDEXED_TREE.match(path)
    return f"{tree[0]}MEMORY.md" if tree is not None and path.endswith(".md") and not is_index(path) else None


def mark(path: str) -> str:
    """A comment that only the note at this path has."""
    return digest(["note", path])[:12]


def project_folder(project: str, org: str | None = None) -> str:
    """The folder of a project below `memory/project/`. Two organizations may each have a project of that name."""
    # No project's own folder ends like this: see `escape`.
    return escape(project) if org is None else f"{escape(project)}!!o-{digest(['organization', org])[:12]}"


def own_session(caller: str, session_id: str) -> str:
    """The id of a session on a platform that keeps sessions by their id alone."""
    whole = f"{caller}-{session_id}"
    return whole if _ID.fullmatch(whole) else f"{caller}-{digest(session_id)[:32]}"


def session_name(session_id: str) -> str:
    """A session as part of a path. The hash tells `Talk` and `talk` apart, which file systems may take for one name."""
    return f"{slug(session_id, empty='session')}-{digest(session_id)[:12]}"


def session_log_path(caller: str, session_id: str) -> str:
    return f"sessions/{caller}/{session_name(session_id)}.jsonl"


def reflection_path(caller: str, session_id: str) -> str:
    return f"reflections/{caller}-{session_name(session_id)}.md"


def extracted_path(name: str, content: str, tree: str = "global") -> str:
    """Where an extracted memory is kept. A model chose its name, so it is made into a slug again."""
    return f"memory/{tree}/extracted-{slug(name, empty='memory')}-{checksum(content)[:12]}.md"


def actor_folder(actor: str) -> str:
    """An actor as the folder of a project: one whose name is a device on some systems gets another."""
    made = slug(actor, empty="project")
    return f"{made}-project" if made in _DEVICE_NAMES else made


def file_name(stem: str, body: bytes, *, length: int = 77) -> str:
    """A name that only this file has, of so many characters at most."""
    return f"{slug(stem, empty='file', length=length - 13)}-{hashlib.sha256(body).hexdigest()[:12]}"


def checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
