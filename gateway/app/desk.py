"""The brain and its documents for the commands of a person at a terminal, in the same way as for the tools."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.app.database_file import forget, left_of, rewrite
from gateway.app.gateway import Gateway, naming_of
from gateway.brain.brain import Brain
from gateway.brain.shelf import Shelf
from gateway.config import token_file, user_file
from gateway.config.settings import BadSetting, Settings
from gateway.config.unsafe_settings import check_local
from gateway.http.auth.login.inbound import principal_of_user
from gateway.http.auth.tokens import principal_of
from gateway.operations.caller import LOCAL, Call, Caller, Principal
from gateway.operations.table import JsonObject
from gateway.surfaces.memory.surface import as_upload


@dataclass(frozen=True, slots=True)
class Desk:
    """One person, and the brain that they have named, if any."""

    brain: Brain
    shelf: Shelf
    principal: Principal
    named: str | None
    settings: Settings
    command: str = ""

    def call(self) -> Call:
        """A call of theirs. Each action is one call."""
        partition = LOCAL.subject if self.principal is LOCAL else self.principal.partition
        bound = self.principal.brain
        caller = Caller(
            partition, ceiling=bound, preferred=self.named, principal=self.principal, project=self.settings.project
        )
        return Call(caller, surface="command", tool=self.command)

    async def erase(self, path: str) -> int:
        """Remove a note for good, with everything that is kept of it. Returns how many copies there were."""
        copies = await self.shelf.erase(self.call(), path)
        if self.settings.upstream_url is not None:
            return copies
        said = forget(self.settings, (await self.brain.known(self.call())).id, path)
        # A message of a session is also kept as a note, but it counts once.
        return max(copies, said)

    async def left_of(self, path: str) -> tuple[list[str], list[Path]]:
        """Other places that still hold an erased note, from `database_file.left_of`."""
        return left_of(self.settings, (await self.brain.known(self.call())).id, path)

    def rewrite(self) -> bool:
        """Remove the bytes of deleted notes from the embedded brain's file; False if a platform is used instead."""
        if self.settings.upstream_url is not None:
            return False
        rewrite(self.settings)
        return True

    async def ingest(self, file: Path) -> JsonObject:
        return await self.brain.ingest_file(self.call(), None, str(file), as_upload(str(file), None))

    def ask(self, question: str, top_k: int) -> AsyncGenerator[list[JsonObject], None]:
        return self.brain.ask(self.call(), None, {"query": question, "top_k": top_k})


@asynccontextmanager
async def at_desk(
    settings: Settings,
    *,
    brain: str | None,
    command: str = "",
    whose: str | None = None,
    roots: tuple[Path, ...] | None = None,
) -> AsyncIterator[Desk]:
    """A gateway of our own for one command. It makes no backups: it may be gone before one is done.

    Raises: BadSetting, CannotStart.
    """
    check_local(settings)
    gateway = Gateway(settings.model_copy(update={"backup_dir": None}), roots=roots)
    async with gateway.running():
        yield Desk(gateway.brain, Shelf(gateway.brain), _principal(settings, whose), brain, settings, command)


def _principal(settings: Settings, whose: str | None) -> Principal:
    """The person at the terminal, who may do everything; or the owner of a token, as whom they act.

    Raises: BadSetting.
    """
    if whose is None:
        return LOCAL
    if settings.auth == "jwt":
        return Principal(issuer=str(settings.auth_issuer), subject=whose, known_as=naming_of(settings)(whose))
    if settings.auth == "password":
        return _user(settings, whose)
    found = next((record for record in _records(settings) if whose in (record.id, record.subject)), None)
    if found is None:
        raise BadSetting(f"{whose} is neither the id nor the subject of a token: brains-gateway token list.")
    return _at_terminal(settings, found)


def _at_terminal(settings: Settings, record: token_file.Record) -> Principal:
    principal = principal_of(record, naming_of(settings))
    # The command names the brain, as a URL would.
    return Principal(**{name: getattr(principal, name) for name in _KEPT}, brain=principal.brain)


def _records(settings: Settings) -> list[token_file.Record]:
    path = settings.tokens_path
    return token_file.parse(path.read_bytes()) if path.exists() else []


def tokens_of(desk: Desk) -> list[token_file.Record]:
    """All tokens of the person at the desk, also those that have ended."""
    if desk.principal is LOCAL or desk.settings.auth in {"jwt", "password"}:
        return []
    return [record for record in _records(desk.settings) if record.subject == desk.principal.subject]


def principals_of(desk: Desk) -> list[Principal]:
    """The person at the desk with each of their tokens, because sessions belong to a token, too."""
    return [_at_terminal(desk.settings, record) for record in tokens_of(desk)] or [desk.principal]


def _user(settings: Settings, whose: str) -> Principal:
    users = user_file.parse(settings.users_path.read_bytes()) if settings.users_path.exists() else []
    found = next((user for user in users if whose in (user.name, user.subject)), None)
    if found is None:
        raise BadSetting(f"{whose} is neither the name nor the subject of a user: brains-gateway user list.")
    return replace(principal_of_user(found), known_as=naming_of(settings)(found.name))


_KEPT = ("issuer", "subject", "client", "org", "projects", "scopes", "known_as")
