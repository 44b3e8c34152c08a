"""What a worker process of `serve --workers` imports first."""

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from gateway.app.startup import fast_import

with fast_import():
    from gateway.app import log
    from gateway.app.audit_log import keep_audit
    from gateway.app.http_app import http_app
    from gateway.config.settings import Settings

if TYPE_CHECKING:
    from gateway.app.metrics.figures import MetricsPlace


def worker_app(settings: Settings, place: "MetricsPlace | None", limits_file: Path | None) -> ASGIApp:
    """The application of one worker process, with the settings that were checked when its supervisor started."""
    log.configure(settings.log_level, settings.log_format)
    keep_audit(settings)
    return http_app(settings, place, limits_file)
