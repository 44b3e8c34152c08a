"""What commands that use a brain do first."""

from pathlib import Path

from gateway.app import log
from gateway.app.startup import check_data_dir
from gateway.config.settings import Settings


def prepare(settings: Settings) -> None:
    log.configure(settings.log_level, settings.log_format)
    if settings.upstream_url is None:
        check_data_dir(settings.data_dir)


def local_roots(settings: Settings) -> tuple[Path, ...]:
    """Where files may be ingested from, for whoever started us: the directory that was done in, unless told."""
    return (Path.cwd(),) if settings.ingest_roots is None else settings.ingest_roots
