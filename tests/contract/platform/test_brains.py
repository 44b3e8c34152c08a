"""Brains: created, found by id or slug, listed, deleted."""

import hashlib
import sqlite3

import httpx
import pytest

from contract.platform import brains
from contract.platform.app import create_app
from contract.platform.brains import ANYBODY, Brain, Caller
from contract.platform.store import Store
from tests.contract.platform.serving import served


def test_a_new_platform_has_one_private_brain_called_main(store: Store) -> None:
    first = store.brains()[0]
    assert (first.slug, first.name, first.visibility) == ("main", "Main", "private")
    assert first.id.startswith("brn_")


def test_brains_are_listed_oldest_first(client: httpx.Client) -> None:
    slugs = [client.post("/v1/brains", json={"name": name}).json()["slug"] for name in ("Zebra order", "Ant order")]
    listed = [item["slug"] for item in client.get("/v1/brains").json()["items"]]
    assert listed[0] == "main"
    assert [slug for slug in listed if slug in slugs] == slugs


def test_a_created_brain_is_found_by_id_and_by_slug(client: httpx.Client) -> None:
    body = {"name": "Field notes", "slug": "field-notes", "visibility": "tenant"}
    made = client.post("/v1/brains", json=body)
    assert made.status_code == 201
    assert made.json() | body == made.json()
    assert client.get(f"/v1/brains/{made.json()['id']}").json() == made.json()
    assert client.get("/v1/brains/field-notes").json() == made.json()


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Crème Brûlée & Co.", "creme-brulee-co"),
        ("  --Plans 2027--  ", "plans-2027"),
        ("日本語", "brain-" + hashlib.sha256("日本語".encode()).hexdigest()[:8]),
        ("x" * 100, "x" * 64),
    ],
)
def test_without_a_slug_one_is_derived_from_the_name(client: httpx.Client, name: str, slug: str) -> None:
    assert client.post("/v1/brains", json={"name": name}).json()["slug"] == slug


def test_a_slug_that_exists_is_a_conflict(client: httpx.Client) -> None:
    client.post("/v1/brains", json={"name": "Twice"})
    again = client.post("/v1/brains", json={"name": "twice!"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "n" * 129},
        {"name": 7},
        {"name": "n", "slug": ""},
        {"name": "n", "slug": "-a"},
        {"name": "n", "slug": "A"},
        {"name": "n", "slug": "../evil"},
        {"name": "n", "slug": "a\n"},
        {"name": "n", "slug": "s" * 65},
        {"name": "n", "visibility": "secret"},
    ],
)
def test_a_malformed_brain_is_refused(client: httpx.Client, body: dict[str, object]) -> None:
    answer = client.post("/v1/brains", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_deleting_a_brain_needs_to_be_confirmed(client: httpx.Client, brain: str) -> None:
    for headers in ({}, {"x-confirm-delete": "true"}):
        refused = client.delete(brain, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (428, "confirmation_required")
    assert client.get(brain).status_code == 200


def test_a_deleted_brain_is_gone_with_all_it_held(client: httpx.Client) -> None:
    made = client.post("/v1/brains", json={"name": "Doomed"}).json()
    root = f"/v1/brains/{made['id']}"
    client.put(f"{root}/documents", params={"path": "a.md"}, content="quicksilver")
    client.post(f"{root}/sessions/s/messages", json={"role": "user", "content": "I like tea."})

    assert client.delete(root, headers={"x-confirm-delete": "yes"}).status_code == 204

    for gone in (root, "/v1/brains/doomed"):
        answer = client.get(f"{gone}/documents/read", params={"path": "a.md"})
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"brain not found: {gone.rpartition('/')[2]}"
    again = client.post("/v1/brains", json={"name": "Doomed"}).json()
    assert again["id"] != made["id"]
    assert client.get("/v1/brains/doomed/search", params={"q": "quicksilver tea"}).json()["hits"] == []


def test_brains_do_not_see_each_other(client: httpx.Client, brain: str) -> None:
    other = f"/v1/brains/{client.post('/v1/brains', json={'name': 'Neighbour'}).json()['id']}"
    client.put(f"{other}/documents", params={"path": "a.md"}, content="heliotrope")
    assert client.get(f"{brain}/search", params={"q": "heliotrope"}).json()["hits"] == []
    assert client.get(f"{brain}/documents/read", params={"path": "a.md"}).status_code == 404
    assert client.get(f"{brain}/documents").json() == {"items": []}


def test_without_a_token_nobody_needs_one(store: Store) -> None:
    with served(create_app(store, token=None)) as base:
        assert httpx.get(f"{base}/v1/brains").status_code == 200


@pytest.mark.parametrize("at_a_glance", [True, False])
@pytest.mark.parametrize("suffix", ["/documents?path=a.md", "/search?q=x"])
def test_a_brain_deleted_in_the_middle_of_a_request_is_not_found(store: Store, suffix: str, at_a_glance: bool) -> None:
    made = store.create_brain("Vanishing")

    class Deleting(Store):
        """Deletes the brain right after it was found."""

        def glance_at_brain(self, reference: str, caller: Caller = ANYBODY) -> Brain | None:
            return self.brain(reference, caller) if at_a_glance else None

        def brain(self, reference: str, caller: Caller = ANYBODY) -> Brain:
            found = super().brain(reference, caller)
            self.delete_brain(found)
            return found

    with served(create_app(Deleting(store._database), token=None)) as base:
        method = "PUT" if "path" in suffix else "GET"
        answer = httpx.request(method, f"{base}/v1/brains/{made.id}{suffix}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"brain not found: {made.id}"


def test_a_glance_finds_what_a_caller_sees_and_waits_for_nobody(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = Caller("ann"), Caller("bob")
    made = store.create_brain("Hers", caller=ann)
    assert store.glance_at_brain(made.id, ann) == store.glance_at_brain(made.slug, ann) == made
    assert store.glance_at_brain(made.id, bob) is None
    with store._database.writing() as connection:
        connection.execute("UPDATE brains SET name = 'Ours'")
        assert store.glance_at_brain(made.id, ann) == made

    def refuse(*_arguments: object) -> Brain:
        raise sqlite3.OperationalError("database is locked")

    with monkeypatch.context() as locked:
        locked.setattr(brains, "seen_as", refuse)
        assert store.glance_at_brain(made.id, ann) is None
    assert store.glance_at_brain(made.id, ann) is not None
    assert store.problem() is None
