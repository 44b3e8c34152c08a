"""Ingest: files and pages become documents, once."""

import asyncio
import hashlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from contract.platform import markdown
from contract.platform.app import create_app
from contract.platform.convert import Converted
from contract.platform.ingest import FetchRefused, Original, Page
from contract.platform.store import Store
from gateway.ingest.child_reader import Limits
from tests.contract.platform.conftest import PAGES, Json
from tests.contract.platform.serving import served
from tests.pdf import pdf

Search = Callable[..., list[Json]]
Paths = Callable[..., list[str]]


def ingest(
    client: httpx.Client, brain: str, name: str, body: bytes, content_type: str = "", as_: str | None = None
) -> httpx.Response:
    return client.post(
        f"{brain}/documents/ingest/file",
        files={"file": (name, body, content_type)},
        data={} if as_ is None else {"as": as_},
    )


def stored(client: httpx.Client, brain: str, answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return client.get(f"{brain}/documents/read", params={"path": answer.json()["path"]}).text


def test_a_file_is_answered_with_where_its_text_is(client: httpx.Client, brain: str, search: Search) -> None:
    body = b"# Manual\n\nTurn the brass handle twice."
    answer = ingest(client, brain, "User Manual.md", body, "text/markdown").json()
    digest = hashlib.sha256(body).hexdigest()
    assert answer == {
        "status": "completed",
        "document_id": answer["document_id"],
        "path": f"raw/documents/user-manual-{digest[:12]}.md",
        "hash": digest,
        "chunk_count": 1,
        "embedded_count": 0,
        "duration_ms": answer["duration_ms"],
        "reused": False,
    }
    hit = search("brass handle")[0]
    assert (hit["path"], hit["document_id"]) == (answer["path"], answer["document_id"])
    assert hit["title"] == "Manual"


def test_the_same_bytes_again_are_the_same_document(client: httpx.Client, brain: str, paths: Paths) -> None:
    first = ingest(client, brain, "one.md", b"the very same").json()
    written = client.get(f"{brain}/documents/stat", params={"path": first["path"]}).json()
    second = ingest(client, brain, "two.txt", b"the very same", "text/plain").json()
    assert {**second, "duration_ms": 0} == {**first, "duration_ms": 0, "reused": True}
    assert paths() == [first["path"]]
    assert client.get(f"{brain}/documents/stat", params={"path": first["path"]}).json() == written


def test_other_bytes_of_the_same_name_are_another_document(client: httpx.Client, brain: str, paths: Paths) -> None:
    for body in (b"one", b"two"):
        assert ingest(client, brain, "same.md", body).json()["reused"] is False
    assert len(paths()) == 2


def test_bytes_ingested_again_after_an_edit_do_not_undo_it(client: httpx.Client, brain: str) -> None:
    answer = ingest(client, brain, "a.md", b"original")
    client.put(f"{brain}/documents", params={"path": answer.json()["path"]}, content="edited by hand")
    again = ingest(client, brain, "a.md", b"original")
    assert again.json()["reused"] is True
    assert stored(client, brain, again) == "edited by hand"


def test_a_document_that_stands_in_the_way_is_not_overwritten(client: httpx.Client, brain: str) -> None:
    path = f"raw/documents/a-{hashlib.sha256(b'bytes').hexdigest()[:12]}.md"
    client.put(f"{brain}/documents", params={"path": path}, content="mine")
    answer = ingest(client, brain, "a.md", b"bytes")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("name", "content_type", "as_", "body", "expected"),
    [
        ("a.md", "", None, b"\xef\xbb\xbf# Text", "# Text"),
        ("a.unknown", "application/x-thing", None, "naïve".encode(), "naïve"),
        ("noextension", "", None, b"plain", "plain"),
        (
            "a.json",
            "",
            None,
            b'{"b":[1,2],"a":"\\u00e9"}',
            '```json\n{\n  "b": [\n    1,\n    2\n  ],\n  "a": "é"\n}\n```\n',
        ),
        ("a.txt", "application/vnd.api+json", None, b'"a```b"', '````json\n"a```b"\n````\n'),
        ("a.json", "application/json", "text", b"{not json", "{not json"),
        (
            "a.html",
            "",
            None,
            b"<title>T</title><nav>menu</nav><h1>H</h1><p>text<script>x()</script></p>",
            "# H\n\ntext\n",
        ),
    ],
)
def test_each_kind_of_file_becomes_markdown(
    client: httpx.Client, brain: str, name: str, content_type: str, as_: str | None, body: bytes, expected: str
) -> None:
    assert stored(client, brain, ingest(client, brain, name, body, content_type, as_)) == expected


