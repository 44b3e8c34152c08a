"""From HTML, PDF or JSON to text, as a program: `child_reader` runs it, on standard input and output.

Its one argument says what to read, and within which limits. It writes one line of JSON about the text, and the text.
No module of the gateway is imported here, so that it starts fast and has nothing to give away.
"""

import io
import json
import re
import struct
import sys
import time
import zlib
from typing import Any, Final, NoReturn

_NOISE: Final = ["script", "style", "noscript", "template", "nav", "footer", "aside", "form", "iframe", "svg"]
# Errors that pypdf raises for a malformed file, besides its own.
_PDF_TROUBLE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(zlib.error, struct.error),
)
# Longer JSON is kept as it was sent. So is JSON that would grow by more than this, or would change.
_REWRITTEN_JSON: Final = 2 * 1024 * 1024
_JSON_GROWTH: Final = 4
# The share of the time after which no further page of a PDF is read; the rest is for the page under way.
_PDF_SHARE: Final = 0.7


class Refused(Exception):
    """The bytes cannot be read; the message is one of the reasons that `child_reader` knows."""


Found = tuple[dict[str, Any], str]


def read_html(body: bytes, limits: dict[str, Any]) -> Found:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    html = body.decode(limits["charset"], "replace").removeprefix("\ufeff").replace("\0", "")
    soup = BeautifulSoup(html, "html.parser")
    for noise in soup(_NOISE):
        noise.decompose()
    title = " ".join(soup.title.extract().get_text(" ").split()) if soup.title else ""
    main = soup.find("main") or soup.find("article") or soup.body or soup
    try:
        text = str(MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(main)).strip()
    except RecursionError:
        # It is nested deeper than anybody writes by hand, so its words are kept without its structure.
        text = main.get_text("\n", strip=True)
    lines = [line.rstrip() for line in text.splitlines()]
    markdown = "\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1]))
    whole = f"# {title}\n\n{markdown}" if title and not markdown.startswith("# ") else markdown
    return {"title": title or None}, whole


def read_pdf(body: bytes, limits: dict[str, Any]) -> Found:
    """The text of each page, as far as the limits on pages, time and length allow."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refused("encrypted")
        title = " ".join(str(reader.metadata.title or "").split()) if reader.metadata else ""
        pages: list[str] = []
        length, truncated = 0, False
        for page in reader.pages:
            truncated = len(pages) == limits["pages"] or time.process_time() > limits["cpu_seconds"] * _PDF_SHARE
            if truncated:
                break
            pages.append(page.extract_text().strip())
            length += len(pages[-1])
            if length > limits["text"]:
                raise Refused("limits")
    except (PyPdfError, *_PDF_TROUBLE) as error:
        raise Refused("broken") from error
    return {"title": title or None, "truncated": truncated}, "\n\n".join(page for page in pages if page)


def read_json(body: bytes, _limits: dict[str, Any]) -> Found:
    try:
        text = body.decode("utf-8-sig")
        # Numbers are not converted, because that takes the square of their length.
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused("broken") from error
    written = _laid_out(text) or text
    # A fence must be longer than any run of backticks inside it.
    fence = "`" * max(3, 1 + max((len(run[0]) for run in re.finditer(r"`+", written)), default=0))
    return {}, f"{fence}json\n{written}\n{fence}"


def _laid_out(text: str) -> str | None:
    """The same values over several lines; None if that would be too long, or not the same values."""
    if len(text) > _REWRITTEN_JSON:
        return None
    room, pieces = _JSON_GROWTH * len(text) + 1000, []
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False).iterencode(value):
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                return None
        written = "".join(pieces)
        written.encode()
    except (ValueError, RecursionError):
        return None
    return written


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a name stands there twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_READERS: Final = {"html": read_html, "pdf": read_pdf, "json": read_json}


def main() -> None:
    limits = json.loads(sys.argv[1])
    _limit_resources(limits)
    try:
        about, text = _READERS[limits["kind"]](sys.stdin.buffer.read(), limits)
        if len(text) > limits["text"]:
            raise Refused("limits")
        # Broken font tables give halves of surrogate pairs, which are not text.
        output = json.dumps(about).encode() + b"\n" + text.encode("utf-8", "replace")
    except Refused as refused:
        output = json.dumps({"refused": str(refused)}).encode() + b"\n"
    except MemoryError:
        output = b'{"refused": "limits"}\n'
    sys.stdout.buffer.write(output)


def _limit_resources(limits: dict[str, Any]) -> None:
    try:
        import resource
    except ImportError:  # Windows; the caller's deadline holds there too
        return
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_seconds"], limits["cpu_seconds"]))
    # No file may be written, neither by a parser nor as a core dump.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
