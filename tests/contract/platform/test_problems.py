"""What the platform refuses before it looks at anything: tokens, routes, brains, bodies, in that order."""

import errno
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.contract.platform.conftest import TOKEN
from tests.contract.platform.serving import served


def problem(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == response.status_code
    assert body["title"]
    return response.status_code, body["code"]


def test_the_health_check_needs_no_token(url: str) -> None:
    answer = httpx.get(f"{url}/healthz")
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic abc", TOKEN])
def test_a_missing_or_malformed_token_is_unauthorized(url: str, header: str | None) -> None:
    answer = httpx.get(f"{url}/v1/brains", headers={} if header is None else {"authorization": header})
    assert problem(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["wrong", f"{TOKEN}x", TOKEN[:-1], "tökén"])
def test_a_wrong_token_is_forbidden(url: str, token: str) -> None:
    answer = httpx.get(f"{url}/v1/brains", headers={b"authorization": f"Bearer {token}".encode()})
    assert problem(answer) == (403, "forbidden")


def test_the_scheme_may_be_in_lower_case(url: str) -> None:
    assert httpx.get(f"{url}/v1/brains", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


def test_the_token_is_checked_before_the_route(url: str) -> None:
    assert problem(httpx.get(f"{url}/nowhere")) == (401, "unauthorized")


@pytest.mark.parametrize("path", ["/nowhere", "/v1/brains/", "/v1/brains/main/search/", "/v1/brains/main/nothing", "/"])
def test_an_unknown_route_says_so(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert problem(answer) == (404, "not_found")
    assert answer.json()["detail"] == f"no route for GET {path}"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "/v1/brains", "GET, POST"),
        ("PATCH", "/v1/brains/ghost/documents", "GET, HEAD, POST, PUT, DELETE"),
        ("GET", "/v1/brains/ghost/ask", "POST"),
        ("OPTIONS", "/v1/brains/ghost/search", "GET"),
    ],
)
def test_a_known_path_with_another_method_names_its_methods(
    client: httpx.Client, method: str, path: str, allow: str
) -> None:
    answer = client.request(method, path)
    assert problem(answer) == (405, "method_not_allowed")
    assert answer.json()["detail"] == f"no route for {method} {path}"
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    ("method", "suffix"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/documents"),
        ("POST", "/documents"),
        ("PUT", "/documents"),
        ("DELETE", "/documents"),
        ("GET", "/documents/read"),
        ("GET", "/documents/stat"),
        ("POST", "/documents/append"),
        ("POST", "/documents/rename"),
        ("POST", "/documents/batch-ops"),
        ("POST", "/documents/ingest/file"),
        ("POST", "/documents/ingest/url"),
        ("GET", "/search"),
        ("POST", "/ask"),
        ("GET", "/sessions/s"),
        ("GET", "/sessions/s/messages"),
        ("POST", "/sessions/s/messages"),
        ("POST", "/sessions/s/close"),
        ("POST", "/sessions/s/recall"),
        ("POST", "/recall"),
        ("POST", "/consolidate"),
        ("POST", "/compile"),
    ],
)
def test_the_brain_is_checked_before_the_rest_of_the_request(client: httpx.Client, method: str, suffix: str) -> None:
    answer = client.request(method, f"/v1/brains/ghost{suffix}", content=b"not json" if method == "POST" else None)
    assert problem(answer) == (404, "not_found")
    assert answer.json()["detail"] == "brain not found: ghost"


def test_a_head_request_for_a_missing_brain_is_empty(client: httpx.Client) -> None:
    answer = client.head("/v1/brains/ghost/documents", params={"path": "a.md"})
    assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"7",
        b'"text"',
        b'{"query": NaN}',
        b'{"query": "\\ud800"}',
        b'{"query": "\xff"}',
        b"[" * 200_000,
        b'{"query": ' + b"1" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, brain: str, body: bytes) -> None:
    answer = client.post(f"{brain}/ask", content=body, headers={"content-type": "application/json"})
    assert problem(answer) == (400, "validation_error")


def test_json_of_another_content_type_is_refused(client: httpx.Client, brain: str) -> None:
    answer = client.post(
        f"{brain}/ask", content=b"query=x", headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert problem(answer) == (415, "unsupported_media_type")


def test_a_compressed_body_is_refused(client: httpx.Client, brain: str) -> None:
    answer = client.put(
        f"{brain}/documents", params={"path": "a.md"}, content=b"x", headers={"content-encoding": "gzip"}
    )
    assert problem(answer) == (415, "unsupported_media_type")


def test_a_query_string_that_is_no_utf8_is_refused(client: httpx.Client, brain: str) -> None:
    answer = client.get(f"{brain}/documents/read?path=a%FF.md")
    assert problem(answer) == (400, "validation_error")


def test_without_a_fetch_there_is_no_url_route(store: Store) -> None:
    with served(create_app(store, token=None, fetch=None)) as base:
        answer = httpx.post(f"{base}/v1/brains/main/documents/ingest/url", json={"url": "http://example.com/"})
    assert problem(answer) == (404, "not_found")
    assert answer.json()["detail"] == "no route for POST /v1/brains/main/documents/ingest/url"


def test_a_failure_of_the_platform_tells_nothing_of_its_insides() -> None:
    class Broken:
        def brains(self) -> None:
            raise RuntimeError("secret /home/someone/brains.sqlite3")

    with served(create_app(Broken(), token=None)) as base:  # type: ignore[arg-type]  # stands in for a failing store
        answer = httpx.get(f"{base}/v1/brains")
    assert problem(answer) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def full_disk() -> sqlite3.OperationalError:
    """What SQLite says itself, of a file that may not grow."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as caught:
            connection.execute("CREATE TABLE a (b)")
    return caught.value


@pytest.mark.parametrize("error", [full_disk(), OSError(errno.ENOSPC, "No space left on device", "/home/someone")])
def test_a_full_disk_is_told_to_the_caller_and_to_the_log(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def create_brain(self, *_arguments: object) -> None:
            raise error

    with served(create_app(Full(), token=None)) as base:  # type: ignore[arg-type]  # stands in for a failing store
        answer = httpx.post(f"{base}/v1/brains", json={"name": "One too many"})
    assert problem(answer) == (507, "insufficient_storage")
    assert answer.json()["detail"] == "the disk is full: nothing was stored"
    assert [record.getMessage() for record in caplog.records] == ["the disk is full: nothing was stored"]


def test_a_full_disk_keeps_nothing_of_what_was_written(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    brain = store.brains()[0]
    # Every connection is the same one here, and it may not make the file any larger.
    with store._database.writing() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.documents.put(brain, "a.md", b"words " * 100_000)
    assert store.documents.entries(brain, "", recursive=True, include_generated=True, glob="") == []
    store.documents.put(brain, "b.md", b"words")
    store.close()


def test_a_client_that_leaves_while_sending_does_no_harm(url: str, client: httpx.Client, brain: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    head = f"PUT {brain}/documents?path=half.md HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{head}content-length: 100\r\n\r\nhalf".encode())
    assert client.get(f"{brain}/documents").json() == {"items": []}
    assert client.get("/healthz").json() == {"ok": True}
