"""A table for a person at a terminal."""

import sys
from collections.abc import Sequence


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = (_printable(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