def test_a_pdf_becomes_its_text(client: httpx.Client, brain: str, search: Search) -> None:
    body = pdf("The kestrel nests in April.", "Second page.")
    for name, content_type, as_ in (("k.pdf", "", None),):
        answer = ingest(client, brain, name, body, content_type, as_)
        assert stored(client, brain, answer) == "The kestrel nests in April.\n\nSecond page.\n"
    assert search("kestrel")[0]["path"] == answer.json()["path"]


@pytest.mark.parametrize(
    ("name", "content_type", "as_"),
    [("k", "application/pdf", None), ("k.bin", "", "pdf"), ("k.bin", "application/octet-stream", None)],
)
def test_a_pdf_is_known_by_type_wish_or_bytes(
    client: httpx.Client, brain: str, name: str, content_type: str, as_: str | None
) -> None:
    assert stored(client, brain, ingest(client, brain, name, pdf("Known."), content_type, as_)) == "Known.\n"


@pytest.mark.parametrize(
    ("name", "body", "as_", "status", "code"),
    [
        ("a.pdf", b"%PDF-1.4\nbroken", None, 400, "validation_error"),
        ("a.pdf", b"", None, 400, "validation_error"),
        ("a.pdf", pdf("Locked")[:-200], None, 400, "validation_error"),
        ("a.pdf", pdf(""), None, 400, "validation_error"),
        ("a.json", b"{", None, 400, "validation_error"),
        ("a.json", b"[" * 100_000, None, 400, "validation_error"),
        ("a.json", b'{"n": NaN}', None, 400, "validation_error"),
        ("a.md", b"\xff\xfe", None, 400, "validation_error"),
        ("a.bin", b"\xff\xfe", None, 415, "unsupported_media_type"),
        ("a.bin", b"nul\0byte", None, 415, "unsupported_media_type"),
        ("a.md", b"x", "word", 400, "validation_error"),
        ("a.md", b"caf\xe9", "text", 400, "validation_error"),
    ],
)
def test_what_cannot_be_read_is_refused_and_not_kept(
    client: httpx.Client, brain: str, paths: Paths, name: str, body: bytes, as_: str | None, status: int, code: str
) -> None:
    answer = ingest(client, brain, name, body, as_=as_)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert paths() == []


def test_an_encrypted_pdf_is_refused_with_the_reason(client: httpx.Client, brain: str) -> None:
    encrypted = (
        b"/Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 /P -4 "
        + b"/O <"
        + b"11" * 32
        + b"> /U <"
        + b"22" * 32
        + b"> >> /ID [<33333333333333333333333333333333> <33333333333333333333333333333333>] "
    )
    answer = ingest(client, brain, "a.pdf", pdf("Secret", trailer=encrypted))
    assert answer.status_code == 400
    assert "encrypted" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"", "multipart/form-data", 400),
        (b"junk", "multipart/form-data; boundary=b", 400),
        (
            b'--b\r\ncontent-disposition: form-data; name="file"\r\n\r\nno name\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
            400,
        ),
    ],
)
def test_a_form_without_a_file_is_refused(
    client: httpx.Client, brain: str, content: bytes, content_type: str, status: int
) -> None:
    answer = client.post(f"{brain}/documents/ingest/file", content=content, headers={"content-type": content_type})
    assert answer.status_code == status


@pytest.mark.slow
def test_a_file_may_have_25_mebibytes(client: httpx.Client, brain: str, paths: Paths) -> None:
    # One word without end is cut into chunks too; few of them, so that this stays quick.
    full = b"\xc3\xa9" * 200_000 + b"\n" * (26_214_400 - 400_000)
    answer = ingest(client, brain, "full.txt", full)
    over = ingest(client, brain, "over.txt", full + b"\n")
    far_over = ingest(client, brain, "far.txt", full + full)
    assert (answer.status_code, answer.json()["hash"]) == (200, hashlib.sha256(full).hexdigest())
    for refused in (over, far_over):
        assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")
    assert paths() == [answer.json()["path"]]


