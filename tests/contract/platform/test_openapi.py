"""The OpenAPI file describes exactly the routes there are."""

import httpx

from contract.platform.app import endpoints
from contract.platform.ingest import Page
from contract.platform.refusal import STATUS_BY_CODE
from tests.contract.platform.conftest import PAGES, Json
from tests.contract.platform.specification import Specification

BRAIN = "/v1/brains/described"


def test_every_route_is_described_and_every_description_is_a_route(specification: Specification) -> None:
    routes = {(method, path) for path, methods in endpoints(with_fetch=True).items() for method in methods}
    assert set(specification.operations()) == routes


def test_operation_ids_are_unique(specification: Specification) -> None:
    ids = list(specification.operations().values())
    assert len(ids) == len(set(ids))


def test_every_code_of_a_problem_is_described(specification: Specification) -> None:
    described = specification.document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert set(described) == set(STATUS_BY_CODE)


def test_path_parameters_are_declared(specification: Specification) -> None:
    for template, methods in specification.document["paths"].items():
        declared = {item["$ref"].rpartition("/")[2] for item in methods.get("parameters", [])}
        assert declared == {name for name in ("brain", "session") if f"{{{name}}}" in template}


def test_every_operation_answers_as_described(client: httpx.Client, specification: Specification) -> None:
    """The client holds each answer against the file; here each operation succeeds once."""
    PAGES["https://example.com/described"] = Page("https://example.com/described", "text/plain", b"words")
    requests: list[tuple[str, str, str, Json]] = [
        ("healthz", "GET", "/healthz", {}),
        ("models", "GET", "/v1/models", {}),
        ("try_models", "POST", "/v1/models", {}),
        ("create_brain", "POST", "/v1/brains", {"json": {"name": "Described"}}),
        ("list_brains", "GET", "/v1/brains", {}),
        ("get_brain", "GET", BRAIN, {}),
        ("create_document", "POST", f"{BRAIN}/documents", {"json": {"content": "# Words", "path": "a.md"}}),
        ("put_document", "PUT", f"{BRAIN}/documents", {"params": {"path": "b.md"}, "content": b"words"}),
        ("append_document", "POST", f"{BRAIN}/documents/append", {"params": {"path": "b.md"}, "content": b"!"}),
        ("head_document", "HEAD", f"{BRAIN}/documents", {"params": {"path": "a.md"}}),
        ("list_documents", "GET", f"{BRAIN}/documents", {}),
        ("read_document", "GET", f"{BRAIN}/documents/read", {"params": {"path": "a.md"}}),
        ("stat_document", "GET", f"{BRAIN}/documents/stat", {"params": {"path": "a.md"}}),
        ("rename_document", "POST", f"{BRAIN}/documents/rename", {"json": {"from": "b.md", "to": "c.md"}}),
        ("batch_documents", "POST", f"{BRAIN}/documents/batch-ops", {"json": {"ops": []}}),
        ("ingest_file", "POST", f"{BRAIN}/documents/ingest/file", {"files": {"file": ("f.md", b"file")}}),
        ("ingest_url", "POST", f"{BRAIN}/documents/ingest/url", {"json": {"url": "https://example.com/described"}}),
        ("search", "GET", f"{BRAIN}/search", {"params": {"q": "words"}}),
        ("ask", "POST", f"{BRAIN}/ask", {"json": {"query": "words"}}),
        ("add_message", "POST", f"{BRAIN}/sessions/s/messages", {"json": {"role": "user", "content": "I like words."}}),
        ("list_messages", "GET", f"{BRAIN}/sessions/s/messages", {}),
        ("get_session", "GET", f"{BRAIN}/sessions/s", {}),
        ("recall", "POST", f"{BRAIN}/sessions/s/recall", {"json": {"query": "words"}}),
        ("recall_in_brain", "POST", f"{BRAIN}/recall", {"json": {"query": "words"}}),
        ("close_session", "POST", f"{BRAIN}/sessions/s/close", {"json": {}}),
        ("consolidate", "POST", f"{BRAIN}/consolidate", {"json": {}}),
        ("compile", "POST", f"{BRAIN}/compile", {"json": {}}),
        ("delete_document", "DELETE", f"{BRAIN}/documents", {"params": {"path": "a.md"}}),
        ("delete_brain", "DELETE", BRAIN, {"headers": {"x-confirm-delete": "yes"}}),
    ]
    answered = {name: client.request(method, path, **rest).status_code for name, method, path, rest in requests}
    # A stream without an end, and what takes a language model, have tests of their own.
    assert {*answered, "events", "derive"} == set(specification.operations().values())
    assert {name: status for name, status in answered.items() if status >= 400} == {}
    assert all((name, status) in specification.seen for name, status in answered.items())
