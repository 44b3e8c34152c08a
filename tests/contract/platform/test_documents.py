"""Documents: records, raw bytes, listings, moves."""

import hashlib
from collections.abc import Callable
from datetime import datetime

import httpx
import pytest

from tests.contract.platform.conftest import Json

Write = Callable[[str, str | bytes], None]


def create(client: httpx.Client, brain: str, **body: object) -> httpx.Response:
    return client.post(f"{brain}/documents", json=body)


def read(client: httpx.Client, brain: str, path: str) -> bytes:
    answer = client.get(f"{brain}/documents/read", params={"path": path})
    assert answer.status_code == 200, answer.text
    return answer.content


def listed(client: httpx.Client, brain: str, **params: str) -> list[tuple[str, bool]]:
    items = client.get(f"{brain}/documents", params=params).json()["items"]
    return [(item["path"], item["is_dir"]) for item in items]


def test_a_created_document_is_answered_with_its_whole_record(client: httpx.Client, brain: str) -> None:
    content = "# Saturday run notes\n\nÄ 10k route."
    answer = create(
        client,
        brain,
        content=content,
        path="/memory/global/run.md",
        metadata={"tags": "running,health", "n": 1, "f": 1.5, "yes": True, "none": None},
    )
    record = answer.json()
    checksum = hashlib.sha256(content.encode()).hexdigest()
    assert answer.status_code == 201
    assert record == {
        "id": record["id"],
        "brain_id": brain.rpartition("/")[2],
        "title": "Saturday run notes",
        "path": "memory/global/run.md",
        "source": "ingest",
        "content_type": "text/markdown",
        "byte_size": len(content.encode()),
        "checksum_sha256": checksum,
        "metadata": {"tags": "running,health", "n": 1, "f": 1.5, "yes": True, "none": None},
        "commit_sha": checksum[:40],
        "created_at": record["created_at"],
        "updated_at": record["created_at"],
        "deleted_at": None,
    }
    assert record["id"].startswith("doc_")
    assert datetime.fromisoformat(record["created_at"]).utcoffset() is not None
    assert read(client, brain, "memory/global/run.md") == content.encode()


def test_creating_never_overwrites(client: httpx.Client, brain: str) -> None:
    create(client, brain, content="first", path="a.md")
    again = create(client, brain, content="second", path="a.md")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert read(client, brain, "a.md") == b"first"


def test_without_a_path_the_same_document_gets_the_same_one(client: httpx.Client, brain: str) -> None:
    made = create(client, brain, content="# Tea & Coffee\n\nboth").json()
    again = create(client, brain, content="# Tea & Coffee\n\nboth")
    other = create(client, brain, content="# Tea & Coffee\n\nneither").json()
    assert made["path"].startswith("memory/global/tea-coffee-")
    assert len(made["path"]) == len("memory/global/tea-coffee-.md") + 12
    assert again.status_code == 409
    assert other["path"] != made["path"]


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("intro\n\n## The Heading ##\n\ntext", "The Heading"),
        ("first line\nsecond", "first line"),
        ("---\nname: 'It''s named'\ntags: [a]\n---\n# Heading", "It's named"),
        ('---\ntitle: "Caf\\u00e9 notes"\n---\ntext', "Café notes"),
        ("---\nname: a long name that\n  goes on here\n---\ntext", "a long name that goes on here"),
        ("---\nnot closed\n", "---"),
        ("   \n\n", "Untitled"),
        ("w" * 600, "w" * 512),
    ],
)
def test_the_title_is_derived_from_the_content(client: httpx.Client, brain: str, content: str, title: str) -> None:
    assert create(client, brain, content=content).json()["title"] == title


