"""What the platform is shown: of a caller's own token nothing, unless that is what was configured."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from joserfc import jwt
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from gateway.config.reread_file import replace_file
from gateway.operations import scopes
from gateway.upstream.credentials import TYP
from tests.canaries.hosted import EVERYTHING, Hosted, hosted, internal
from tests.canaries.world import (
    AUDIENCE,
    DIALECTS,
    PLATFORM_AUDIENCE,
    PUBLIC_URL,
    Agent,
    Recording,
    ToolCall,
    every_tool,
)
from tests.gateway.conftest import eventually
from tests.served import MODE, OPERATOR, Era, listening

pytestmark = pytest.mark.not_quick

UPSTREAM_TOKEN, ONE_TOKEN, INTERNAL_KEY = "upstream-token-kestrel", "one-token-for-all", "internal-key-osprey"
ERAS: list[Era] = ["modern", "legacy"]
# Refused to whoever comes second to a brain: it holds notes of the first.
MIXES = "memory_consolidate"
SEARCH = ToolCall("memory_search", scopes.READ, {"query": "otters"})


INBOUND: dict[str, dict[str, Any]] = {
    "none": {},
    "one token": {"token": ONE_TOKEN},
    "tokens": {"auth": "tokens"},
    "jwt": {"jwt": True},
}


def outbound(kind: str, directory: Path) -> dict[str, Any]:
    return internal(directory) if kind == "internal" else {"upstream_token": UPSTREAM_TOKEN, "single_tenant": True}


def somebody(gateway: Hosted, inbound: str) -> Agent:
    match inbound:
        case "tokens":
            return gateway.with_api_token()
        case "jwt":
            return gateway.person(email="ada@example.com")
        case "one token":
            return gateway.agent(ONE_TOKEN)
    # Nobody asks for one, and some clients send one all the same.
    return gateway.agent("a-token-for-somebody-else")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["static", "internal"])
@pytest.mark.parametrize("inbound", INBOUND)
@pytest.mark.sampled(8)
def test_the_callers_own_token_and_headers_never_reach_the_platform(
    tmp_path: Path, inbound: str, kind: str, dialect: str
) -> None:
    with hosted(tmp_path, dialect, **INBOUND[inbound], **outbound(kind, tmp_path)) as gateway:
        agent = somebody(gateway, inbound)
        for call in every_tool():
            agent.good(call, cookie="who=me", baggage="of=mine", **{"x-internal-key": "mine", "x-llm-api-key": "sk-1"})
        seen = [*gateway.seen]

    assert len(seen) > 20
    assert any(request.is_probe for request in seen), "finding out is part of it"
    assert agent.token is not None
    for request in seen:
        said = request.everything()
        assert agent.token not in said
        assert "ada@example.com" not in said
        kept = {"cookie", "baggage", "x-llm-api-key", "x-project", "x-brain"} & {name for name, _ in request.headers}
        assert kept == set()
        assert request.header("x-internal-key") is None
        assert (request.bearer == UPSTREAM_TOKEN) is (kind == "static")


def test_without_a_token_of_its_own_the_gateway_sends_none(tmp_path: Path) -> None:
    with hosted(tmp_path, token=ONE_TOKEN) as gateway:
        gateway.agent(ONE_TOKEN).good(SEARCH)
        assert {request.header("authorization") for request in gateway.seen} == {None}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("inbound", ["none", "jwt"])
def test_passthrough_shows_each_request_the_token_of_its_own_caller(tmp_path: Path, inbound: str, dialect: str) -> None:
    settings = {"upstream_auth": "passthrough", "upstream_audience": AUDIENCE, "upstream_token": UPSTREAM_TOKEN}
    with hosted(tmp_path, dialect, **INBOUND[inbound], **settings) as gateway:
        calls = [call for call in every_tool() if call.tool != "memory_ingest_file"]
        for name in ("ada", "bob"):
            agent = gateway.person(name) if inbound == "jwt" else gateway.agent(f"token-of-{name}")
            before = len(gateway.seen)
            for call in calls:
                agent.call(call) if name == "bob" and call.tool == MIXES else agent.good(call)
            assert {request.bearer for request in gateway.seen[before:]} == {agent.token}
        assert not any(UPSTREAM_TOKEN in request.everything() for request in gateway.seen)


@pytest.mark.slow
def test_passthrough_of_many_at_once_mixes_nobody_up(tmp_path: Path) -> None:
    with hosted(tmp_path, upstream_auth="passthrough") as gateway:

        def search(n: int) -> None:
            gateway.agent(f"token-{n % 8}").good(ToolCall("memory_search", scopes.READ, {"query": f"otter{n % 8}x"}))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(search, range(160)))
        searches = [request for request in gateway.seen if "q=otter" in request.path]

    assert len(searches) == 160
    assert all(f"q=otter{str(request.bearer).removeprefix('token-')}x" in request.path for request in searches)


def test_a_caller_without_a_token_is_passed_through_without_one(tmp_path: Path) -> None:
    with hosted(tmp_path, upstream_auth="passthrough", upstream_token=UPSTREAM_TOKEN) as gateway:
        gateway.agent(None).good(SEARCH)
        assert {request.header("authorization") for request in gateway.seen} == {None}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_internal_token_names_the_caller_and_is_verified_with_the_published_keys(
    tmp_path: Path, dialect: str, era: Era
) -> None:
    with hosted(tmp_path, dialect, jwt=True, **internal(tmp_path)) as gateway:
        who: dict[str, Any] = {
            "org_id": "org-1",
            "client_id": "editor",
            "projects": ["p-1"],
            "email": "ada@example.com",
        }
        agent = gateway.person("ada", era=era, **who)
        for call in every_tool():
            agent.good(call)
        published, seen = gateway.published(), [*gateway.seen]

    assert len(seen) > 20
    for request in seen:
        assert request.bearer is not None
        token = jwt.decode(request.bearer, published, algorithms=["ES256"])
        assert token.header == {"alg": "ES256", "kid": published.keys[0].kid, "typ": TYP}
        claims = dict(token.claims)
        assert claims.pop("exp") - claims.pop("iat") == 60
        assert claims.pop("scope")
        assert claims == {
            "iss": PUBLIC_URL,
            "aud": PLATFORM_AUDIENCE,
            "sub": "ada",
            "user_id": "ada",
            "email": "ada@example.com",
            "sub_iss": gateway.issuer.url,
            "act": {"client_id": "editor"},
            "org_id": "org-1",
            "project_id": "p-1",
            "txn": request.header("x-request-id"),
        }
    assert len({request.bearer for request in seen}) > 12, "signed for each request"


# On a daemon memories are extracted after the answer: those requests have a test of their own.
USES = [(d, call) for d in DIALECTS for call in every_tool() if (d, call.tool) != ("daemon", "memory_extract")]


@pytest.mark.parametrize(("dialect", "call"), USES, ids=[f"{dialect}-{call.tool}" for dialect, call in USES])
@pytest.mark.sampled(8)
def test_an_internal_token_is_good_for_what_the_tool_needs_and_no_more(
    tmp_path: Path, dialect: str, call: ToolCall
) -> None:
    with hosted(tmp_path, dialect, jwt=True, **internal(tmp_path)) as gateway:
        gateway.person("ada").call(call)
        needed = " ".join(scope for scope in scopes.ORDER if scope in scopes.grant([call.scope]))
        assert {gateway.claims(request)["scope"] for request in gateway.seen} == {needed}


@pytest.mark.parametrize("call", [call for call in every_tool() if call.tool == "memory_extract"], ids=["a", "b"])
async def test_what_goes_on_after_an_answer_is_good_for_no_more_than_the_tool(tmp_path: Path, call: ToolCall) -> None:
    with hosted(tmp_path, "daemon", jwt=True, **internal(tmp_path)) as gateway:
        gateway.person("ada").good(call)

        async def has_extracted() -> bool:
            return any(request.path == "/v1/brains/notes/extract" for request in gateway.seen)

        await eventually(has_extracted)
        said = {gateway.claims(request)["scope"] for request in gateway.seen}
    assert said == {f"{scopes.READ} {scopes.WRITE}"}


@pytest.mark.parametrize(
    ("held", "signed"),
    [
        (scopes.READ, scopes.READ),
        (scopes.WRITE, scopes.READ),
        (f"{scopes.ADMIN} openid platform:root", scopes.READ),
    ],
)
def test_a_search_is_signed_for_reading_whatever_else_the_caller_may(tmp_path: Path, held: str, signed: str) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        gateway.person("ada", held).good(SEARCH)
        assert {gateway.claims(request)["scope"] for request in gateway.seen} == {signed}


@pytest.mark.parametrize("held", [scopes.READ, scopes.WRITE, "openid"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_for_what_a_caller_may_not_do_nothing_is_sent_at_all(tmp_path: Path, dialect: str, held: str) -> None:
    with hosted(tmp_path, dialect, jwt=True, **internal(tmp_path)) as gateway:
        agent = gateway.person("ada", held)
        beyond = [call for call in every_tool() if call.scope not in scopes.grant(held.split())]
        assert beyond
        for call in beyond:
            assert agent.call(call)["structuredContent"]["code"] == "insufficient_scope"
        assert gateway.seen == []


@pytest.mark.parametrize(
    ("projects", "header", "signed"),
    [
        ([], None, None),
        (["p-1"], None, "p-1"),
        (["p-1", "p-2"], None, None),
        (["p-1", "p-2"], "p-2", "p-2"),
        (["p-1"], "p-1", "p-1"),
    ],
    ids=["none", "the only one", "several and no choice", "chosen", "chosen, though the only one"],
)
def test_a_project_is_signed_only_where_the_token_has_it(
    tmp_path: Path, projects: list[str], header: str | None, signed: str | None
) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        headers = {} if header is None else {"x-project": header}
        gateway.person("ada", projects=projects).good(SEARCH, **headers)
        claims = [gateway.claims(request) for request in gateway.seen]
        assert {each.get("project_id") for each in claims} == {signed}
        assert all(("project_id" in each) is (signed is not None) for each in claims)


@pytest.mark.parametrize("inbound", ["none", "one token"])
def test_a_project_that_no_token_names_is_never_signed(tmp_path: Path, inbound: str) -> None:
    """Nobody is told apart, so nobody is refused; but a signature would make a header look verified."""
    with hosted(tmp_path, **INBOUND[inbound], **internal(tmp_path)) as gateway:
        somebody(gateway, inbound).good(SEARCH, **{"x-project": "p-1"})
        assert gateway.seen
        assert not any("project_id" in gateway.claims(request) for request in gateway.seen)


@pytest.mark.parametrize("call", every_tool(), ids=lambda call: call.tool)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.sampled(9)
def test_a_project_that_is_not_the_callers_is_forbidden_and_nothing_is_sent(
    tmp_path: Path, era: Era, call: ToolCall
) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        agent = gateway.person("ada", era=era, projects=["p-1", "p-2"])
        for project in ("p-9", "P-1", "p-1,p-2", "p", "*", "../p-1", "null"):
            result = agent.call(call, **{"x-project": project})
            assert result["structuredContent"]["code"] == "forbidden", project
        assert gateway.seen == []


async def test_a_foreign_project_is_not_signed_for_the_report_of_capabilities_either(tmp_path: Path) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        token = gateway.issuer.token("ada", EVERYTHING, projects=["p-1"])
        headers = {"authorization": f"Bearer {token}", "x-project": "p-9"}
        async with Client(
            StreamableHttpTransport(gateway.url + "/mcp", headers=headers), mode=MODE["modern"]
        ) as client:
            with pytest.raises(MCPError, match="forbidden: The X-Project header"):
                await client.read_resource("brains://capabilities")
        assert {gateway.claims(request).get("project_id") for request in gateway.seen} <= {None}


def test_the_shared_secret_is_sent_from_its_file_and_read_again_when_that_changes(tmp_path: Path) -> None:
    secret = tmp_path / "internal-key"
    replace_file(secret, f"{INTERNAL_KEY}\n".encode())
    with hosted(tmp_path, jwt=True, **internal(tmp_path, internal_key_file=secret)) as gateway:
        agent = gateway.person("ada")

        def sent() -> set[str | None]:
            gateway.seen.clear()
            agent.good(SEARCH, **{"x-internal-key": "mine"})
            return {request.header("x-internal-key") for request in gateway.seen}

        def problems() -> list[str]:
            return list(gateway.http.get(gateway.url + "/readyz", headers=OPERATOR).json()["problems"])

        assert sent() == {INTERNAL_KEY}
        replace_file(secret, b"another-one")
        assert sent() == {"another-one"}
        assert problems() == []
        replace_file(secret, b"two words\r\nx-evil: 1")
        assert problems() == ["the file of the shared secret cannot be read"]
        assert sent() == {"another-one"}, "what cannot be a header is not one"
        secret.unlink()
        assert problems() == ["the file of the shared secret cannot be read"]
        assert sent() == {"another-one"}
        replace_file(secret, b"a-third\n")
        assert problems() == []
        assert sent() == {"a-third"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_the_platform_is_not_followed_and_takes_no_header_anywhere(tmp_path: Path, status: int) -> None:
    secret = tmp_path / "internal-key"
    replace_file(secret, INTERNAL_KEY.encode())
    elsewhere = Recording(Starlette())
    with (
        listening(elsewhere) as there,
        hosted(tmp_path, jwt=True, **internal(tmp_path, internal_key_file=secret)) as gateway,
    ):
        agent = gateway.person("ada")
        for known in (False, True):
            gateway.platform.answer_with = RedirectResponse(f"{there}/v1/brains", status)
            for call in every_tool():
                assert agent.call(call)["isError"]
            gateway.platform.answer_with = None
            if not known:
                # Once the platform is known the same must hold for the calls themselves.
                agent.good(SEARCH)
    assert elsewhere.seen == []


def test_a_cookie_of_the_platform_is_sent_back_by_nobody(tmp_path: Path) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        app = gateway.platform.app

        async def with_cookie(scope: Scope, receive: Receive, send: Send) -> None:
            async def sent(message: Message) -> None:
                if message["type"] == "http.response.start":
                    cookies = [(b"set-cookie", b"sid=ada; Path=/"), (b"set-cookie", b"b=2; Domain=127.0.0.1")]
                    message = {**message, "headers": [*message.get("headers", ()), *cookies]}
                await send(message)

            await app(scope, receive, sent)

        gateway.platform.app = with_cookie
        for name in ("ada", "bob"):
            agent = gateway.person(name)
            for call in every_tool(name):
                agent.call(call) if name == "bob" and call.tool == MIXES else agent.good(call)
        assert not any(name == "cookie" for request in gateway.seen for name, _ in request.headers)


def test_a_refusal_of_the_platform_is_not_the_callers_to_mend(tmp_path: Path) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        agent = gateway.person("ada")
        agent.good(SEARCH)
        gateway.platform.answer_with = Response("who are you", 401, {"www-authenticate": "Bearer realm=inside"})
        answer = agent.post(SEARCH)
        assert answer.status_code == 200, "a 401 would send the caller to log in again"
        assert "www-authenticate" not in answer.headers
        assert "inside" not in answer.text


def test_an_internal_token_lets_nobody_in(tmp_path: Path) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        gateway.person("ada").good(SEARCH)
        own = gateway.seen[-1].bearer
        gateway.seen.clear()
        assert gateway.agent(own).post(SEARCH).status_code == 401
        assert gateway.seen == []
