"""Texts that mean harm: what parsers, patterns, indexes and tables of letters may take too long on, or fall over."""

import random
from collections.abc import Callable, Iterator
from itertools import count

MEGABYTE = 1_000_000

Make = Callable[[int], str]


def _row(piece: str, *, begin: str = "", end: str = "") -> Make:
    """The same piece again and again."""
    return lambda size: begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end


def _nested(opening: str, middle: str, closing: str) -> Make:
    def make(size: int) -> str:
        depth = (size - len(middle)) // (len(opening) + len(closing))
        return opening * depth + middle + closing * depth

    return make


def _listed(piece: Callable[[int], str]) -> Make:
    """Pieces that differ, by their number."""

    def make(size: int) -> str:
        return "".join(_until(size, piece))

    return make


def _until(size: int, piece: Callable[[int], str]) -> Iterator[str]:
    length = 0
    for n in count():
        made = piece(n)
        length += len(made)
        if length > size:
            return
        yield made


def _noise(alphabet: str) -> Make:
    return lambda size: "".join(random.Random(7).choices(alphabet, k=size))


def _front(fields: Make) -> Make:
    """Front matter as long as is read as such, and then some."""
    return lambda size: f"---\n{fields(min(size, 60_000))}\n---\n{'word ' * ((size - 60_010) // 5)}"


