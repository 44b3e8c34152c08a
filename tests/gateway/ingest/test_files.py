"""Local files for ingest: what lies below a root, and nothing else."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from gateway.ingest.files import FILE_BYTES, Roots
from gateway.operations.errors import GatewayError
from tests.gateway.ingest.races import INSIDE, SECRET, WAYS, use

OTHER_FILE_SYSTEM = "Files on another file system than their directory are not ingested."
# More than one system call takes as a path.
DEEP = "d" * 200 + "/"
DEPTH = 25


@pytest.fixture(params=WAYS, autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here, by either way to open a file."""
    use(request.param, monkeypatch)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with all kinds of things in it, and a secret beside it."""
    base = tmp_path_factory.mktemp("tree")
    root, outside = base / "root", base / "outside"
    (root / "sub" / "deeper").mkdir(parents=True)
    outside.mkdir()
    (base / "root-not").mkdir()
    for secret in (outside / "secret.md", base / "secret.md", base / "root-not" / "secret.md"):
        secret.write_bytes(SECRET)
    for name in (
        "note.md",
        "sub/deep.md",
        "sub/deeper/deepest.md",
        "with space.md",
        "grün.md",
        "-rf",
        "..md",
        "a\nb.md",
        "b" * 255,
    ):
        (root / name).write_bytes(INSIDE)
    (root / os.fsdecode(b"\xff\xfe.md")).write_bytes(INSIDE)
    (root / "empty.md").touch()
    _links(root, outside)
    os.mkfifo(root / "fifo")
    os.mknod(root / "socket", stat.S_IFSOCK | 0o600)
    for name, size in (("full.bin", FILE_BYTES), ("over.bin", FILE_BYTES + 1), ("sparse.bin", 1 << 40)):
        with (root / name).open("wb") as file:
            file.truncate(size)
    (base / "alias").symlink_to(root)
    _dig(root)
    return base


def _dig(root: Path) -> None:
    """A file so far down that its path is too long to be opened at once."""
    directory = os.open(root, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir(DEEP, dir_fd=directory)
        below = os.open(DEEP, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    with open("far-down.md", "wb", opener=lambda name, flags: os.open(name, flags, 0o600, dir_fd=directory)) as file:
        file.write(INSIDE)
    os.symlink("far-down.md", "link.md", dir_fd=directory)
    os.close(directory)


def _links(root: Path, outside: Path) -> None:
    (root / "link-inside.md").symlink_to("note.md")
    (root / "link-outside.md").symlink_to("../outside/secret.md")
    (root / "link-absolute.md").symlink_to(outside / "secret.md")
    (root / "link-nowhere.md").symlink_to("missing.md")
    (root / "link-loop.md").symlink_to("link-loop.md")
    (root / "link-proc.md").symlink_to("/proc/self/environ")
    (root / "link-chain.md").symlink_to("link-chain-2.md")
    (root / "link-chain-2.md").symlink_to("link-outside.md")
    (root / "link-fifo").symlink_to("fifo")
    (root / "link-device").symlink_to("/dev/zero")
    (root / "folder-loop").symlink_to("folder-loop-2")
    (root / "folder-loop-2").symlink_to("folder-loop")
    (root / "folder-cwd").symlink_to("/proc/self/cwd")
    (root / "folder-fd").symlink_to("/dev/fd")
    (root / "folder-inside").symlink_to("sub")
    (root / "folder-outside").symlink_to(outside)
    (root / "folder-root").symlink_to("/")
    (root / "sub" / "up").symlink_to("..")
    os.link(outside / "secret.md", root / "hard-outside.md")
    (root / "twice.md").write_bytes(INSIDE)
    os.link(root / "twice.md", root / "hard-inside.md")


READ = [
    "note.md",
    "./note.md",
    ".//note.md",
    "sub/deep.md",
    "sub/deeper/deepest.md",
    "sub/../note.md",
    "sub/deeper/../../note.md",
    "missing/../note.md",
    "../root/note.md",
    "note.md/",
    "{root}/note.md",
    "{root}/sub/deep.md",
    "{root}//note.md",
    "{root}/../root/note.md",
    "{base}/outside/../root/note.md",
    "with space.md",
    "grün.md",
    "-rf",
    "..md",
    "a\nb.md",
    os.fsdecode(b"\xff\xfe.md"),
    "note.md/.",
    "././/sub/.//./deep.md",
    "b" * 255,
    "folder-outside/../note.md",
    DEEP * DEPTH + "far-down.md",
    "sub/../" * 2000 + "note.md",
]

REFUSED = [
    ("missing.md", "not_found"),
    ("missing/note.md", "not_found"),
    ("note.md/below", "not_found"),
    ("NOTE.MD", "not_found"),
    ("~", "not_found"),
    ("~root/.profile", "not_found"),
    ("note.md\ud800", "not_found"),
    ("file:///etc/passwd", "not_found"),
    ("%2e%2e/secret.md", "not_found"),
    ("..%2fsecret.md", "not_found"),
    ("..\\secret.md", "not_found"),
    ("．．/secret.md", "not_found"),
    ("sub", "validation_error"),
    ("sub/", "validation_error"),
    ("empty.md", "validation_error"),
    ("a" * 256, "validation_error"),
    ("a/" * 3000, "not_found"),
    ("over.bin", "file_too_large"),
    ("", "file_not_allowed"),
    (".", "file_not_allowed"),
    ("{root}", "file_not_allowed"),
    ("{root}/", "file_not_allowed"),
    ("..", "file_not_allowed"),
    ("../secret.md", "file_not_allowed"),
    ("../outside/secret.md", "file_not_allowed"),
    ("sub/../../secret.md", "file_not_allowed"),
    ("sub/../../../../../../../../../../etc/passwd", "file_not_allowed"),
    ("../root-not/secret.md", "file_not_allowed"),
    ("{root}-not/secret.md", "file_not_allowed"),
    ("{base}/secret.md", "file_not_allowed"),
    ("{base}/missing.md", "file_not_allowed"),
    ("{root}/../secret.md", "file_not_allowed"),
    ("/etc/passwd", "file_not_allowed"),
    ("//etc/passwd", "file_not_allowed"),
    ("/", "file_not_allowed"),
    ("/proc/self/environ", "file_not_allowed"),
    ("/proc/self/root/etc/passwd", "file_not_allowed"),
    ("/dev/stdin", "file_not_allowed"),
    ("/dev/zero", "file_not_allowed"),
    ("/" + "a/" * 3000, "file_not_allowed"),
    ("note.md\0", "file_not_allowed"),
    ("note.md\0.txt", "file_not_allowed"),
    ("\0", "file_not_allowed"),
    ("link-inside.md", "file_not_allowed"),
    ("link-outside.md", "file_not_allowed"),
    ("link-absolute.md", "file_not_allowed"),
    ("link-nowhere.md", "file_not_allowed"),
    ("link-loop.md", "file_not_allowed"),
    ("link-proc.md", "file_not_allowed"),
    ("folder-inside/deep.md", "file_not_allowed"),
    ("folder-outside/secret.md", "file_not_allowed"),
    ("folder-outside/missing.md", "file_not_allowed"),
    ("folder-outside", "file_not_allowed"),
    ("folder-root/etc/passwd", "file_not_allowed"),
    ("sub/up/note.md", "file_not_allowed"),
    ("hard-outside.md", "file_not_allowed"),
    ("hard-inside.md", "file_not_allowed"),
    ("fifo", "file_not_allowed"),
    ("socket", "file_not_allowed"),
    ("gru\u0308n.md", "not_found"),
    ("note.md ", "not_found"),
    ("note.md.", "not_found"),
    ("\udcff\udcff", "not_found"),
    ("/\ud800", "file_not_allowed"),
    ("fifo/note.md", "not_found"),
    ("empty.md/../../secret.md", "file_not_allowed"),
    ("b" * 255 + "/note.md", "not_found"),
    ("sub/" + "a" * 256, "validation_error"),
    ("sparse.bin", "file_too_large"),
    (DEEP * DEPTH + "missing.md", "not_found"),
    (DEEP * DEPTH + "link.md", "file_not_allowed"),
    (DEEP * DEPTH, "validation_error"),
    ("note.md/..", "file_not_allowed"),
    ("link-chain.md", "file_not_allowed"),
    ("link-fifo", "file_not_allowed"),
    ("link-device", "file_not_allowed"),
    ("link-inside.md/", "file_not_allowed"),
    ("folder-loop/note.md", "file_not_allowed"),
    ("folder-cwd/pyproject.toml", "file_not_allowed"),
    ("folder-fd/0", "file_not_allowed"),
    ("folder-root/proc/self/environ", "file_not_allowed"),
    ("sub/up/sub/up/sub/up/note.md", "file_not_allowed"),
]


def short(text: str) -> str:
    return ascii(text[:40])


def spelled(path: str, tree: Path) -> str:
    return path.replace("{root}", str(tree / "root")).replace("{base}", str(tree))


def refusal(roots: Roots, path: str) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        roots.read(path)
    return caught.value


@pytest.fixture(autouse=True)
def _every_file_is_closed_again(tree: Path) -> Iterator[None]:
    yield
    for descriptor in Path("/proc/self/fd").glob("*"):
        with suppress(FileNotFoundError):
            assert not os.readlink(descriptor).startswith(str(tree))


@pytest.mark.parametrize("path", READ, ids=short)
def test_a_file_below_the_root_is_read_however_it_is_spelled(tree: Path, path: str) -> None:
    assert Roots([tree / "root"]).read(spelled(path, tree)) == INSIDE


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("path", "code"), REFUSED, ids=lambda value: short(value))
def test_anything_else_is_refused_without_a_word_on_where_things_are(tree: Path, path: str, code: str) -> None:
    error = refusal(Roots([tree / "root"]), spelled(path, tree))
    assert error.code == code
    assert not error.retryable
    assert str(tree) not in error.message
    assert "/" not in error.message


def test_a_file_of_exactly_the_limit_is_read_whole(tree: Path) -> None:
    assert Roots([tree / "root"]).read("full.bin") == bytes(26_214_400)


def test_outside_a_root_what_exists_and_what_does_not_are_answered_alike(tree: Path) -> None:
    roots = Roots([tree / "root"])
    existing, missing = refusal(roots, str(tree / "secret.md")), refusal(roots, str(tree / "no-secret.md"))
    assert existing.as_json("r") == missing.as_json("r")
    assert existing.message == "That file is outside the directories files may be ingested from."


def test_a_link_is_called_a_link(tree: Path) -> None:
    messages = {refusal(Roots([tree / "root"]), path).message for path in ("link-inside.md", "folder-inside/deep.md")}
    assert messages == {"Symbolic links are not followed."}


SEGMENTS = ["..", ".", "sub", "deep.md", "secret.md", "up", "outside", "root", "folder-outside"]


@pytest.mark.not_quick
def test_no_path_of_a_few_segments_leads_out(tree: Path) -> None:
    roots, read = Roots([tree / "root"]), 0
    for segments in product(SEGMENTS, repeat=4):
        with suppress(GatewayError):
            assert roots.read("/".join(segments)) == INSIDE
            read += 1
    assert read > 10


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["zero", "null", "full", "tty", "ptmx", "random"])
def test_a_device_is_not_read(name: str) -> None:
    assert refusal(Roots([Path("/dev")]), name).code == "file_not_allowed"


@pytest.mark.timeout(10)
def test_a_pipe_that_somebody_writes_to_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, SECRET)
    assert refusal(Roots([tmp_path]), "fifo").code == "file_not_allowed"
    os.close(writer)


@pytest.mark.parametrize(
    "path",
    ["self/environ", "self/root/etc/passwd", "thread-self/environ"]
    + [f"{{pid}}/{link}" for link in ("root/etc/passwd", "cwd/pyproject.toml", "exe", "fd/0", "ns/mnt", "mem")],
)
def test_links_of_the_kernel_lead_nowhere_even_where_they_are_the_root(path: str) -> None:
    assert refusal(Roots([Path("/proc")]), path.format(pid=os.getpid())).code == "file_not_allowed"


def test_a_file_that_says_it_is_empty_is_read_to_its_end() -> None:
    """Files of /proc say they are empty and are not; the same holds for one that grows under the reader."""
    assert Roots([Path("/proc/self")]).read("status").startswith(b"Name:")


@pytest.mark.parametrize("path", ["/proc/{pid}/status", "/proc/missing", "/proc"])
def test_another_file_system_below_a_root_is_not_looked_into(path: str) -> None:
    error = refusal(Roots([Path("/")]), path.format(pid=os.getpid()))
    assert (error.code, error.message) == ("file_not_allowed", OTHER_FILE_SYSTEM)


@pytest.mark.parametrize("path", ["note.md", "{base}/alias/note.md", "{root}/note.md", "{base}/alias/sub/deep.md"])
def test_a_root_behind_a_link_is_known_by_both_its_names(tree: Path, path: str) -> None:
    assert Roots([tree / "alias"]).read(spelled(path, tree)) == INSIDE


def test_the_real_name_of_a_root_does_not_open_what_lies_beside_its_link(tree: Path) -> None:
    roots = Roots([tree / "alias"])
    assert refusal(roots, str(tree / "alias" / ".." / "secret.md")).code == "file_not_allowed"
    assert refusal(roots, "../secret.md").code == "file_not_allowed"


def test_a_relative_path_is_relative_to_the_first_of_several_roots(tree: Path) -> None:
    roots = Roots([tree / "root", tree / "outside"])
    assert roots.read("note.md") == INSIDE
    assert refusal(roots, "secret.md").code == "not_found"
    assert refusal(roots, str(tree / "secret.md")).code == "file_not_allowed"


def test_a_root_inside_a_root_is_opened_as_itself(tree: Path) -> None:
    roots = Roots([tree, tree / "root" / "folder-inside"])
    assert roots.read(str(tree / "root" / "folder-inside" / "deep.md")) == INSIDE
    assert refusal(roots, str(tree / "root" / "folder-outside" / "secret.md")).code == "file_not_allowed"


def test_a_relative_root_is_where_the_process_was_then(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    roots = Roots([Path("root")])
    monkeypatch.chdir(tree / "outside")
    assert roots.read("note.md") == INSIDE
    assert refusal(roots, "secret.md").code == "not_found"


def test_without_a_root_nothing_is_read(tree: Path) -> None:
    assert refusal(Roots([]), str(tree / "root" / "note.md")).code == "file_not_allowed"


def test_a_root_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    roots = Roots([root])
    root.rmdir()
    assert refusal(roots, "note.md").code == "not_found"


def test_a_root_that_became_a_link_is_not_followed(tree: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    roots = Roots([root])
    root.rmdir()
    root.symlink_to(tree / "root-not")
    assert refusal(roots, "secret.md").code in {"not_found", "file_not_allowed"}
