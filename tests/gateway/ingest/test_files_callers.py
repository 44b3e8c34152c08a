"""Where callers are many: each reads in a directory of their own below the roots, and nowhere else."""

from pathlib import Path

import pytest

from gateway.ingest.files import Roots
from gateway.operations.errors import GatewayError
from tests.gateway.ingest.races import INSIDE, SECRET, WAYS, use


@pytest.fixture(params=WAYS, autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use(request.param, monkeypatch)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two roots, one of them also by a link, with directories of two callers."""
    for root in ("root", "second"):
        for caller, content in (("ann", INSIDE), ("bob", SECRET)):
            (tmp_path / root / caller / "sub").mkdir(parents=True)
            (tmp_path / root / caller / "note.md").write_bytes(content)
            (tmp_path / root / caller / "sub" / "deep.md").write_bytes(content)
        (tmp_path / root / "note.md").write_bytes(SECRET)
    (tmp_path / "alias").symlink_to("root")
    (tmp_path / "root" / "linked").symlink_to("bob")
    (tmp_path / "root" / "loop").symlink_to("loop")
    (tmp_path / "root" / "file").write_bytes(SECRET)
    return tmp_path


def outcome(roots: Roots, path: str) -> bytes:
    try:
        return roots.read(path)
    except GatewayError as error:
        return error.code.encode()


@pytest.mark.parametrize(
    "path",
    [
        "note.md",
        "sub/deep.md",
        "../ann/note.md",
        "{base}/root/ann/note.md",
        "{base}/alias/ann/note.md",
        "{base}/second/ann/sub/deep.md",
    ],
)
def test_a_caller_reads_below_their_own_directory_of_any_root(base: Path, path: str) -> None:
    roots = Roots([base / "alias", base / "second"])
    assert outcome(roots.of("ann"), path.format(base=base)) == INSIDE


@pytest.mark.parametrize(
    "path",
    [
        "..",
        ".",
        "../note.md",
        "../bob/note.md",
        "../bob/missing.md",
        "sub/../../bob/note.md",
        "{base}/root/note.md",
        "{base}/root/bob/note.md",
        "{base}/alias/bob/note.md",
        "{base}/second/bob/note.md",
        "{base}/root/linked/note.md",
        "{base}/root/ann",
        "{base}/root/annex/note.md",
        "{base}/root",
    ],
)
def test_a_caller_reads_nothing_of_anybody_else(base: Path, path: str) -> None:
    roots = Roots([base / "alias", base / "second"])
    assert outcome(roots.of("ann"), path.format(base=base)) == b"file_not_allowed"


@pytest.mark.parametrize(
    ("caller", "code"),
    [
        ("nobody", b"not_found"),
        ("file", b"not_found"),
        ("linked", b"file_not_allowed"),
        ("loop", b"file_not_allowed"),
    ],
)
def test_a_caller_without_a_directory_reads_nothing(base: Path, caller: str, code: bytes) -> None:
    own = Roots([base / "root"]).of(caller)
    assert {outcome(own, path) for path in ("note.md", "sub/deep.md", f"{base}/root/{caller}/note.md")} == {code}
    assert outcome(own, "../bob/note.md") == b"file_not_allowed"


def test_what_is_one_callers_leaves_the_roots_as_they_were(base: Path) -> None:
    roots = Roots([base / "root"])
    roots.of("ann")
    assert outcome(roots, "note.md") == SECRET
    assert outcome(roots.of("ann"), "note.md") == INSIDE


def test_without_a_root_a_caller_reads_nothing(base: Path) -> None:
    assert outcome(Roots([]).of("ann"), f"{base}/root/ann/note.md") == b"file_not_allowed"
