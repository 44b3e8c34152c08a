"""What is in deploy/ speaks of settings and commands that there are, and of a gateway that starts with them."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__
from gateway.app.metrics.families import AT_SCRAPE, FAMILIES, sample_names
from gateway.cli import key
from gateway.cli.main import main
from gateway.config.settings import Settings, load
from gateway.config.sources import known_variables
from gateway.config.unsafe_settings import check_serving

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
NGINX = (DEPLOY / "nginx" / "nginx.conf").read_text(encoding="utf-8")
MANIFESTS = (DEPLOY / "kubernetes" / "brains-gateway.yaml").read_text(encoding="utf-8")
CHART = DEPLOY / "helm" / "brains-gateway"
UNIT = (DEPLOY / "systemd" / "brains-gateway.service").read_text(encoding="utf-8")
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
VARIABLES = known_variables(Settings.model_fields)


MONITORING = DEPLOY / "monitoring"
LABELS = {"le", "instance", "version"} | {label for family in FAMILIES for label in family.labels}


def queries() -> list[str]:
    """What the dashboard and the alerts ask Prometheus for."""
    panels = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*shown, *(rule["expr"] for group in groups for rule in group["rules"])]


def test_dashboard_and_alerts_ask_for_metrics_and_labels_that_there_are() -> None:
    asked = "\n".join(queries())
    assert set(re.findall(r"brains_\w+", asked)) <= sample_names()
    grouped = {label for labels in re.findall(r"by \(([^)]*)\)", asked) for label in labels.split(", ")}
    assert grouped | set(re.findall(r"(\w+)(?:=~?|!~|!=)\"", asked)) <= LABELS
    # And every metric is on the dashboard: what nobody looks at need not be counted.
    shown = (MONITORING / "dashboard.json").read_text(encoding="utf-8")
    assert [name for name in [*(family.name for family in FAMILIES), *AT_SCRAPE] if name not in shown] == []


def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"])


def manifests() -> dict[str, Any]:
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(MANIFESTS)}


def pod() -> Any:
    return manifests()["Deployment"]["spec"]["template"]["spec"]


def test_every_variable_is_a_setting() -> None:
    named = {path.name: set(re.findall(r"BRAINS_[A-Z_]+", path.read_text(encoding="utf-8"))) for path in FILES}
    assert {name: variables - VARIABLES for name, variables in named.items() if variables - VARIABLES} == {}


def test_the_gateway_of_the_compose_file_gets_past_the_gates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {
        name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in services()["gateway"]["environment"].items()
    }
    secret, tokens = tmp_path / "secret", tmp_path / "tokens.json"
    secret.write_text("t\n")
    tokens.write_text('{"tokens": []}')
    assert said["BRAINS_UPSTREAM_TOKEN_FILE"] == "/run/secrets/platform-token"
    for name, value in {**said, "BRAINS_HOST": "0.0.0.0", "BRAINS_UPSTREAM_TOKEN_FILE": str(secret)}.items():
        monkeypatch.setenv(name, value)
    check_serving(load(tokens_file=tokens))


def test_the_gateway_of_the_manifests_gets_past_the_gates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (container,) = pod()["containers"]
    config, keys = tmp_path / "brains.toml", tmp_path / "signing-keys.json"
    config.write_text(manifests()["ConfigMap"]["data"]["brains.toml"])
    key.create_keys(keys, "ES256")
    said = {variable["name"]: variable["value"] for variable in container["env"]}
    assert said["BRAINS_CONFIG"].endswith("/brains.toml")
    assert said["BRAINS_SIGNING_KEYS_FILE"].endswith("/signing-keys.json")
    for name, value in {**said, "BRAINS_CONFIG": str(config), "BRAINS_SIGNING_KEYS_FILE": str(keys)}.items():
        monkeypatch.setenv(name, value)
    check_serving(load())


def test_a_pod_may_do_as_little_as_there_is() -> None:
    (container,) = pod()["containers"]
    assert pod()["automountServiceAccountToken"] is False
    # Else a variable for each service: BRAINS_GATEWAY_PORT, and more.
    assert pod()["enableServiceLinks"] is False
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["runAsUser"] == int(re.search(r"--uid (\d+)", dockerfile())[1])  # type: ignore[index]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy", "Service"} < set(manifests())


def dockerfile() -> str:
    return (DEPLOY.parent / "Dockerfile").read_text(encoding="utf-8")


def test_a_pod_is_given_longer_to_stop_than_calls_are_given_to_finish() -> None:
    (container,) = pod()["containers"]
    _, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod()["terminationGracePeriodSeconds"] > int(seconds) + 10
    assert int(re.search(r"TimeoutStopSec=(\d+)", UNIT)[1]) > 10  # type: ignore[index]


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == __version__
    assert f"brains-gateway:{__version__}" in MANIFESTS


def test_the_values_of_the_chart_are_settings() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(values["settings"]) <= set(Settings.model_fields)
    assert tomllib.loads(manifests()["ConfigMap"]["data"]["brains.toml"]) == values["settings"]


def test_the_service_gets_its_secrets_as_files() -> None:
    variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", UNIT, re.MULTILINE))
    assert (variables["BRAINS_CONFIG"], variables["BRAINS_TOKEN_FILE"]) == ("%d/config", "%d/token")
    assert re.findall(r"^LoadCredential=(\w+):", UNIT, re.MULTILINE) == ["config", "token"]


def test_the_audit_log_that_the_manual_names_is_where_the_service_may_write() -> None:
    manual = (DEPLOY.parent / "docs" / "operating.md").read_text(encoding="utf-8")
    (directory,) = set(re.findall(r"/var/log/([\w-]+)/audit\.jsonl", manual))
    assert f"LogsDirectory={directory}\n" in UNIT


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
    for line in ("proxy_buffering off;", "proxy_next_upstream error timeout;", "gzip off;"):
        assert line in NGINX
    # What nginx 1.22 does not know yet is in the file for Docker alone.
    assert "include upstream.conf;" in NGINX
    assert not re.search(r"http2 on|\bresolve\b", NGINX)
    # nginx repeats no POST that was sent, unless it is told to.
    assert not re.search(r"proxy_next_upstream[^;#]*non_idempotent", NGINX)
    longest = int(re.search(r"proxy_read_timeout (\d+)s", NGINX)[1])  # type: ignore[index]
    assert longest > load().ask_seconds
    allowed = int(re.search(r"client_max_body_size (\d+)m", NGINX)[1])  # type: ignore[index]
    assert allowed * 1024 * 1024 == load().max_body
