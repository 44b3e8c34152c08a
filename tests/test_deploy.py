"""What is in deploy/ speaks of settings and commands that there are, and of a gateway that starts with them."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli.main import main
from gateway.config.settings import Settings, load
from gateway.config.sources import known_variables
from gateway.config.unsafe_settings import check_serving

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
NGINX = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
VARIABLES = known_variables(Settings.model_fields)


def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"])


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    assert set(re.findall(r"BRAINS_[A-Z_]+", path.read_text(encoding="utf-8"))) <= VARIABLES


def test_the_gateway_of_the_compose_file_gets_past_the_gates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {
        name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in services()["gateway"]["environment"].items()
    }
    for name, value in {**said, "BRAINS_HOST": "0.0.0.0", "BRAINS_UPSTREAM_TOKEN": "t"}.items():
        monkeypatch.setenv(name, value)
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"tokens": []}')
    check_serving(load(tokens_file=tokens))


def test_its_commands_are_commands_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in COMPOSE.read_text(encoding="utf-8").splitlines() if "brains-gateway " in line]
    commands = [re.split(r"brains-gateway ", line, maxsplit=1)[1] for line in lines]
    assert len(commands) == 2
    for command in commands:
        verb = [word for word in shlex.split(command.split('"')[0].split("\\")[0]) if not word.startswith("-")]
        with pytest.raises(SystemExit) as ended:
            main([*verb[:1], "--help"])
        assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_the_proxy_streams_and_sends_nothing_twice() -> None:
    for line in ("proxy_buffering off;", "proxy_next_upstream off;", "gzip off;"):
        assert line in NGINX
    longest = int(re.search(r"proxy_read_timeout (\d+)s", NGINX)[1])  # type: ignore[index]
    assert longest > load().ask_seconds
    allowed = int(re.search(r"client_max_body_size (\d+)m", NGINX)[1])  # type: ignore[index]
    assert allowed * 1024 * 1024 == load().max_body
