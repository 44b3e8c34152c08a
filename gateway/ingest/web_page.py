"""A fetched web page, and the document it becomes."""

import asyncio
import codecs
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gateway.ingest.child_reader import SECONDS, Kind, Unreadable, read_in_child
from gateway.operations import names
from gateway.operations.errors import GatewayError
from gateway.operations.table import Args

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_SNIFFED_BYTES: Final = 1024
_COMMENT: Final = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_DECLARED: Final = re.compile(
    rb"""\A\s*<\?xml\s[^<>]*?\bencoding\s*=\s*["']([\w.:-]{1,40})["']"""
    rb"""|<meta\s[^<>]*?\bcharset\s*=\s*(?:["']\s*)?([\w.:-]{1,40})""",
    re.IGNORECASE,
)
# The charsets of the web, by Python's names. A page must not choose the others that Python knows: punycode takes
# hours for a few megabytes, and others unescape text that no browser would.
_CHARSETS: Final = frozenset(
    {
        *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "ascii"),
        *(f"iso8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(f"cp{page}" for page in (866, 874, 932, 949, 950, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "tis-620"),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "euc_jp", "iso2022_jp", "shift_jis", "euc_kr"),
    }
)


@dataclass(frozen=True, slots=True)
class Page:
    """The answer for a URL: its final address, its media type, its bytes."""

    url: str
    content_type: str
    body: bytes
    charset: str | None = None


Fetch = Callable[[str], Awaitable[Page]]


async def read_text(page: Page, *, convert_seconds: float = SECONDS) -> str:
    """The text of a page: HTML as markdown, the words of a PDF, other text as it is.

    Raises:
        GatewayError: fetch_failed, when there is no text in it.
    """
    if page.content_type in _HTML:
        text = await _read_apart("html", page, convert_seconds)
    elif page.content_type == "application/pdf":
        text = await _read_apart("pdf", page, convert_seconds)
    elif page.content_type.startswith("text/") or page.content_type.endswith(("/json", "+json")):
        text = await asyncio.to_thread(_decode, page)
    else:
        raise GatewayError("fetch_failed", "Only pages of text can be ingested this way.", retryable=False)
    if not text.strip():
        raise GatewayError("fetch_failed", "The page holds no text.", retryable=False)
    return text


async def document_of(page: Page) -> Args:
    content = await read_text(page)
    title = names.title_of(content)
    return {
        "title": title,
        "content": content,
        "path": names.page_path(title, names.digest([page.url, content])),
        "metadata": {"source_url": page.url},
        "source": "ingest",
    }


def _decode(page: Page) -> str:
    text = page.body.decode(charset_of(page), errors="replace")
    return text.removeprefix("\ufeff").replace("\0", "")


def charset_of(page: Page) -> str:
    """Python's name for the charset that the server says, or else the page itself, or else UTF-8."""
    declared = page.charset or (_sniff_charset(page.body) if page.content_type in _HTML else None)
    return _codec(declared or "utf-8")


def _sniff_charset(body: bytes) -> str | None:
    """The charset that a page of HTML declares at its beginning. It is only a hint: `_codec` decides."""
    if body.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = _DECLARED.search(_COMMENT.sub(b"", body[:_SNIFFED_BYTES]))
    if declared is None:
        return None
    charset = (declared[1] or declared[2]).decode("ascii")
    # The declaration was just read as ASCII, so the page cannot be in UTF-16.
    return None if charset.lower().startswith("utf-16") else charset


def _codec(charset: str) -> str:
    """Python's name for a charset of the web; UTF-8 for anything else."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _CHARSETS else "utf-8"


async def _read_apart(kind: Kind, page: Page, seconds: float) -> str:
    try:
        reading = await read_in_child(kind, page.body, charset=charset_of(page), seconds=seconds)
    except Unreadable as error:
        if error.reason == "busy":
            raise GatewayError("fetch_failed", "The page was fetched, but cannot be read at the moment.") from None
        raise _too_intricate() from None
    if reading.truncated:
        raise _too_intricate()
    return reading.text


def _too_intricate() -> GatewayError:
    return GatewayError("fetch_failed", "The page is too intricate to be read as text.", retryable=False)
