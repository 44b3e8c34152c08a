"""Sizes: what is just small enough is taken, one more is not."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.platform.conftest import TOKEN

MIB = 1024 * 1024


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize(("method", "suffix"), [("PUT", ""), ("POST", "/append")])
def test_raw_writes_take_two_mebibytes(client: httpx.Client, brain: str, method: str, suffix: str) -> None:
    target = f"{brain}/documents{suffix}"
    full = client.request(method, target, params={"path": "full.bin"}, content=b"\0" * (2 * MIB))
    over = client.request(method, target, params={"path": "over.bin"}, content=b"\0" * (2 * MIB + 1))
    assert full.status_code == 204
    assert refusal(over) == (413, "payload_too_large")
    assert client.head(f"{brain}/documents", params={"path": "over.bin"}).status_code == 404


def test_a_body_of_unknown_length_is_counted_as_it_arrives(client: httpx.Client, brain: str) -> None:
    def pieces(count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield b"x" * 65_536

    full = client.put(f"{brain}/documents", params={"path": "a.bin"}, content=pieces(32))
    over = client.put(f"{brain}/documents", params={"path": "b.bin"}, content=pieces(33))
    assert full.status_code == 204
    assert refusal(over) == (413, "payload_too_large")


def test_an_endless_body_is_cut_off(url: str, brain: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    head = f"PUT {brain}/documents?path=a.bin HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        piece = b"100000\r\n" + b"x" * MIB + b"\r\n"
        sent = 0
        try:
            while sent < 512:
                connection.sendall(piece)
                sent += 1
        except OSError:
            pass  # the server has hung up
    assert sent < 512


def test_a_document_may_be_created_with_five_million_characters(client: httpx.Client, brain: str) -> None:
    content = "€" * 5_000_000
    made = client.post(f"{brain}/documents", json={"content": content, "path": "big.txt"})
    assert made.status_code == 201
    assert made.json()["byte_size"] == 15_000_000


def test_a_created_document_may_fill_32_mebibytes_of_json(client: httpx.Client, brain: str) -> None:
    around = len(b'{"path":"full.txt","content":""}')
    for size, status in ((32 * MIB, 201), (32 * MIB + 1, 413)):
        body = b'{"path":"full.txt","content":"' + b"x" * (size - around) + b'"}'
        answer = client.post(f"{brain}/documents", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("suffix", "body", "field", "limit"),
    [
        ("/ask", {}, "query", 8192),
        ("/sessions/s/recall", {}, "query", 8192),
        ("/recall", {}, "query", 8192),
        ("/sessions/s/messages", {"role": "user"}, "content", 1_000_000),
    ],
)
def test_texts_are_limited_in_characters(
    client: httpx.Client, brain: str, suffix: str, body: dict[str, str], field: str, limit: int
) -> None:
    full = client.post(f"{brain}{suffix}", json={**body, field: "é" * limit})
    over = client.post(f"{brain}{suffix}", json={**body, field: "é" * (limit + 1)})
    empty = client.post(f"{brain}{suffix}", json={**body, field: ""})
    assert full.status_code in (200, 201)
    assert [refusal(over), refusal(empty)] == [(400, "validation_error")] * 2


@pytest.mark.parametrize(
    ("suffix", "name", "most"),
    [("/ask", "top_k", 50), ("/sessions/s/recall", "top_k", 50)],
)
def test_numbers_in_bodies_are_limited(client: httpx.Client, brain: str, suffix: str, name: str, most: int) -> None:
    statuses = [
        client.post(f"{brain}{suffix}", json={"query": "x", name: value}).status_code
        for value in (1, most, 0, most + 1, 1.5, True, "many")
    ]
    assert statuses == [200, 200, 400, 400, 400, 400, 400]


@pytest.mark.parametrize(
    ("suffix", "name", "most"), [("/search?q=x", "top_k", 100), ("/sessions/s/messages?", "limit", 1000)]
)
def test_numbers_in_queries_are_limited(client: httpx.Client, brain: str, suffix: str, name: str, most: int) -> None:
    statuses = [
        client.get(f"{brain}{suffix}&{name}={value}").status_code for value in (1, most, 0, most + 1, "1.5", "x", "-1")
    ]
    assert statuses == [200, 200, 400, 400, 400, 400, 400]


@pytest.mark.parametrize(("length", "status"), [(0, 400), (1, 200), (8192, 200), (8193, 400)])
def test_a_search_query_has_up_to_8192_characters(client: httpx.Client, brain: str, length: int, status: int) -> None:
    assert client.get(f"{brain}/search", params={"q": "a" * length}).status_code == status
