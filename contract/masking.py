"""Removes secrets from reports, because a server may quote what it was sent, and reports are passed on."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from contract.outcome import Cause, Failure, Result, Run
from contract.targets import HttpTarget

# A shorter text is not a secret, and may be a part of any word.
SHORTEST: Final = 4
# A header that says who calls. Others only say what is wanted, such as a project or a brain.
_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|passw|credential|signature", re.IGNORECASE)


def secrets_in(token: str | None, headers: Iterable[tuple[str, str]]) -> list[str]:
    """The token, and the values of headers that are secret, whole and in their words; the longest first."""
    found = {token or ""}
    for name, value in headers:
        if _SECRET.search(name):
            found |= {value, *(word for word in re.split(r"[\s;,=]+", value) if len(word) >= 2 * SHORTEST)}
    found |= {json.dumps(one)[1:-1] for one in found}
    return sorted((one for one in found if len(one) >= SHORTEST), key=len, reverse=True)


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with `…` for each secret, also for the beginning of one at which the text was cut."""
    for secret in secrets:
        text = text.replace(secret, "…")
        for length in range(len(secret) - 1, SHORTEST - 1, -1):
            text = text.replace(f"{secret[:length]}…", "…")
    return text


def mask(run: Run[Any], secrets: list[str]) -> None:
    """Remove them from all answers of a server in a run."""
    target = run.target
    run.results = [_result(one, secrets) for one in run.results]
    target.left = [masked(one, secrets) for one in target.left]
    target.capabilities = _values(target.capabilities, secrets)
    if isinstance(target, HttpTarget):
        target.server = masked(target.server, secrets)
        target.spared = {masked(one, secrets) for one in target.spared}
    else:
        target.session.server = _values(target.session.server, secrets)


def _values(told: Mapping[str, Any], secrets: list[str]) -> dict[str, Any]:
    return {name: masked(value, secrets) if isinstance(value, str) else value for name, value in told.items()}


def _result(result: Result, secrets: list[str]) -> Result:
    failure, cause = result.failure, result.cause
    return replace(
        result,
        why=masked(result.why, secrets),
        failure=None if failure is None else Failure(**_values(vars(failure), secrets)),
        cause=None if cause is None else Cause(**_values(vars(cause), secrets)),
    )
