"""Who is calling, and what one call has come to so far."""

import secrets
import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal of a call, and the brain its URL or header names."""

    subject: str = "local"
    ceiling: str | None = None
    """A brain fixed by the URL: no argument may name another."""
    preferred: str | None = None
    """A brain named by the `X-Brain` header: an argument wins over it."""


@dataclass(slots=True)
class Call:
    """One tool call. The layers below note here which brain and which route served it."""

    caller: Caller = field(default_factory=Caller)
    request_id: str = field(default_factory=lambda: secrets.token_hex(8))
    brain: str | None = None
    brain_note: str | None = None
    """Said to the caller when the brain was a guess: the first of several."""
    route: str | None = None
    began: float | None = field(default_factory=time.monotonic)
    """From when its time counts; None for what nobody waits for."""
    longest: float = 0.0
    """Seconds that the longest of its operations may take: as long as the whole call may."""
