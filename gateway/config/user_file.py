"""The file of users who log in by a password: hashed, each with what they may do."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, StringConstraints

from gateway.config.passwords import check_hash
from gateway.config.reread_file import locked_file, replace_file
from gateway.operations import scopes

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_Name = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]
_Hash = Annotated[str, AfterValidator(check_hash)]


class User(BaseModel):
    """One person, as the file keeps them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: _Name
    password: _Hash
    subject: str
    scope: str = scopes.READ
    brain: str | None = None
    org: str | None = None
    projects: tuple[str, ...] = ()
    created: AwareDatetime

    @property
    def is_understood(self) -> bool:
        """An unknown field is a misspelt word, or a limit of a newer version. Such a user may do nothing."""
        return all(value is None for value in (self.model_extra or {}).values())

    def version(self) -> str:
        """Differs after every change, of the password too, so that older grants no longer hold."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class _File(BaseModel):
    model_config = ConfigDict(extra="allow")

    users: list[User]


def parse(body: bytes) -> list[User]:
    """The users of a file, each name once. Raises ValueError."""
    users = _File.model_validate_json(body).users
    if len({user.name for user in users}) != len(users):
        raise ValueError("a name that is there twice")
    return users


def parse_some(body: bytes) -> list[User]:
    """The same, for a file with at least one valid user. Raises ValueError."""
    users = parse(body)
    if not any(user.is_understood for user in users):
        raise ValueError("nobody is in it")
    return users


@contextmanager
def change(path: Path) -> Iterator[list[User]]:
    """The users. Change them in place. They are written back whole, by one process at a time, readable by us alone."""
    with locked_file(path):
        file = _File.model_validate_json(path.read_bytes()) if path.exists() else _File(users=[])
        yield file.users
        replace_file(path, file.model_dump_json(indent=2, exclude_none=True).encode() + b"\n")
