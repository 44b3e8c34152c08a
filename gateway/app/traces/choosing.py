"""Whether calls are traced, and by whom: the standard variables say so, or a provider that is there already."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from gateway.app import otel
from gateway.app.traces.provided import ProvidedTraces

if TYPE_CHECKING:
    from gateway.app.traces.recorder import RecordedTraces

log = structlog.get_logger()


def traces_of_environment(count: Callable[[str, int], None]) -> "RecordedTraces | ProvidedTraces | None":
    """The traces that are asked for; None if none are, or if it is impossible (logged). `count` is told how many spans
    were sent, or were not, and why."""
    provider = get_tracer_provider()
    if not isinstance(provider, ProxyTracerProvider):
        return ProvidedTraces(provider)
    if not otel.is_asked_for("traces"):
        return None
    if (trouble := otel.protocol_trouble("traces")) is not None:
        log.warning("traces.off", reason=trouble)
        return None
    try:
        # Imported when used: few have it installed.
        from gateway.app.traces.recorder import RecordedTraces
        from gateway.app.traces.sampling import sampler_of
        from gateway.app.traces.sending import Batching, Exporter, Sender
    except ImportError:
        log.warning("traces.off", reason=otel.NOT_INSTALLED.format(signal="traces"))
        return None
    sender = Sender(Exporter(), Batching.of_environment(), count)
    return RecordedTraces(sampler_of(), sender.add, sender.close)
