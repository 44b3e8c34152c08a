"""Reads from OpenTelemetry's standard variables whether traces and metrics are to be sent, and how."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import structlog

from gateway import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

log = structlog.get_logger()

Signal = Literal["traces", "metrics"]

NOT_INSTALLED: Final = "What sends {signal} is not installed: pip install 'brains-gateway[otel]'."
_DIGITS, _SHOWN = 9, 40


def is_asked_for(signal: Signal, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a signal is to be sent to a collector."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower()
    return exporter == "otlp" or (not exporter and _said(signal, "ENDPOINT", environment) is not None)


def protocol_trouble(signal: Signal) -> str | None:
    """Why a signal cannot be sent by the protocol that the variables name; None if it can."""
    protocol = _said(signal, "PROTOCOL", os.environ)
    if protocol in {None, "http/protobuf"}:
        return None
    return f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: {signal} are sent by http/protobuf alone."


def whole_number(name: str, default: int) -> int:
    """The value of a variable. One that makes no sense is told, and counts as not set."""
    said = os.environ.get(name, "").strip()
    if not said:
        return default
    if said.isascii() and said.isdigit() and len(said) <= _DIGITS and int(said) > 0:
        return int(said)
    reason = f"{name} is {said[:_SHOWN]!r}, which is no whole number above 0. {default} is used instead."
    log.warning("otel.doubtful", reason=reason)
    return default


def resource() -> "Resource":
    """The name of the sender: the one that the variables give, or else ours."""
    # Imported when used: few have it installed.
    from opentelemetry.sdk.resources import Resource

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({"service.version": __version__, **({} if named else {"service.name": "brains-gateway"})})


def _said(signal: Signal, what: str, environment: Mapping[str, str]) -> str | None:
    """The value for this signal, or else the value for all signals."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", f"OTEL_EXPORTER_OTLP_{what}")
    return next((value for name in names if (value := environment.get(name, "").strip())), None)
