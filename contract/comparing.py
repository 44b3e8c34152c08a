"""Compares two runs: what got better, what got worse, and what is new."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

RANK: Final = {"failed": 0, "not tested": 1, "not supported": 1, "passed": 2}


class Unreadable(Exception):
    """A file that is no report; the text is one sentence."""


@dataclass
class Comparison:
    before: dict[str, Any]
    after: dict[str, Any]
    better: list[str] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    appeared: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"before  {_told(self.before)}", f"after   {_told(self.after)}", ""]
        for title, those in (
            ("Worse", self.worse),
            ("Better", self.better),
            ("Different, and neither passed nor failed before", self.other),
            ("New cases", self.appeared),
            ("Cases that are not there any more", self.gone),
        ):
            if those:
                lines += [f"{title}, {len(those)}:", *(f"  {one}" for one in those)]
        if len(lines) == 3:
            lines.append("Nothing changed.")
        return "\n".join(lines) + "\n"


def read(path: Path) -> dict[str, Any]:
    """Raises: Unreadable."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Unreadable(f"{path} is not JSON") from error
    if not isinstance(told, dict) or not isinstance(told.get("cases"), list):
        raise Unreadable(f"{path} is no report of `contract check --json`")
    return told


def compare(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    made = Comparison(before, after)
    old, new = (({one["id"]: one for one in told["cases"]}) for told in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            made.appeared.append(f"{name}: {new[name]['outcome']}")
        elif name not in new:
            made.gone.append(name)
        elif (was := old[name]["outcome"]) != (now := new[name]["outcome"]):
            line = f"{name} ({new[name]['requirement']}): {was} → {now}"
            rise = RANK[now] - RANK[was]
            (made.better if rise > 0 else made.worse if rise < 0 else made.other).append(line)
    return made


def _told(told: dict[str, Any]) -> str:
    server = told.get("server") or {}
    named = " ".join(server[key] for key in ("name", "version") if key in server)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in told.get("counts", {}).items() if number)
    return f"{told.get('target')}{f' ({named})' if named else ''}, {told.get('started', '')}: {counts or 'nothing run'}"
