"""The parameters of a request, read strictly: no honest client sends a name twice, so that is refused."""

import asyncio
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

_BODY_BYTES: Final = 32 * 1024
_QUERY_BYTES: Final = 16 * 1024
_FIELDS: Final = 40
_SECONDS: Final = 10.0
_FORM: Final = "application/x-www-form-urlencoded"


class BadForm(Exception):
    """The parameters that were sent are not valid."""


def query_of(request: Request) -> Mapping[str, str]:
    """Raises: BadForm."""
    said = request.scope.get("query_string", b"")
    if len(said) > _QUERY_BYTES:
        raise BadForm("the query is too long")
    return _fields(said)


async def form_of(request: Request) -> Mapping[str, str]:
    """Raises: BadForm."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise BadForm(f"the body must be {_FORM}")
    return _fields(await body_of(request))


async def body_of(request: Request) -> bytes:
    """Raises: BadForm."""
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _BODY_BYTES:
                    raise BadForm("the body is too long")
    except TimeoutError:
        raise BadForm("the body did not come in time") from None
    return bytes(body)


def address_of(request: Request) -> str:
    """Where a request comes from. With IPv6 it is the network, because a caller has all addresses of it."""
    said = request.client.host if request.client else ""
    try:
        parsed = ip_address(said)
    except ValueError:
        return said
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))


def cookie_of(request: Request, name: str) -> str | None:
    try:
        found = SimpleCookie("; ".join(request.headers.getlist("cookie"))).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _fields(said: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(said.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise BadForm("cannot be read") from None
    fields = dict(pairs)
    # RFC 8707 lets a client name several resources, of which we are one.
    if len(fields) != len(pairs):
        raise BadForm("a parameter is there twice")
    # RFC 6749: one without a value is as good as none.
    return {name: value for name, value in fields.items() if value}
