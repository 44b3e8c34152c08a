"""How a client is connected, as the page and the terminal show it."""

from typing import NamedTuple


class ClientEntry(NamedTuple):
    """What to paste, and where."""

    client: str
    how: str
    text: str