def test_bytes_that_two_callers_ingest_at_once_are_one_document(store: Store) -> None:
    """Both have asked before either has stored."""
    brain = store.create_brain("Race")
    originals = [Original(name, "", b"the very same") for name in ("a.md", "b.md")]
    assert [store.intake.known(brain, original) for original in originals] == [None, None]
    first, second = (store.intake.store(brain, original, Converted("text"), "text") for original in originals)
    assert (first["reused"], second["reused"]) == (False, True)
    assert first["path"] == second["path"]
    store.delete_brain(brain)


def test_a_pdf_is_read_as_far_as_the_limits_allow(
    client: httpx.Client, brain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limits, "of", lambda _kind, _size: Limits(cpu_seconds=10, text=1000, pages=2))
    answer = ingest(client, brain, "long.pdf", pdf("one", "two", "three"))
    assert stored(client, brain, answer) == "one\n\ntwo\n"
    record = client.get(f"{brain}/documents/stat", params={"path": answer.json()["path"]}).json()["document"]
    assert record["metadata"] == {"file_name": "long.pdf", "ingested_as": "pdf", "truncated": True}


def test_a_page_that_is_too_large_is_refused(client: httpx.Client, brain: str) -> None:
    PAGES["https://example.com/huge"] = Page("https://example.com/huge", "text/plain", b"x" * 26_214_401)
    answer = url_answer(client, brain, "https://example.com/huge")
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def url_answer(client: httpx.Client, brain: str, url: str) -> httpx.Response:
    return client.post(f"{brain}/documents/ingest/url", json={"url": url})


def test_a_page_is_reduced_to_its_words(client: httpx.Client, brain: str, search: Search) -> None:
    url = "https://example.com/guides/Sour%20dough.html?x=1"
    page = b"""<html><head><title>Sourdough  guide</title><style>p{color:red}</style></head><body><nav>Home</nav>
        <h1>Sourdough</h1><p>Feed the <b>starter</b> daily.</p><script>track()</script></body></html>"""
    PAGES[url] = Page(url, "text/html; charset=utf-8", page)
    answer = url_answer(client, brain, url)
    text = stored(client, brain, answer)
    assert answer.json()["source_url"] == url
    assert answer.json()["path"] == f"raw/documents/sour-dough-{hashlib.sha256(page).hexdigest()[:12]}.md"
    assert "Feed the **starter** daily." in text
    assert not any(word in text for word in ("track", "color", "Home"))
    hit = search("feed starter")[0]
    assert (hit["title"], hit["metadata"]["source_url"]) == ("Sourdough guide", url)


def test_the_same_page_again_is_reused_and_a_changed_one_is_not(client: httpx.Client, brain: str) -> None:
    url = "https://example.com/"
    PAGES[url] = Page(url, "text/plain", b"version one")
    first, second = (url_answer(client, brain, url).json() for _ in range(2))
    PAGES[url] = Page(url, "text/plain", b"version two")
    third = url_answer(client, brain, url).json()
    assert [answer["reused"] for answer in (first, second, third)] == [False, True, False]
    assert first["path"] == second["path"] != third["path"]
    assert first["path"].startswith("raw/documents/example-")


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b"[1]", "```json\n[\n  1\n]\n```\n"),
        ("text/markdown", b"# Plain", "# Plain"),
        ("text/plain; charset=iso-8859-1", b"na\xefve", "naïve"),
        ('text/html; charset="latin-1"', b"<p>na\xefve</p>", "naïve\n"),
        ("application/pdf", pdf("By URL."), "By URL.\n"),
    ],
)
def test_pages_of_other_kinds_are_read_as_files_are(
    client: httpx.Client, brain: str, content_type: str, body: bytes, expected: str
) -> None:
    PAGES["https://example.com/x"] = Page("https://example.com/x", content_type, body)
    assert stored(client, brain, url_answer(client, brain, "https://example.com/x")) == expected


