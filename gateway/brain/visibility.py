"""Who may see which notes of a brain, by path and caller. This is decided here, and nowhere else.

Private notes are their owner's, a project's folder belongs to the callers of that project, and a session to whoever
began it. The platform knows who owns a brain: the embedded brain is told who calls.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.operations import names
from gateway.operations.caller import LOCAL, Caller, Principal
from gateway.operations.table import Args, JsonObject, JsonValue

# The folders that some callers may not see, as a platform may spell them.
_PROJECT: Final = re.compile(r"memory/project/([^/]+)")
_PROJECT_PATH: Final = re.compile(r"memory/project/([^/]+)/(.+)")
_SESSION: Final = re.compile(r"sessions/(?:([0-9a-f]{16})[/-])?|reflections/(?:([0-9a-f]{16})-)?")
# Fields that only a hit of a search has. A hit without a path belongs to an unknown owner.
_OF_A_NOTE: Final = ("chunk_id", "document_id", "score", "preview")
# What a platform is asked to leave out goes into a URL.
_NAMED_AT_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class View:
    """What one caller may see of a brain."""

    own: str
    """Their private folder below `memory/agent/`."""
    session_owner: str
    """The beginning of the ids of their sessions."""
    projects: Mapping[str, str] | None = None
    """The folders of their projects, by name; None if callers are one tenant, and see all of them."""

    @property
    def is_limited(self) -> bool:
        """Whether anything besides private notes can belong to other callers."""
        return self.projects is not None

    def sees(self, path: str) -> bool:
        if not path:
            # Not every platform says where a note is. With one tenant, that hides nothing.
            return self.projects is None
        folded = names.fold_path(path)
        # With one tenant, a note may have such signs in its name, unless it may be in a private folder.
        is_clear = _is_clear(folded) if self.projects is not None or "gent" in folded else _has_plain_parts(folded)
        if len(path) > names.FOLDED_LENGTH or not is_clear:
            return False
        if (private := names.PRIVATE_TREE.match(folded)) is not None:
            return private[1] == self.own
        if self.projects is None:
            return True
        if (project := _PROJECT.match(folded)) is not None:
            return project[1] in self.projects.values()
        session = _SESSION.match(folded)
        return session is None or self.session_owner in session.groups()

    def takes(self, path: str) -> bool:
        """Whether they may write there. Their own folder in other capitals is refused, as no platform would hide it."""
        folded = names.fold_path(path)
        folder = next(
            (found[0] for tree in (names.PRIVATE_TREE, _PROJECT, _SESSION) if (found := tree.match(folded))), ""
        )
        return self.sees(path) and (not self.is_limited or path.startswith(folder))

    def place(self, path: str) -> str:
        """The real path for one that a caller names: a project of theirs has a folder with another name."""
        found = _PROJECT_PATH.fullmatch(path)
        folder = (self.projects or {}).get(found[1]) if found else None
        return path if found is None or folder is None else f"memory/project/{folder}/{found[2]}"

    def folders(self) -> Args:
        """The paths that a platform is asked to leave out, if it can."""
        if self.projects is None or len(self.projects) > _NAMED_AT_MOST:
            return {}
        return {
            "exclude": ["memory/agent/u-", "memory/project/", "sessions/", "reflections/"],
            "include": [
                f"memory/agent/{self.own}/",
                f"sessions/{self.session_owner}/",
                f"sessions/{self.session_owner}-",
                f"reflections/{self.session_owner}-",
                *(f"memory/project/{project}/" for project in self.projects.values()),
            ],
        }

    def without_hidden(self, answer: JsonValue) -> JsonValue:
        """An answer without entries that the caller may not see or, where that matters, whose place is not known.

        With one tenant, only the lists at the top are looked at, because nothing else in an answer has paths.
        """
        if isinstance(answer, list):
            paths: list[Any] = [entry.get("path") if type(entry) is dict else None for entry in answer]
            are_paths = not self.is_limited and all(paths) and {str}.issuperset(map(type, paths))
            if paths and are_paths and _are_surely_public(*paths):
                return answer
            kept = [entry for entry in answer if self.shows(entry)]
            return [self.without_hidden(entry) for entry in kept] if self.is_limited else kept
        if isinstance(answer, dict):
            return {
                key: self.without_hidden(value) if isinstance(value, list) or self.is_limited else value
                for key, value in answer.items()
            }
        return answer

    def shows(self, entry: JsonValue) -> bool:
        """Whether an entry of a list may be seen."""
        if not isinstance(entry, dict):
            return True
        if isinstance(path := entry.get("path"), str) and path:
            return (not self.is_limited and _are_surely_public(path)) or self.sees(path)
        return not self.is_limited or not (path or any(key in entry for key in _OF_A_NOTE))


def view_of(caller: Caller, *, shared: bool, actor: str) -> View:
    """`shared` is whether callers are different people; `actor` is who calls if callers are not told apart."""
    principal = caller.principal
    own = names.private_tree(principal.issuer, actor if principal is LOCAL else principal.subject)
    owner = names.caller_name(caller.partition)
    if principal is LOCAL or not shared:
        return View(own, owner)
    return View(own, owner, _projects(principal))


def _projects(principal: Principal) -> dict[str, str]:
    """Only names that make a folder of their own: another name might spell the folder of somebody else."""
    return {name: names.project_folder(name, principal.org) for name in principal.projects if names.is_project(name)}


def without_totals(answer: JsonObject, key: str, found: list[JsonObject]) -> JsonObject:
    """An answer from which entries were left out, without the fields that describe the whole, such as totals."""
    said = ("query", "brain_id", "session_id", "took_ms")
    return {**{name: answer[name] for name in said if name in answer}, key: found}


def _are_surely_public(*paths: str) -> bool:
    """Whether a quick look is enough: in plain letters, only a path with this word in it can be private."""
    # One pattern for all folders, each at the beginning of a line, because this is asked for every hit.
    lines = "\n" + "\n".join(paths)
    return (
        lines.isascii()
        and "gent" not in lines.lower()
        # The paths also say where they are: they have no dot segments and no empty ones.
        and "/." not in lines
        and "//" not in lines
        and "\n." not in lines
        and max(map(len, paths)) <= names.FOLDED_LENGTH
    )


def _is_clear(path: str) -> bool:
    """Whether a path has the same meaning for everybody who reads it."""
    # The id of a session may have these two signs, and is part of the path of its reflection.
    path = path.replace("%3a", "").replace("%40", "")
    return "%" not in path and "\\" not in path and _has_plain_parts(path)


def _has_plain_parts(path: str) -> bool:
    return all(part not in {"", ".", ".."} for part in path.split("/"))
