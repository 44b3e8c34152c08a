"""The scopes of the `team` surface: which of them a caller sees, and in which folder of the brain each one is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.brain.notebook import Notebook
from gateway.operations import names
from gateway.operations.caller import Call, Principal
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject
from gateway.surfaces.team import text as text

RESERVED: Final = names.RESERVED_SCOPES
PRIVATE, GLOBAL = RESERVED
_PROJECTS: Final = "memory/project"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the entries of a scope are."""

    scope: str
    folder: str
    ending: str = ".md"
    mark: str = ""
    """A sign of the owner if the scope is private, which is also part of its ids."""

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}{self.ending}"

    def name(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/").removesuffix(self.ending)

    def id(self, path: str) -> str:
        return f"{self.scope}{self.mark}/{self.name(path)}"


class Scopes:
    """The scopes of a caller: the private one, the global one, and their projects."""

    def __init__(self, notes: Notebook, sees_all: Callable[[Principal], bool]) -> None:
        """`sees_all` is whether every caller may use every project."""
        self._notes = notes
        self._sees_all = sees_all

    async def visible(self, call: Call) -> list[str]:
        return [*RESERVED, *await self._projects(call)]

    async def _projects(self, call: Call) -> list[str]:
        principal = call.caller.principal
        if self._sees_all(principal):
            found = {_project_of(folder) for folder in await self._notes.folders(call, _PROJECTS)}
            found.add(call.caller.project)
        else:
            found = set(principal.projects)
        return sorted(name for name in found if name is not None and is_project(name))

    def place(self, call: Call, scope: str) -> Place:
        """The folder of a scope that the caller may see.

        Raises:
            GatewayError: not_found, if it does not exist and also if it is not theirs.
        """
        if scope == PRIVATE:
            folder = self._notes.private_folder(call)
            # No search of any platform looks at such files.
            return Place(scope, folder, ".txt", f":{folder[-26:][:8]}")
        if scope == GLOBAL:
            return Place(scope, "memory/global/team")
        if not is_project(scope) or not self._sees(call.caller.principal, scope):
            message = "There is no scope of that name, or it is not yours. Call memory_scopes to see yours."
            raise GatewayError("not_found", message)
        return Place(scope, f"{self._notes.project_folder(call, scope)}/team")

    def at_hand(self, call: Call) -> str | None:
        """The project that the call names outside its arguments.

        Raises:
            GatewayError: validation_error, where that is no project's name.
        """
        project = call.caller.project
        if project is not None and not is_project(project):
            raise GatewayError("validation_error", text.NO_PROJECT)
        return project

    def may_begin(self, call: Call) -> bool:
        """Whether the caller may use a project that does not exist yet."""
        return self._sees_all(call.caller.principal)

    def _sees(self, principal: Principal, project: str) -> bool:
        return self._sees_all(principal) or project in principal.projects

    def found(self, call: Call, id_: str, within: str | None = None) -> tuple[Place, str]:
        """The scope and the path of an id.

        Raises:
            GatewayError: not_found, if it is not the id of an entry that the caller may see.
        """
        scope, _, name = id_.partition("/")
        try:
            place = self.place(call, scope.partition(":")[0])
        except GatewayError:
            raise no_entry() from None
        path = place.path(name)
        is_id = place.id(path) == id_ and names.is_plain_path(name)
        if not is_id or within not in (None, place.scope):
            raise no_entry()
        return place, path


def is_project(name: str) -> bool:
    """Whether this can be the name of a project. A reserved word in other capitals cannot."""
    return names.is_project(name) and name.lower() not in RESERVED


def no_entry() -> GatewayError:
    return GatewayError("not_found", "There is no such entry, or it is not yours. Call memory_recall to see yours.")


def kinds(scopes: list[str]) -> list[JsonObject]:
    return [{"scope": scope, "kind": scope if scope in RESERVED else "project"} for scope in scopes]


def _project_of(folder: str) -> str | None:
    """The project whose folder that is, if it is the folder of one."""
    name = names.unescape(folder)
    return name if name is not None and names.escape(name) == folder else None
