"""Who may see which path, however a platform spells it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.brain.visibility import View, view_of, without_totals
from gateway.operations import names
from gateway.operations.caller import LOCAL, Caller, Principal
from tests.growth import is_linear

OWN = names.private_tree("https://login.example", "ann")
ANN = Principal("https://login.example", "ann", "client", "acme", ("orion", "Talk"))
ORION, TALK = (names.project_folder(name, "acme") for name in ("orion", "Talk"))
OWNER = names.caller_name(ANN.partition)


def view(principal: Principal = ANN, *, shared: bool = True) -> View:
    return view_of(Caller(principal.partition, principal=principal), shared=shared, actor="me")


@pytest.mark.parametrize(
    "path",
    [
        "memory/global/a.md",
        "/memory/global/a.md",
        "wiki/project/nebula/a.md",
        "memory/project",
        "memory/agent/writer/a.md",
        f"memory/agent/{OWN}/a.txt",
        f"memory/project/{ORION}/team/a.md",
        f"memory/project/{ORION}",
        f"memory/project/{TALK}/memo/a.md",
        f"sessions/{OWNER}/talk.jsonl",
        f"sessions/{OWNER}-talk/000001.md",
        f"sessions/{OWNER}-team%3Atalk%40noon/000001.md",
        f"reflections/{OWNER}-talk.md",
        f"reflections/{OWNER}-team%3Atalk%40noon.md",
    ],
)
def test_what_is_theirs_is_seen(path: str) -> None:
    assert view().sees(path)


@pytest.mark.parametrize(
    "path",
    [
        "memory/project/nebula/team/a.md",
        "memory/project/nebula",
        # The same name in another organization, or in none.
        "memory/project/orion/team/a.md",
        f"memory/project/{names.project_folder('orion', 'globex')}/a.md",
        f"memory/project/{ORION}x/a.md",
        "memory/agent/u-other/a.txt",
        "memory/agent/u-other",
        "MEMORY/Project/NEBULA/a.md",
        "/memory/project/nebula/a.md",
        "ｍemory/project/nebula/a.md",
        # What nobody can place.
        "memory//project/nebula/a.md",
        "./memory/project/nebula/a.md",
        "memory/global/../project/nebula/a.md",
        "memory\\project\\nebula\\a.md",
        "memory%2Fproject%2Fnebula/a.md",
        "memory/global/" + "a" * 2000,
        "",
        "sessions/0123456789abcdef/talk.jsonl",
        "sessions/0123456789abcdef-talk/000001.md",
        "sessions/talk/000001.md",
        f"sessions/{OWNER}",
        f"sessions/{OWNER}x-talk/000001.md",
        f"sessions/x{OWNER}-talk/000001.md",
        "reflections/0123456789abcdef-talk.md",
        "reflections/talk.md",
    ],
)
def test_what_is_not_theirs_is_not_seen(path: str) -> None:
    assert not view().sees(path)


@pytest.mark.parametrize("shared", [True, False])
def test_the_local_user_and_one_tenant_see_every_project_and_no_private_note_of_another(shared: bool) -> None:
    for seen in (view(LOCAL, shared=shared), view(ANN, shared=False)):
        assert not seen.is_limited
        assert seen.folders() == {}
        assert seen.sees("memory/project/nebula/a.md")
        assert seen.sees("sessions/0123456789abcdef/talk.jsonl")
        assert not seen.sees("memory/agent/u-other/a.txt")
        assert not seen.sees("/Memory/agent/u-other")


@pytest.mark.parametrize(
    "path",
    [
        "./memory/agent/u-other/a.txt",
        "memory/./agent/u-other/a.txt",
        "memory//agent/u-other/a.txt",
        "x/../memory/agent/u-other/a.txt",
        "memory\\agent\\u-other\\a.txt",
        "memory/%61gent/u-other/a.txt",
        "../../etc/passwd",
        "a/../b.md",
        "./a.md",
        "a//b.md",
        "a/" * 600 + "../b.md",
    ],
)
def test_one_tenant_sees_nothing_that_nobody_can_place(path: str) -> None:
    seen = view(LOCAL)
    assert not seen.sees(path)
    assert not seen.shows({"path": path})
    assert seen.sees("")


# What makes a path private, unclear or too long, and what does not.
PIECES = st.sampled_from(
    [
        "memory/",
        "agent/",
        "Agent/",
        "u-other/",
        f"{OWN}/",
        "a.md",
        "/",
        ".",
        "..",
        "\n",
        "é",
        "%61gent/",
        "\\",
        "x" * 600,
    ]
)


@given(st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=6))
def test_one_look_at_all_results_shows_what_a_look_at_each_does(paths: list[str]) -> None:
    seen = view(LOCAL)
    shown = seen.without_hidden([{"path": path} for path in paths])
    assert shown == [{"path": path} for path in paths if seen.shows({"path": path})]
    # A path that ends in a slash names no note, and hides none.
    assert all(seen.sees(hit["path"].rstrip("/")) for hit in shown)


@pytest.mark.parametrize("path", ["notes/100% sure.md", "a\\b.md", "%41.md", ".hidden.md", "notes/.hidden.md"])
def test_one_tenant_may_call_notes_what_they_like(path: str) -> None:
    assert view(LOCAL).sees(path)
    assert view(LOCAL).shows({"path": path})


@pytest.mark.parametrize("path", ["memory/global/A.md", "Wiki/a.md", f"memory/project/{ORION}/A.md", f"/{ORION}/a.md"])
def test_they_write_where_they_see(path: str) -> None:
    assert view().takes(path)
    assert view(LOCAL).takes(path)


@pytest.mark.parametrize(
    "path",
    [
        f"memory/PROJECT/{ORION}/a.md",
        f"Memory/project/{ORION}/a.md",
        f"memory/project/{ORION.upper()}/a.md",
        f"ｍemory/project/{ORION}/a.md",
        f"Reflections/{OWNER}-talk.md",
        "memory/project/nebula/a.md",
    ],
)
def test_they_do_not_write_where_only_capitals_make_it_theirs(path: str) -> None:
    """A platform that is asked to leave a project out would tell of it all the same."""
    assert not view().takes(path)
    assert view(LOCAL).takes(path)


@pytest.mark.parametrize("name", [ORION, "!talk", "a/b", ".."])
def test_a_project_that_is_named_like_the_folder_of_another_is_none(name: str) -> None:
    nobody = Principal("https://login.example", "eve", "client", None, (name,))
    assert view(nobody).projects == {}
    assert not view(nobody).sees(f"memory/project/{name}/a.md")


def test_a_platform_is_asked_to_leave_out_what_is_not_theirs() -> None:
    folders = view().folders()
    for path in (
        "memory/global/a.md",
        f"memory/project/{ORION}/a.md",
        "memory/project/nebula/a.md",
        "reflections/x.md",
    ):
        left_out = path.startswith(tuple(folders["exclude"])) and not path.startswith(tuple(folders["include"]))
        assert left_out is not view().sees(path)


def test_a_caller_of_very_many_projects_is_filtered_here_alone() -> None:
    many = Principal("i", "s", projects=tuple(f"p{n}" for n in range(200)))
    assert view(many).folders() == {}
    assert view(many).sees("memory/project/p150/a.md")
    assert not view(many).sees("memory/project/q/a.md")


def test_a_path_in_a_project_of_theirs_is_in_its_own_folder() -> None:
    assert view().place("memory/project/orion/a/b.md") == f"memory/project/{ORION}/a/b.md"
    assert view().place("memory/project/nebula/b.md") == "memory/project/nebula/b.md"
    assert view().place("memory/global/b.md") == "memory/global/b.md"
    assert view(LOCAL).place("memory/project/orion/b.md") == "memory/project/orion/b.md"


def test_nothing_hidden_is_left_at_any_depth() -> None:
    hidden = {"path": "memory/project/nebula/a.md", "content": "x"}
    shown = {"path": "memory/global/a.md", "related": [hidden, {"path": "wiki/b.md"}]}
    answer = {"hits": [hidden, shown], "more": {"chunks": [hidden]}, "messages": [{"role": "user"}], "took_ms": 1}
    assert view().without_hidden(answer) == {
        "hits": [{"path": "memory/global/a.md", "related": [{"path": "wiki/b.md"}]}],
        "more": {"chunks": []},
        "messages": [{"role": "user"}],
        "took_ms": 1,
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"chunk_id": "c"},
        {"score": 1.0, "content": "x"},
        {"path": "", "preview": "x"},
        {"path": ["memory/project/nebula/a.md"], "content": "x"},
    ],
)
def test_a_result_that_does_not_say_where_it_is_from_is_nobodys(entry: dict[str, object]) -> None:
    assert not view().shows(entry)
    assert view(LOCAL).shows(entry)


def test_what_the_platform_says_of_the_whole_goes_with_what_was_left_out() -> None:
    answer = {"query": "q", "hits": [1, 2], "total": 2, "facets": {"project": 1}, "took_ms": 3}
    assert without_totals(answer, "hits", []) == {"query": "q", "hits": [], "took_ms": 3}


def test_no_row_of_accents_is_read_slowly() -> None:
    assert is_linear(lambda n: view().sees("a" + "\u0301" * n + "\u0316" * n), 4_000)


def test_a_platform_is_asked_for_their_own_folders_alone() -> None:
    assert view().folders() == {
        "exclude": ["memory/agent/u-", "memory/project/", "sessions/", "reflections/"],
        "include": [
            f"memory/agent/{OWN}/",
            f"sessions/{OWNER}/",
            f"sessions/{OWNER}-",
            f"reflections/{OWNER}-",
            f"memory/project/{ORION}/",
            f"memory/project/{TALK}/",
        ],
    }
