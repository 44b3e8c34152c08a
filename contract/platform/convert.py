"""Bytes of a file or page as markdown text: which kind they are, and how plain text is read.

The operator of the platform gives it a function for documents that need a parser, because a parser may take for ever,
and the operator must limit it.
"""

import codecs
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from contract.platform.refusal import Refused, invalid

Parsed: TypeAlias = Literal["pdf", "json", "html"]
Kind: TypeAlias = Literal["markdown", "text"] | Parsed

KIND_BY_TYPE: Final[dict[str, Kind]] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
}
KIND_BY_EXTENSION: Final[dict[str, Kind]] = {
    "md": "markdown",
    "markdown": "markdown",
    "txt": "text",
    "json": "json",
    "pdf": "pdf",
    "html": "html",
    "htm": "html",
}

# Charsets that can be decoded in linear time. Not all that Python knows can: punycode takes hours for a few megabytes.
CHARSETS: Final = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "koi8-r", "gb18030", "big5", "euc_jp", "shift_jis"),
        *(f"iso8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(f"cp{page}" for page in range(1250, 1259)),
    }
)
CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Converted:
    text: str
    title: str | None = None
    truncated: bool = False


# The kind, the bytes, and the charset that came with them. Raises: Refused.
Convert: TypeAlias = Callable[[Parsed, bytes, str | None], Awaitable[Converted]]


def kind_of(content_type: str, file_name: str, body: bytes) -> Kind:
    """By content type, then by extension, then by a look at the bytes.

    Raises: Refused, when they are not text either.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if kind := KIND_BY_TYPE.get(media_type):
        return kind
    if media_type.endswith("+json"):
        return "json"
    if media_type.startswith("text/"):
        return "text"
    if kind := KIND_BY_EXTENSION.get(file_name.rpartition(".")[2].lower()):
        return kind
    if body.startswith(b"%PDF-"):
        return "pdf"
    if b"\0" not in body and _is_utf8(body):
        return "text"
    raise Refused("unsupported_media_type", "only markdown, text, JSON, HTML and PDF can be ingested")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def charset_of(content_type: str) -> str | None:
    named = CHARSET.search(content_type)
    return named[1] if named else None


def decode_text(body: bytes, charset: str | None) -> Converted:
    name = charset or "utf-8"
    try:
        known = codecs.lookup(name).name
        if known not in CHARSETS:
            raise LookupError(name)
        text = body.decode("utf-8-sig" if known == "utf-8" else known)
        # Through UTF-8 once more, because some codecs decode to what is no text.
        text.encode()
    except (LookupError, ValueError) as error:
        raise invalid(f"the file is not valid text in {name.upper()}") from error
    return Converted(text)
