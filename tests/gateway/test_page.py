"""A page as text, and the document it becomes."""

import asyncio

import pytest

from gateway.errors import GatewayError
from gateway.names import checked_path, checksum
from gateway.page import Page, document_of, readable

ARTICLE = """<!doctype html><html><head><title> A &amp;
  B </title><style>p {color: red}</style></head><body>
<nav>Home | About</nav><aside>Buy now</aside>
<main><h2>Part <em>one</em></h2><p>See <a href="https://example.com/x">the page</a>.</p>
<script>alert("secret")</script><ul><li>first</li><li>second</li></ul>
<pre><code>if a &lt; b:</code></pre><img src="https://tracker.example/p.gif" alt="pixel"></main>
<footer>© nobody</footer></body></html>"""


def html(body: str | bytes) -> Page:
    return Page("https://example.com/", "text/html", body.encode() if isinstance(body, str) else body)


def text(body: bytes, charset: str | None = None, content_type: str = "text/plain") -> Page:
    return Page("https://example.com/", content_type, body, charset)


async def refusal(page: Page, **options: float) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await readable(page, **options)
    return caught.value


async def test_html_becomes_markdown_without_what_surrounds_the_article() -> None:
    markdown = await readable(html(ARTICLE))
    assert markdown.startswith("# A & B\n\n## Part *one*\n\nSee [the page](https://example.com/x).\n")
    assert "* first\n* second" in markdown
    assert "if a < b:" in markdown
    for noise in ("Home", "Buy now", "secret", "nobody", "tracker", "color"):
        assert noise not in markdown


async def test_a_page_that_has_its_own_heading_keeps_it() -> None:
    assert await readable(html("<title>Site</title><h1>Article</h1><p>words</p>")) == "# Article\n\nwords"


async def test_markup_that_is_broken_is_read_as_far_as_it_goes() -> None:
    assert await readable(html("<p>one<p>two <b>bold</p></i> &#xD800; <")) == "one\n\ntwo **bold**\n\n\ufffd <"


async def test_a_page_nested_past_all_reason_keeps_its_words() -> None:
    assert await readable(html("<div>" * 5000 + "words<p>more")) == "words\nmore"


async def test_a_page_that_takes_too_long_to_read_is_given_up() -> None:
    """A Python process cannot even start in this time, so that the clock always wins."""
    error = await refusal(html(ARTICLE), convert_seconds=0.001)
    assert (error.code, error.retryable) == ("fetch_failed", False)
    assert error.message == "The page is too intricate to be read as text."


async def test_a_page_that_is_too_long_as_text_is_given_up() -> None:
    error = await refusal(html("<p>" + "x" * 9_000_000))
    assert error.message == "The page is too intricate to be read as text."


async def test_a_page_is_read_while_the_gateway_goes_on_and_leaving_ends_it() -> None:
    """Read in place, this list would be done, seconds later, when the loop turns for the first time."""
    reading = asyncio.ensure_future(readable(html("<ol>" + "<li>x</li>" * 5000)))
    await asyncio.sleep(0)
    assert not reading.done()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (text(b"plain words"), "plain words"),
        (text("größe".encode("latin-1"), "iso-8859-1"), "größe"),
        (text("日本".encode("shift_jis"), "shift_jis"), "日本"),
        (text("größe".encode()), "größe"),
        (text(b"\xff\xfe\x00"), "\ufffd\ufffd"),
        (text(b"\xef\xbb\xbf# Title"), "# Title"),
        (text("# Title".encode("utf-16"), "utf-16"), "# Title"),
        (text(b"a\x00b"), "ab"),
        (text(b"# *as it is*", content_type="text/markdown"), "# *as it is*"),
        (text(b'{"a": 1}', content_type="application/json"), '{"a": 1}'),
        (text("größe".encode(), "no-such-charset"), "größe"),
        (text(b"words", "undefined"), "words"),
        (text(b"words", "idna"), "words"),
        (text(b"words\xff", "punycode"), "words\ufffd"),
        (text(b"words", "hex"), "words"),
        (text(b"a+2AA-b", "utf-7"), "a?b"),
        (text(b"a\\ud800b", "unicode_escape"), "a?b"),
        (text(b"words", "a\x00b"), "words"),
    ],
    ids=lambda value: value.charset or value.content_type if isinstance(value, Page) else "",
)
async def test_text_is_decoded_as_its_server_says_if_that_is_possible(page: Page, expected: str) -> None:
    assert await readable(page) == expected


@pytest.mark.parametrize(
    "page",
    [text(b""), text(b" \n\t"), text(b"\x00\x00"), html(""), html("<script>x</script>"), html("<img src=x>")],
)
async def test_a_page_without_words_is_refused(page: Page) -> None:
    error = await refusal(page)
    assert (error.code, error.retryable, error.message) == ("fetch_failed", False, "The page holds no text.")


@pytest.mark.parametrize("content_type", ["application/pdf", "image/png", "application/octet-stream", ""])
async def test_what_is_not_text_is_refused(content_type: str) -> None:
    error = await refusal(text(b"words", content_type=content_type))
    assert (error.code, error.retryable) == ("fetch_failed", False)


async def test_a_page_becomes_a_document_named_by_what_it_says() -> None:
    document = await document_of(html("<title>Größe & Co.</title><p>words</p>"))
    content = "# Größe & Co.\n\nwords"
    digest = checksum(f'["https://example.com/","{content}"]'.replace("\n", "\\n"))
    assert document == {
        "title": "Größe & Co.",
        "content": content,
        "path": f"raw/documents/groe-co-{digest[:12]}.md",
        "metadata": {"source_url": "https://example.com/"},
        "source": "ingest",
    }
    assert checked_path(document["path"]) == document["path"]


async def test_the_same_page_is_the_same_document_and_another_is_not() -> None:
    first = await document_of(text(b"words"))
    assert await document_of(text(b"words")) == first
    assert (await document_of(text(b"other words")))["path"] != first["path"]
    elsewhere = Page("https://example.com/other", "text/plain", b"words")
    assert (await document_of(elsewhere))["path"] != first["path"]
