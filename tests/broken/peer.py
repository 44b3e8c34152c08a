"""What a broken peer is: one way to be wrong, and the cases that must notice."""

from dataclasses import dataclass

from tests.broken.wrapping import Act


@dataclass(frozen=True)
class Peer:
    name: str
    act: Act
    breaks: tuple[str, ...]


def peer(name: str, act: Act, *breaks: str) -> Peer:
    """A peer that breaks these cases, named without the `http/` they all begin with."""
    return Peer(name, act, tuple(f"http/{one}" for one in breaks))
