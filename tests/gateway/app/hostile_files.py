"""Files that were made to keep a reader busy, or to fill its memory; none is larger than a mebibyte."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.pdf import pdf, pdf_of

MIB = 1024 * 1024


@dataclass(frozen=True)
class Hostile:
    """`refused` says how it must end: refused, stored, or (None) either. `slow`: it takes long."""

    name: str
    make: Callable[[], bytes]
    refused: bool | None = None
    content_type: str = ""
    slow: bool = False


def stream(content: bytes, filters: int = 1) -> bytes:
    for _ in range(filters):
        content = zlib.compress(content, 9)
    names = b"/FlateDecode " * filters
    return b"<< /Length %d /Filter [%s] >>\nstream\n%s\nendstream" % (len(content), names, content)


CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
PAGES = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
PAGE = (
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R "
    b"/Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >> >>"
)
FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
TEXT = b"BT /F1 12 Tf (word) Tj ET "
FORM = (
    b"<< /Type /XObject /Subtype /Form /Length 5 /Resources << /XObject << /X 6 0 R >> >> >>\nstream\n/X Do\nendstream"
)


def one_page(contents: bytes) -> bytes:
    return pdf_of(CATALOG, PAGES, PAGE, contents, FONT, FORM)


def wide_pages() -> bytes:
    kids = b"<< /Type /Pages /Kids [" + b"3 0 R " * 50_000 + b"] /Count 50000 >>"
    return pdf_of(CATALOG, kids, PAGE, stream(TEXT), FONT)


def deep_pages() -> bytes:
    nodes = [b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (number + 3) for number in range(5000)]
    return pdf_of(CATALOG, *nodes, PAGE)


def deep_and_wide_json() -> bytes:
    return b"[" * 900 + b",".join([b"1"] * 29_000) + b"]" * 900


HOSTILE = {
    "pdf: fifty thousand pages": Hostile("a.pdf", wide_pages, slow=True),
    "pdf: pages that hold themselves": Hostile(
        "a.pdf", lambda: pdf_of(CATALOG, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"), refused=True
    ),
    "pdf: pages nested 5,000 deep": Hostile("a.pdf", deep_pages, refused=True),
    "pdf: a flate bomb": Hostile("a.pdf", lambda: one_page(stream(b" " * (200 * MIB))), refused=True),
    "pdf: bombs in a bomb": Hostile("a.pdf", lambda: one_page(stream(TEXT * 20_000, 12))),
    "pdf: a page of a million words": Hostile(
        "a.pdf", lambda: one_page(stream(TEXT * 1_000_000)), refused=True, slow=True
    ),
    "pdf: a form that draws itself": Hostile("a.pdf", lambda: one_page(stream(b"/X Do " * 500))),
    "pdf: a table that leads to itself": Hostile("a.pdf", lambda: pdf("x", trailer=b"/Prev 9 /XRefStm 9 ")),
    "html: 50,000 elements deep": Hostile("a.html", lambda: b"<div>" * 50_000 + b"word"),
    # The parser takes the square of its length over it.
    "html: tags that are not closed": Hostile("a.html", lambda: b"<a " * 3_000),
    "html: many tags that are not closed": Hostile("a.html", lambda: b"<a " * 60_000, refused=True, slow=True),
    "html: an attribute of a mebibyte": Hostile("a.html", lambda: b'<p title="' + b"x" * (MIB - 40) + b'">word</p>'),
    "html: 100,000 attributes": Hostile("a.html", lambda: b"<p " + b"a=b " * 100_000 + b">word</p>"),
    "html: a flood of entities": Hostile("a.html", lambda: b"&amp;&#x41;&nosuch" * 30_000),
    "html: comments without end": Hostile("a.html", lambda: b"<p>word" + b"<!--" * 8_000),
    "html: tables in tables": Hostile("a.html", lambda: b"<table><tr><td>word" * 3_000),
    "html: lists in lists": Hostile("a.html", lambda: b"<ul><li>word" * 3_000),
    "json: deep and wide": Hostile("a.json", deep_and_wide_json, refused=False),
    "json: nothing but brackets": Hostile("a.json", lambda: b"[" * MIB, refused=True),
    "json: 350,000 objects": Hostile("a.json", lambda: b"[{}" + b",{}" * 349_000 + b"]", refused=False),
    "json: a number of a mebibyte": Hostile("a.json", lambda: b"9" * MIB, refused=False),
    "json: a number beyond all measure": Hostile("a.json", lambda: b"[1e999999999]", refused=False),
    "json: one name 50,000 times": Hostile("a.json", lambda: b'{"a":0' + b',"a":1' * 50_000 + b"}", refused=False),
    "json: a mebibyte of backticks": Hostile("a.json", lambda: b'"' + b"`" * (MIB - 2) + b'"', refused=False),
    "text: UTF-16 that says nothing": Hostile("a.txt", lambda: "word ".encode("utf-16-le") * 50_000),
    "text: UTF-16 with its mark": Hostile("a.txt", lambda: ("word " * 50_000).encode("utf-16"), refused=True),
    "text: UTF-7": Hostile("a.txt", lambda: b"+2AA-" * 50_000, True, "text/plain; charset=utf-7"),
    "text: punycode": Hostile("a.txt", lambda: b"a-" + b"b9c" * 300_000, True, "text/plain; charset=punycode"),
    "text: a codec that unpacks": Hostile("a.txt", lambda: zlib.compress(b"x" * MIB), True, "text/plain; charset=zip"),
    "text: two encodings": Hostile("a.txt", lambda: "größe ".encode() + "größe ".encode("cp1252"), refused=True),
    "text: one word of a mebibyte": Hostile("a.txt", lambda: b"x" * MIB, refused=False),
    "text: a mebibyte of newlines": Hostile("a.txt", lambda: b"\n" * MIB, refused=False),
    "text: half a million lines": Hostile("a.txt", lambda: b"a\n" * (MIB // 2), refused=False),
    "markdown: lists 2,000 deep": Hostile(
        "a.md", lambda: b"".join(b" " * (depth % 400) + b"- a\n" for depth in range(4_000)), refused=False
    ),
    "markdown: a table of 200,000 cells": Hostile("a.md", lambda: b"|a" * 200_000 + b"|\n", refused=False),
    "markdown: nothing but headings": Hostile("a.md", lambda: b"# a\n" * 100_000, refused=False),
    "markdown: nothing but fences": Hostile("a.md", lambda: b"```\n" * 100_000, refused=False),
    "markdown: front matter without end": Hostile("a.md", lambda: b"---\n" + b"a: b\n" * 100_000, refused=False),
    "markdown: front matter of one field": Hostile(
        "a.md", lambda: b"---\nname:\n" + b" - a\n" * 100_000 + b"---\ntext", refused=False
    ),
    "markdown: front matter that counts itself": Hostile(
        "a.md",
        lambda: b"---\na: &a [x]\n" + b"".join(b"k%d: [*a, *a]\n" % n for n in range(20_000)) + b"---\ntext",
        refused=False,
    ),
}
