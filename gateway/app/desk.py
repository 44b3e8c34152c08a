"""What commands work at: a brain and its documents, as the tools have them, for a person at a terminal."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.app.database_file import scrub
from gateway.app.gateway import Gateway
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
    """One person, and the brain they have named, if they have."""

    brain: Brain
    shelf: Shelf
    principal: Principal
    named: str | None
    settings: Settings

    def call(self) -> Call:
        """A call of theirs. Each thing that is done is one."""
        partition = LOCAL.subject if self.principal is LOCAL else self.principal.partition
        bound = self.principal.brain
        caller = Caller(
            partition, ceiling=bound, preferred=self.named, principal=self.principal, project=self.settings.project
        )
        return Call(caller)

    def scrub(self, path: str) -> tuple[list[str], list[Path]] | None:
        """What is left of an erased note elsewhere, as `database_file.scrub` says; None where that is a platform's."""
        return None if self.settings.upstream_url is not None else scrub(self.settings, path)

    async def ingest(self, file: Path) -> JsonObject:
        return await self.brain.ingest_file(self.call(), None, str(file), as_upload(str(file), None))

    def ask(self, question: str, top_k: int) -> AsyncGenerator[list[JsonObject], None]:
        return self.brain.ask(self.call(), None, {"query": question, "top_k": top_k})


@asynccontextmanager
async def at_desk(
    settings: Settings, *, brain: str | None, whose: str | None = None, roots: tuple[Path, ...] | None = None
) -> AsyncIterator[Desk]:
    """A gateway of our own for one command. It makes no backups: it may be gone before one is done.

    Raises: BadSetting, CannotStart.
    """
    check_local(settings)
    gateway = Gateway(settings.model_copy(update={"backup_dir": None}), roots=roots)
    async with gateway.running():
        yield Desk(gateway.brain, Shelf(gateway.brain), _principal(settings, whose), brain, settings)


def _principal(settings: Settings, whose: str | None) -> Principal:
    """Whoever is at the terminal, who may do everything; or somebody with a token, as whom they act.

    Raises: BadSetting.
    """
    if whose is None:
        return LOCAL
    if settings.auth == "jwt":
        return Principal(issuer=str(settings.auth_issuer), subject=whose)
    if settings.auth == "password":
        return _user(settings, whose)
    path = settings.tokens_path
    records = token_file.parse(path.read_bytes()) if path.exists() else []
    found = next((record for record in records if whose in (record.id, record.subject)), None)
    if found is None:
        raise BadSetting(f"--as {whose} is neither the id nor the subject of a token: brains-gateway token list.")
    principal = principal_of(found)
    # The command names the brain, as a URL would.
    return Principal(**{name: getattr(principal, name) for name in _KEPT}, brain=principal.brain)


def _user(settings: Settings, whose: str) -> Principal:
    users = user_file.parse(settings.users_path.read_bytes()) if settings.users_path.exists() else []
    found = next((user for user in users if whose in (user.name, user.subject)), None)
    if found is None:
        raise BadSetting(f"--as {whose} is neither the name nor the subject of a user: brains-gateway user list.")
    return principal_of_user(found)


_KEPT = ("issuer", "subject", "client", "org", "projects", "scopes")
