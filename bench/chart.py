"""The chart of a run: calls a second as bars, in SVG that reads on light and dark pages."""

from collections.abc import Sequence
from html import escape
from typing import Final

from bench.result import Group

_WIDTH: Final = 860
_LEFT, _RIGHT, _TOP, _BOTTOM = 190, 64, 40, 28
_HEAD, _BAR, _GAP = 30, 20, 14
_OURS, _OTHERS, _INK = "#2f6fde", "#9aa5b1", "#6b7785"


def svg(groups: Sequence[Group], title: str, under: str) -> str:
    """One bar below the other, as long as it is fast; those of the gateway stand out."""
    most = max((value for group in groups for value in group.bars.values()), default=1.0)
    parts, y = [_text(16, 22, title, size=15, weight="bold")], _TOP
    for group in groups:
        parts.append(_text(16, y + 16, group.label, weight="bold"))
        y += _HEAD
        for name, value in group.bars.items():
            parts += _bar(group, name, value, y, (_WIDTH - _LEFT - _RIGHT) * value / most)
            y += _BAR
        y += _GAP
    height = y + _BOTTOM
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'fill="{_INK}" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, *parts, _text(16, height - 10, under, size=11), "</svg>"]) + "\n"


def _bar(group: Group, name: str, value: float, y: int, length: float) -> list[str]:
    is_ours = name.startswith("gateway")
    weight = "bold" if is_ours else "normal"
    told = escape(f"{name}, {group.label}: {value:,.0f} calls a second")
    return [
        _text(_LEFT - 8, y + 13, name, anchor="end", weight=weight),
        f'<rect x="{_LEFT}" y="{y + 2}" width="{length:.1f}" height="{_BAR - 5}" '
        f'fill="{_OURS if is_ours else _OTHERS}"><title>{told}</title></rect>',
        _text(_LEFT + length + 6, y + 13, f"{value:,.0f}", size=11, weight=weight),
    ]


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )
