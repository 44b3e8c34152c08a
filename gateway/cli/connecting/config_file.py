"""The file of a client. It is changed as a whole or not at all, and a change can be taken back."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.app.connecting import json_text, toml_text, yaml_text
from gateway.app.connecting.clients import Client
from gateway.cli.connecting.entry import Entry, Refused
from gateway.config.reread_file import replace_file


class _Syntax(Protocol):
    """The functions of one format, to read and change a text. All raise ValueError for a text that they cannot read."""

    def read(self, text: str) -> Any: ...
    def put(self, text: str, section: str, name: str, entry: Mapping[str, Any]) -> str: ...
    def take(self, text: str, section: str, name: str) -> str: ...


_SYNTAXES: Final[Mapping[str, _Syntax]] = {"json": json_text, "toml": toml_text, "yaml": yaml_text}
_LARGEST: Final = 64 * 2**20


@dataclass(frozen=True)
class ConfigFile:
    """A file with the servers of one client, as it was when it was looked at."""

    client: Client
    path: Path
    """The real path, so that a link stays a link."""
    before: bytes | None
    """None where there is no such file."""

    @classmethod
    def look(cls, client: Client, path: Path) -> "ConfigFile":
        """Raises: Refused."""
        try:
            real = path.resolve()
            if not real.exists():
                return cls(client, real, None)
            if not real.is_file() or real.stat().st_size > _LARGEST:
                raise Refused(f"{path} is no file of settings, and is left alone.")
            return cls(client, real, real.read_bytes())
        except (OSError, RuntimeError):
            raise Refused(f"{path} cannot be read: look at its rights.") from None

    def text(self) -> str:
        return (self.before or b"").decode()

    def entries(self) -> dict[str, Any]:
        """All servers in it.

        Raises:
            Refused: it cannot be read.
        """
        syntax = _SYNTAXES[self.client.syntax]
        try:
            said = syntax.read(self.text())
        except (ValueError, RecursionError):
            kind = {"json": "JSON", "toml": "TOML", "yaml": "YAML"}[self.client.syntax]
            raise Refused(f"{self.path} is not {kind} as it should be, and is left alone: correct it first.") from None
        section = said.get(self.client.section) if isinstance(said, dict) else []
        section = {} if section is None else section
        if not isinstance(section, dict):
            raise Refused(f"{self.client.section} in {self.path} is no list of servers, and is left alone.")
        return section

    def with_entry(self, name: str, entry: Entry) -> bytes:
        """Raises: Refused."""
        is_there = self.before is not None and self.entries().get(name) == entry
        return self.before if self.before is not None and is_there else self._edited(name, entry)

    def without_entry(self, name: str) -> bytes:
        """Raises: Refused."""
        return self._edited(name, None)

    def _edited(self, name: str, entry: Entry | None) -> bytes:
        """The text of the file with one entry added, changed or removed. Everything else must be as it was."""
        self.entries()
        syntax, section, text = _SYNTAXES[self.client.syntax], self.client.section, self.text()
        expected = deepcopy(syntax.read(text))
        try:
            if entry is None:
                expected.get(section, {}).pop(name, None)
                made = syntax.take(text, section, name)
            else:
                expected[section] = {**(expected.get(section) or {}), name: entry}
                made = syntax.put(text, section, name, entry)
            is_right = _plain(syntax.read(made), section) == _plain(expected, section)
        except (ValueError, RecursionError):
            is_right = False
        if not is_right:
            raise Refused(f"{self.path} is written in a way that cannot be changed safely: do it by hand, see --print.")
        return made.encode()

    def write(self, after: bytes | None, new_mode: int = 0o600) -> None:
        """Replace the file, or remove it if nothing is left in it.

        Raises:
            Refused: somebody else has changed it since it was looked at, or it cannot be written.
        """
        try:
            if ConfigFile.look(self.client, self.path).before != self.before:
                raise Refused(f"{self.path} was changed meanwhile: run this again.")
            if after is None:
                self.path.unlink(missing_ok=True)
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            there = self.path.stat() if self.before is not None else None
            replace_file(self.path, after, new_mode, there)
        except OSError as error:
            raise Refused(f"{self.path} cannot be written: {error.strerror}.") from None


def _plain(said: Any, section: str) -> Any:
    """Without a section that is empty, which counts as none."""
    return said if said.get(section) else {key: value for key, value in said.items() if key != section}