def test_a_title_given_is_the_title(client: httpx.Client, brain: str) -> None:
    assert create(client, brain, content="# Other", title="Mine").json()["title"] == "Mine"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": ""},
        {"content": 5},
        {"content": "x", "title": 7},
        {"content": "x", "title": "t" * 513},
        {"content": "x", "source": "rumour"},
        {"content": "x", "metadata": []},
        {"content": "x", "metadata": {"": 1}},
        {"content": "x", "metadata": {"k" * 129: 1}},
        {"content": "x", "metadata": {"list": [1]}},
        {"content": "x", "metadata": {"object": {}}},
        {"content": "x", "path": ""},
        {"content": "x", "path": 3},
    ],
)
def test_a_malformed_document_is_refused(client: httpx.Client, brain: str, body: Json) -> None:
    answer = client.post(f"{brain}/documents", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_a_number_too_large_for_json_is_refused(client: httpx.Client, brain: str) -> None:
    body = b'{"content": "x", "metadata": {"n": 1e999}}'
    answer = client.post(f"{brain}/documents", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


BAD_PATHS = [
    *("", "/", "//a.md", "a//b.md", "a/", "./a.md", "a/./b.md", "../a.md", "a/../b.md", ".."),
    *("a\\b.md", "a\0b.md", "a\nb.md", "a\x7fb.md", "a\x85b.md", "p" * 1025),
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_is_not_clean_is_refused_everywhere(client: httpx.Client, brain: str, path: str) -> None:
    documents, params = f"{brain}/documents", {"path": path}
    answers = [
        client.put(documents, params=params, content=b"x"),
        client.delete(documents, params=params),
        client.get(f"{documents}/read", params=params),
        client.get(f"{documents}/stat", params=params),
        client.post(f"{documents}/append", params=params, content=b"x"),
        client.post(f"{documents}/rename", json={"from": path, "to": "b.md"}),
        client.post(f"{documents}/rename", json={"from": "b.md", "to": path}),
        client.post(documents, json={"content": "x", "path": path}),
        client.post(f"{documents}/batch-ops", json={"ops": [{"type": "delete", "path": path}]}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(400, "validation_error")] * 9
    assert client.head(documents, params=params).status_code == 400


@pytest.mark.parametrize("path", ["a", "ü/日本 語.md", "p" * 1024, "/leading.md", "...", "a:b@c?d=e&f#g%20.md"])
def test_a_clean_path_is_kept_as_it_is(client: httpx.Client, brain: str, write: Write, path: str) -> None:
    write(path, "here")
    assert read(client, brain, path) == b"here"
    stat = client.get(f"{brain}/documents/stat", params={"path": path}).json()
    assert stat["path"] == path.removeprefix("/")


@pytest.mark.parametrize("content", [b"", b"plain", b"\xff\xfe\x00\x01 not text", "é\r\n\u2028".encode(), b"\0" * 10])
def test_bytes_come_back_exactly(client: httpx.Client, brain: str, write: Write, content: bytes) -> None:
    for path in ("raw.bin", "note.md"):
        write(path, content)
        answer = client.get(f"{brain}/documents/read", params={"path": path})
        assert answer.content == content
        assert answer.headers["content-type"] == "application/octet-stream"


def test_putting_overwrites_and_keeps_the_time_of_birth(client: httpx.Client, brain: str, write: Write) -> None:
    created = create(client, brain, content="# First", path="a.md", metadata={"k": 1}).json()
    write("a.md", "# Second")
    record = client.get(f"{brain}/documents/stat", params={"path": "a.md"}).json()["document"]
    assert read(client, brain, "a.md") == b"# Second"
    assert (record["id"], record["created_at"]) == (created["id"], created["created_at"])
    assert (record["title"], record["metadata"]) == ("Second", {})
    assert record["updated_at"] > created["updated_at"]


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("text/markdown; charset=utf-8", 204),
        ("application/octet-stream", 204),
        (None, 204),
        ("application/json", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
def test_raw_writes_take_bytes_and_text_only(
    client: httpx.Client, brain: str, content_type: str | None, status: int
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    put = client.put(f"{brain}/documents", params={"path": "a.md"}, content=b"x", headers=headers)
    added = client.post(f"{brain}/documents/append", params={"path": "b.md"}, content=b"x", headers=headers)
    assert (put.status_code, added.status_code) == (status, status)


def test_stat_tells_files_and_directories_apart(client: httpx.Client, brain: str, write: Write) -> None:
    write("wiki/go/a.md", "twelve bytes")
    file = client.get(f"{brain}/documents/stat", params={"path": "wiki/go/a.md"}).json()
    folder = client.get(f"{brain}/documents/stat", params={"path": "wiki/go"}).json()
    assert (file["size"], file["is_dir"], file["document"]["path"]) == (12, False, "wiki/go/a.md")
    assert folder == {"path": "wiki/go", "size": 0, "mtime": file["mtime"], "is_dir": True}
    missing = client.get(f"{brain}/documents/stat", params={"path": "wiki/g"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_head_tells_whether_a_document_exists(client: httpx.Client, brain: str, write: Write) -> None:
    write("dir/a.md", "x")
    statuses = [
        client.head(f"{brain}/documents", params={"path": path}).status_code for path in ("dir/a.md", "dir", "b.md")
    ]
    assert statuses == [200, 404, 404]


def test_a_flat_listing_has_files_and_immediate_directories(client: httpx.Client, brain: str, write: Write) -> None:
    for path in ("wiki/go/a.md", "wiki/go/deep/b.md", "wiki/top.md", "wiki/_index.md", "wiki-2/c.md", "root.md"):
        write(path, "x")
    assert listed(client, brain) == [("root.md", False), ("wiki", True), ("wiki-2", True)]
    assert listed(client, brain, dir="wiki") == [("wiki/go", True), ("wiki/top.md", False)]
    assert listed(client, brain, dir="/wiki/", include_generated="true") == [
        ("wiki/_index.md", False),
        ("wiki/go", True),
        ("wiki/top.md", False),
    ]
    assert listed(client, brain, dir="nowhere") == []


def test_a_recursive_listing_has_files_only_by_path(client: httpx.Client, brain: str, write: Write) -> None:
    for path in ("b.md", "a/z.md", "a/_old/x.md", "a/b/c.txt", "ab.md"):
        write(path, "x")
    assert listed(client, brain, recursive="true") == [
        ("a/b/c.txt", False),
        ("a/z.md", False),
        ("ab.md", False),
        ("b.md", False),
    ]
    assert listed(client, brain, dir="a/_old", recursive="true") == [("a/_old/x.md", False)]
    assert listed(client, brain, recursive="true", glob="*.md") == [
        ("a/z.md", False),
        ("ab.md", False),
        ("b.md", False),
    ]
    assert listed(client, brain, dir="a", glob="?") == [("a/b", True)]


@pytest.mark.parametrize(
    "params", [{"recursive": "maybe"}, {"include_generated": "2"}, {"glob": "*" * 257}, {"dir": ".."}]
)
def test_a_malformed_listing_is_refused(client: httpx.Client, brain: str, params: dict[str, str]) -> None:
    answer = client.get(f"{brain}/documents", params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_appending_begins_and_then_extends(client: httpx.Client, brain: str) -> None:
    for piece in (b"a\n", b"b\n"):
        answer = client.post(f"{brain}/documents/append", params={"path": "log.md"}, content=piece)
        assert answer.status_code == 204
    assert read(client, brain, "log.md") == b"a\nb\n"


def test_appending_keeps_title_and_metadata(client: httpx.Client, brain: str) -> None:
    create(client, brain, content="text", title="Mine", path="a.md", metadata={"k": "v"})
    client.post(f"{brain}/documents/append", params={"path": "a.md"}, content=b" more")
    record = client.get(f"{brain}/documents/stat", params={"path": "a.md"}).json()["document"]
    assert (record["title"], record["metadata"], record["byte_size"]) == ("Mine", {"k": "v"}, 9)


def test_a_deleted_document_is_gone(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "x")
    statuses = [client.delete(f"{brain}/documents", params={"path": "a.md"}).status_code for _ in range(2)]
    assert statuses == [204, 404]
    assert client.get(f"{brain}/documents/read", params={"path": "a.md"}).status_code == 404


def test_renaming_moves_the_document_with_its_metadata(client: httpx.Client, brain: str) -> None:
    create(client, brain, content="x", path="a.md", metadata={"k": "v"})
    assert client.post(f"{brain}/documents/rename", json={"from": "a.md", "to": "b/c.md"}).status_code == 204
    assert client.head(f"{brain}/documents", params={"path": "a.md"}).status_code == 404
    moved = client.get(f"{brain}/documents/stat", params={"path": "b/c.md"}).json()["document"]
    assert moved["metadata"] == {"k": "v"}
    assert create(client, brain, content="new", path="a.md").json()["id"] != moved["id"]


def test_renaming_a_missing_document_is_not_found(client: httpx.Client, brain: str) -> None:
    answer = client.post(f"{brain}/documents/rename", json={"from": "a.md", "to": "b.md"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_renaming_replaces_what_is_in_the_way(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "one")
    write("b.md", "two")
    assert client.post(f"{brain}/documents/rename", json={"from": "a.md", "to": "b.md"}).status_code == 204
    assert listed(client, brain) == [("b.md", False)]
    assert client.post(f"{brain}/documents/rename", json={"from": "b.md", "to": "b.md"}).status_code == 204
    assert read(client, brain, "b.md") == b"one"


def test_an_idempotency_key_is_ignored(client: httpx.Client, brain: str) -> None:
    for _ in range(2):
        client.post(
            f"{brain}/documents/append",
            params={"path": "log.md"},
            content=b"x",
            headers={"idempotency-key": "same"},
        )
    assert read(client, brain, "log.md") == b"xx"
