"""Where settings come from: a flag, the environment, a file for one secret, or the TOML file; the first one wins."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from gateway.config.kinds import HeaderWord, at_home

PREFIX: Final = "BRAINS_"
CONFIG: Final = "BRAINS_CONFIG"
_FILE: Final = "_FILE"
# The variable with the id of the supervisor, if this is a worker.
WORKER_OF: Final = "BRAINS_WORKER_OF"

Fields = Mapping[str, FieldInfo]


class Origin(NamedTuple):
    """The source of a setting."""

    kind: Literal["flag", "environment", "file", "config", "default"]
    name: str = ""
    """Where a person finds it: the variable, or the key and its file."""
    value: str = ""
    """The value that was read there, in the form of a variable."""


def variables_of(name: str, field: FieldInfo) -> list[str]:
    """The variables of a setting, the one that wins first."""
    alias = field.validation_alias
    return [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [PREFIX + name.upper()]


def is_secret(field: FieldInfo) -> bool:
    return HeaderWord in get_args(field.annotation)


def known_variables(fields: Fields) -> set[str]:
    """Every variable with our prefix that means something."""
    own = {PREFIX + name.upper() for name in fields}
    files = {f"{PREFIX}{name.upper()}{_FILE}" for name, field in fields.items() if is_secret(field)}
    return {*own, *files, CONFIG, WORKER_OF}


def origins(
    fields: Fields, flags: Iterable[str] = (), environment: Mapping[str, str] = os.environ
) -> dict[str, Origin]:
    """The source of each setting, with the values from files.

    Raises:
        ValueError: one sentence on a file that cannot be used, or on a setting that is given twice.
    """
    given = {name.upper(): value for name, value in environment.items() if value}
    table = _read_config(fields, given.get(CONFIG))
    found: dict[str, Origin] = {}
    for name, field in fields.items():
        variable = next((each for each in variables_of(name, field) if each.upper() in given), None)
        file = _secret_file(name, field, given)
        if file is not None and variable is not None:
            raise ValueError(f"{variable} and {file} are both set: unset one of them.")
        if name in flags:
            found[name] = Origin("flag", f"--{name.replace('_', '-')}")
        elif variable is not None:
            found[name] = Origin("environment", variable, given[variable.upper()])
        elif file is not None:
            found[name] = Origin("file", file, _read_secret(file, given[file]))
        else:
            found[name] = table.get(name, Origin("default"))
    return found


def warnings(fields: Fields, environment: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence on each unknown variable with our prefix, and on each secret that others can read."""
    known = known_variables(fields)
    unknown = [name for name in sorted(environment) if name.upper().startswith(PREFIX) and name.upper() not in known]
    # That one is not for people.
    offered = known - {WORKER_OF}
    told = [f"{name} is not a setting and has no effect{_nearest(name, PREFIX, offered)}" for name in unknown]
    given = {name.upper(): value for name, value in environment.items() if value}
    secret = [file for name, field in fields.items() if (file := _secret_file(name, field, given)) is not None]
    for variable in secret:
        path = Path(at_home(given[variable]))
        # Not an error, because if a container gets secrets as files, every user in it can read them.
        if path.exists() and path.stat().st_mode & 0o004:
            told.append(f"{variable} names {path}, which everybody on this machine can read: chmod 600 it.")
    return told


def _secret_file(name: str, field: FieldInfo, given: Mapping[str, str]) -> str | None:
    variable = f"{PREFIX}{name.upper()}{_FILE}"
    return variable if is_secret(field) and variable in given else None


def _read_secret(variable: str, name: str) -> str:
    path = Path(at_home(name))
    try:
        said = path.read_bytes().decode("utf-8", "replace").strip()
    except OSError as error:
        raise ValueError(f"{variable} names {path}, which cannot be read: {error.strerror}.") from None
    if not said:
        raise ValueError(f"{variable} names {path}, which is empty: put one word in it.")
    return said


def _read_config(fields: Fields, name: str | None) -> dict[str, Origin]:
    if name is None:
        return {}
    # Imported when used, because few have such a file, and over stdio a client waits.
    import tomllib

    path = Path(at_home(name))
    try:
        table = tomllib.loads(path.read_bytes().decode())
        is_open = bool(path.stat().st_mode & 0o002)
        is_read_by_all = bool(path.stat().st_mode & 0o004)
    except OSError as error:
        raise ValueError(f"{CONFIG} names {path}, which cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ValueError(f"{CONFIG} names {path}, which is not TOML: {error}.") from None
    if is_open:
        raise ValueError(f"{CONFIG} names {path}, which everybody on this machine can write to: chmod 644 it.")
    found = {}
    for key, value in table.items():
        if key not in fields:
            raise ValueError(f"{key} in {path} is not a setting{_nearest(key, '', fields)}")
        if is_secret(fields[key]) and is_read_by_all:
            raise ValueError(f"{path} has the secret {key} in it and can be read by everybody here: chmod 600 it.")
        found[key] = Origin("config", f"{key} in {path}", _as_text(key, value, fields[key], path))
    return {key: origin for key, origin in found.items() if origin.value}


def _as_text(key: str, value: Any, field: FieldInfo, path: Path) -> str:
    """A value of the file in the form of a variable, so that both are checked in the same way."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
        between = os.pathsep if _are_paths(field) else ","
        return between.join(map(str, value))
    raise ValueError(f"{key} in {path} must be a text, a number, true or false, or a list of texts.")


def _are_paths(field: FieldInfo) -> bool:
    return "Path" in str(field.annotation) and "tuple" in str(field.annotation)


def _nearest(name: str, prefix: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown name."""
    from difflib import get_close_matches

    # Without their common prefix, which would make all names similar.
    bare = {one.removeprefix(prefix).lower(): one for one in known}
    near = get_close_matches(name.lower().removeprefix(PREFIX.lower()), bare, n=1, cutoff=0.7)
    return f": did you mean {bare[near[0]]}?" if near else "."
