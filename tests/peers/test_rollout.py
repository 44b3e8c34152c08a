"""What is in deploy/, judged by the programs that it is for."""

import datetime
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.daemons.real import free_port
from tests.peers.rollout import CHART, MANIFESTS, ROOT, TOOLS, manifests, ran, rendered
from tests.served import OPERATOR, messages_of, raw_call, serving

DEPLOY = ROOT / "deploy"
# Parts of the chart that its own values leave out.
OTHERWISE = {
    "its own values": (),
    "an ingress and no secret": ("--set", "ingress.enabled=true,ingress.className=nginx,existingSecret="),
    "a fixed number of replicas": ("--set", "autoscaling.enabled=false,networkPolicy.enabled=false,replicas=3"),
    "an image by its digest": ("--set", f"image.digest=sha256:{'0' * 64},imagePullSecrets[0].name=pull"),
    "metrics by annotations": ("--set", "metrics.annotations=true,env.OTEL_SERVICE_NAME=brains"),
    "a volume for the audit log": (
        "--set",
        "settings.audit_log=/var/log/brains-gateway/audit.jsonl,volumes[0].name=audit,"
        "volumes[0].hostPath.path=/var/log/brains-gateway,volumeMounts[0].name=audit,"
        "volumeMounts[0].mountPath=/var/log/brains-gateway",
    ),
    "as many as calls under way ask for": (
        "--set",
        "autoscaling.metrics[0].type=Pods,autoscaling.metrics[0].resource=null,"
        "autoscaling.metrics[0].pods.metric.name=brains_calls_in_flight,"
        "autoscaling.metrics[0].pods.target.type=AverageValue,autoscaling.metrics[0].pods.target.averageValue=30",
    ),
    "some nodes": ("--set", "nodeSelector.disk=ssd,tolerations[0].key=a,tolerations[0].operator=Exists"),
}


def test_the_chart_has_no_mistake_that_helm_finds() -> None:
    assert "0 chart(s) failed" in ran(TOOLS / "helm", "lint", "--strict", CHART)


@pytest.mark.parametrize("version", ["1.27", "1.33", "1.37"])
@pytest.mark.parametrize("values", OTHERWISE)
def test_what_the_chart_renders_is_what_kubernetes_knows(tmp_path: Path, values: str, version: str) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(rendered(*OTHERWISE[values]))
    told = ran(TOOLS / "kubernetes-validate", "--strict", "-k", version, file)
    assert "FAIL" not in told


def test_the_file_for_the_registry_is_as_its_schema_and_its_rules_ask(tmp_path: Path) -> None:
    """The registry has no package of its own with its schema. This linter has every version of it that was released."""
    server = json.loads((DEPLOY / "server.json").read_text(encoding="utf-8"))
    lint = (TOOLS / "skillsaw", "lint", "--rule", "mcp-registry-server-json-valid", tmp_path)
    (tmp_path / "server.json").write_text(json.dumps(server), encoding="utf-8")
    assert "All checks passed" in ran(*lint)
    (tmp_path / "server.json").write_text(json.dumps({**server, "description": "x" * 101}), encoding="utf-8")
    with pytest.raises(AssertionError, match="at most 100"):
        ran(*lint)


def test_the_plain_manifests_are_the_chart_with_its_own_values() -> None:
    assert MANIFESTS.read_text(encoding="utf-8") == manifests()


def test_the_operator_of_prometheus_is_told_where_metrics_and_their_token_are() -> None:
    asked = ("--set", "metrics.serviceMonitor.enabled=true")
    (monitor,) = [made for made in yaml.safe_load_all(rendered(*asked)) if made["kind"] == "ServiceMonitor"]
    (service,) = [made for made in yaml.safe_load_all(rendered(*asked)) if made["kind"] == "Service"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint == {
        "port": service["spec"]["ports"][0]["name"],
        "path": "/metrics",
        "interval": "30s",
        "authorization": {"credentials": {"name": "brains-gateway", "key": "metrics-token"}},
    }
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]


