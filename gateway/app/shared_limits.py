"""Chooses with whom a process counts what callers use, and takes turns: all replicas, other workers, or nobody."""

from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config.settings import Settings

if TYPE_CHECKING:
    from gateway.app.machine_limits import MachineLimits
    from gateway.app.redis_limits import RedisLimits


def shared_limits(settings: Settings, file: Path | None) -> "RedisLimits | MachineLimits | None":
    """`file` is shared by the workers of one gateway; None if it has only one process."""
    # Imported when used: few have Redis, and the module for files does not load on Windows.
    if settings.redis_url is not None:
        from gateway.app.redis_limits import RedisLimits

        return RedisLimits(settings.redis_url.get_secret_value())
    if file is not None and settings.tells_callers_apart:
        from gateway.app.machine_limits import MachineLimits

        return MachineLimits(file)
    return None
