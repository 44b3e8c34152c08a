"""What commands that use a brain do first."""

from pathlib import Path

from gateway.app.startup import check_data_dir
from gateway.config.settings import Settings
from gateway.config.sources import warnings
from gateway.config.unsafe_settings import ignored, is_too_wide


def check_place(settings: Settings, *, of_command: bool = False) -> None:
    """Check that data and the audit log can be written to their places.

    Raises:
        CannotStart: it cannot.
        BadSetting: the audit log cannot be written.
    """
    if settings.upstream_url is None:
        check_data_dir(settings.data_dir)
    if settings.audit_log is not None:
        # Imported when used, because over stdio a client is answered before that.
        from gateway.app.audit_log import keep_audit

        keep_audit(settings, of_command=of_command)


def prepare(settings: Settings) -> None:
    # Imported when used, because over stdio a client is answered before that.
    import structlog

    from gateway.app import log

    log.configure(settings.log_level, settings.log_format)
    check_place(settings)
    warn_of_settings()
    if in_vain := ignored(settings):
        reason = "BRAINS_UPSTREAM_URL is set, and only the embedded brain uses them"
        structlog.get_logger().warning("settings.ignored", settings=in_vain, reason=reason)


def warn_of_settings() -> None:
    """Tell the log which settings are probably mistakes."""
    import structlog

    for sentence in warnings(Settings.model_fields):
        structlog.get_logger().warning("settings.doubtful", reason=sentence)


def local_roots(settings: Settings) -> tuple[Path, ...] | None:
    """The directories from which files may be ingested over stdio; None if that is not offered.

    By default it is the directory in which the client started us. Desktop clients start us in `/` or in the home
    directory, which nobody has chosen.
    """
    if settings.ingest_roots is not None:
        return settings.ingest_roots or None
    here = Path.cwd()
    return () if is_too_wide(here) else (here,)
