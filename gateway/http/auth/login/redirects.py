"""The addresses to which a client may send a browser back: named in full before, and compared letter by letter."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlencode, urlsplit

_LENGTH: Final = 1024
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_LOOPBACK_PLACE: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
# Apps with a scheme of their own. Other apps have a scheme with a dot, as RFC 8252 asks.
_APPS: Final = frozenset({"cursor", "vscode", "vscode-insiders", "windsurf", "zed"})
_ASCII: Final = re.compile(r"[!-~]+")


def check_redirect(uri: str) -> str:
    """Check that a browser may be sent there with a code: by https, to a program on its own machine, or to an app.

    Raises ValueError.
    """
    if len(uri) > _LENGTH or not _ASCII.fullmatch(uri) or any(c in uri for c in "\\#<>\"'`{}|^;,"):
        raise ValueError("must be a plain URL without a fragment")
    parts = urlsplit(uri)
    _port = parts.port
    if "@" in parts.netloc:
        raise ValueError("must name no user")
    if parts.scheme in {"http", "https"}:
        if not parts.hostname or (parts.scheme == "http" and parts.hostname not in _LOOPBACK):
            raise ValueError("must begin with https://, unless it is on the user's own machine")
    elif parts.scheme not in _APPS and not re.fullmatch(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+", parts.scheme):
        raise ValueError("must be https://, http:// on loopback, or a scheme of an app")
    return uri


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Letter by letter; but the port of a program on the user's own machine is whichever it got (RFC 8252)."""
    try:
        # A browser may read an unusual address in another way than we do.
        check_redirect(uri)
    except ValueError:
        return False
    return uri in registered or any(_without_port(uri) == _without_port(known) is not None for known in registered)


def _without_port(uri: str) -> SplitResult | None:
    parts = urlsplit(uri)
    place = _LOOPBACK_PLACE.fullmatch(parts.netloc) if parts.scheme == "http" else None
    return None if place is None else parts._replace(netloc=place[1])


def is_on_this_machine(uri: str) -> bool:
    return _without_port(uri) is not None


def target_of(uri: str) -> str:
    """The part of an address that a person can judge: the host, or the scheme of an app."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def form_target_of(uri: str) -> str:
    """The address as a source in a Content-Security-Policy, with which browsers also check redirects of a form."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def with_answer(uri: str, **answer: str | None) -> str:
    """The address with our parameters after its own."""
    said = urlencode({name: value for name, value in answer.items() if value is not None})
    return f"{uri}{'&' if '?' in uri else '?'}{said}"
