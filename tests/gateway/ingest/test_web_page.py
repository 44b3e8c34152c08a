"""A page as text, and the document it becomes."""

import asyncio
import codecs
from itertools import product

import pytest

from gateway.ingest import child_reader
from gateway.ingest import web_page as pages
from gateway.ingest.web_page import Page, document_of, read_text
from gateway.operations.errors import GatewayError
from gateway.operations.names import check_path, checksum
from tests.pdf import pdf

# Most of them start a process.
pytestmark = pytest.mark.not_quick

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
        await read_text(page, **options)
    return caught.value


async def test_html_becomes_markdown_without_what_surrounds_the_article() -> None:
    markdown = await read_text(html(ARTICLE))
    assert markdown.startswith("# A & B\n\n## Part *one*\n\nSee [the page](https://example.com/x).\n")
    assert "* first\n* second" in markdown
    assert "if a < b:" in markdown
    for noise in ("Home", "Buy now", "secret", "nobody", "tracker", "color"):
        assert noise not in markdown


async def test_a_page_that_has_its_own_heading_keeps_it() -> None:
    assert await read_text(html("<title>Site</title><h1>Article</h1><p>words</p>")) == "# Article\n\nwords"


async def test_markup_that_is_broken_is_read_as_far_as_it_goes() -> None:
    assert await read_text(html("<p>one<p>two <b>bold</p></i> &#xD800; <")) == "one\n\ntwo **bold**\n\n\ufffd <"


async def test_a_page_nested_past_all_reason_keeps_its_words() -> None:
    assert await read_text(html("<div>" * 5000 + "words<p>more")) == "words\nmore"


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
    reading = asyncio.ensure_future(read_text(html("<ol>" + "<li>x</li>" * 5000)))
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
        (text(b"a+2AA-b", "utf-7"), "a+2AA-b"),
        (text(b"a\\ud800b", "unicode_escape"), "a\\ud800b"),
        (text("größe".encode("cp1252"), "Windows-1252"), "größe"),
        (text(b"words", "a\x00b"), "words"),
    ],
    ids=lambda value: value.charset or value.content_type if isinstance(value, Page) else "",
)
async def test_text_is_decoded_as_its_server_says_if_that_is_possible(page: Page, expected: str) -> None:
    assert await read_text(page) == expected


async def test_a_charset_that_only_wastes_time_is_not_used() -> None:
    """Decoded as its server says, this would take a day."""
    body = b"a" * 2_000_000 + b"-" + b"b9c" * 1_000_000
    assert await read_text(text(body, "punycode")) == body.decode()


def test_no_charset_lets_half_a_character_through() -> None:
    """It could not be stored."""
    body = bytes(byte for pair in product(range(256), repeat=2) for byte in (*pair, 0x30, 0x30))
    for charset in pages._CHARSETS:
        assert codecs.lookup(charset).name == charset
        body.decode(charset, errors="replace").encode()


def declaring(declaration: str | bytes, charset: str = "cp1252") -> bytes:
    start = declaration.encode("ascii") if isinstance(declaration, str) else declaration
    return start + "<p>größe".encode(charset)


PAD = "<!--" + "x" * 1100 + "-->"
SNIFFED: dict[str, bytes] = {
    "charset": declaring("<meta charset=windows-1252>"),
    "charset in quotes": declaring('<html><head><META  CharSet = " Windows-1252 " /><title></title>'),
    "charset in other quotes": declaring("<meta name=x charset='latin1'>"),
    "http-equiv": declaring('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">'),
    "http-equiv, turned round": declaring('<meta content="text/html;charset=iso-8859-1" http-equiv=content-type>'),
    "over two lines": declaring("<meta\n  charset\n=\n'cp1252'\n>"),
    "XML": declaring('<?xml version="1.0" encoding="ISO-8859-1"?>'),
    "XML in other quotes": declaring("\n<?xml version='1.0' encoding = 'windows-1252' standalone='yes'?>"),
    "XML before a meta": declaring('<?xml version="1.0" encoding="cp1252"?><meta charset="utf-8">'),
    "a comment before it": declaring('<!-- <meta charset="utf-8"> --><meta charset="cp1252">'),
    "another meta before it": declaring('<meta name="viewport" content="width=1"><meta charset="cp1252">'),
    "Japanese": "<meta charset=Shift_JIS><p>größe".replace("größe", "日本").encode("shift_jis"),
    "none": declaring("<title></title>", "utf-8"),
    "unknown": declaring("<meta charset=no-such-charset>", "utf-8"),
    "empty": declaring('<meta charset="">', "utf-8"),
    "one that is refused": declaring("<meta charset=punycode>", "utf-8"),
    "one that is no charset": declaring("<meta charset=zlib>", "utf-8"),
    "one that wants to be a path": declaring("<meta charset=../../x>", "utf-8"),
    "one that cannot be true": declaring("<meta charset=utf-16>", "utf-8"),
    "one that cannot be true, in its order": declaring("<meta charset=UTF-16LE>", "utf-8"),
    "in a comment": declaring('<!-- <meta charset="cp1252"> -->', "utf-8"),
    "in a comment without end": declaring('<p>größe<!-- <meta charset="cp1252">'.encode(), "utf-8"),
    "too far down": declaring(PAD + '<meta charset="cp1252">', "utf-8"),
    "in the text": declaring("<p>charset=cp1252</p>", "utf-8"),
    "in another element": declaring('<link charset="cp1252">', "utf-8"),
    "XML not at the beginning": declaring('<p><?xml version="1.0" encoding="cp1252"?></p>', "utf-8"),
    "UTF-8 by its mark": codecs.BOM_UTF8 + declaring("<meta charset=cp1252>", "utf-8"),
    "UTF-16 by its mark": "<meta charset=cp1252><p>größe".encode("utf-16"),
    "hostile": declaring("<meta " * 5000 + "charset" * 100 + " " * 5000, "utf-8"),
}


