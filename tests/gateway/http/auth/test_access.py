"""The door: what is open to all, what others are told they need, and from where nobody may call."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gateway.app.capabilities import URI
from gateway.config.signing_keys import begin, serialize
from tests.gateway.http.auth.gateways import HTTP, TOOLS, Guarded, allows, guarded, result
from tests.gateway.http.auth.provider import AUDIENCE, LOGIN_SCOPE, PUBLIC_URL
from tests.served import Era, raw_call, serving

ERAS: tuple[Era, ...] = ("modern", "legacy")
METADATA = "/.well-known/oauth-protected-resource"
CHALLENGE = f'scope="{LOGIN_SCOPE}", resource_metadata="{PUBLIC_URL}{METADATA}'
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    names = {"allowed_hosts": ("brains.example",), "allowed_origins": ("https://app.example",)}
    folder = tmp_path_factory.mktemp("gateway")
    keys = folder / "keys.json"
    keys.write_bytes(serialize(begin("ES256")))
    with guarded(folder, signing_keys_file=keys, **names) as made:
        yield made


def raw(gateway: Guarded, method: str, path: str, **headers: str) -> httpx.Response:
    url = httpx.URL(gateway.served.url).copy_with(raw_path=path.encode())
    return HTTP.request(method, url, headers=headers)


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/", "/mcp/main", "/mcp/main/", "/mcp/no-such-brain"])
def test_the_metadata_are_one_resource_for_every_path(gateway: Guarded, path: str) -> None:
    answer = raw(gateway, "GET", METADATA + path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.json() == {
        "resource": AUDIENCE,
        "authorization_servers": [gateway.provider.issuer],
        "scopes_supported": ["brains:read", "brains:write", "brains:admin"],
        "bearer_methods_supported": ["header"],
        "resource_name": "brains-gateway",
    }


@pytest.mark.parametrize("path", ["/other", "/mcpx", "x", "/", "/mcp/a/b/c", "//mcp", "/mcp\n"])
def test_there_are_no_metadata_of_anything_else(gateway: Guarded, path: str) -> None:
    assert raw(gateway, "GET", METADATA + path.replace("\n", "%0A")).status_code == 404


def test_where_there_is_no_provider_there_are_no_metadata(tmp_path: Any) -> None:
    with serving(tmp_path, None, token="right") as served:
        assert HTTP.get(served.url + METADATA).status_code == 404
        assert HTTP.get(served.url + METADATA + "/mcp").status_code == 404
        assert HTTP.get(served.url + "/.well-known/jwks.json").status_code == 404


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("path", "named"), [("/mcp", "/mcp"), ("/mcp/", "/mcp"), ("/mcp/main", "/mcp/main"), ("/mcp/main/", "/mcp/main")]
)
def test_without_a_token_it_is_401_with_where_to_get_one(gateway: Guarded, era: Era, path: str, named: str) -> None:
    answer = gateway.call(None, era, "memory_list_brains", at=path)
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [f'Bearer {CHALLENGE}{named}"']
    assert answer.json() == {
        "code": "unauthorized",
        "message": f"Log in at {gateway.provider.issuer} and send an access token for {AUDIENCE}.",
        "retryable": False,
    }
    # What the challenge names is there.
    assert raw(gateway, "GET", METADATA + named).json()["resource"] == AUDIENCE


@pytest.mark.parametrize("era", ERAS)
def test_with_a_bad_token_it_is_401_with_the_error_too(gateway: Guarded, era: Era) -> None:
    call = raw_call(era, "memory_list_brains", {})
    call["headers"]["authorization"] = f"Bearer {gateway.provider.token(exp=1)}"
    answer = gateway.post(None, **call)
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [f'Bearer error="invalid_token", {CHALLENGE}/mcp"']
    assert answer.json()["message"].startswith("This token is not valid here")


@pytest.mark.parametrize(
    "path",
    [
        '/mcp/a"b',
        "/mcp/a%22b",
        "/mcp/%C3%A4",
        "/mcp/a%5C",
        "/mcp/a%0Dx-injected:%201",
        "/mcp/a%0D%0Ax-injected:%201",
    ],
)
def test_a_challenge_is_one_header_whatever_the_path_is(gateway: Guarded, path: str) -> None:
    answer = raw(gateway, "POST", path)
    assert answer.status_code == 401
    assert "x-injected" not in answer.headers
    (challenge,) = answer.headers.get_list("www-authenticate")
    assert challenge.startswith(f"Bearer {CHALLENGE}/mcp/")
    assert challenge.endswith('"')
    assert "\n" not in challenge


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("token", "tool", "needed"),
    [
        ("foreign", "memory_search", "brains:read"),
        ("foreign", "memory_consolidate", "brains:read brains:write brains:admin"),
        ("read", "memory_remember", "brains:read brains:write"),
        ("read", "memory_consolidate", "brains:read brains:write brains:admin"),
        ("write", "memory_consolidate", "brains:read brains:write brains:admin"),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/main"])
def test_a_scope_that_is_missing_is_403_with_all_that_is_needed_in_one_challenge(
    gateway: Guarded, era: Era, token: str, tool: str, needed: str, path: str
) -> None:
    answer = gateway.call(token, era, tool, at=path, **TOOLS[tool][1])
    assert answer.status_code == 403
    assert answer.headers.get_list("www-authenticate") == [
        f'Bearer error="insufficient_scope", scope="{needed}", resource_metadata="{PUBLIC_URL}{METADATA}{path}"'
    ]
    said = result(answer)
    assert said["isError"] is True
    assert said["structuredContent"]["code"] == "insufficient_scope"
    assert said["structuredContent"]["required_scopes"] == needed.split()
    assert said["structuredContent"]["retryable"] is False
    text = said["content"][0]["text"]
    assert text.startswith(f"insufficient_scope: This needs the scope {needed.split()[-1]}")
    assert f"Use one with {needed}." in text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", ["foreign", "read", "write", "admin"])
def test_the_tools_that_are_listed_are_those_that_can_be_called(gateway: Guarded, era: Era, token: str) -> None:
    answer = gateway.request(token, era, "tools/list")
    assert answer.status_code == 200
    listed = {tool["name"] for tool in result(answer)["tools"]}
    assert listed == {tool for tool, (needed, _arguments) in TOOLS.items() if allows(token, needed)}
    assert listed == {tool for tool in TOOLS if gateway.least(token, era, tool).status_code == 200}


def test_a_listing_is_for_the_one_who_asks_alone(gateway: Guarded) -> None:
    assert result(gateway.request("read", "modern", "tools/list")).get("cacheScope", "private") == "private"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/.well-known/jwks.json", METADATA, METADATA + "/mcp"])
def test_some_things_are_open_to_all_by_get_and_head(gateway: Guarded, path: str) -> None:
    assert raw(gateway, "GET", path).status_code == 200
    assert raw(gateway, "HEAD", path).status_code == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert raw(gateway, method, path).status_code in {404, 405}


def test_what_is_open_says_nothing_of_callers_and_nothing_secret(gateway: Guarded) -> None:
    gateway.least("admin", "modern", "memory_search")
    keys = raw(gateway, "GET", "/.well-known/jwks.json").json()["keys"]
    assert len(keys) == 2
    assert all({"kty", "crv", "x", "y", "use", "alg", "kid"} <= set(key) for key in keys)
    assert not any({"d", "k", "p", "q", "dp", "dq", "qi"} & set(key) for key in keys)
    ready = raw(gateway, "GET", "/readyz")
    assert set(ready.json()) == {"ready", "platform"}
    assert raw(gateway, "GET", "/healthz").json() == {"ok": True}
    for secret in ("ada", str(gateway.served.data_dir), "brn_"):
        assert secret not in ready.text


OPEN_TO_NOBODY = [
    "/mcp",
    "/mcp/",
    "/mcp/main",
    "/mcp/main/",
    "/mcp/main/x",
    "/mcp/a/b/c",
    "/mcp?x=1",
    "/mcp/../mcp",
    "/mcp/%2e%2e",
    "/mcp/%2F",
    "/mcp%2Fmain",
    "/%6Dcp",
    "/mcp/main%0D",
    "/mcp/%E2%80%A8",
]
NEWLINES = ["/mcp/%0A", "/mcp/main%0A", "/mcp/%0Amain", "/mcp/a%0Ab", "/mcp/main%0A/"]
# Those the router below would take for /mcp: there is nothing there.
PAST_THE_DOOR = ["/mcp%0A", "/mcp%0a", "/mcp%0A/", "/%0Amcp"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("path", [*OPEN_TO_NOBODY, *NEWLINES])
def test_mcp_is_open_to_nobody_without_a_token(gateway: Guarded, era: Era, path: str) -> None:
    for answer in (
        gateway.call(None, era, "memory_list_brains", at=path),
        gateway.call(None, era, "memory_create_brain", at=path, name="Stolen"),
        gateway.call(None, era, "memory_search", at=path, query="otters"),
    ):
        assert answer.status_code == 401
    assert not any("Stolen" in str(rows) for _table, rows in gateway.stored())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("path", PAST_THE_DOOR)
def test_nobody_gets_past_the_door(gateway: Guarded, era: Era, path: str) -> None:
    before = gateway.stored()
    for tool, (_scope, arguments) in TOOLS.items():
        assert gateway.post(None, path, **raw_call(era, tool, arguments)).status_code in {401, 404}
    assert gateway.request(None, era, "tools/list", at=path).status_code in {401, 404}
    assert gateway.request(None, era, "resources/read", at=path, uri=URI).status_code in {401, 404}
    assert gateway.stored() == before


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//mcp",
        "/MCP",
        "/Mcp",
        "/mcpx",
        "/mcp;x",
        "/mcp%00",
        "/mcp%20",
        "/mcp%0D",
        "/sse",
        "/messages",
        "/docs",
        "/openapi.json",
        "/authorize",
        "/token",
        "/register",
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
        "/healthz/",
        "/readyz/x",
        "/healthz%0A",
    ],
)
def test_nothing_else_is_there(gateway: Guarded, path: str) -> None:
    for method in METHODS:
        assert raw(gateway, method, path).status_code in {404, 405}, method
    for era in ERAS:
        assert gateway.call("admin", era, "memory_list_brains", at=path).status_code in {404, 405}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/main"])
def test_no_method_goes_round_the_door(gateway: Guarded, method: str, path: str) -> None:
    assert raw(gateway, method, path).status_code == 401
    assert raw(gateway, method, path, **{"x-http-method-override": "GET"}).status_code == 401


def test_a_path_of_a_proxy_header_is_no_path(gateway: Guarded) -> None:
    for header in ("x-original-url", "x-rewrite-url", "x-forwarded-prefix", "x-forwarded-path"):
        assert raw(gateway, "POST", "/mcp", **{header: "/healthz"}).status_code == 401
        assert raw(gateway, "POST", "/healthz", **{header: "/mcp"}).status_code == 404


FROM = [
    ({"host": "evil.example"}, 421),
    ({"host": "evil.example:8787"}, 421),
    ({"host": "127.0.0.1.evil.example"}, 421),
    ({"host": "127.0.0.1@evil.example"}, 421),
    ({"host": "evil.example@evil.example"}, 421),
    ({"host": "xbrains.example"}, 421),
    ({"host": "brains.example.evil.example"}, 421),
    ({"host": ""}, 421),
    ({"host": "evil.example", "x-forwarded-host": "brains.example"}, 421),
    ({"host": "brains.example", "x-forwarded-host": "evil.example"}, 200),
    ({"host": "BRAINS.EXAMPLE"}, 200),
    ({"host": "brains.example:8443"}, 200),
    ({"host": "localhost"}, 200),
    ({"host": "[::1]:8787"}, 200),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://app.example"}, 403),
    ({"origin": "https://app.example:8443"}, 403),
    ({"origin": "https://app.example.evil.example"}, 403),
    ({"origin": "https://evil.example/https://app.example"}, 403),
    ({"origin": "https://app.example@evil.example"}, 403),
    ({"origin": "https://app.example, https://evil.example"}, 403),
    ({"origin": "file://"}, 403),
    ({"origin": "https://app.example"}, 200),
    ({"origin": "HTTPS://APP.EXAMPLE"}, 200),
    ({"origin": "http://localhost:3000"}, 403),
    ({"host": "evil.example", "origin": "http://evil.example"}, 421),
    ({"host": "brains.example", "origin": "http://localhost"}, 403),
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("headers", "status"), FROM, ids=[json.dumps(headers) for headers, _status in FROM])
def test_a_good_token_is_good_from_known_names_alone(
    gateway: Guarded, era: Era, headers: dict[str, str], status: int
) -> None:
    call = raw_call(era, "memory_list_brains", {})
    call["headers"] |= headers
    assert gateway.post("read", **call).status_code == status
    # From elsewhere nobody learns even that there is a door.
    assert gateway.post(None, **call).status_code == (401 if status == 200 else status)


@pytest.mark.parametrize(
    ("lines", "statuses"),
    [
        ([], {b"400", b"421"}),
        (["host: brains.example", "host: evil.example"], {b"400", b"401", b"421"}),
        (["host: evil.example", "host: brains.example"], {b"400", b"421"}),
        (["host: brains.example", "origin: https://evil.example", "origin: https://app.example"], {b"400", b"403"}),
    ],
    ids=["no host", "a second host", "a first host", "a first origin"],
)
def test_names_that_are_missing_or_there_twice_are_refused(
    gateway: Guarded, lines: list[str], statuses: set[bytes]
) -> None:
    """On a socket of its own, because no client sends them."""
    host, port = gateway.served.url.removeprefix("http://").split(":")
    body = json.dumps(raw_call("legacy", "memory_list_brains", {})["json"])
    sent = [
        "POST /mcp HTTP/1.1",
        *lines,
        f"authorization: {gateway.authorization('read')['authorization']}",
        "accept: application/json, text/event-stream",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(("\r\n".join(sent) + "\r\n\r\n" + body).encode())
        assert connection.recv(100).split(b" ")[1] in statuses
