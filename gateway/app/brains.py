"""The brains that exist, for commands that name one, so that a wrong name is reported at once."""

import asyncio
import sqlite3
from contextlib import closing

from gateway.app.startup import CannotStart, check_data_dir
from gateway.config.settings import Settings
from gateway.config.token_file import Record
from gateway.config.unsafe_settings import check_local
from gateway.config.user_file import User
from gateway.operations.caller import Call, Caller

_CONNECT_SECONDS, _READ_SECONDS = 3.0, 10.0


def embedded_brains(settings: Settings) -> list[tuple[str, str]]:
    """Slug and id of each brain of the embedded one.

    Raises:
        CannotStart: it cannot be opened.
    """
    from gateway.app.database_file import trouble_of
    from gateway.app.embedded import open_store

    check_data_dir(settings.data_dir)
    try:
        with closing(open_store(settings.data_dir)) as store:
            return [(brain.slug, brain.id) for brain in store.brains()]
    except sqlite3.Error as error:
        # The page of the brains is damaged, which opening the file does not read.
        trouble = trouble_of(settings, thorough=True)
        raise CannotStart(f"The embedded brain cannot be read: {error}." if trouble is None else str(trouble)) from None


def brains_for(settings: Settings, whose: Record | User) -> list[tuple[str, str]]:
    """Slug and id of each brain that the owner of this token, or this user, would see.

    Raises:
        BadSetting: the platform cannot be asked.
        CannotStart: the embedded brain cannot be opened.
        GatewayError: the platform does not list its brains.
    """
    if settings.upstream_url is None:
        return embedded_brains(settings)
    check_local(settings)
    return asyncio.run(_listed(settings, whose))


async def _listed(settings: Settings, whose: Record | User) -> list[tuple[str, str]]:
    # Imported when used, because the import takes longer than the rest of the command.
    from gateway.app.gateway import Gateway
    from gateway.http.auth.login.inbound import principal_of_user
    from gateway.http.auth.tokens import principal_of

    patience = {
        "connect_seconds": min(settings.connect_seconds, _CONNECT_SECONDS),
        "read_seconds": min(settings.read_seconds, _READ_SECONDS),
    }
    gateway = Gateway(settings.model_copy(update=patience), roots=None)
    principal = principal_of_user(whose) if isinstance(whose, User) else principal_of(whose)
    async with gateway.running():
        items = (await gateway.brain.list_brains(Call(Caller(principal.partition, principal=principal))))["items"]
    return [(str(brain.get("slug")), str(brain.get("id"))) for brain in items]
