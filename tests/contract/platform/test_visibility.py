"""Who sees what: brains by their owner and organization, folders that are left out, what is over, what is derived."""

from datetime import datetime
from pathlib import Path

import httpx
import pytest

from contract.platform.store import Store
from tests.contract.platform.conftest import Json
from tests.contract.platform.old_files import write_file_of_version

PAST, FUTURE = "2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00"


def caller(name: str, org: str | None = None) -> dict[str, str]:
    return {"x-brains-caller": name, **({} if org is None else {"x-brains-org": org})}


def make(client: httpx.Client, slug: str, visibility: str, headers: dict[str, str]) -> Json:
    answer = client.post(
        "/v1/brains", json={"name": slug.title(), "slug": slug, "visibility": visibility}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    made: Json = answer.json()
    return made


def seen(client: httpx.Client, headers: dict[str, str]) -> set[str]:
    return {brain["id"] for brain in client.get("/v1/brains", headers=headers).json()["items"]}


def test_a_brain_is_seen_by_those_it_is_for(client: httpx.Client) -> None:
    alice = caller("alice", "acme")
    brains = {kind: make(client, f"seen-{kind}", kind, alice)["id"] for kind in ("private", "tenant", "public")}
    for headers, kinds in (
        (alice, {"private", "tenant", "public"}),
        (caller("bob", "acme"), {"tenant", "public"}),
        (caller("carol", "globex"), {"public"}),
        # The same name in another organization is another person.
        (caller("alice", "globex"), {"public"}),
        (caller("dora"), {"public"}),
        # Whoever comes without a caller is the one tenant there is.
        ({}, {"private", "tenant", "public"}),
    ):
        assert seen(client, headers) & set(brains.values()) == {brains[kind] for kind in kinds}
        for kind, brain in brains.items():
            for name in (brain, f"seen-{kind}"):
                status = client.get(f"/v1/brains/{name}/search", params={"q": "x"}, headers=headers).status_code
                assert status == (200 if kind in kinds else 404), (headers, name)


def test_a_brain_that_is_not_theirs_is_told_as_one_that_is_not_there(client: httpx.Client) -> None:
    make(client, "hidden-one", "private", caller("alice", "acme"))
    bob = caller("bob", "acme")
    hidden, absent = (client.get(f"/v1/brains/{name}/search?q=x", headers=bob) for name in ("hidden-one", "absent-one"))
    assert hidden.text.replace("hidden-one", "absent-one") == absent.text


def test_a_name_is_not_taken_by_a_brain_that_the_caller_does_not_see(client: httpx.Client) -> None:
    """Else the refusal would tell that somebody has a brain of that name."""
    first = make(client, "same-name", "private", caller("alice", "acme"))
    second = make(client, "same-name", "private", caller("carol", "globex"))
    assert first["id"] != second["id"]
    for headers, mine in ((caller("alice", "acme"), first), (caller("carol", "globex"), second)):
        assert client.get("/v1/brains/same-name", headers=headers).json()["id"] == mine["id"]
        again = {"name": "x", "slug": "same-name"}
        assert client.post("/v1/brains", json=again, headers=headers).status_code == 409


def test_a_name_means_the_callers_own_brain_first(client: httpx.Client) -> None:
    own = make(client, "nearest", "private", caller("alice", "acme"))
    public = make(client, "nearest", "public", caller("carol", "globex"))
    assert client.get("/v1/brains/nearest", headers=caller("alice", "acme")).json()["id"] == own["id"]
    assert client.get("/v1/brains/nearest", headers=caller("bob", "acme")).json()["id"] == public["id"]


def test_organizations_are_told_apart_by_all_their_letters(client: httpx.Client) -> None:
    made = make(client, "umlaut", "tenant", caller("alice", "%C3%A4cme"))
    assert made["id"] in seen(client, caller("bob", "%c3%a4cme"))
    assert made["id"] not in seen(client, caller("bob", "acme"))


NOTES = {
    "memory/global/a.md": "zebra for all\n",
    "memory/project/orion/team/b.md": "zebra of orion\n",
    "memory/project/nebula/team/c.md": "zebra of nebula\n",
    "memory/agent/u-alice/d.md": "zebra of alice\n",
    "raw/documents/e.md": "zebra ingested\n",
}


@pytest.fixture
def filled(client: httpx.Client, brain: str) -> str:
    for path, text in NOTES.items():
        client.put(f"{brain}/documents", params={"path": path}, content=text.encode())
    return brain


@pytest.mark.parametrize(
    ("exclude", "include", "left_out"),
    [
        (["memory/project/"], [], {"memory/project/orion/team/b.md", "memory/project/nebula/team/c.md"}),
        (["memory/project/"], ["memory/project/orion/"], {"memory/project/nebula/team/c.md"}),
        (["memory/project/", "memory/agent/u-"], ["memory/project/nebula/", "memory/agent/u-alice/"],
         {"memory/project/orion/team/b.md"}),
        (["/memory/agent/"], ["raw/"], {"memory/agent/u-alice/d.md"}),
        (["memory/", "raw/"], [], set(NOTES)),
    ],
)  # fmt: skip
def test_folders_are_left_out(
    client: httpx.Client, filled: str, exclude: list[str], include: list[str], left_out: set[str]
) -> None:
    """By all three that find something, and what an answer says comes from the rest."""
    folders = {"exclude": exclude, "include": include}
    expected = set(NOTES) - left_out
    found = client.get(f"{filled}/search", params={"q": "zebra", **folders}).json()["hits"]
    assert {hit["path"] for hit in found} == expected
    recalled = client.post(f"{filled}/sessions/s/recall", json={"query": "zebra", **folders}).json()["chunks"]
    assert {hit["path"] for hit in recalled} == expected
    answer = client.post(f"{filled}/ask", json={"query": "zebra", **folders}).text
    assert not [path for path in left_out if path in answer or NOTES[path].strip() in answer]


def test_as_many_hits_come_as_without_what_is_left_out(client: httpx.Client, brain: str) -> None:
    for number in range(60):
        text = "heron heron heron\n" if number < 50 else "a heron among many other words of a longer note\n"
        folder = "nebula" if number < 50 else "orion"
        client.put(f"{brain}/documents", params={"path": f"memory/project/{folder}/{number}.md"}, content=text.encode())
    folders = {"exclude": "memory/project/", "include": "memory/project/orion/"}
    assert len(client.get(f"{brain}/search", params={"q": "heron", "top_k": 10, **folders}).json()["hits"]) == 10


@pytest.mark.parametrize("wrong", ["memory/", 7, {"a": 1}, [7], [""], ["x" * 2000], ["a"] * 101])
def test_folders_are_a_list_of_strings(client: httpx.Client, brain: str, wrong: object) -> None:
    for route in ("ask", "sessions/s/recall"):
        refused = client.post(f"{brain}/{route}", json={"query": "x", "exclude": wrong})
        assert refused.status_code == 400
        assert "exclude" in refused.json()["detail"]


@pytest.mark.parametrize("front", [f"expires: {PAST}", f"expires: '{PAST}'", "dead: true"])
def test_what_is_over_is_not_found(client: httpx.Client, brain: str, front: str) -> None:
    for path, head in (("a.md", front), ("b.md", f"expires: {FUTURE}"), ("c.md", "dead: false"), ("d.md", "x: y")):
        client.put(f"{brain}/documents", params={"path": path}, content=f"---\n{head}\n---\nsecret walrus\n".encode())
    answer = client.get(f"{brain}/search", params={"q": "walrus"}).json()
    assert {hit["path"] for hit in answer["hits"]} == {"b.md", "c.md", "d.md"}
    assert answer["live"] is True
    assert "a.md" not in client.post(f"{brain}/ask", json={"query": "walrus"}).text
    assert "a.md" not in client.post(f"{brain}/sessions/s/recall", json={"query": "walrus"}).text


def test_what_ends_between_two_searches_is_found_by_the_first_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    brain = store.create_brain("Ending")
    store.documents.put(brain, "a.md", f"---\nexpires: {FUTURE}\n---\nbrief mayfly\n".encode())
    assert store.search(brain, "mayfly", 5).hits
    later = datetime.fromisoformat(FUTURE).timestamp() + 1
    monkeypatch.setattr("contract.platform.search.time.time", lambda: later)
    assert not store.search(brain, "mayfly", 5).hits


def test_a_file_of_before_knows_what_is_over(data_dir: Path) -> None:
    documents = {
        "a.md": f"---\nexpires: {PAST}\n---\nwalrus\n",
        "b.md": "---\ndead: true\n---\nwalrus\n",
        "c.md": "walrus that expires: never, and is not dead: true\n",
    }
    write_file_of_version(2, data_dir, documents)
    store = Store.open(data_dir)
    brain = store.brain("main")
    assert [hit.path for hit in store.search(brain, "walrus", 5).hits] == ["c.md"]
    assert [store.documents.read(brain, path).decode() for path in documents] == list(documents.values())
    # Its messages, chunks and documents hang on the brain's row, which was written anew.
    store.delete_brain(brain)
    assert store.brains() == []
    store.close()


def test_what_is_extracted_from_a_session_is_its_callers(client: httpx.Client, brain: str) -> None:
    said = {"role": "user", "content": "My locker is number 4711."}
    for headers in (caller("u-alice"), {}):
        assert client.post(f"{brain}/sessions/s/messages", json=said, headers=headers).status_code == 201
    found = client.get(f"{brain}/search", params={"q": "locker"}).json()["hits"]
    folders = sorted(hit["path"].rpartition("/")[0] for hit in found)
    assert folders == ["memory/agent/u-alice", "memory/global"]


def test_what_is_extracted_stays_where_its_source_is(client: httpx.Client, brain: str) -> None:
    for project in ("orion", "nebula"):
        transcript = {"content": "user: We decided to use teal paint.", "source": "extract"}
        client.post(f"{brain}/documents", json={**transcript, "path": f"memory/project/{project}/talk.md"})
    paths = [item["path"] for item in client.get(f"{brain}/documents", params={"recursive": "true"}).json()["items"]]
    extracted = sorted(path.rpartition("/")[0] for path in paths if "extracted-" in path)
    assert extracted == ["memory/project/nebula", "memory/project/orion"]
    # The same sentence in two projects is two notes, and stays two.
    assert client.post(f"{brain}/consolidate", json={}).json()["duplicates_removed"] == 0


def test_an_overview_tells_of_its_own_tree_alone(client: httpx.Client, filled: str) -> None:
    client.put(f"{filled}/documents", params={"path": "reflections/s.md"}, content=b"# What Alice said\n")
    client.post(f"{filled}/consolidate", json={})
    overview = client.get(f"{filled}/documents/read", params={"path": "wiki/_overview.md"}).text
    assert [word for word in ("memory/global/a.md", "raw/documents/e.md") if word not in overview] == []
    assert [word for word in ("project", "agent", "Alice") if word in overview] == []
    orion = client.get(f"{filled}/documents/read", params={"path": "memory/project/orion/_overview.md"}).text
    assert "orion/team/b.md" in orion
    assert "nebula" not in orion


def test_scores_tell_nothing_of_what_is_left_out(client: httpx.Client, brain: str) -> None:
    """Else the score of one's own note would say whether a word is in anybody else's, and how many notes there are."""

    def write(path: str, text: str) -> None:
        assert client.put(f"{brain}/documents", params={"path": path}, content=text).is_success

    def scores() -> list[float]:
        queries = ("zebra", "zebra initech", "zebra contoso", "zebra initech contoso")
        found = [client.get(f"{brain}/search", params={"q": q, "exclude": "memory/project/"}) for q in queries]
        return [hit["score"] for answer in found for hit in answer.json()["hits"]]

    write("memory/global/probe.md", "zebra")
    write("memory/global/other.md", "contoso")
    before = scores()
    for number in range(5):
        write(f"memory/project/vega/{number}.md", f"Initech {number} and a zebra.")
    assert scores() == before
