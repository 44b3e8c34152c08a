"""Which directories are no roots: the whole machine, and the home directory with whatever holds it."""

import os
from pathlib import Path

import pytest

from gateway.cli.prepare import local_roots
from gateway.config.settings import BadSetting, load
from gateway.config.unsafe_settings import check_local, check_serving
from gateway.ingest.files import Roots
from gateway.operations.errors import GatewayError
from tests.gateway.conftest import code_of, structured
from tests.served import stdio_client


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, behind a link as on some systems, with a project in it."""
    (tmp_path / "users" / "ann" / "project").mkdir(parents=True)
    (tmp_path / "ann").symlink_to(tmp_path / "users" / "ann")
    (tmp_path / "top").symlink_to("/")
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    return tmp_path / "users" / "ann"


def too_wide(home: Path) -> list[Path]:
    above = home.parents[1]
    return [Path("/"), Path("//"), above / "top", home, home / "project" / "..", above / "ann", home.parent, above]


def test_they_are_refused_where_they_are_set(home: Path) -> None:
    for root in too_wide(home):
        settings = load(ingest_roots=f"{home / 'project'}:{root}")
        for check in (check_local, check_serving):
            with pytest.raises(BadSetting) as caught:
                check(settings)
            assert str(caught.value) == (
                f"BRAINS_INGEST_ROOTS names {root}, which holds keys and passwords too: "
                "name a directory below your home directory, or one elsewhere."
            )


def test_what_is_below_or_beside_is_taken(home: Path) -> None:
    for root in (home / "project", home.parents[1] / "ann" / "project"):
        check_local(load(ingest_roots=(root,)))
        check_serving(load(ingest_roots=(root,)))


def test_the_directory_we_are_started_in_is_a_root_unless_it_is_one_of_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home / "project")
    assert local_roots(load()) == (home / "project",)
    for wide in too_wide(home):
        monkeypatch.chdir(wide)
        assert local_roots(load()) == ()
        assert local_roots(load(ingest_roots=(home / "project",))) == (home / "project",)
        assert local_roots(load(ingest_roots=())) is None


def test_without_a_home_there_is_the_top_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    check_local(load(ingest_roots=(tmp_path,)))
    with pytest.raises(BadSetting, match="BRAINS_INGEST_ROOTS names /,"):
        check_local(load(ingest_roots=(Path("/"),)))


def test_without_a_root_every_file_is_refused_with_what_to_set() -> None:
    for path in ("/etc/passwd", "x.md", "a\0b"):
        with pytest.raises(GatewayError) as caught:
            Roots(()).read(path)
        assert caught.value.code == "file_not_allowed"
        assert "Set BRAINS_INGEST_ROOTS" in caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize("place", ["top", "home"])
async def test_a_client_that_starts_us_there_opens_nothing(tmp_path: Path, place: str) -> None:
    settings = {"BRAINS_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    where = Path("/") if place == "top" else tmp_path
    async with stdio_client("modern", where, PYTHONPATH=os.getcwd(), **settings) as client:
        assert "memory_ingest_file" in [tool.name for tool in await client.list_tools()]
        for path in ("/etc/passwd", str(tmp_path / "secret.md"), "secret.md"):
            result = await client.call_tool("memory_ingest_file", {"path": path}, raise_on_error=False)
            assert code_of(result) == "file_not_allowed"
            assert structured(result)["message"].endswith("Set BRAINS_INGEST_ROOTS to the directories it may read.")
