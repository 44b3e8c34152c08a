"""Notes as a daemon reads them: front matter, paths, listing entries and a plain search."""

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import yaml

from tests.daemons.traits import Tense, Traits

File = tuple[bytes, float]
Files = dict[str, File]
METADATA = {
    "scope": "scope",
    "type": "type",
    "session_id": "sessionId",
    "session_date": "sessionDate",
    "observed_on": "observedOn",
    "modified": "modified",
}
SCOPES = {
    "global": "memory/global/",
    "global_memory": "memory/global/",
    "project": "memory/project/",
    "project_memory": "memory/project/",
    "agent": "memory/agent/",
    "agent_memory": "memory/agent/",
    "wiki": "wiki/",
    "raw": "raw/",
    "raw_document": "raw/",
    "raw_lme": "raw/lme/",
}
IS_DIRECTORY = "EISDIR: illegal operation on a directory"
# A question's small words must not make every note a hit.
_SMALL = """a an and are about at by did do does for from how i in is it me my of on or our the to was we what when
where which who why with you your"""
SMALL_WORDS = frozenset(_SMALL.split())


@dataclass(frozen=True)
class Note:
    """A Markdown file taken apart."""

    matter: dict[str, str]
    tags: list[str]
    body: str


@lru_cache(maxsize=4096)
def read_note(raw: str) -> Note:
    """Kept, because every search reads all notes again; nobody may change what comes back."""
    match = re.match(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", raw, re.DOTALL | re.MULTILINE)
    if match is None:
        return Note({}, [], raw)
    try:
        # Strings alone: a daemon shows a date as it was written.
        loaded = yaml.load(match.group(1), Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        loaded = {}
    fields: dict[str, Any] = loaded if isinstance(loaded, dict) else {}
    tags = fields.get("tags", [])
    listed = tags if isinstance(tags, list) else str(tags).split(",")
    matter = {key: value for key, value in fields.items() if isinstance(value, str) and value and key != "tags"}
    return Note(matter, [str(tag).strip() for tag in listed if str(tag).strip()], raw[match.end() :].strip())


def shown_time(moment: float, tense: Tense) -> str:
    when = datetime.fromtimestamp(moment, UTC)
    if tense == "us":
        return when.isoformat(timespec="microseconds")
    text = when.replace(tzinfo=None).isoformat(timespec="milliseconds" if tense == "ms" else "microseconds")
    return text + ("Z" if tense == "ms" else "321Z")


def path_problem(path: str) -> str | None:
    """Why the store has no such path; None when it may have."""
    if path == "":
        return "empty path"
    if "\0" in path:
        return "contains null byte: " + repr(path)
    if "\\" in path:
        return f"contains backslash: {path}"
    if path.startswith("/"):
        return f"leading slash: {path}"
    if path.endswith("/"):
        return f"trailing slash: {path}"
    if posixpath.normpath(path) != path:
        return f"non-canonical: {path}"
    if ".." in path.split("/"):
        return f"contains ..: {path}"
    return f"contains .: {path}" if path == "." else None


def directories(files: Files) -> set[str]:
    """Every directory that has a file below it."""
    found: set[str] = set()
    for path in files:
        parts = path.split("/")[:-1]
        found.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
    return found


def disk_trouble(files: Files, path: str) -> str | None:
    """What the file system has against a path: every daemon keeps a brain as a directory of files."""
    parts = path.split("/")
    if any(len(part.encode()) > 255 for part in parts):
        return "ENAMETOOLONG: name too long"
    above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
    return "ENOTDIR: not a directory" if any(parent in files for parent in above) else None


def entry(path: str, file: File | None, traits: Traits) -> dict[str, Any]:
    content, moment = file if file is not None else (b"", 0.0)
    when = shown_time(moment, traits.mtime)
    return {"path": path, "size": len(content), "mtime": when, "is_dir": file is None}


def listing(
    files: Files, traits: Traits, folder: str, recursive: bool, generated: bool, glob: str
) -> list[dict[str, Any]]:
    prefix = f"{folder}/" if folder else ""
    stored = dict(files)
    if traits.leaks_index:
        stored[".search.db"] = (b"SQLite format 3\0", 0.0)
    entries: dict[str, File | None] = {}
    for path in [*stored, *directories(files)]:
        rest = path.removeprefix(prefix)
        if not path.startswith(prefix) or ("/" in rest and not recursive):
            continue
        is_folder = path not in stored
        name = posixpath.basename(path)
        if (is_folder and recursive and not traits.lists_directories) or (glob and not fnmatch.fnmatchcase(name, glob)):
            continue
        if is_folder or generated or not name.startswith("_"):
            entries[path] = stored.get(path)
    return [entry(path, entries[path], traits) for path in sorted(entries)]


def is_indexed(path: str, traits: Traits) -> bool:
    if not path.lower().endswith(".md") or not path.startswith(traits.indexed):
        return False
    return traits.indexes_underscore or not posixpath.basename(path).startswith("_")


def passes(path: str, note: Note, filters: dict[str, Any], traits: Traits) -> bool:
    """Whether the index lets the note through."""
    tags = {tag.lower() for tag in note.tags}
    if not all(str(tag).lower() in tags for tag in filters.get("tags") or []) or not under(path, filters):
        return False
    scope, project = (str(filters.get(key) or "").strip().lower() for key in ("scope", "project"))
    if scope and traits.scope_leaks and scope in {"agent", "all"}:
        return not path.startswith("memory/")
    if scope and traits.scope_of_matter and "scope" in note.matter:
        if note.matter["scope"].lower() != scope.removesuffix("_memory"):
            return False
    elif scope and not path.startswith(SCOPES.get(scope, "\0")):
        return False
    elsewhere = not path.startswith("memory/project/") and traits.project_filter_leaks
    return not project or elsewhere or path.lower().startswith(f"memory/project/{project}/")


def passes_plain(path: str, filters: dict[str, Any]) -> bool:
    """Whether the plain scan lets the file through: it looks at paths alone, never at tags."""
    scope, project = (str(filters.get(key) or "").strip().lower() for key in ("scope", "project"))
    if scope and not path.startswith(SCOPES.get(scope, "\0")):
        return False
    return under(path, filters) and (not project or path.lower().startswith(f"memory/project/{project}/"))


def under(path: str, filters: dict[str, Any]) -> bool:
    paths = [str(item).strip() for item in filters.get("paths") or []]
    return (not paths or path in paths) and path.startswith(str(filters.get("pathPrefix") or "").strip())


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def search(files: Files, query: str, top: int, filters: dict[str, Any], traits: Traits) -> list[dict[str, Any]]:
    """Any word of the query makes a hit; more matches come first, and equals in order of their paths."""
    asked = [word for word in dict.fromkeys(words_of(query)) if word not in SMALL_WORDS]
    notes = {
        path: read_note(content.decode("utf-8", "replace"))
        for path, (content, _) in sorted(files.items())
        if is_indexed(path, traits)
    }
    matches: dict[str, tuple[int, int]] = {}
    for path, note in notes.items():
        if not passes(path, note, filters, traits):
            continue
        matter = note.matter
        text = [path, matter.get("name", ""), matter.get("description", ""), *note.tags, note.body]
        found = words_of(" ".join(text))
        kinds = sum(1 for word in asked if word in found)
        if kinds:
            matches[path] = (kinds, sum(found.count(word) for word in asked))
    ranked = sorted(matches, key=lambda path: matches[path], reverse=True)
    if traits.drops_equal_bodies:
        bodies = {path: " ".join(notes[path].body.lower().split()) for path in ranked}
        first = {body: path for path, body in reversed(bodies.items())}
        ranked = [path for path in ranked if first[bodies[path]] == path]
    if ranked:
        return [ranked_chunk(path, notes[path], rank) for rank, path in enumerate(ranked[:top])]
    if not traits.scans_plainly:
        return []
    needle = query.strip().lower()
    plain = [path for path, note in notes.items() if passes_plain(path, filters) and needle in note.body.lower()]
    return [plain_chunk(path, notes[path]) for path in plain[:top]]


def ranked_chunk(path: str, note: Note, rank: int) -> dict[str, Any]:
    basic = _chunk(path, note, 1 / (61 + rank), note.body.strip(), note.matter.get("name", "").strip())
    return {**basic, "bm25Rank": rank}


def plain_chunk(path: str, note: Note) -> dict[str, Any]:
    """A hit of the plain scan, which comes when no word of the query is in the index."""
    basic = _chunk(path, note, 1, note.body[:800], note.matter.get("name", path).strip())
    return {**basic, "bm25Rank": 0, "vectorSimilarity": 0, "rerankScore": 0}


def _chunk(path: str, note: Note, score: float, text: str, title: str) -> dict[str, Any]:
    basic = {"chunkId": path, "documentId": path, "path": path, "score": score, "text": text, "title": title}
    basic["summary"] = note.matter.get("description", "")
    metadata = {shown: note.matter[key] for key, shown in METADATA.items() if key in note.matter}
    return {**basic, "metadata": metadata} if metadata else basic


def dressed(chunks: list[dict[str, Any]], traits: Traits) -> list[dict[str, Any]] | None:
    """The chunks with the keys of the daemon."""
    if not chunks and traits.null_lists:
        return None
    if traits.chunk_keys == "all":
        rest: dict[str, Any] = {"metadata": {}, "bm25Rank": None, "vectorSimilarity": None, "rerankScore": None}
        return [{**rest, **chunk} for chunk in chunks]
    if traits.chunk_keys == "nonzero":
        return [{key: value for key, value in chunk.items() if value} for chunk in chunks]
    return chunks
