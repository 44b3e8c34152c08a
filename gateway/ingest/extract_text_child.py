"""From HTML or PDF to text, as a program: `page` runs it in a process of its own, on standard input and output.

No module of the gateway is imported here, so that it starts fast and has nothing to give away.
"""

import io
import sys
from typing import Final

_TEXT_LENGTH: Final = 8 * 1024 * 1024
_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_CPU_SECONDS: Final = 30
_PDF_PAGES: Final = 2000
_NOISE: Final = ["script", "style", "noscript", "template", "nav", "footer", "aside", "form", "iframe", "svg"]


def markdown_of(html: str) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    for noise in soup(_NOISE):
        noise.decompose()
    title = " ".join(soup.title.extract().get_text(" ").split()) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    try:
        text = str(MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(body)).strip()
    except RecursionError:
        # Nested deeper than anyone writes by hand: its words without its shape.
        text = body.get_text("\n", strip=True)
    lines = [line.rstrip() for line in text.splitlines()]
    markdown = "\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1]))
    return f"# {title}\n\n{markdown}" if title and not markdown.startswith("# ") else markdown


def text_of_pdf(body: bytes) -> str:
    from pypdf import PdfReader

    pages = PdfReader(io.BytesIO(body)).pages
    if len(pages) > _PDF_PAGES:
        sys.exit("the document has too many pages")
    return "\n\n".join(text for page in pages if (text := page.extract_text().strip()))


def main() -> None:
    _limit_resources()
    body = sys.stdin.buffer.read()
    text = text_of_pdf(body) if sys.argv[1:] == ["pdf"] else markdown_of(body.decode())
    if len(text) > _TEXT_LENGTH:
        sys.exit("the page is too long as text")
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _limit_resources() -> None:
    try:
        import resource
    except ImportError:  # Windows; the caller's deadline holds there too
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))


if __name__ == "__main__":
    main()
