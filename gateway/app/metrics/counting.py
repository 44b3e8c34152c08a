"""The metrics of a process: its figures, and the page that shows them with those of all other processes."""

from starlette.types import ASGIApp

from gateway.app.metrics.figures import MetricsPlace
from gateway.app.metrics.page import MetricsPage
from gateway.app.metrics.recorder import Counted, Recorder
from gateway.config.settings import Settings
from gateway.http.metrics import Page


def new_place(settings: Settings) -> MetricsPlace:
    """Where the processes of one gateway count."""
    return MetricsPlace.new(settings.data_dir if settings.upstream_url is None else None)


class Counting:
    """The metrics of one process."""

    def __init__(self, settings: Settings, place: MetricsPlace | None) -> None:
        """Without a place, this is the only process, and makes a place of its own."""
        self._own = new_place(settings) if place is None else None
        at = place or self._own
        assert at is not None
        self.recorder = Recorder(at.directory)
        # On the port of callers, the page is only for those who bring the token.
        self.page: Page | None = MetricsPage(at).render if settings.metrics_token is not None else None

    def around(self, app: ASGIApp) -> ASGIApp:
        return Counted(app, self.recorder)

    def close(self) -> None:
        self.recorder.close()
        if self._own is not None:
            self._own.remove()
