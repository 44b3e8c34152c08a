"""What commands that use a brain do first."""

from pathlib import Path

import structlog

from gateway.app import log
from gateway.app.startup import check_data_dir
from gateway.config.settings import Settings
from gateway.config.unsafe_settings import is_too_wide


def prepare(settings: Settings) -> None:
    log.configure(settings.log_level, settings.log_format)
    if settings.upstream_url is None:
        check_data_dir(settings.data_dir)
    if settings.ignored:
        reason = "BRAINS_UPSTREAM_URL is set, and only the embedded brain uses them"
        structlog.get_logger().warning("settings.ignored", settings=settings.ignored, reason=reason)


def local_roots(settings: Settings) -> tuple[Path, ...] | None:
    """Where files may be ingested from, for whoever started us; None where that is not offered.

    Unless told, it is the directory that was done in. Desktop clients do it in `/` or in the home directory, which
    nobody has chosen.
    """
    if settings.ingest_roots is not None:
        return settings.ingest_roots or None
    here = Path.cwd()
    return () if is_too_wide(here) else (here,)
