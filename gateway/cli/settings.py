"""`brains-gateway settings`: which settings hold and where they come from, for a person at a terminal."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway.app.audit_log import check_audit_log
from gateway.cli.print_table import print_table
from gateway.config.settings import BadSetting, Settings
from gateway.config.sources import PREFIX, Origin, origins, warnings
from gateway.config.unsafe_settings import check_serving

_HIDDEN = "(hidden)"


def show(settings: Settings, *, as_json: bool) -> None:
    """Every setting with its value and where that comes from; secrets are hidden."""
    found = origins(Settings.model_fields)
    doubtful, refusal = warnings(Settings.model_fields), _refusal(settings)
    if as_json:
        every = {
            PREFIX + name.upper(): {"value": _plain(getattr(settings, name)), **_from(origin)}
            for name, origin in found.items()
        }
        told = {"settings": every, "doubtful": doubtful, "refusal": refusal}
        sys.stdout.write(json.dumps(told, ensure_ascii=False, indent=2) + "\n")
        return
    rows = [(PREFIX + name.upper(), _text(getattr(settings, name)), _whence(origin)) for name, origin in found.items()]
    print_table([("Setting", "Value", "From"), *rows])
    more = [*doubtful, *([f"serve does not start with these: {refusal}"] if refusal else [])]
    sys.stdout.write("".join(f"\n{sentence}" for sentence in more) + "\n" * bool(more))


def _refusal(settings: Settings) -> str | None:
    """The error with which `serve` would not start."""
    try:
        check_serving(settings)
        check_audit_log(settings)
    except BadSetting as error:
        return str(error)
    return None


def _from(origin: Origin) -> dict[str, str]:
    return {"from": origin.kind, **({"name": origin.name} if origin.name else {})}


def _whence(origin: Origin) -> str:
    return origin.name if origin.kind in {"file", "config"} else f"{origin.kind} {origin.name}".rstrip()


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return _HIDDEN
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _text(value: Any) -> str:
    """A value in the form of an environment variable."""
    if isinstance(value, tuple):
        between = os.pathsep if any(isinstance(one, Path) for one in value) else ","
        return between.join(_text(one) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "–" if value in (None, "") else str(_plain(value))
