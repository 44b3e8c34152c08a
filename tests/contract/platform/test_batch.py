"""Batches of operations: in order, all or none."""

import base64
from collections.abc import Callable

import httpx
import pytest

from tests.contract.platform.conftest import Json

Write = Callable[[str, str | bytes], None]


def op(type_: str, path: str, content: bytes | None = None, to: str | None = None) -> Json:
    made: Json = {"type": type_, "path": path}
    if content is not None:
        made["content_base64"] = base64.b64encode(content).decode()
    if to is not None:
        made["to"] = to
    return made


def batch(client: httpx.Client, brain: str, *ops: Json) -> httpx.Response:
    return client.post(f"{brain}/documents/batch-ops", json={"reason": "test", "ops": list(ops)})


def contents(client: httpx.Client, brain: str) -> dict[str, bytes]:
    items = client.get(f"{brain}/documents", params={"recursive": "true"}).json()["items"]
    return {
        item["path"]: client.get(f"{brain}/documents/read", params={"path": item["path"]}).content for item in items
    }


def test_operations_are_applied_in_order(client: httpx.Client, brain: str, write: Write) -> None:
    write("old.md", "old")
    write("source.md", "moved")
    answer = batch(
        client,
        brain,
        op("write", "a.md", b"one"),
        op("append", "a.md", b" two"),
        op("append", "log.md", b"begun"),
        op("delete", "old.md"),
        op("rename", "source.md", to="target.md"),
        op("write", "brief.md", b"x"),
        op("delete", "brief.md"),
        op("write", "empty.md", b""),
    )
    assert (answer.status_code, answer.json()) == (200, {"committed": 8})
    assert contents(client, brain) == {
        "a.md": b"one two",
        "empty.md": b"",
        "log.md": b"begun",
        "target.md": b"moved",
    }


def test_an_empty_batch_commits_nothing(client: httpx.Client, brain: str) -> None:
    assert batch(client, brain).json() == {"committed": 0}


@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        (op("delete", "missing.md"), 404, "not_found"),
        (op("rename", "missing.md", to="b.md"), 404, "not_found"),
        (op("chmod", "a.md"), 400, "validation_error"),
        (op("write", "../a.md", b"x"), 400, "validation_error"),
        (op("write", "b.md"), 400, "validation_error"),
        (op("rename", "kept.md"), 400, "validation_error"),
        ({"type": "write", "path": "b.md", "content_base64": "a$b="}, 400, "validation_error"),
        ({"type": "write", "path": "b.md", "content_base64": "YQ"}, 400, "validation_error"),
        ({"type": "write", "path": "b.md", "content_base64": "YQ==\n"}, 400, "validation_error"),
        ({"type": "write", "path": "b.md", "content_base64": "é"}, 400, "validation_error"),
        ({"path": "b.md"}, 400, "validation_error"),
    ],
)
def test_one_bad_operation_undoes_all(
    client: httpx.Client, brain: str, write: Write, bad: Json, status: int, code: str
) -> None:
    write("kept.md", "as it was")
    answer = batch(client, brain, op("write", "a.md", b"one"), op("append", "kept.md", b"!"), bad)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert contents(client, brain) == {"kept.md": b"as it was"}
    assert client.get(f"{brain}/search", params={"q": "one"}).json()["hits"] == []


@pytest.mark.parametrize("body", [{}, {"ops": None}, {"ops": {}}, {"ops": ["write"]}, {"ops": [], "reason": 7}])
def test_a_batch_that_is_none_is_refused(client: httpx.Client, brain: str, body: Json) -> None:
    answer = client.post(f"{brain}/documents/batch-ops", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_a_batch_may_hold_1024_operations(client: httpx.Client, brain: str) -> None:
    many = [op("append", "log.txt", b"x")] * 1024
    assert batch(client, brain, *many).json() == {"committed": 1024}
    over = batch(client, brain, *many, op("append", "log.txt", b"x"))
    assert (over.status_code, over.json()["code"]) == (413, "payload_too_large")
    assert contents(client, brain) == {"log.txt": b"x" * 1024}


def test_a_batch_may_hold_eight_mebibytes(client: httpx.Client, brain: str) -> None:
    half = b"\xff" * (4 * 1024 * 1024)
    full = batch(client, brain, op("write", "a.bin", half), op("write", "b.bin", half))
    over = batch(client, brain, op("write", "c.bin", half), op("write", "d.bin", half + b"x"))
    assert full.json() == {"committed": 2}
    assert (over.status_code, over.json()["code"]) == (413, "payload_too_large")
    assert set(contents(client, brain)) == {"a.bin", "b.bin"}
