"""Clients of others log in by themselves at a gateway that has the login: only the browser is ours."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from joserfc.jwk import ECKey
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.daemons.real import free_port
from tests.gateway.http.auth.login.house import PASSWORD, Person, add_user, answer_of, house
from tests.peers.browser import browse, browse_to_the_end
from tests.peers.quiet import LOOPBACK_ONLY
from tests.peers.test_redis import redis_server
from tests.served import MODE, Era, listening
from tests.web import web_on

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
NODE: Final = HERE / "node_modules" / ".bin" / "node"
# Claude Code opens a browser for somebody at a terminal alone.
SPAWN: Final = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
AT_A_TERMINAL: Final = [sys.executable, "-c", SPAWN]
DOCUMENT: Final = "https://notebook.example/oauth/client.json"
# Claude Code's own is on the web, where no test goes. This one has its id, and what it needs.
SIGNING: Final = "https://notebook.example/oauth/signing.json"
DOCUMENTS: Final = {
    DOCUMENT: "peer",
    SIGNING: "peer",
    "https://claude.ai/oauth/claude-code-client-metadata": "Claude Code",
}
KEY: Final = ECKey.generate_key("P-256")
PAGES: Final = ("refused", "wrong", "consent")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("house")
    add_user(data)
    web = Starlette(routes=[Route(urlsplit(id).path, document(id, name)) for id, name in DOCUMENTS.items()])
    with listening(web) as pages, web_on(pages), house(data) as it:
        yield it


def document(client_id: str, name: str) -> Callable[[Request], Response]:
    redirects = [f"http://{host}/callback" for host in ("127.0.0.1", "localhost")]
    said = {"client_id": client_id, "client_name": name, "redirect_uris": redirects}
    signing = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [KEY.as_dict(private=False)]}}
    return lambda _: JSONResponse({**said, **(signing if client_id == SIGNING else {})})


class Storage:
    """What the Python SDK keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def python_login(url: str, storage: Storage, metadata_url: str | None) -> OAuthClientProvider:
    told: dict[str, str] = {}

    async def redirect(address: str) -> None:
        told.update({name: values[0] for name, values in parse_qs(urlsplit(browse(address)).query).items()})

    async def called_back() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told["iss"])

    metadata = OAuthClientMetadata(client_name="peer", redirect_uris=[AnyUrl("http://127.0.0.1:9/callback")])
    return OAuthClientProvider(f"{url}/mcp", metadata, storage, redirect, called_back, metadata_url)


