"""Pages from templates, which escape all values. Only markdown that was rendered here is HTML already."""

import hashlib
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.responses import HTMLResponse

from gateway.mcp.shown import line, visible

_HERE: Final = Path(__file__).parent
STATIC: Final = {
    name: ((_HERE / "static" / name).read_bytes(), media_type)
    for name, media_type in (("page.css", "text/css"), ("page.js", "text/javascript"), ("icon.svg", "image/svg+xml"))
}
# A hostile text can make rendering take the square of its length: by brackets, and by tables whose rows are filled
# up. A text with more of either than people write is shown without rendering.
_RENDERED_LENGTH: Final = 20_000
_RENDERED_BRACKETS: Final = 200
_RENDERED_CELLS: Final = 5_000
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def _version() -> str:
    """Changes with the files, so that browsers may keep them."""
    return hashlib.sha256(b"".join(body for body, _ in STATIC.values())).hexdigest()[:12]


def _is_safe_link(url: str) -> bool:
    """Whether a link of a note may be followed: to the web, or to a place that is relative to the note."""
    if _SCHEME.match(url):
        return urlsplit(url).scheme in {"http", "https"}
    # Two slashes begin another host; browsers take a backslash for one.
    return not url.lstrip().replace("\\", "/").startswith("//")


def _add_link_attributes(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return str(self.renderToken(tokens, index, options, env))


def _markdown() -> MarkdownIt:
    # A browser would fetch pictures from any address in a note, so a picture becomes a link.
    rendering = MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")
    rendering.validateLink = _is_safe_link  # type: ignore[method-assign]  # as its documentation has it
    rendering.add_render_rule("link_open", _add_link_attributes)
    return rendering


_RENDERING: Final = _markdown()


def render_markdown(text: str) -> Markup | None:
    """A note as HTML in which no script can run; None if that would take too long."""
    return Markup(_RENDERING.render(visible(text))) if _is_quick(text) else None


def _is_quick(text: str) -> bool:
    if len(text) > _RENDERED_LENGTH or text.count("[") > _RENDERED_BRACKETS:
        return False
    lines = text.splitlines()
    return len(lines) * max((row.count("|") for row in lines), default=0) <= _RENDERED_CELLS


def exact_time(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso_time(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def relative_time(milliseconds: float) -> str:
    """How long ago, in the largest unit that fits; the day after a month."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size * 30 and unit == "day":
            return f"{moment.day} {moment:%b %Y}"
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def size(count: int) -> str:
    return f"{count:,} bytes" if count < 1024 else f"{count / 1024:,.0f} KB"


def shell(word: str) -> str:
    """A word of a command, as a person can paste it into a shell."""
    return shlex.quote(line(word))


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "exact_time": exact_time,
        "iso_time": iso_time,
        "relative_time": relative_time,
        "size": size,
        "line": line,
        "shell": shell,
        "visible": visible,
    }
    made.globals |= {"version": _version(), "address": address}
    return made


def address(brain: str, view: str, **query: str | int | None) -> str:
    """The address of a view of a brain."""
    asked = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return f"/ui/brains/{quote(brain, safe='')}/{view}" + (f"?{asked}" if asked else "")


_ENVIRONMENT: Final = _environment()


def html(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(values), status)
