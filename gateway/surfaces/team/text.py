"""What the `team` surface says to people. Pure functions."""

from collections.abc import Sequence
from typing import Final

from gateway.mcp.shown import head, line
from gateway.operations.table import JsonObject

_SHOWN: Final = 20
_LENGTH: Final = 320
# The beginning of a rule may say the opposite of the whole, so a digest shows more of each entry.
_DIGEST_LENGTH: Final = 2000
_AUTHOR_LENGTH: Final = 64
NO_PROJECT: Final = (
    "The X-Project header, or else your token, does not hold a project's name: letters, digits and any of . - _, "
    "at most 128, the first a letter or digit, and neither global nor private."
)
_HEADINGS: Final = {
    "decision": "Decisions",
    "convention": "Conventions",
    "constraint": "Constraints",
    "open_question": "Open questions",
    "glossary": "Glossary",
    "status": "Status",
}


def which_scope(content: str) -> str:
    return f"Which scope shall this be remembered in? “{_short(content, _LENGTH)}”"


def name_a_scope(scopes: Sequence[str], may_begin: bool) -> str:
    new = " A new project may be named, too: it begins with its first entry." if may_begin else ""
    return f"Name the scope that this belongs in. Yours are: {', '.join(scopes)}.{new}"


def remembered(entry: JsonObject) -> str:
    begun = "Already remembered" if entry["reused"] else "Remembered"
    return f"{begun} in {entry['scope']}: {entry['type']} (id {line(entry['id'])})."


def recalled(
    entries: Sequence[JsonObject], left_out: Sequence[JsonObject], empty: Sequence[str], prefix: str = ""
) -> str:
    lines = [_line(entry, _LENGTH) for entry in entries[:_SHOWN]] or ["No entries."]
    if len(entries) > _SHOWN:
        lines.append(f"({len(entries) - _SHOWN} more in the structured result; query, type or scope narrow it down)")
    return "\n".join([*lines, *_older(left_out), *_nothing_in(empty, prefix)])


def forgotten(done: bool, scope: str) -> str:
    return f"Forgotten in {scope}." if done else f"There was no such entry in {scope}."


def scopes(found: Sequence[JsonObject]) -> str:
    return "\n".join(f"{scope['scope']} ({scope['kind']})" for scope in found)


def digest(groups: Sequence[JsonObject], left_out: Sequence[JsonObject], empty: Sequence[str], prefix: str = "") -> str:
    """The digest for the beginning of a session: each type with its entries, newest first."""
    parts = [_group(group) for group in groups if group["entries"]] or ["Nothing is remembered yet."]
    return "\n\n".join([*parts, *_older(left_out), *_nothing_in(empty, prefix)])


def whole(entries: Sequence[JsonObject]) -> list[tuple[str, str]]:
    """Entries with their full text, if the lines of a recall leave some of it out."""
    return _whole(entries) if len(entries) > _SHOWN or _is_one_cut(entries, _LENGTH) else []


def whole_digest(groups: Sequence[JsonObject]) -> list[tuple[str, str]]:
    """The entries of a digest with their full text, if the digest leaves some of it out."""
    entries = [entry for group in groups for entry in group["entries"]]
    return _whole(entries) if _is_one_cut(entries, _DIGEST_LENGTH) else []


def _is_one_cut(entries: Sequence[JsonObject], length: int) -> bool:
    return any(_begun(str(entry["content"]), length)[1] for entry in entries)


def _whole(entries: Sequence[JsonObject]) -> list[tuple[str, str]]:
    return [(_head(entry), str(entry["content"])) for entry in entries]


def _head(entry: JsonObject) -> str:
    author = _short(str(entry["author"]), _AUTHOR_LENGTH)
    named = f"{entry['type']} [{entry['scope']}] {entry.get('key', '')}"
    return head(named, f"id {entry['id']}", f"by {author}", entry["updated_at"])


def _group(group: JsonObject) -> str:
    lines = [f"## {_HEADINGS[group['type']]}", *(f"- {_said(entry, _DIGEST_LENGTH)}" for entry in group["entries"])]
    if group["omitted"]:
        lines.append(f"- ({group['omitted']} older left out)")
    return "\n".join(lines)


def _older(left_out: Sequence[JsonObject]) -> list[str]:
    return [f"({one['notes']} older notes of {one['scope']} were not read)" for one in left_out]


def _nothing_in(empty: Sequence[str], prefix: str) -> list[str]:
    return [f"(The scope {scope} has no entries; {prefix}memory_scopes lists the scopes there are)" for scope in empty]


def _line(entry: JsonObject, length: int) -> str:
    return f"{entry['type']} {_said(entry, length)}"


def _said(entry: JsonObject, length: int) -> str:
    """An entry with its id, author and text. The text comes last, so that it cannot look like another field."""
    named = f" {line(entry['key'])}" if "key" in entry else ""
    origin = f"(id {line(entry['id'])}, by {_short(str(entry['author']), _AUTHOR_LENGTH)})"
    content = str(entry["content"])
    shown, is_cut = _begun(content, length)
    cut = f" (cut: {len(content):,} characters in all)" if is_cut else ""
    return f"[{entry['scope']}]{named} {origin}: {shown}{cut}"


def _short(content: str, length: int) -> str:
    return _begun(content, length)[0]


def _begun(content: str, length: int) -> tuple[str, bool]:
    """The beginning that fits, on one line, and whether it was cut."""
    # Only the beginning is looked at, with some more characters in place of those that are removed.
    shown = line(content[: 4 * length])
    is_cut = len(shown) > length or len(content) > 4 * length
    return (shown[:length] + "…" if is_cut else shown), is_cut
