"""What is built can be installed where there is no repository, and does there what it does here."""

import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from gateway import __version__
from gateway.app.connecting.clients import CLIENTS, file_of
from tests.release import ROOT, build, disagreeing, missing_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


# As a user installs a command for themselves: what it needs is what the wheel asks for, at its newest.
INSTALL = {"uv": ["tool", "install"], "pipx": ["install"]}


@dataclass(frozen=True)
class Installed:
    """A command outside the repository, in a home where there is nothing."""

    command: Path
    home: Path
    environment: dict[str, str]

    def run(self, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.command), *arguments],
            capture_output=True,
            text=True,
            env={**self.environment, **settings},
            cwd=self.home,
            timeout=240,
            check=False,
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    source, wheel = sorted(build(tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix)
    return wheel, source


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where uv, uvx and pipx are."""
    place = tmp_path_factory.mktemp("tools")
    subprocess.run([*make_environment(place), "uv", "pipx"], check=True)
    return place / "bin"


def _without_our_certificates() -> dict[str, str]:
    """An installer must trust the package index."""
    return {**{name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}, "UV_SYSTEM_CERTS": "true"}


@pytest.fixture(
    scope="module",
    params=[
        "wheel",
        pytest.param("whole wheel", marks=pytest.mark.nightly),
        pytest.param("sdist", marks=pytest.mark.nightly),
        pytest.param("uv", marks=pytest.mark.nightly),
        pytest.param("pipx", marks=pytest.mark.nightly),
    ],
)
def installed(
    request: pytest.FixtureRequest, built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """Nightly with all it needs, from the package index. Else what it needs is borrowed from here, which is quick."""
    folder = tmp_path_factory.mktemp("installed")
    place, home = folder / "venv", folder / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SSL_CERT_FILE": os.environ["SSL_CERT_FILE"]}
    if request.param in INSTALL:
        tools: Path = request.getfixturevalue("tools")
        for_one_user = {**_without_our_certificates(), "HOME": str(home)}
        command = [str(tools / request.param), *INSTALL[request.param], "--python", sys.executable, str(built[0])]
        subprocess.run(command, check=True, cwd=home, env=for_one_user, capture_output=True)
        return Installed(home / ".local" / "bin" / "brains-gateway", home, environment)
    wheel, source = built
    if request.param == "wheel":
        return Installed(install_alone(wheel, place), home, environment)
    pip = make_environment(place)
    chosen = source if request.param == "sdist" else wheel
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(chosen)], check=True, cwd=home)
    return Installed(place / "bin" / "brains-gateway", home, environment)


def make_environment(place: Path) -> list[str]:
    """A new environment. Returns the command that installs into it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    return [sys.executable, "-m", "pip", "--python", str(place), "install", "-qq", "--disable-pip-version-check"]


def install_alone(wheel: Path, place: Path) -> Path:
    """Install the wheel, and borrow the packages that it needs from here. Returns the command."""
    subprocess.run([*make_environment(place), "--no-deps", str(wheel)], check=True, cwd=place)
    site = next(place.glob("lib/python*/site-packages"))
    # The packages, but not the repository: a path file in a directory that a path file names is not read.
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return place / "bin" / "brains-gateway"


@pytest.fixture
def serving(installed: Installed) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(installed.command), "serve", "--port", str(port)],
        env=installed.environment,
        cwd=installed.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(lambda: httpx.get(f"{url}/livez").status_code == 200)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _wait(until: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while True:
        try:
            if until():
                return
        except httpx.TransportError:
            assert time.monotonic() < ends, "it does not serve"
            time.sleep(0.1)


def test_what_is_built_holds_all_of_ours_and_nothing_else(built: tuple[Path, Path]) -> None:
    assert list(missing_in(*built)) == []
    assert list(disagreeing()) == []


def test_the_command_is_the_one_that_was_built(installed: Installed) -> None:
    done = installed.run("--version")
    assert done.stdout == f"brains-gateway {__version__}\n"
    python = installed.command.resolve().with_name("python")
    where = subprocess.run(
        [str(python), "-c", "import gateway, contract; print(gateway.__file__, contract.__file__)"],
        capture_output=True,
        text=True,
        env=installed.environment,
        cwd=installed.home,
        check=True,
    )
    assert str(ROOT) not in where.stdout


def test_doctor_finds_all_tools(installed: Installed) -> None:
    done = installed.run("doctor", "--json")
    assert (done.returncode, json.loads(done.stdout)["all_served"]) == (0, True), done.stdout + done.stderr


async def test_a_client_that_starts_it_can_remember_and_search(installed: Installed) -> None:
    transport = StdioTransport(str(installed.command), ["stdio"], env=installed.environment, keep_alive=False)
    async with Client(transport, timeout=60, init_timeout=60) as client:
        await client.call_tool("memory_remember", {"content": "Otters hold hands while they sleep."})
        found = await client.call_tool("memory_search", {"query": "otters"})
    assert "hold hands" in str(found.structured_content)


def test_it_passes_its_own_contract_while_it_serves(installed: Installed, serving: str) -> None:
    done = installed.run("contract", "check", "--mcp", f"{serving}/mcp")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_every_client_is_connected_to_it_and_becomes_what_it_was(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(installed.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    paths = [path for client in CLIENTS.values() if (path := file_of(client, None)) is not None]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    done = installed.run("connect", "--all", "--yes", "--json", PATH="/nowhere")
    assert {(one["state"], one["tools"]) for one in json.loads(done.stdout)} == {("connected", 15)}, done.stderr
    # uv and pipx link the command to where it is.
    commands = {str(installed.command), str(installed.command.resolve())}
    assert all(any(command in path.read_text(encoding="utf-8") for command in commands) for path in paths)
    assert installed.run("disconnect", "--all", "--yes", PATH="/nowhere").returncode == 0
    assert {path.read_bytes() for path in paths} == {b""}


@pytest.mark.nightly
def test_uvx_runs_it_without_installing_it_and_says_that_a_client_needs_more(
    built: tuple[Path, Path], tools: Path, tmp_path: Path
) -> None:
    environment = {**_without_our_certificates(), "HOME": str(tmp_path)}
    command = [str(tools / "uvx"), "--python", sys.executable, "--from", str(built[0]), "brains-gateway"]

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=240,
            check=True,
        )

    assert run("--version").stdout == f"brains-gateway {__version__}\n"
    assert "install with `uv tool install` instead" in run("connect", "--all", "--yes").stderr
