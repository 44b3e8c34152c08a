"""What a worker process of `serve --workers` imports first."""

from gateway.app.startup import importing

with importing():
    from gateway.cli.commands import worker_app

__all__ = ["worker_app"]