@pytest.mark.parametrize("metadata_url", [None, DOCUMENT], ids=["registered", "by its document"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_python_sdk_logs_in_and_refreshes(url: str, era: Era, metadata_url: str | None) -> None:
    storage = Storage()
    for _ in range(2):
        login = python_login(url, storage, metadata_url)
        async with Client(StreamableHttpTransport(f"{url}/mcp", auth=login), mode=MODE[era]) as client:
            assert "memory_remember" in {tool.name for tool in await client.list_tools()}
        before = storage.tokens
        assert before is not None
        assert storage.client is not None
        assert (storage.client.client_id == metadata_url) == (metadata_url is not None)
        answer = httpx.post(  # noqa: ASYNC210  # nothing else goes on here
            f"{url}/token",
            data={
                "grant_type": "refresh_token",
                "client_id": storage.client.client_id,
                "refresh_token": str(before.refresh_token),
            },
            trust_env=False,
        )
        storage.tokens = OAuthToken.model_validate(answer.json())


@contextmanager
def running(command: list[str], **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A program that is spoken to, until the block ends."""
    pipe = subprocess.PIPE
    given = {**os.environ, **environment}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=given) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: "subprocess.Popen[str]", wanted: str) -> re.Match[str]:
    """The first line that has it. The program ends if it has no more to say, and the test with it."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if found := re.search(wanted, line):
            return found
    raise AssertionError("".join(seen)[-3000:])


@pytest.mark.parametrize("metadata_url", [None, DOCUMENT, SIGNING], ids=["registered", "by its document", "signing"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_the_typescript_sdk_logs_in_and_refreshes(url: str, version: str, metadata_url: str | None) -> None:
    command = [
        str(NODE),
        str(HERE / "login_client.mjs"),
        version,
        f"{url}/mcp",
        *([metadata_url] if metadata_url else []),
        *([json.dumps(KEY.as_dict(private=True))] if metadata_url == SIGNING else []),
    ]
    with running(command) as process:
        assert process.stdin is not None
        address = read_until(process, r"^(http\S+/authorize\?\S+)$")[1]
        process.stdin.write(browse(address) + "\n")
        process.stdin.flush()
        told = json.loads(read_until(process, r"^\{.*\}$")[0])
    assert "memory_remember" in told["tools"]
    assert told["refreshed"] is True
    assert (told["client_id"] == metadata_url) == (metadata_url is not None)


def test_mcp_remote_logs_in_by_itself(url: str, tmp_path: Path) -> None:
    port = free_port()
    command = [str(NODE), str(HERE / "node_modules" / "mcp-remote" / "dist" / "client.js"), f"{url}/mcp", str(port)]
    environment = {"MCP_REMOTE_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": os.path.dirname(NODE)}
    with running([*command, "--allow-http"], **environment) as process:
        address = read_until(process, r"(http\S+/authorize\?\S+)")[1]
        browse_to_the_end(address)
        read_until(process, "memory_remember")


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., str]:
    """What a program says that runs in an empty home and opens a browser by itself."""
    opener = tmp_path / "browser"
    opener.write_text(
        f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m tests.peers.browser "$1" >> {opener}.log 2>&1\n'
    )
    opener.chmod(0o755)
    path = os.pathsep.join([str(HERE / "node_modules" / "node" / "bin"), os.environ["PATH"]])
    environment = {"HOME": str(tmp_path), "PATH": path, "BROWSER": str(opener), **LOOPBACK_ONLY}
    # Else the Inspector leaves the browser to a person, and keeps tokens in a keychain or nowhere.
    environment |= {"MCP_AUTO_OPEN_ENABLED": "true", "MCP_INSPECTOR_SECRET_STORE": "file"}

    def ran(command: str, *arguments: str, terminal: bool = False) -> str:
        done = subprocess.run(
            [*(AT_A_TERMINAL if terminal else []), str(NODE.with_name(command)), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    return ran


def test_the_inspector_logs_in_by_itself_once(url: str, ran: Callable[..., str], tmp_path: Path) -> None:
    call = ["--cli", f"{url}/mcp", "--callback-url", "http://127.0.0.1:0/oauth/callback", "--method", "tools/call"]
    ran("mcp-inspector", *call, "--tool-name", "memory_remember", "--tool-arg", "content=# Otters\n\nThey hold hands.")
    (tmp_path / "browser").unlink()
    assert "They hold hands" in ran(
        "mcp-inspector", *call, "--tool-name", "memory_search", "--tool-arg", "query=otters"
    )


def test_claude_code_logs_in_by_its_document(url: str, ran: Callable[..., str], tmp_path: Path) -> None:
    ran("claude", "mcp", "add", "--transport", "http", "brains", f"{url}/mcp")
    assert "Needs authentication" in ran("claude", "mcp", "get", "brains")
    ran("claude", "mcp", "login", "brains", terminal=True)
    assert "✔ Connected" in ran("claude", "mcp", "get", "brains")


@pytest.mark.needs_command("chromium")
def test_the_pages_can_be_read_and_used_by_everybody_light_and_dark_wide_and_narrow(url: str, tmp_path: Path) -> None:
    ada = Person(url, redirect_uri="https://notebook.example/back")
    ada.register()
    address = f"{url}/authorize?{urlencode(ada.query())}"
    command = ["node", "login_pages.mjs", address, "ada", PASSWORD, str(tmp_path)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["violations"], seen["overflows"]) == ([], [])
    papers = {scheme: {seen["papers"][f"{page}-{scheme}"] for page in PAGES} for scheme in ("light", "dark")}
    assert papers == {"light": {"rgb(251, 250, 247)"}, "dark": {"rgb(21, 24, 26)"}}


SUITE: Final = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# Every scenario that the suite has for authorization servers, and its checks.
SCENARIOS: Final = {
    "authorization-server-metadata-endpoint": {"authorization-server-metadata", "authorization-server-metadata-cimd"},
    "authorization-code-grant": {"authorization-code-grant"},
}


def test_the_page_names_every_scenario_of_the_official_suite_for_authorization() -> None:
    command = [str(NODE), str(SUITE), "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    servers, clients, authorization = re.split(
        r"^Client scenarios.*|^Authorization server scenarios.*", listed, flags=re.M
    )
    for_clients = re.findall(r"^  - auth/\S+", clients, re.M)
    assert re.findall(r"^  - (\S+)", authorization, re.M) == list(SCENARIOS)
    assert "auth" not in servers
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert [name for name in SCENARIOS if f"`{name}`" not in page] == []
    assert f"The other {len(for_clients)} scenarios, `auth/…`, test clients" in page


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_official_suite_finds_a_good_authorization_server(url: str, tmp_path: Path, revision: str) -> None:
    port = free_port()
    person = Person(url, redirect_uri=f"http://127.0.0.1:{port}/callback")
    person.register()
    command = [str(NODE), str(SUITE), "authorization", "--url", url, "--client-id", person.client_id]
    command += ["--resource", f"{url}/mcp", "--port", str(port), "--spec-version", revision]
    with running([*command, "-o", str(tmp_path)], HOME=str(tmp_path)) as process:
        address = read_until(process, r"(http\S+/authorize\?\S+)")[1]
        browse_to_the_end(address)
        assert process.stdout is not None
        said_last = process.stdout.read()
        assert process.wait(60) == 0, said_last[-3000:]
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    passed = {check["id"] for check in checks if check["status"] == "SUCCESS"}
    assert passed == set.union(*SCENARIOS.values()), checks
    assert {check["status"] for check in checks} == {"SUCCESS"}, checks


NGINX: Final = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream gateways {{ {servers} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://gateways;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      add_header x-served-by $upstream_addr always;
    }}
  }}
}}
"""


@contextmanager
def balanced(folder: Path, urls: list[str], port: int) -> Iterator[str]:
    """nginx before all of them, by turns and without sticky sessions."""
    servers = " ".join(f"server {url.removeprefix('http://')};" for url in urls)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, servers=servers, port=port))
    command = ["nginx", "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as nginx:
        try:
            transport = httpx.HTTPTransport(retries=10)
            with httpx.Client(transport=transport, trust_env=False, timeout=30) as http:
                assert http.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
            yield f"http://127.0.0.1:{port}"
        finally:
            nginx.terminate()


def log_in_by_turns(tmp_path: Path, **settings: Any) -> None:
    """Each request to another gateway than the one before; and what one of them ends is ended for both."""
    port = free_port()
    public = f"http://127.0.0.1:{port}"
    keys = tmp_path / "keys"
    keys.write_text("ab" * 32)
    keys.chmod(0o600)
    add_user(tmp_path)
    shared = {"public_url": public, "users_file": tmp_path / "users.json", "login_keys_file": keys, **settings}
    with ExitStack() as stack:
        urls = [stack.enter_context(house(made(tmp_path / name, settings), **shared)) for name in ("one", "two")]
        stack.enter_context(balanced(tmp_path, urls, port))
        ada = Person(public)
        served = {ada.send("GET", "/healthz").headers["x-served-by"] for _ in range(4)}
        assert len(served) == 2
        first = ada.begin()
        second = ada.enter(first)
        done = ada.fill(second, decision="allow")
        assert first.headers["x-served-by"] != second.headers["x-served-by"] != done.headers["x-served-by"]
        code = answer_of(done)["code"]
        tokens = ada.redeem(code).json()
        assert [ada.status(tokens["access_token"]) for _ in range(4)] == [200] * 4
        fresh = ada.refresh(tokens["refresh_token"]).json()
        assert [ada.status(fresh["access_token"]) for _ in range(4)] == [200] * 4
        assert ada.redeem(code).json()["error"] == "invalid_grant"
        # Each gateway looks at the list of revoked logins once a second.
        while {ada.status(fresh["access_token"]) for _ in range(4)} != {401}:
            pass
        assert ada.refresh(fresh["refresh_token"]).json()["error"] == "invalid_grant"


def made(folder: Path, settings: dict[str, Any]) -> Path:
    """A data directory of its own where Redis is shared; else one for all."""
    place = folder if "redis_url" in settings else folder.parent / "data"
    place.mkdir(exist_ok=True)
    return place


@pytest.mark.needs_command("nginx")
def test_behind_nginx_a_login_begins_on_one_gateway_and_ends_on_the_other(tmp_path: Path) -> None:
    log_in_by_turns(tmp_path)


@pytest.mark.needs_command("nginx")
@pytest.mark.needs_command("redis-server")
def test_with_redis_the_gateways_share_no_directory(tmp_path: Path) -> None:
    with redis_server(free_port(), tmp_path) as address:
        log_in_by_turns(tmp_path, redis_url=address)


@pytest.mark.needs_command("redis-server")
def test_without_its_redis_a_code_is_refused(tmp_path: Path) -> None:
    add_user(tmp_path)
    with ExitStack() as stack:
        redis = stack.enter_context(ExitStack())
        address = redis.enter_context(redis_server(free_port(), tmp_path))
        ada = Person(stack.enter_context(house(tmp_path, redis_url=address)))
        tokens, code = ada.log_in(), ada.code()
        assert ada.status(tokens["access_token"]) == 200
        redis.close()
        answer = ada.redeem(code)
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        assert ada.status(tokens["access_token"]) == 200, "by the last list of revoked logins"