KINDS: dict[str, Make] = {
    # Letters, and what stands on and between them.
    "accents": _row("\u0301", begin="e", end="x"),
    "accents out of order": _row("\u0301\u0316", begin="e", end="x"),
    "accented words": _row("e\u0301\u0316a\u0308"),
    "one word": _row("a"),
    "one syllable": _row("eed"),
    "one suffix": _row("ational"),
    "short words": _row("a b c d e "),
    "distinct words": _listed(lambda n: f"w{n:x}q "),
    "numbers": _listed(lambda n: f"{n} "),
    "one number": _row("9"),
    "decimals": _row("1.", end="x"),
    "unspaced": _row("漢字かな"),
    "unspaced by turns": _row("a漢1字"),
    "hangul jamo": _row("\u1100\u1161\u11a8"),
    "ligatures": _row("\ufdfa"),
    "sharp s": _row("\u1e9eß\u0130ı"),
    "emoji families": _row("👩‍👩‍👧‍👦"),
    "one emoji family": _row("\u200d👩", begin="👩"),
    "flags": _row("🇩🇪"),
    # What cannot be seen.
    "spaces": _row(" ", begin="a", end="x"),
    "spaced lines": _row("a" + " " * 500 + "\n"),
    "tabs": _row("\t", begin="a", end="x"),
    "returns": _row("\r", begin="a", end="x"),
    "line ends": _row("\r\n", begin="a", end="x"),
    "newlines": _row("\n", begin="a", end="x"),
    "newline and space": _row("\n ", begin="a", end="x"),
    "separators": _row("\u2028\u2029\x85", begin="a", end="x"),
    "other spaces": _row("\u3000\u00a0\u2003", begin="a", end="x"),
    "zero": _row("\0", begin="a", end="x"),
    "control": _row("\x01\x1b\x7f\x08", begin="a", end="x"),
    "zero width": _row("\u200b\u200c\ufeff\u2060", begin="a", end="x"),
    "right to left": _row("\u202e\u2066a\u2069\u202c"),
    "tag characters": _row("\U000e0041", begin="a", end="x"),
    "variation selectors": _row("\ufe0f\U000e0100", begin="a", end="x"),
    "half characters": _row("\ud800", begin="a", end="x"),
    "halves by turns": _row("\udc00\ud800", begin="a", end="x"),
    "non-characters": _row("\ufffe\uffff\ufffd", begin="a", end="x"),
    # Marks.
    "quotes": _row('"'),
    "single quotes": _row("'"),
    "backslashes": _row("\\", end="x"),
    "brackets": _nested("[", "x", "]"),
    "open brackets": _row("["),
    "braces": _nested("{", "x", "}"),
    "open parentheses": _row("("),
    "wiki links": _row("[["),
    "links": _row("](", begin="["),
    "images": _row("![a](b"),
    "tags": _row("<a "),
    "comments": _row("<!--"),
    "entities": _row("&lt;&#0;&#x110000;&"),
    "full stops": _row("."),
    "questions": _row("?! "),
    "closed quotes": _row("\"')]”’", begin="."),
    "sentences": _row("I like a. "),
    "facts": _listed(lambda n: f"I prefer thing{n}. "),
    "dashes": _row("-"),
    "emphasis": _row("*_"),
    "ticks": _row("`"),
    # Documents.
    "fences": _row("```\n~~~\n"),
    "rules": _row("---\n"),
    "rules with spaces": _row("--- \t\n", begin="---\n"),
    "open front matter": _row("a: b\n", begin="---\n"),
    "front fields": _front(_listed(lambda n: f"k{n}: v\n")),
    "front of one field": _front(_row("name: a\n")),
    "front of spaces": _front(_row(" ", begin="name: a", end="x")),
    "front of tags": _front(_row("a,", begin="tags: [", end="]")),
    "front of quotes": _front(_row("'", begin="name: ")),
    "front of anchors": _front(
        lambda _: "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    ),
    "front of merges": _front(_listed(lambda n: f"k{n}: &k{n} {{<<: *k{n - 1}}}\n" if n else "k0: &k0 {a: b}\n")),
    "front in depth": _front(_row("[", begin="name: ")),
    "front in lines": _front(_row("  x\n", begin="name: |\n")),
    "front of lists": _front(_row("- x\n", begin="tags:\n")),
    "front of moments": _front(_row("expires: 9999-12-31T23:59:59+14:00\ncreated: 0001-01-01\nimportance: 1e999\n")),
    "front of ours": _front(_row("via: brains-gateway\ndigest: x\nimportance: nan\nwhen: '[['\nversion: -1\n")),
    "tables": _row("|a|b|\n|-|-|\n"),
    "one table row": _row("|a"),
    "headings": _row("# \n"),
    "one heading": _row("#", begin="# ", end=" x"),
    "lists": _row("- "),
    "items": _row("- a\n"),
    "deep lists": _listed(lambda n: " " * (n % 1000) + "- a\n"),
    "numbered": _row("1. "),
    "block quotes": _row("> "),
    "speakers": _row("user: "),
    "speaking lines": _row("user: hi\nassistant: ho\n"),
    "marked speakers": _row("**user** "),
    "one speaker": _row(" ", begin="user", end="x"),
    # Other languages.
    "deep json": _row('{"a":['),
    "flat json": _row('{"a":1},', begin="[", end="{}]"),
    "long json number": _row("9", begin='{"a":', end="}"),
    "regex": _row("(a+)+$|(.*)*"),
    "sql": _row("' OR 1=1;--"),
    "full text": _row('NEAR(a* ^b OR "c" AND NOT {x}: -d) '),
    "full text operators": _row("AND OR NOT NEAR "),
    "stars": _row("a* "),
    "like": _row("%_"),
    "percent": _row("%00%2e%2f%zz"),
    "traversal": _row("../"),
    "backward traversal": _row("..\\"),
    "slashes": _row("/"),
    "folders": _row("a/"),
    "urls": _listed(lambda n: f"http://127.0.0.1:9/{n} "),
    "one url": _row("a", begin="http://127.0.0.1:9/?"),
    "url of users": _row("a@", begin="http://", end="127.0.0.1"),
    "url of dots": _row("a.", begin="http://", end="invalid"),
    "url of digits": _row("1", begin="http://127.0.0.1:"),
    "url in brackets": _row("[", begin="http://"),
    "dates": _listed(lambda n: f"{n % 9999 + 1:04}-12-31T23:59:59.999999999Z "),
    "one date": _row("0", begin="2026-01-01T00:00:00."),
    "templates": _row("{{7*7}}${x}%s{0}"),
    "xml": _row("<!ENTITY a '&b;'>"),
    "noise of marks": _noise(" \n\t#-*_>`|[](){}'\":.,!?1a\\/"),
    "noise of planes": _noise("aé漢\u0301\u200d👩\U0001d504ﷺ \n"),
}


def text_of(kind: str, size: int = MEGABYTE) -> str:
    """At most so many bytes, as UTF-8 counts; half a character goes as three."""
    made = KINDS[kind](size)
    while (excess := len(made.encode("utf-8", "surrogatepass")) - size) > 0:
        made = made[: -(excess // 4 + 1)]
    return made
