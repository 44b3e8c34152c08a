"""Kinds of settings: how a variable's text becomes a value."""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from gateway.ingest.addresses import Network, is_never_open, parse_network
from gateway.operations.errors import GatewayError
from gateway.operations.names import RESERVED_SCOPES, check_id, is_project
from gateway.surfaces.catalog import SURFACES

_HEADER_WORD = re.compile(r"[\x21-\x7e]+")
# A star may stand for a part before a name, never for every name.
_HOST_NAME = re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)*\.?(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_ADDRESS_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]*://({_HOST_NAME.pattern})", re.IGNORECASE)
_TOOL_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,15}")
_NOT_IN_A_ROOT_URL = re.compile(r"[\x00-\x20\x7f?#@\\]")


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


def is_loopback_host(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_plain_url(value: str) -> bool:
    """Whether a request can be built on it: scheme, host, perhaps a port and a path, and nothing else."""
    try:
        parts = urlsplit(value)
        host, _port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host) and not _NOT_IN_A_ROOT_URL.search(value)


def _check_root_url(value: str) -> str:
    if not _is_plain_url(value):
        raise ValueError("must be a plain http:// or https:// URL, for example https://platform.example")
    return value.rstrip("/").removesuffix("/v1")


def _check_url(value: str) -> str:
    if not _is_plain_url(value):
        raise ValueError("must be a plain http:// or https:// URL, for example https://brains.example")
    return value


def _check_model_url(value: str) -> str:
    if not _is_plain_url(value):
        raise ValueError("must be a plain http:// or https:// URL, for example http://127.0.0.1:11434/v1")
    return value


def check_model(name: str, url: str | None, model: str | None, key: SecretStr | None) -> None:
    """Check that no setting of a model is set without the others that it needs.

    Raises:
        ValueError: one sentence.
    """
    if url is not None and model is None:
        raise ValueError(f"{name}_URL is set but {name}_MODEL is not: name the model that is to be used there.")
    if url is None and (model is not None or key is not None):
        alone = f"{name}_KEY" if model is None else f"{name}_MODEL"
        raise ValueError(f"{alone} is set but {name}_URL is not: set the address of the model too, or unset {alone}.")


def _check_header_word(value: SecretStr) -> SecretStr:
    if not _HEADER_WORD.fullmatch(value.get_secret_value()):
        raise ValueError("must be one word of ASCII characters, as it goes into an Authorization header")
    return value


def _check_host_names(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_HOST_NAME.fullmatch(name) for name in value):
        raise ValueError("must be host names alone, for example brains.example,*.brains.example")
    return value


def _check_address(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if not _ADDRESS_NAME.fullmatch(value):
            raise ValueError("must be an address of this machine alone, for example 127.0.0.1") from None
    return value


def _check_origins(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_ORIGIN.fullmatch(origin) for origin in value):
        raise ValueError("must be origins with their scheme, for example https://app.example")
    return value


def _check_project(value: str) -> str:
    if not is_project(value):
        raise ValueError("must be letters, digits and any of . - _, and begin with a letter or digit")
    if value.lower() in RESERVED_SCOPES:
        raise ValueError(f"must be a project's name: {value} is a scope that is no project")
    return value


def _check_tool_prefix(value: str) -> str:
    if value and not all(_TOOL_PREFIX.fullmatch(value.replace("{surface}", surface)) for surface in SURFACES):
        raise ValueError(
            "must be at most 16 of a-z, 0-9 and _, the first a letter; {surface} in it is the name of the surface"
        )
    return value


def _check_brain(value: str) -> str:
    try:
        return check_id(value, "a brain")
    except GatewayError as error:
        raise ValueError(f"is not an id or slug: {error.message}") from None


def _check_directories(value: tuple[Path, ...]) -> tuple[Path, ...]:
    for root in value:
        if not root.is_dir():
            raise ValueError(f"names {root}, which is not a directory")
    return value


Address = Annotated[str, AfterValidator(_check_address)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]
HostNames = Annotated[Names, AfterValidator(_check_host_names)]
Origins = Annotated[Names, AfterValidator(_check_origins)]
Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_path_separated)]
Directories = Annotated[Paths, AfterValidator(_check_directories)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]
RootUrl = Annotated[str, AfterValidator(_check_root_url)]
Url = Annotated[str, AfterValidator(_check_url)]
ModelUrl = Annotated[str, AfterValidator(_check_model_url)]
HeaderWord = Annotated[SecretStr, AfterValidator(_check_header_word)]
Project = Annotated[str, AfterValidator(_check_project)]
BrainRef = Annotated[str, AfterValidator(_check_brain)]
ToolPrefix = Annotated[str, AfterValidator(_check_tool_prefix)]


# Limited, because an event loop counts milliseconds in an integer.
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
HomePath = Annotated[Path, BeforeValidator(at_home)]
