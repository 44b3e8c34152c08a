"""The `brains-gateway` command, run as people run it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

import httpx
import pytest

from gateway import __version__

REPOSITORY = Path(__file__).parents[3]
RULE_OF_PORTS = "a port is a whole number from 1 to 65535"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a file in it, below which no directory can be."""
    made = tmp_path_factory.mktemp("cli")
    (made / "file").touch()
    return made


@pytest.fixture(scope="module")
def environment(directory: Path) -> dict[str, str]:
    """No setting of the person who runs the tests, a data directory of its own, and a width for the help."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    return {**clean, "PYTHONPATH": str(REPOSITORY), "BRAINS_DATA_DIR": str(directory / "data"), "COLUMNS": "200"}


def run(environment: dict[str, str], *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        env={**environment, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


Ran = dict[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def ran(environment: dict[str, str], directory: Path) -> Ran:
    """The commands that get as far as loading everything before they fail, all at once because that takes a while."""
    no_directory = {"BRAINS_DATA_DIR": str(directory / "file" / "data")}
    commands: dict[str, tuple[list[str], dict[str, str]]] = {
        "serve for all": (["serve", "--host", "0.0.0.0"], {"BRAINS_TOKEN": ""}),
        "platform for all": (["platform", "--host", "0.0.0.0"], {}),
        "port in use": (["serve", "--port", "{taken}"], {}),
        "address of another": (
            ["serve", "--host", "192.0.2.1"],
            {"BRAINS_TOKEN": "0123456789abcdef", "BRAINS_ALLOWED_HOSTS": "a.example"},
        ),
        "stdio without directory": (["stdio"], no_directory),
        "platform without directory": (["platform"], no_directory),
    }
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadPoolExecutor(3) as pool:
        port = str(taken.getsockname()[1])
        running = {
            name: pool.submit(run, environment, *[word.replace("{taken}", port) for word in arguments], **settings)
            for name, (arguments, settings) in commands.items()
        }
        return {name: process.result() for name, process in running.items()}


def complaint(ran: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence a command that cannot start leaves behind."""
    assert ran.returncode == code, ran.stderr
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("brains-gateway: ")
    assert line.endswith(".")
    return line.removeprefix("brains-gateway: ")


def misuse(ran: subprocess.CompletedProcess[str]) -> str:
    """What is said last, after the usage, about arguments that make no sense."""
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("usage: brains-gateway ")
    return ran.stderr.splitlines()[-1].partition("error: ")[2]


def test_help_says_what_it_is_and_what_it_can_do(environment: dict[str, str]) -> None:
    ran = run(environment, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    for words in (
        "One MCP endpoint for the brain you already run.",
        "serve     serve MCP over Streamable HTTP",
        "stdio     serve MCP over standard input and output",
        "platform  run the embedded brain alone, as a platform",
        "Settings are environment variables that begin with BRAINS_",
    ):
        assert words in ran.stdout


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("serve", ["--host HOST", "--port PORT", "--workers WORKERS", "(default: BRAINS_PORT, or 8787)"]),
        ("stdio", ["--surface {memory,kv,team,being,memo,chat}"]),
        ("platform", ["--host HOST", "--port PORT", "--token TOKEN", "--data-dir DATA_DIR"]),
    ],
)
def test_every_command_explains_its_options(environment: dict[str, str], command: str, options: list[str]) -> None:
    ran = run(environment, command, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [option for option in options if option not in ran.stdout] == []


def test_it_says_its_version(environment: dict[str, str]) -> None:
    assert run(environment, "--version").stdout == f"brains-gateway {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["sevre"], "argument COMMAND: invalid choice: 'sevre'"),
        (["serve", "--prot", "1"], "unrecognized arguments: --prot 1"),
        (["serve", "--port", "0"], f"argument --port: {RULE_OF_PORTS}"),
        (["serve", "--port", "65536"], f"argument --port: {RULE_OF_PORTS}"),
        (["serve", "--port", "http"], f"argument --port: {RULE_OF_PORTS}"),
        (["serve", "--port=-1"], f"argument --port: {RULE_OF_PORTS}"),
        (["serve", "--port", "80.5"], f"argument --port: {RULE_OF_PORTS}"),
        (["serve", "--port", ""], f"argument --port: {RULE_OF_PORTS}"),
        (["serve", "--workers", "0"], "argument --workers: workers is a whole number from 1 to 64"),
        (["serve", "--workers", "two"], "argument --workers: workers is a whole number from 1 to 64"),
        (["stdio", "--surface", "vr"], "argument --surface: invalid choice: 'vr'"),
        (["platform", "--port", "0"], f"argument --port: {RULE_OF_PORTS}"),
        (["platform", "--token", ""], "argument --token: a token is one word of ASCII characters"),
        (["platform", "--token", "two words"], "argument --token: a token is one word of ASCII characters"),
    ],
    ids=" ".join,
)
def test_arguments_that_make_no_sense_are_refused_with_the_usage(
    environment: dict[str, str], arguments: list[str], said: str
) -> None:
    assert misuse(run(environment, *arguments)).startswith(said)


