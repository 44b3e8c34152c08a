"""A fetched web page, and the document it becomes."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

from gateway import names
from gateway.errors import GatewayError
from gateway.operations import Args

_CONVERTER: Final = Path(__file__).with_name("html_text.py")
_CONVERT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Page:
    """What came back for a URL: where it was found in the end, its media type, its bytes."""

    url: str
    content_type: str
    body: bytes
    charset: str | None = None


Fetch = Callable[[str], Awaitable[Page]]


async def readable(page: Page, *, convert_seconds: float = _CONVERT_SECONDS) -> str:
    """The text of a page: HTML as markdown, other text as it is.

    Raises:
        GatewayError: fetch_failed, when there is no text in it.
    """
    if page.content_type in {"text/html", "application/xhtml+xml"}:
        text = await _markdown_of(_decoded(page), convert_seconds)
    elif page.content_type.startswith("text/") or page.content_type == "application/json":
        text = _decoded(page)
    else:
        raise GatewayError("fetch_failed", "Only pages of text can be ingested this way.", retryable=False)
    if not text.strip():
        raise GatewayError("fetch_failed", "The page holds no text.", retryable=False)
    return text


async def document_of(page: Page) -> Args:
    content = await readable(page)
    title = names.title_of(content)
    return {
        "title": title,
        "content": content,
        "path": names.page_path(title, names.digest([page.url, content])),
        "metadata": {"source_url": page.url},
        "source": "ingest",
    }


def _decoded(page: Page) -> str:
    """Its characters. A charset is what a server says it is: unknown ones, and some known ones, decode nothing."""
    try:
        text = page.body.decode(page.charset or "utf-8", errors="replace")
    except (LookupError, ValueError):
        text = page.body.decode("utf-8", errors="replace")
    # Half of a surrogate pair, which a few charsets let through, cannot be stored.
    return text.encode("utf-8", "replace").decode().removeprefix("\ufeff").replace("\0", "")


async def _markdown_of(html: str, seconds: float) -> str:
    """Converted in another process: a small page can keep a parser busy for hours, and that can only be killed."""
    program = (sys.executable, "-P", str(_CONVERTER))
    try:
        converter = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    except OSError as error:
        raise GatewayError("fetch_failed", "The page was fetched, but cannot be read at the moment.") from error
    try:
        async with asyncio.timeout(seconds):
            text, _ = await converter.communicate(html.encode())
    except TimeoutError as error:
        raise _unreadable() from error
    finally:
        if converter.returncode is None:
            converter.kill()
            await converter.wait()
    if converter.returncode != 0:
        raise _unreadable()
    return text.decode()


def _unreadable() -> GatewayError:
    return GatewayError("fetch_failed", "The page is too intricate to be read as text.", retryable=False)
