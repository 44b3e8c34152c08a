"""A fetched web page, and the document it becomes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway import names
from gateway.errors import GatewayError
from gateway.operations import Args


@dataclass(frozen=True, slots=True)
class Page:
    """What came back for a URL: where it was found in the end, its media type, its bytes."""

    url: str
    content_type: str
    body: bytes
    charset: str | None = None


Fetch = Callable[[str], Awaitable[Page]]


def readable(page: Page) -> str:
    """The text of a page: HTML as markdown, other text as it is.

    Raises:
        GatewayError: fetch_failed, when there is no text in it.
    """
    if page.content_type in {"text/html", "application/xhtml+xml"}:
        text = _markdown_of(_decoded(page))
    elif page.content_type.startswith("text/") or page.content_type == "application/json":
        text = _decoded(page)
    else:
        raise GatewayError("fetch_failed", "Only pages of text can be ingested this way.", retryable=False)
    if not text.strip():
        raise GatewayError("fetch_failed", "The page holds no text.", retryable=False)
    return text


def document_of(page: Page) -> Args:
    content = readable(page)
    title = names.title_of(content)
    return {
        "title": title,
        "content": content,
        "path": names.page_path(title, names.digest([page.url, content])),
        "metadata": {"source_url": page.url},
        "source": "ingest",
    }


def _decoded(page: Page) -> str:
    try:
        return page.body.decode(page.charset or "utf-8", errors="replace").replace("\0", "")
    except LookupError:
        return page.body.decode("utf-8", errors="replace").replace("\0", "")


def _markdown_of(html: str) -> str:
    # Imported when a page is there to read: parsing HTML is no part of a normal start.
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    for noise in soup(["script", "style", "noscript", "template", "nav", "footer", "aside", "form", "iframe", "svg"]):
        noise.decompose()
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    text = str(MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(body)).strip()
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    markdown = "\n".join(kept)
    return f"# {title}\n\n{markdown}" if title and not markdown.startswith("# ") else markdown
