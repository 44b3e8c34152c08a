"""What commands print: tables and colours for a person at a terminal, JSON for machines."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.operations.table import JsonObject, JsonValue

# Line breaks and tabs are layout. All other characters that cannot be shown might control the terminal.
_LAYOUT = {"\n", "\t"}


def printable(text: str, *, one_line: bool = False) -> str:
    """A text without characters that control the terminal, because anybody may have written it."""
    kept = set() if one_line else _LAYOUT
    return "".join(c if c.isprintable() or c in kept else " " if c.isspace() else "\ufffd" for c in text)


def print_json(value: JsonValue) -> None:
    # JSON escapes all characters that control a terminal only if everything except ASCII is escaped.
    sys.stdout.write(json.dumps(value, ensure_ascii=sys.stdout.isatty(), indent=2) + "\n")


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table. If the output is not a terminal, one line for each row with tabs between, and no heads."""
    if not sys.stdout.isatty():
        for row in rows:
            sys.stdout.write("\t".join(printable(cell, one_line=True) for cell in row) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=place > 0)
    for row in rows:
        table.add_row(
            *(Text(printable(cell, one_line=True), style="cyan" if n == 0 else "") for n, cell in enumerate(row))
        )
    Console().print(table)


def print_text(text: str, style: str = "", *, end: str = "\n") -> None:
    """A text of a note, in which markup has no effect."""
    Console(soft_wrap=True, highlight=False).print(Text(printable(text), style=style), end=end)


def confirm(question: str) -> bool:
    """Ask a person. Without a terminal, the answer is no."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def moment(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def hit_row(hit: JsonObject) -> tuple[str, str, str]:
    score = hit.get("score")
    beginning = " ".join(str(hit.get("content") or "")[:400].split())[:100]
    return str(hit.get("path")), f"{score:.3f}" if isinstance(score, int | float) else "", beginning
