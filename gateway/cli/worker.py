"""What a worker process of `serve --workers` imports first."""

from starlette.types import ASGIApp

from gateway.app.startup import fast_import

with fast_import():
    from gateway.app import log
    from gateway.app.audit_log import keep_audit
    from gateway.app.http_app import http_app
    from gateway.config.settings import Settings


def worker_app(settings: Settings) -> ASGIApp:
    """The application of one worker process, with the settings that were checked when its supervisor started."""
    log.configure(settings.log_level, settings.log_format)
    keep_audit(settings)
    return http_app(settings)
