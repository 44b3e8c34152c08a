"""Kinds of settings: how a variable's text becomes a value."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from gateway.ingest.addresses import Network, is_never_open, parse_network


def _comma_separated(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _path_separated(value: Any) -> Any:
    return [at_home(part) for part in value.split(os.pathsep) if part] if isinstance(value, str) else value


def at_home(value: Any) -> Any:
    """Clients that start us from a configuration file have no shell to expand `~` for them."""
    return os.path.expanduser(value) if isinstance(value, str) else value


def _networks(value: Any) -> Any:
    return [_network(part) for part in _comma_separated(value)] if isinstance(value, str) else value


def _network(text: str) -> Network:
    try:
        network = parse_network(text)
    except ValueError:
        raise ValueError("must be networks, for example 10.1.0.0/16,fd12:3456::/32") from None
    if is_never_open(network):
        raise ValueError(f"names {text}, which is never fetched from")
    return network


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]
Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_path_separated)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]


# Bounded, because an event loop counts in milliseconds that fit an integer.
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
HomePath = Annotated[Path, BeforeValidator(at_home)]