@pytest.mark.parametrize("content_type", ["text/html", "application/xhtml+xml"])
@pytest.mark.parametrize("name", SNIFFED)
def test_a_page_may_say_its_own_charset_when_its_server_does_not(name: str, content_type: str) -> None:
    decoded = pages._decode(text(SNIFFED[name], content_type=content_type))
    assert ("日本" if name == "Japanese" else "größe") in decoded
    assert "\ufffd" not in decoded


async def test_a_page_is_read_in_the_charset_it_says() -> None:
    assert await read_text(html(SNIFFED["charset"])) == "größe"


def test_what_the_server_says_wins() -> None:
    page = text(declaring("<meta charset=cp1252>", "utf-8"), "utf-8", "text/html")
    assert pages._decode(page).endswith("größe")


@pytest.mark.parametrize("content_type", ["text/plain", "text/markdown", "application/json"])
def test_text_that_is_no_html_declares_nothing(content_type: str) -> None:
    page = text(declaring("<meta charset=cp1252>", "utf-8"), content_type=content_type)
    assert pages._decode(page).endswith("größe")


async def test_no_more_than_two_pages_are_converted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def run(_wanted: str, _body: bytes) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return b"{}\nwords"

    monkeypatch.setattr(child_reader, "_run_child", run)
    readings = [asyncio.ensure_future(read_text(html(ARTICLE))) for _ in range(6)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert running == 2

    error = await refusal(html(ARTICLE), convert_seconds=0.01)
    assert (error.code, error.retryable) == ("fetch_failed", True)
    assert error.message == "The page was fetched, but cannot be read at the moment."

    release.set()
    assert await asyncio.gather(*readings) == ["words"] * 6
    assert most == 2


async def test_a_page_that_had_to_wait_is_not_called_intricate(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_wanted: str, _body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(child_reader, "_run_child", run)
    async with child_reader._READERS.one():
        async with child_reader._READERS.one():
            reading = asyncio.ensure_future(refusal(html(ARTICLE), convert_seconds=0.2))
            await asyncio.sleep(0)
        assert (await reading).retryable


async def test_a_converter_that_is_given_up_or_left_leaves_its_place_to_others() -> None:
    for _ in range(3):
        await refusal(html(ARTICLE), convert_seconds=0.001)
        reading = asyncio.ensure_future(read_text(html(ARTICLE)))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert "Part" in await read_text(html(ARTICLE))


async def test_a_converter_that_cannot_be_started_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    error = await refusal(html(ARTICLE))
    assert (error.code, error.retryable) == ("fetch_failed", True)
    assert "/no/such" not in error.message


@pytest.mark.parametrize(
    "page",
    [text(b""), text(b" \n\t"), text(b"\x00\x00"), html(""), html("<script>x</script>"), html("<img src=x>")],
)
async def test_a_page_without_words_is_refused(page: Page) -> None:
    error = await refusal(page)
    assert (error.code, error.retryable, error.message) == ("fetch_failed", False, "The page holds no text.")


async def test_a_pdf_is_read_page_by_page() -> None:
    page = Page("https://example.com/", "application/pdf", pdf("The night train", "leaves at ten"))
    assert await read_text(page) == "The night train\n\nleaves at ten"


@pytest.mark.parametrize("body", [b"", b"%PDF-1.4", b"%PDF-1.4\n" + b"\0" * 1000, pdf("words")[:200]])
async def test_a_pdf_that_cannot_be_read_is_refused(body: bytes) -> None:
    error = await refusal(Page("https://example.com/", "application/pdf", body))
    assert (error.code, error.retryable) == ("fetch_failed", False)


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
    assert check_path(document["path"]) == document["path"]


async def test_the_same_page_is_the_same_document_and_another_is_not() -> None:
    first = await document_of(text(b"words"))
    assert await document_of(text(b"words")) == first
    assert (await document_of(text(b"other words")))["path"] != first["path"]
    elsewhere = Page("https://example.com/other", "text/plain", b"words")
    assert (await document_of(elsewhere))["path"] != first["path"]