@pytest.mark.parametrize("command", ["serve", "platform"])
def test_a_bad_setting_is_one_sentence_and_exit_code_2(environment: dict[str, str], command: str) -> None:
    said = complaint(run(environment, command, BRAINS_LOG_LEVEL="loud"), 2)
    assert said == "BRAINS_LOG_LEVEL must be one of 'debug', 'info', 'warning' or 'error'."


@pytest.mark.parametrize("variable", ["BRAINS_UPSTREAM_TOKEN", "JB_TOKEN"])
def test_a_token_without_a_url_is_refused_and_not_repeated(environment: dict[str, str], variable: str) -> None:
    said = complaint(run(environment, "serve", **{variable: "hunter2"}), 2)
    assert said.startswith("BRAINS_UPSTREAM_TOKEN (or JB_TOKEN) is set but BRAINS_UPSTREAM_URL is not: set the URL too")
    assert "hunter2" not in said


@pytest.mark.slow
def test_listening_beyond_loopback_needs_a_token_and_an_empty_one_is_none(ran: Ran) -> None:
    assert complaint(ran["serve for all"], 2) == (
        "BRAINS_HOST is 0.0.0.0, which others can reach, and callers need no token: "
        "set BRAINS_AUTH or BRAINS_TOKEN, or listen on 127.0.0.1."
    )


@pytest.mark.slow
def test_a_platform_beyond_loopback_needs_a_token_too(ran: Ran) -> None:
    said = complaint(ran["platform for all"], 2)
    assert said == "--host 0.0.0.0 can be reached by others: give a --token, or listen on 127.0.0.1."


@pytest.mark.slow
def test_a_port_in_use_is_one_sentence_and_exit_code_1(ran: Ran) -> None:
    said = complaint(ran["port in use"], 1)
    fix = "stop what listens there, or choose another with --port (make run: BRAINS_PORT)."
    assert re.fullmatch(r"Port \d+ is in use: " + re.escape(fix), said)


@pytest.mark.slow
def test_an_address_of_another_machine_is_one_sentence_and_exit_code_1(ran: Ran) -> None:
    said = complaint(ran["address of another"], 1)
    assert said == "192.0.2.1 is not an address of this machine: choose another with --host."


@pytest.mark.parametrize("command", ["stdio", "platform"])
@pytest.mark.slow
def test_a_data_directory_that_cannot_be_is_one_sentence_and_exit_code_1(
    ran: Ran, directory: Path, command: str
) -> None:
    said = complaint(ran[f"{command} without directory"], 1)
    assert str(directory / "file" / "data") in said
    assert "BRAINS_DATA_DIR" in said


@pytest.mark.slow
def test_what_is_served_is_said_on_stderr_and_ctrl_c_ends_it_quietly(
    environment: dict[str, str], directory: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gateway", "serve", "--port", str(port)]
    settings = {"BRAINS_LOG_LEVEL": "error", "BRAINS_LOG_FORMAT": "text"}
    with subprocess.Popen(command, env={**environment, **settings}, stdout=-1, stderr=-1, text=True) as serving:
        assert serving.stderr is not None
        said = list(takewhile(lambda line: line != "Stop with Ctrl-C.\n", serving.stderr))
        # The socket listens already: the request waits until it is served.
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=30).json() == {"ok": True}
        serving.send_signal(signal.SIGINT)
        stdout, rest = serving.communicate(timeout=30)
    assert f"brains-gateway listens on   http://127.0.0.1:{port}/mcp\n" in said
    assert f"brain                       embedded, data in {directory / 'data'}\n" in said
    assert (stdout, rest.strip()) == ("", "")
    assert serving.returncode == 0


@pytest.mark.slow
def test_a_default_brain_that_is_not_there_is_told_at_the_start(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gateway", "serve", "--port", str(port)]
    settings = {"BRAINS_LOG_LEVEL": "warning", "BRAINS_DEFAULT_BRAIN": "mian"}
    with subprocess.Popen(command, env={**environment, **settings}, stdout=-1, stderr=-1, text=True) as serving:
        assert serving.stderr is not None
        said = next(line for line in serving.stderr if "BRAINS_DEFAULT_BRAIN names" in line or not line)
        # It can be made now, by a call.
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=30).json() == {"ok": True}
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=30)
    assert json.loads(said)["reason"] == (
        "There is no brain mian, which BRAINS_DEFAULT_BRAIN names, and calls that name none fail. "
        "There are: main. Correct it, or create it with memory_create_brain."
    )


@pytest.mark.slow
def test_a_damaged_brain_file_stops_the_start_with_one_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "brains.sqlite3").write_bytes(b"this is no database, and never was one" * 100)
    command = [sys.executable, "-m", "gateway", "serve"]
    done = subprocess.run(
        command,
        env={**environment, "BRAINS_DATA_DIR": str(damaged)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("brains-gateway: The brain file ")
    assert done.stderr.count("\n") == 1