@pytest.mark.needs_command("promtool")
def test_prometheus_loads_the_rules() -> None:
    assert "SUCCESS: 13 rules found" in ran("promtool", "check", "rules", DEPLOY / "monitoring" / "rules.yaml")


@pytest.mark.needs_command("promtool")
def test_alerts_fire_on_what_they_are_for_and_on_nothing_else() -> None:
    assert "SUCCESS" in ran("promtool", "test", "rules", ROOT / "tests" / "peers" / "alerts.yaml")


@pytest.mark.needs_command("promtool")
def test_prometheus_finds_nothing_wrong_with_the_metrics(tmp_path: Path) -> None:
    with serving(tmp_path, None, surfaces=("memory",)) as served, httpx.Client(trust_env=False) as http:
        for tool, arguments in (("memory_remember", {"content": "x"}), ("memory_search", {"query": "x"})):
            http.post(f"{served.url}/mcp", **raw_call("modern", tool, arguments)).raise_for_status()
        page = http.get(f"{served.url}/metrics", headers=OPERATOR).raise_for_status().text
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.needs_command("systemd-analyze")
@pytest.mark.parametrize("units", [["service"], ["service", "socket"]], ids=" and ".join)
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, units: list[str]) -> None:
    made = []
    for unit in units:
        said = (DEPLOY / "systemd" / f"brains-gateway.{unit}").read_text(encoding="utf-8")
        made.append(tmp_path / f"brains-gateway.{unit}")
        # It is looked whether the command is there.
        made[-1].write_text(said.replace("/opt/brains-gateway/bin/brains-gateway", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", *made], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs_command("systemd-analyze")
def test_the_service_is_hardened() -> None:
    unit = DEPLOY / "systemd" / "brains-gateway.service"
    told = ran("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)
    assert "Overall exposure level for brains-gateway.service: 1." in told


@pytest.mark.needs_command("caddy")
def test_caddy_loads_its_file() -> None:
    ran("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")


def certificate(folder: Path) -> None:
    """Made for localhost, and for a day."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    signed = made.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    folder.mkdir()
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))


def configured(folder: Path, port: int, replicas: list[str], rate: int = 100) -> Path:
    """Our files as they are, but for the ports, and for how many requests a second one address may send."""
    certificate(folder / "tls")
    conf = (DEPLOY / "nginx" / "nginx.conf").read_text(encoding="utf-8")
    conf = conf.replace("    listen [::]:443 ssl http2;\n", "").replace("listen 443", f"listen 127.0.0.1:{port}")
    conf = conf.replace("rate=100r/s", f"rate={rate}r/s")
    # Its usual places are for root alone.
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"  {kind}_temp_path {folder};\n" for kind in kinds) + "  access_log off;\n"
    (folder / "nginx.conf").write_text(conf.replace("http {\n", f"http {{\n{places}"))
    upstream = (DEPLOY / "nginx" / "upstream.conf").read_text(encoding="utf-8")
    # Each line as often as there are replicas.
    for line in re.findall(r"  server 127.*\n", upstream):
        upstream = upstream.replace(line, "".join(line.replace("127.0.0.1:8787", replica) for replica in replicas))
    (folder / "upstream.conf").write_text(upstream)
    return folder / "nginx.conf"


@pytest.mark.needs_command("nginx")
def test_nginx_of_this_system_loads_its_files(tmp_path: Path) -> None:
    conf = configured(tmp_path, free_port(), ["127.0.0.1:8787"])
    ran("nginx", "-t", "-e", tmp_path / "log", "-c", conf, "-g", f"pid {tmp_path}/pid;")


@contextmanager
def proxied(folder: Path, replicas: list[str], rate: int = 100) -> Iterator[str]:
    port = free_port()
    conf = configured(folder, port, replicas, rate)
    command = ["nginx", "-e", f"{folder}/log", "-c", str(conf), "-g", f"daemon off; pid {folder}/pid;"]
    with subprocess.Popen(command) as nginx:
        try:
            for _ in range(2000):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield f"https://localhost:{port}"
        finally:
            nginx.terminate()


@contextmanager
def two_gateways(data_dir: Path) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """Where two gateways are that share their data, and what stops the second one."""
    settings = {"allowed_hosts": ("localhost",), "surfaces": ("memory",)}
    with ExitStack() as staying, ExitStack() as leaving:
        first = staying.enter_context(serving(data_dir, None, **settings))
        second = leaving.enter_context(serving(data_dir, None, **settings))
        yield [served.url.removeprefix("http://") for served in (first, second)], leaving.close


@pytest.mark.needs_command("nginx")
def test_behind_nginx_a_replica_that_is_gone_costs_no_call(tmp_path: Path) -> None:
    (tmp_path / "nginx").mkdir()
    call = raw_call("modern", "memory_search", {"query": "x"})
    with (
        two_gateways(tmp_path / "data") as (replicas, stop_one),
        proxied(tmp_path / "nginx", replicas) as url,
        httpx.Client(verify=False, trust_env=False) as http,
    ):
        for turn in range(20):
            if turn == 6:
                stop_one()
            answer = http.post(f"{url}/mcp", **call)
            assert answer.status_code == 200, answer.text
            (said,) = [message for message in messages_of(answer) if "result" in message]
            assert not said["result"].get("isError"), said


@contextmanager
def behind_caddy(folder: Path, replicas: list[str]) -> Iterator[str]:
    """Our file as it is, but for its address, and where the replicas are."""
    url = f"http://localhost:{free_port()}"
    said = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    said = said.replace("brains.example {", f"{url} {{").replace("127.0.0.1:8787", " ".join(replicas))
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https off\n}}\n{said}")
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as caddy:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as http:
                http.get(f"{url}/livez", timeout=60)
            yield url
        finally:
            caddy.terminate()


@pytest.mark.needs_command("caddy")
def test_behind_caddy_a_replica_that_is_gone_costs_a_call_one_resend_at_most(tmp_path: Path) -> None:
    (tmp_path / "caddy").mkdir()
    call = raw_call("modern", "memory_search", {"query": "x"})
    with (
        two_gateways(tmp_path / "data") as (replicas, stop_one),
        behind_caddy(tmp_path / "caddy", replicas) as url,
    ):
        again = 0
        for turn in range(12):
            if turn == 4:
                stop_one()
            # A connection for each call, so that no call meets one that the replica has closed.
            answers = [httpx.post(f"{url}/mcp", **call, trust_env=False, timeout=60)]
            if answers[0].status_code != 200:
                again += 1
                answers.append(httpx.post(f"{url}/mcp", **call, trust_env=False, timeout=60))
            assert answers[-1].status_code == 200, [answer.status_code for answer in answers]
        assert again <= 3


@pytest.mark.needs_command("systemd-socket-activate")
def test_a_socket_of_systemd_is_served(tmp_path: Path) -> None:
    port = free_port()
    command = ["systemd-socket-activate", f"--listen=127.0.0.1:{port}", "-E", "BRAINS_DATA_DIR", "-E", "BRAINS_PORT"]
    environment = {**os.environ, "BRAINS_DATA_DIR": str(tmp_path), "BRAINS_PORT": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "-E", "PYTHONPATH", sys.executable, "-m", "gateway", "serve"], env=environment, stderr=-1, text=True
    ) as serving_:
        try:
            # Until it listens, nobody does.
            with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as http:
                assert http.get(f"http://127.0.0.1:{port}/healthz", timeout=120).json() == {"ok": True}
        finally:
            serving_.terminate()
        assert f"http://127.0.0.1:{port}/mcp" in serving_.communicate(timeout=120)[1]
