"""Programs that only say something."""

import shlex
from pathlib import Path


def program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {shlex.quote(says)}\n", encoding="utf-8")
    path.chmod(0o755)
