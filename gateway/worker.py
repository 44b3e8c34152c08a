"""What a worker process of `serve --workers` imports first."""

from gateway.startup import importing

with importing():
    from gateway.commands import worker_app

__all__ = ["worker_app"]
