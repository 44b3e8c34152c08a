"""Bytes of a file or page as markdown text: which kind they are, and how each kind is read."""

import io
import json
import re
import struct
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from contract.platform.refusal import Refused, invalid

if TYPE_CHECKING:
    from pypdf import PdfReader

Kind: TypeAlias = Literal["markdown", "text", "pdf", "json", "html"]

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

PDF_PAGES: Final = 2000
PDF_SECONDS: Final = 60.0
# What a malformed file makes pypdf raise, besides its own errors.
PDF_TROUBLE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(zlib.error, struct.error),
)
# Larger JSON is kept as it was sent: writing it anew would hold up everything else.
REWRITTEN_JSON: Final = 2 * 1024 * 1024
NOT_READ: Final = ("head", "title", "script", "style", "nav", "noscript", "template", "svg", "iframe")
CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Converted:
    text: str
    title: str | None = None
    truncated: bool = False


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


def converted(kind: Kind, body: bytes, content_type: str = "") -> Converted:
    charset = CHARSET.search(content_type)
    match kind:
        case "pdf":
            return _from_pdf(body)
        case "html":
            return _from_html(body, charset[1] if charset else None)
        case "json":
            return Converted(_from_json(_text(body, "utf-8-sig")))
        case _:
            return Converted(_text(body, charset[1] if charset else "utf-8-sig"))


def _text(body: bytes, charset: str) -> str:
    try:
        # Through UTF-8 once more, because some codecs decode to what is no text.
        text = body.decode(charset)
        text.encode()
    except (LookupError, ValueError) as error:
        raise invalid(f"the file is not valid text in {charset.removesuffix('-sig').upper()}") from error
    return text


def _from_json(text: str) -> str:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        small = len(text) <= REWRITTEN_JSON
        written = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) if small else text
        written.encode()
    except (ValueError, RecursionError) as error:
        raise invalid("the file is not valid JSON") from error
    # A fence must be longer than any run of backticks inside it.
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", written)), default=0))
    return f"{fence}json\n{written}\n{fence}\n"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _from_html(body: bytes, charset: str | None) -> Converted:
    # Imported here, like pypdf below: most servers never need them, and all would wait for them.
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page = BeautifulSoup(body, "html.parser", from_encoding=charset)
    title = " ".join(page.title.get_text().split()) if page.title else ""
    for element in page(NOT_READ):
        element.decompose()
    try:
        text = MarkdownConverter(heading_style="ATX").convert_soup(page)
    except RecursionError:
        text = page.get_text("\n")
    return Converted(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", title=title or None)


def _from_pdf(body: bytes) -> Converted:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise invalid("the PDF is encrypted; remove its password first")
        pages, truncated = _pages(reader)
        title = reader.metadata.title if reader.metadata else None
    except (PyPdfError, *PDF_TROUBLE) as error:
        raise invalid("the PDF is broken and cannot be read") from error
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise invalid("the PDF holds no text; scanned pages cannot be read")
    return Converted(f"{text}\n", title=" ".join(str(title or "").split()) or None, truncated=truncated)


def _pages(reader: "PdfReader") -> tuple[list[str], bool]:
    """The text of each page, as far as the limits on pages and time allow."""
    deadline = time.monotonic() + PDF_SECONDS
    pages: list[str] = []
    for page in reader.pages:
        if len(pages) == PDF_PAGES or time.monotonic() > deadline:
            return pages, True
        # Half of a surrogate pair comes out of broken font tables; it is no text.
        pages.append(page.extract_text().encode("utf-8", "replace").decode().strip())
    return pages, False
