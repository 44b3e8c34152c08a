"""What a command needs before it can run."""

import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from gateway.app.embedded import embedder_of, sentences_of
from gateway.app.gateway import deadlines_of
from gateway.app.startup import CannotStart, check_data_dir, listening_socket, say
from gateway.config.settings import load
from tests.daemons.real import free_port


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_socket_listens_before_anything_serves_it(host: str) -> None:
    port = free_port()
    with listening_socket(host, port) as bound, socket.create_connection((host, port), timeout=5):
        assert bound.getsockname()[1] == port


def test_a_port_that_is_taken_is_said_with_its_fix() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart) as caught:
            listening_socket("127.0.0.1", port)
    assert (
        str(caught.value)
        == f"Port {port} is in use: stop what listens there, or choose another with --port (make run: BRAINS_PORT)."
    )


PASSED = """
import os, socket, sys
from gateway.cli.main import main
listening = socket.create_server((sys.argv[1], 0))
os.dup2(listening.fileno(), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2], BRAINS_HOST="127.0.0.1")
main(["serve"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "sockets", "code", "said"),
    [
        ("0.0.0.0", "1", 2, "BRAINS_HOST is 0.0.0.0, which others can reach, and callers need no token"),
        ("127.0.0.1", "2", 1, "systemd passed several sockets"),
    ],
)
def test_a_socket_of_systemd_does_not_get_round_the_gates(host: str, sockets: str, code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PASSED, host, sockets], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert said in done.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "fe80::1%no-such-interface", "a..b", "x" * 64])
def test_an_address_of_another_machine_is_said_with_its_fix(host: str) -> None:
    with pytest.raises(CannotStart) as caught:
        listening_socket(host, free_port())
    assert str(caught.value) == f"{host} is not an address of this machine: choose another with --host."


def test_a_data_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    check_data_dir(data_dir)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    check_data_dir(data_dir)


@pytest.mark.parametrize("name", ["file", "file/below", "file/below/deeper"])
def test_a_data_directory_that_cannot_be_is_said_with_its_fix(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotStart) as caught:
        check_data_dir(tmp_path / name)
    assert str(caught.value) == (
        f"The data directory {tmp_path / name} cannot be written to: choose another with BRAINS_DATA_DIR."
    )


def test_words_for_people_keep_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    say("one", "two")
    assert capsys.readouterr() == ("", "one\ntwo\n")


IMPORTED = """
import gc
from gateway.app.startup import fast_import
with fast_import():
    assert not gc.isenabled()
    import structlog
assert gc.isenabled()
"""


def test_what_a_start_imports_leaves_everything_else_as_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.not_quick
def test_starting_the_embedded_brain_loads_no_model() -> None:
    program = (
        "import sys; from pathlib import Path; from tempfile import mkdtemp\n"
        "from gateway.app.embedded import embedded_brain; from gateway.config.settings import load\n"
        "embedded_brain(load(data_dir=Path(mkdtemp())), None).stop()\n"
        "print({'numpy', 'tokenizers'} & {*sys.modules})"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "set()"


@pytest.mark.needs_offline_model
def test_where_the_small_model_is_installed_it_embeds() -> None:
    assert isinstance(embedder_of(load()), OfflineEmbedder)


def test_where_the_small_model_is_not_installed_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contract.platform.meaning.offline.PACKAGE", "no-such-package")
    assert embedder_of(load()) is None


def test_the_embedded_brain_has_longer_to_start_than_a_platform_has_to_answer(tmp_path: Path) -> None:
    """Its start is part of the first probe. A new installation compiles itself first, which takes long on some
    machines; then `doctor` said that the platform had not answered in time."""
    of_platform = deadlines_of(load(data_dir=tmp_path, upstream_url="http://127.0.0.1:1")).probe
    assert deadlines_of(load(data_dir=tmp_path, read_seconds=42.0)).probe == 42.0 > of_platform


def test_the_sentence_model_comes_with_the_gateway_and_can_be_left_out_or_replaced() -> None:
    assert isinstance(sentences_of(load()), SentenceEmbedder)
    assert sentences_of(load(embed_model="small")) is None
    assert sentences_of(load(embed_url="http://127.0.0.1:9", embed_model="vectors")) is None
