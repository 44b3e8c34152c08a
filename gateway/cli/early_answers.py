"""Answers that are known before the server is imported: those for which a client waits when it connects.

They are recorded (`python -m tests.recorded`). They are used only if the server is certain to say the same: for
requests in their usual form, with the library versions that were recorded, and without settings that change an answer.
Only the standard library is imported here, and what the settings need anyway.
"""

import json
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from gateway import __version__
from gateway.config.settings import Settings
from gateway.surfaces.catalog import EXTRA_TOOLS

RECORDED: Final = Path(__file__).parent / "recorded"
# The libraries that influence the answers.
LIBRARIES: Final = ("fastmcp-slim", "mcp", "mcp-types", "pydantic")

_MODERN: Final = "2026-07-28"
_CLIENT: Final = {"name", "version", "title", "description", "websiteUrl"}
_LEVELS: Final = {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
_ENVELOPE: Final = "io.modelcontextprotocol/"
_LONGEST_ID: Final = 128
_LARGEST_ID: Final = 2**53
# The server's parser of JSON goes less deep than ours.
_MOST_BRACKETS: Final = 100


def _is_usual_id(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST_ID and value.isascii() and value.isprintable() and not {*value} & {*'"\\'}
    return type(value) is int and abs(value) < _LARGEST_ID


def _is_modern(value: Any) -> bool:
    return isinstance(value, str) and value == _MODERN


def _is_level(value: Any) -> bool:
    return isinstance(value, str) and value in _LEVELS


def _are_objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values())


def _is_client(value: Any) -> bool:
    """Whether a client sends its name and version, and nothing that would need a check, such as icons."""
    named = isinstance(value, dict) and {"name", "version"} <= set(value) <= _CLIENT
    return named and all(isinstance(text, str) for text in value.values())


# What the server would check: by a type, a function, or an object with such members. Other members do not matter.
_CAPABILITIES: Final[Mapping[str, Any]] = {
    "experimental": _are_objects,
    "extensions": _are_objects,
    "roots": {"listChanged": bool},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
_INITIALIZE: Final = {"protocolVersion": str, "capabilities": _CAPABILITIES, "clientInfo": _is_client}
_META: Final = {
    f"{_ENVELOPE}protocolVersion": _is_modern,
    f"{_ENVELOPE}clientCapabilities": _CAPABILITIES,
    f"{_ENVELOPE}clientInfo": _is_client,
    f"{_ENVELOPE}logLevel": _is_level,
    "progressToken": _is_usual_id,
}


class Taken(NamedTuple):
    """A line of the client that the server need not answer."""

    answer: bytes
    """The answer for the client; none after a notification."""
    replay: bytes
    """The message for the server, so that it has the whole conversation. Its answer is dropped."""


class EarlyAnswers:
    """One connection, as long as the client asks only what is recorded. After that, the server handles it."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self._recorded = recorded
        self._era: Literal["handshake", "modern"] | None = None
        self._has_only_probed = True
        self._taken = 0
        # No client's ids begin like this.
        self._replay = f"replay-{os.urandom(8).hex()}-"
        self.is_over = False

    def take(self, line: bytes) -> Taken | None:
        """What to do with a line; None if the server must handle it and all lines after it."""
        try:
            taken = None if self.is_over else self._take(line)
        except (ValueError, RecursionError):
            taken = None
        self.is_over = taken is None
        return taken

    def is_replayed(self, request_id: Any) -> bool:
        """Whether the client has been given the answer to this request."""
        return isinstance(request_id, str) and request_id.startswith(self._replay)

    def _take(self, line: bytes) -> Taken | None:
        if not line.endswith(b"\n") or b"\r" in line[:-2] or line.count(b"{") + line.count(b"[") > _MOST_BRACKETS:
            return None
        message = json.loads(line.decode(), object_pairs_hook=_without_repeats)
        if not isinstance(message, dict) or not set(message) <= {"jsonrpc", "id", "method", "params"}:
            return None
        method, params = message.get("method"), message.get("params", {})
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
            return None
        if "id" not in message:
            is_told = method == "notifications/initialized" and not params and self._era == "handshake"
            return Taken(b"", line) if is_told else None
        if not _is_usual_id(message["id"]):
            return None
        result = self._handshake(params) if method == "initialize" else self._listed(method, params)
        if result is None:
            return None
        replay = {**message, "id": f"{self._replay}{self._taken}"}
        self._taken += 1
        self._has_only_probed = self._has_only_probed and method == "server/discover"
        return Taken(_encoded({"jsonrpc": "2.0", "id": message["id"], "result": result}), _encoded(replay))

    def _handshake(self, params: dict[str, Any]) -> Any:
        """The result of `initialize`; None if it is not as usual."""
        # A client that has only sent `server/discover` may still choose.
        if not self._has_only_probed or set(params) != set(_INITIALIZE) or not _fits(params, _INITIALIZE):
            return None
        self._era = "handshake"
        asked, known = params["protocolVersion"], self._recorded["handshakes"]
        return self._recorded["handshake"]["initialize"] | {"protocolVersion": asked if asked in known else known[-1]}

    def _listed(self, method: str, params: dict[str, Any]) -> Any:
        """The result of another request; None if it is not recorded, or not as usual."""
        meta = params.get("_meta", {})
        if not set(params) <= {"_meta"} or not _fits(meta, _META) or not set(meta) <= set(_META):
            return None
        has_envelope = {f"{_ENVELOPE}protocolVersion", f"{_ENVELOPE}clientCapabilities"} <= set(meta)
        if self._era == "handshake":
            return self._recorded["handshake"].get(method) if set(meta) <= {"progressToken"} else None
        if not has_envelope:
            return None
        self._era = "modern"
        return self._recorded["modern"].get(method)


def early_answers(settings: Settings, ours: Mapping[str, str]) -> EarlyAnswers | None:
    """The answers that can be given before the server is imported; None if its own answers are not known.

    `ours` are the settings of FastMCP that the gateway itself sets.
    """
    if settings.tool_prefix or settings.read_only or settings.ingest_roots == () or _has_other_settings(ours):
        return None
    try:
        recorded = json.loads((RECORDED / f"{settings.first_surface}.json").read_text(encoding="utf-8"))
        if recorded["versions"] != versions():
            return None
    except (OSError, ValueError, PackageNotFoundError):
        return None
    # Another surface may have a tool of the same name.
    has_extra_tools = settings.has_extra_tools or settings.first_surface != "memory"
    return EarlyAnswers(recorded if has_extra_tools else _without_extra_tools(recorded))


def _without_extra_tools(recorded: dict[str, Any]) -> dict[str, Any]:
    for era in ("handshake", "modern"):
        listed = recorded[era]["tools/list"]
        listed["tools"] = [tool for tool in listed["tools"] if tool["name"] not in EXTRA_TOOLS]
    return recorded


def versions() -> dict[str, str]:
    """The versions of everything that shapes the answers."""
    return {"brains-gateway": __version__} | {name: version(name) for name in LIBRARIES}


def _has_other_settings(ours: Mapping[str, str]) -> bool:
    """Whether FastMCP has other settings than ours, in the environment or in the file `.env`."""
    if any(name.upper().startswith("FASTMCP_") and ours.get(name) != value for name, value in os.environ.items()):
        return True
    try:
        return os.path.isfile(".env") and "fastmcp_" in Path(".env").read_text(encoding="utf-8").lower()
    except (OSError, ValueError):
        return True


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, type):
        return type(value) is shape
    if callable(shape):
        return bool(shape(value))
    return isinstance(value, dict) and all(_fits(value[name], shape[name]) for name in shape if name in value)


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) != len(members):
        raise ValueError("a member is there twice")
    return made


def _encoded(message: Mapping[str, Any]) -> bytes:
    """Writes a message as the server writes it.

    Raises:
        ValueError: a text or a number in it cannot be sent.
    """
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