def test_a_page_in_an_unknown_encoding_is_refused(client: httpx.Client, brain: str) -> None:
    url = "https://example.com/odd"
    PAGES[url] = Page(url, "text/plain; charset=klingon", b"text")
    answer = url_answer(client, brain, url)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_deeply_nested_html_is_still_read(client: httpx.Client, brain: str) -> None:
    url = "https://example.com/deep"
    PAGES[url] = Page(url, "text/html", b"<div>" * 3000 + b"bottom" + b"</div>" * 3000)
    assert "bottom" in stored(client, brain, url_answer(client, brain, url))


@pytest.mark.parametrize(("code", "status"), [("fetch_blocked", 422), ("fetch_failed", 502)])
def test_a_refused_fetch_keeps_its_code_and_not_its_words(
    client: httpx.Client, brain: str, code: str, status: int
) -> None:
    assert code in ("fetch_blocked", "fetch_failed")
    PAGES["http://10.0.0.1/"] = FetchRefused(code, "resolved to 10.0.0.1")  # type: ignore[arg-type]  # narrowed above
    answer = url_answer(client, brain, "http://10.0.0.1/")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "resolved" not in answer.text


@pytest.mark.parametrize("address", ["", "example.com", "//example.com/", "http://", "http:///x", "http://[::1", 7])
def test_what_is_no_url_is_refused(client: httpx.Client, brain: str, address: object) -> None:
    answer = client.post(f"{brain}/documents/ingest/url", json={"url": address})
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


@pytest.mark.parametrize("address", ["ftp://example.com/x", "file:///etc/passwd", "javascript:alert(1)", "data:,x"])
def test_only_web_addresses_are_handed_to_the_fetch(client: httpx.Client, brain: str, address: str) -> None:
    answer = client.post(f"{brain}/documents/ingest/url", json={"url": address})
    assert (answer.status_code, answer.json()["code"]) == (422, "fetch_blocked")


def test_without_a_converter_only_text_is_taken(store: Store) -> None:
    with served(create_app(store, token=None)) as base, httpx.Client(base_url=base) as client:
        made = client.post("/v1/brains", json={"name": "Plain"}).json()["id"]
        answers = [
            ingest(client, f"/v1/brains/{made}", name, name.encode()) for name in ("a.md", "a.json", "a.html", "a.pdf")
        ]
    assert [answer.status_code for answer in answers] == [200, 415, 415, 415]
    assert answers[1].json()["code"] == "unsupported_media_type"


@pytest.mark.parametrize("charset", ["punycode", "utf-7", "unicode_escape", "idna", "hex", "klingon", "undefined"])
def test_text_in_a_charset_that_only_costs_time_is_refused(
    client: httpx.Client, brain: str, paths: Paths, charset: str
) -> None:
    answer = ingest(client, brain, "a.txt", b"words", f"text/plain; charset={charset}")
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")
    assert paths() == []


def test_a_file_is_not_read_any_further_once_its_sender_has_left(store: Store) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def convert(_kind: str, _body: bytes, _charset: str | None) -> Converted:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    boundary = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-\r\n--b--\r\n'
    head = (
        "POST /v1/brains/main/documents/ingest/file HTTP/1.1\r\nhost: x\r\n"
        f"content-type: multipart/form-data; boundary=b\r\ncontent-length: {len(boundary)}\r\n\r\n"
    )
    with served(create_app(store, token=None, convert=convert)) as base:
        with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as connection:
            connection.sendall(head.encode() + boundary)
            assert begun.wait(20)
            assert not ended.is_set()
        assert ended.wait(20)


def test_many_large_files_do_not_hold_up_a_small_write(
    client: httpx.Client, brain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are worked on for as long as the test likes: outside the transaction, and not all at once."""
    release, begun, cut = threading.Event(), threading.Event(), markdown.chunks

    def held(body: str) -> list[str]:
        if len(body) > 300_000:
            begun.set()
            assert release.wait(60)
            return [body[:100]]
        return cut(body)

    monkeypatch.setattr(markdown, "chunks", held)
    with ThreadPoolExecutor(9) as pool:
        large = [pool.submit(ingest, client, brain, f"{n}.txt", b"%d" % n + b"x" * 400_000) for n in range(8)]
        try:
            assert begun.wait(20)
            small = pool.submit(client.put, f"{brain}/documents", params={"path": "small.md"}, content="small")
            assert small.result(20).status_code == 204
            assert not any(one.done() for one in large)
        finally:
            release.set()
        assert [one.result(60).status_code for one in large] == [200] * 8
