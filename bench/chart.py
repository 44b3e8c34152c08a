"""The chart of a run: calls a second as bars, in SVG that reads on light and dark pages."""

from collections.abc import Sequence
from html import escape
from typing import Final

from bench.result import Group

_WIDTH, _HEIGHT = 860, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 64, 64
_COLOURS: Final = ("#9aa5b1", "#2f6fde", "#c9cfd6", "#7aa5f0")
_INK: Final = "#6b7785"
_STEPS: Final = (1, 2, 2.5, 5, 10)


def svg(groups: Sequence[Group], title: str, under: str) -> str:
    """One group of bars for each number of clients on each wire."""
    top = _nice(max((value for group in groups for value in group.bars.values()), default=1.0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12" fill="{_INK}" role="img" aria-label="{escape(title)}">',
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}" font-size="11">{escape(under)}</text>',
        *_legend([*groups[0].bars] if groups else []),
        *_lines(top),
    ]
    width = (_WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    for n, group in enumerate(groups):
        parts += _group(group, _LEFT + n * width, width, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    for n, name in enumerate(names):
        x = _LEFT + n * 170
        parts.append(f'<rect x="{x}" y="34" width="12" height="12" fill="{_COLOURS[n % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{x + 18}" y="44">{escape(name)}</text>')
    return parts


def _lines(top: float) -> list[str]:
    parts = []
    for n in range(6):
        value = top * n / 5
        y = _y(value, top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_INK}" opacity="0.25"/>'
        )
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
    return parts


def _group(group: Group, left: float, width: float, top: float) -> list[str]:
    gap = width * 0.1
    bar = (width - 2 * gap) / max(1, len(group.bars))
    middle = left + width / 2
    parts = [
        _text(middle, _HEIGHT - _BOTTOM + 18, group.label),
        _text(middle, _HEIGHT - _BOTTOM + 33, group.under, size=11),
    ]
    for n, (name, value) in enumerate(group.bars.items()):
        x, y = left + gap + n * bar, _y(value, top)
        told = escape(f"{name}, {group.label}, {group.under}: {value:,.0f} calls a second")
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar * 0.9:.1f}" height="{_HEIGHT - _BOTTOM - y:.1f}" '
            f'fill="{_COLOURS[n % len(_COLOURS)]}"><title>{told}</title></rect>'
        )
        parts.append(
            f'<text x="{x + bar * 0.45:.1f}" y="{y - 4:.1f}" text-anchor="middle" font-size="10">{value:,.0f}</text>'
        )
    return parts


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top


def _nice(value: float) -> float:
    """A round number that is not below the value."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    return next(step * power for step in _STEPS if step * power >= value)
