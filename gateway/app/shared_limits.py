"""With whom a process counts what callers take: with all replicas, with the other workers, or with nobody."""

from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config.settings import Settings

if TYPE_CHECKING:
    from gateway.app.machine_limits import MachineLimits
    from gateway.app.redis_limits import RedisLimits


def shared_limits(settings: Settings, file: Path | None) -> "RedisLimits | MachineLimits | None":
    """The file is that of the workers of one gateway, if there are several."""
    if not settings.tells_callers_apart:
        return None
    # Imported when used: few have Redis, and Windows has no such files.
    if settings.redis_url is not None:
        from gateway.app.redis_limits import RedisLimits

        return RedisLimits(settings.redis_url.get_secret_value())
    if file is not None:
        from gateway.app.machine_limits import MachineLimits

        return MachineLimits(file)
    return None
