"""A request that is put together by hand is the one that httpx would have made."""

from typing import Any

import httpx
import pytest

from gateway.operations.table import Upload
from gateway.upstream.dialects.dialect import Body
from gateway.upstream.wire.request import AS_SENT, request_of

FILE = ("x.md", "text/markdown", b"tea")
BODIES: dict[str, tuple[Body, dict[str, Any]]] = {
    "nothing": (Body(), {}),
    "a question": (Body(params={"q": "tea & é?", "top_k": "3"}), {"params": {"q": "tea & é?", "top_k": "3"}}),
    "bytes": (Body(content=b"\x00abc"), {"content": b"\x00abc"}),
    "JSON": (Body(json={"a": "é"}), {"content": '{"a":"é"}'.encode()}),
    "a file": (Body(upload=Upload(*FILE)), {"files": {"file": (FILE[0], FILE[2], FILE[1])}}),
}


@pytest.mark.parametrize("root", ["http://127.0.0.1:1234", "https://brains.example/", "http://brains.example/below/"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("name", BODIES)
def test_it_is_what_httpx_makes(root: str, method: str, name: str) -> None:
    body, given = BODIES[name]
    path = "/v1/brains/a%2Fb/documents"
    made = request_of(method, root, path, body, {"x-request-id": "1"}, seconds=30, connect=5)
    expected = httpx.Request(method, root.rstrip("/") + path, **given)
    assert (made.method, made.url.copy_with(query=None)) == (method, expected.url.copy_with(query=None))
    # httpx writes a space in another way, which means the same.
    assert made.url.params == expected.url.params
    assert made.headers["host"] == expected.headers["host"]
    if body.upload is None:
        assert made.content == expected.content
        assert made.headers.get("content-length") == expected.headers.get("content-length")
    else:
        assert made.headers["content-type"].startswith("multipart/form-data")
    assert made.extensions["timeout"] == {"connect": 5, "read": 30, "write": 30, "pool": 5}


@pytest.mark.parametrize("root", ["http://127.0.0.1:1234", "https://brains.example/below/"])
@pytest.mark.parametrize("name", [name for name, (body, _) in BODIES.items() if body.upload is None])
def test_its_head_says_what_it_says(root: str, name: str) -> None:
    made = request_of("POST", root, "/v1/brains", BODIES[name][0], {"x-request-id": "1"}, seconds=None, connect=5)
    origin, head = made.extensions[AS_SENT]
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert (origin + first.split(b" ")[1].decode(), first.split(b" ")[::2]) == (str(made.url), [b"POST", b"HTTP/1.1"])
    assert [tuple(line.split(b": ", 1)) for line in lines] == made.headers.raw


@pytest.mark.parametrize("sign", ["\r\n", "\n", "\r", "\0"])
def test_a_header_begins_no_line_of_its_own(sign: str) -> None:
    said = {"x-llm-api-key": f"a{sign}x-internal-key: b"}
    with pytest.raises(httpx.LocalProtocolError):
        request_of("GET", "http://127.0.0.1:1", "/v1/brains", Body(), said, seconds=None, connect=5)
