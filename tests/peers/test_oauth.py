"""The gateway behind a real OAuth provider: found, logged in at, misused, out of keys and out of reach."""

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.peers.oidc.guarded import Guarded, Stage, guarded, result_of, staged
from tests.peers.oidc.login import Browser, browser_at, challenge_of, document, robot_token
from tests.peers.oidc.provider import Provider, provided
from tests.served import MODERN_HEADERS, Era, messages_of

ERAS: list[Era] = ["modern", "legacy"]
READ, WRITE, ADMIN = "brains:read", "brains:write", "brains:admin"
both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """A provider of the test's own, to do harm to."""
    with provided(tmp_path) as it:
        yield it


def lists_brains(gateway: Guarded, era: Era, token: str, path: str = "/mcp") -> bool:
    """Whether the token lets somebody in, and a tool works for them."""
    answer = gateway.call(era, "memory_list_brains", {}, token, path)
    return answer.status_code == 200 and result_of(answer)["isError"] is False


# --- Finding the provider, and logging in


@both_eras
@pytest.mark.parametrize("path", ["/mcp", "/mcp/main"])
def test_a_client_that_knows_only_the_url_finds_the_provider_and_logs_in(stage: Stage, era: Era, path: str) -> None:
    refused = stage.gateway.call(era, "memory_list_brains", {}, path=path)
    told = challenge_of(refused)
    assert refused.status_code == 401
    assert "error" not in told
    assert told["resource_metadata"] == f"{stage.gateway.url}/.well-known/oauth-protected-resource{path}"
    resource = document(told["resource_metadata"])
    assert resource["resource"] == stage.gateway.audience
    assert told["scope"].split() == [READ, WRITE]
    assert resource["scopes_supported"] == [READ, WRITE, ADMIN]
    (issuer,) = resource["authorization_servers"]
    metadata = document(f"{issuer}/.well-known/openid-configuration")
    assert metadata["issuer"] == issuer == stage.provider.issuer

    tokens = Browser(metadata).login(told["scope"], resource["resource"])
    assert lists_brains(stage.gateway, era, tokens["access_token"], path)


def test_the_provider_insists_on_pkce(stage: Stage) -> None:
    browser = browser_at(stage.provider)
    browser.register()
    assert browser.followed({"scope": READ, "resource": stage.gateway.audience})["error"] == "invalid_request"


@both_eras
def test_a_client_logs_in_by_its_own_secret(stage: Stage, era: Era) -> None:
    assert lists_brains(stage.gateway, era, robot_token(stage.provider, READ, stage.gateway.audience))


@both_eras
def test_a_refreshed_token_is_as_good(stage: Stage, era: Era) -> None:
    browser = browser_at(stage.provider)
    first = browser.login(READ, stage.gateway.audience)
    again = browser.tokens(grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert again["access_token"] != first["access_token"]
    assert lists_brains(stage.gateway, era, again["access_token"])


def test_the_log_tells_callers_apart_and_has_no_token(stage: Stage) -> None:
    browser = browser_at(stage.provider)
    ada = [browser.login(READ, stage.gateway.audience)["access_token"] for _ in range(2)]
    browser.cookies.clear()
    bob = browser.login(READ, stage.gateway.audience, "bob")["access_token"]
    served_before = len(stage.gateway.callers())
    assert all(lists_brains(stage.gateway, "modern", token) for token in (*ada, bob))
    first, again, other = stage.gateway.callers()[served_before:]
    assert first == again != other
    log = stage.gateway.log.read_text(encoding="utf-8")
    assert not [token for token in (*ada, bob) if token.rpartition(".")[2] in log]


@both_eras
@pytest.mark.parametrize(("project", "code"), [("alpha", None), ("beta", None), ("gamma", "forbidden")])
def test_projects_are_those_of_the_token(stage: Stage, era: Era, project: str, code: str | None) -> None:
    with stage.provider.issuing(claims={"org_id": "acme", "projects": ["alpha", "beta"]}):
        token = robot_token(stage.provider, READ, stage.gateway.audience)
    answer = stage.gateway.call(era, "memory_list_brains", {}, token, **{"x-project": project})
    assert result_of(answer)["structuredContent"].get("code") == code


# --- Tokens that are not for us


@dataclass(frozen=True)
class Others:
    """The provider, and three that are like it in part."""

    stage: Stage
    sibling: Provider
    """Another issuer with the same keys, as where one provider has many tenants."""
    stranger: Provider
    """Another issuer with other keys, by the same names."""
    impostor: Provider
    """Says that it is the provider, but does not have its keys."""

    @property
    def audience(self) -> str:
        return self.stage.gateway.audience

    def robot(self, provider: Provider | None = None, audience: str | None = None, **otherwise: Any) -> str:
        provider = provider or self.stage.provider
        with provider.issuing(**otherwise):
            return robot_token(provider, WRITE, audience or self.audience)


@pytest.fixture(scope="module")
def others(stage: Stage) -> Iterator[Others]:
    directory = stage.provider.keys_file.parent
    with ExitStack() as stack:
        yield Others(
            stage,
            stack.enter_context(provided(directory)),
            stack.enter_context(provided(directory, keys="stranger.json")),
            stack.enter_context(provided(directory, keys="impostor.json", issuer=stage.provider.issuer)),
        )


def with_a_scope_written_in(others: Others) -> str:
    header, _, signature = others.robot().split(".")
    claims = {**claims_of(others.robot()), "scope": ADMIN}
    return f"{header}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.{signature}"


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def bound_to_a_key(others: Others) -> str:
    key = ECKey.generate_key("P-256")
    url = f"{others.stage.provider.url}/token"
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False)}
    proof = jwt.encode(header, {"jti": str(uuid.uuid4()), "htm": "POST", "htu": url, "iat": int(time.time())}, key)
    return robot_token(others.stage.provider, WRITE, others.audience, dpop=proof)


def login(others: Others, **more: Any) -> dict[str, Any]:
    asked = {"scope": f"openid {WRITE}", "resource": others.audience, **more}
    return browser_at(others.stage.provider).login(**asked)


# What is brought -> how it is had, and why it is refused, as the log has it.
NOT_FOR_US: dict[str, tuple[Callable[[Others], str], str]] = {
    "expired": (lambda o: o.robot(clock=-1200), "expired"),
    "from the future": (lambda o: o.robot(clock=120), "not valid yet"),
    "for more than a day": (lambda o: o.robot(ttl=25 * 3600), "valid for too long"),
    "for another resource": (lambda o: o.robot(audience="https://other.example/mcp"), "audience"),
    "for a path below ours": (lambda o: o.robot(audience=f"{o.audience}/main"), "audience"),
    "for our root": (lambda o: o.robot(audience=o.stage.gateway.url), "audience"),
    "of another issuer": (lambda o: o.robot(o.stranger), "signature"),
    "of another issuer with the same keys": (lambda o: o.robot(o.sibling), "issuer"),
    "of one who says to be the issuer": (lambda o: o.robot(o.impostor), "signature"),
    "with a scope written in": (with_a_scope_written_in, "signature"),
    "of several organizations": (lambda o: o.robot(claims={"org_id": ["acme", "globex"]}), "organization"),
    "bound to a key": (bound_to_a_key, "bound to a key"),
    "an ID token": (lambda o: str(login(o, nonce="n")["id_token"]), "ID token"),
    "an ID token without a nonce": (lambda o: str(login(o)["id_token"]), "audience"),
    "a refresh token": (lambda o: str(login(o)["refresh_token"]), "not a JWT"),
    "an opaque access token": (lambda o: str(login(o, resource=None)["access_token"]), "not a JWT"),
}


@both_eras
@pytest.mark.parametrize("kind", NOT_FOR_US)
def test_a_token_of_the_wrong_kind_is_told_to_log_in_again(others: Others, era: Era, kind: str) -> None:
    had, reason = NOT_FOR_US[kind]
    gateway = others.stage.gateway
    token = had(others)
    refused_before = len(gateway.reasons())
    answer = gateway.call(era, "memory_list_brains", {}, token)
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"
    assert challenge_of(answer) == {
        "error": "invalid_token",
        "scope": f"{READ} {WRITE}",
        "resource_metadata": f"{gateway.url}/.well-known/oauth-protected-resource/mcp",
    }
    assert gateway.reasons()[refused_before:] == [reason]


def test_the_same_tokens_without_what_is_wrong_are_good(others: Others) -> None:
    """Else the test above would prove nothing."""
    good = [
        others.robot(),
        others.robot(clock=30),
        others.robot(ttl=23 * 3600),
        others.robot(claims={"org_id": ["acme"]}),
        str(login(others, nonce="n")["access_token"]),
    ]
    assert [lists_brains(others.stage.gateway, "modern", token) for token in good] == [True] * len(good)


@both_eras
def test_an_id_token_for_a_client_of_our_name_may_do_nothing(others: Others, era: Era) -> None:
    """It has our audience and looks like a token that has no scope: whichever it is taken for, it opens nothing."""
    with others.stage.provider.issuing(clientId=others.audience):
        browser = browser_at(others.stage.provider)
        browser.register()
    token = browser.login(f"openid {WRITE}", others.audience)["id_token"]
    assert claims_of(token)["aud"] == others.audience
    assert others.stage.gateway.call(era, "memory_list_brains", {}, token).status_code in {401, 403}


# --- Scopes

NEEDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "memory_remember": ({"content": "# Badgers\n\nBadgers dig."}, [READ, WRITE]),
    "memory_consolidate": ({}, [READ, WRITE, ADMIN]),
}


@both_eras
@pytest.mark.parametrize("path", ["/mcp", "/mcp/main"])
@pytest.mark.parametrize("tool", NEEDS)
def test_who_lacks_a_scope_is_told_all_that_it_takes_and_steps_up(stage: Stage, era: Era, tool: str, path: str) -> None:
    arguments, needed = NEEDS[tool]
    arguments = {"brain": stage.brain, **arguments}
    browser = browser_at(stage.provider)
    token = browser.login(READ, stage.gateway.audience)["access_token"]
    refused = stage.gateway.call(era, tool, arguments, token, path)
    assert refused.status_code == 403
    assert challenge_of(refused) == {
        "error": "insufficient_scope",
        "scope": " ".join(needed),
        "resource_metadata": f"{stage.gateway.url}/.well-known/oauth-protected-resource{path}",
    }
    assert result_of(refused)["structuredContent"]["required_scopes"] == needed

    token = browser.login(challenge_of(refused)["scope"], stage.gateway.audience)["access_token"]
    answer = stage.gateway.call(era, tool, arguments, token, path)
    assert answer.status_code == 200
    assert result_of(answer)["isError"] is False


@both_eras
def test_a_token_without_a_scope_of_ours_gets_in_and_no_further(stage: Stage, era: Era) -> None:
    token = browser_at(stage.provider).login("openid", stage.gateway.audience)["access_token"]
    refused = stage.gateway.call(era, "memory_search", {"brain": stage.brain, "query": "otters"}, token)
    assert (refused.status_code, challenge_of(refused)["scope"]) == (403, READ)


@pytest.mark.parametrize(("scope", "writes"), [(READ, False), (WRITE, True), (ADMIN, True)])
def test_a_scope_includes_those_below_it(stage: Stage, scope: str, writes: bool) -> None:
    token = robot_token(stage.provider, scope, stage.gateway.audience)
    found = stage.gateway.call("modern", "memory_search", {"brain": stage.brain, "query": "otters"}, token)
    assert [hit["title"] for hit in result_of(found)["structuredContent"]["hits"]] == ["Otters"]
    assert ("memory_remember" in tools_shown(stage.gateway, token)) is writes


def tools_shown(gateway: Guarded, token: str) -> set[str]:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    headers = {**MODERN_HEADERS, "mcp-method": "tools/list", "authorization": f"Bearer {token}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    answer = httpx.post(gateway.audience, headers=headers, json=message, trust_env=False)
    return {tool["name"] for tool in messages_of(answer)[-1]["result"]["tools"]}


# --- Keys that change, and a provider that goes away


@pytest.mark.parametrize("keep", [True, False], ids=["old key published", "old key withdrawn"])
def test_a_new_key_of_the_provider_is_looked_up(tmp_path: Path, provider: Provider, keep: bool) -> None:
    with guarded(tmp_path, provider, asks_every=0) as gateway:
        old = robot_token(provider, READ, gateway.audience)
        assert [lists_brains(gateway, era, old) for era in ERAS] == [True, True]
        provider.rotate(keep=keep)
        new = robot_token(provider, READ, gateway.audience)
        assert [lists_brains(gateway, era, new) for era in ERAS] == [True, True]
        assert [lists_brains(gateway, era, old) for era in ERAS] == [keep, keep]


def test_keys_that_nobody_has_do_not_make_it_ask_and_ask(tmp_path: Path, provider: Provider) -> None:
    with guarded(tmp_path, provider) as gateway, provided(tmp_path, keys="stranger.json") as stranger:
        known = robot_token(provider, READ, gateway.audience)
        assert lists_brains(gateway, "modern", known)
        asked_before, began = provider.key_requests(), time.monotonic()
        for _ in range(5):
            stranger.rotate(keep=False)
            answer = gateway.call("modern", "memory_list_brains", {}, robot_token(stranger, READ, gateway.audience))
            assert answer.status_code == 401
        # Once in five seconds, however long all of it took here.
        assert provider.key_requests() - asked_before <= 1 + (time.monotonic() - began) // 5
        assert lists_brains(gateway, "modern", known)


def assert_told_to_wait(answer: httpx.Response) -> None:
    """Never 401: clients throw their tokens away at that."""
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "www-authenticate" not in answer.headers
    assert answer.json() | {"message": ""} == {
        "code": "upstream_unavailable",
        "message": "",
        "retryable": True,
        "retry_after_seconds": int(answer.headers["retry-after"]),
    }


@both_eras
def test_while_the_provider_is_down_those_with_known_keys_go_on(tmp_path: Path, provider: Provider, era: Era) -> None:
    with guarded(tmp_path, provider, asks_every=0) as gateway:
        known = robot_token(provider, READ, gateway.audience)
        assert lists_brains(gateway, era, known)
        provider.rotate(keep=True)
        unknown = robot_token(provider, READ, gateway.audience)
        provider.stop()
        assert lists_brains(gateway, era, known)
        assert_told_to_wait(gateway.call(era, "memory_list_brains", {}, unknown))
        assert lists_brains(gateway, era, known)
        provider.start()
        assert lists_brains(gateway, era, unknown)


def test_a_provider_that_did_not_answer_is_not_taken_for_one_without_the_key(
    tmp_path: Path, provider: Provider
) -> None:
    """Also between two requests for the keys, when nobody asks it."""
    with guarded(tmp_path, provider, asks_every=3) as gateway:
        assert lists_brains(gateway, "modern", robot_token(provider, READ, gateway.audience))
        provider.rotate(keep=True)
        unknown = robot_token(provider, READ, gateway.audience)
        provider.stop()

        def answer() -> httpx.Response:
            return gateway.call("modern", "memory_list_brains", {}, unknown)

        deadline = time.monotonic() + 30
        while answer().status_code != 503 and time.monotonic() < deadline:
            time.sleep(0.1)
        for _ in range(5):
            assert_told_to_wait(answer())


@pytest.mark.parametrize("asks_every", [0, None], ids=["asks at once", "asks every few seconds"])
def test_a_gateway_that_starts_without_the_provider_waits_for_it(
    tmp_path: Path, provider: Provider, asks_every: float | None
) -> None:
    with guarded(tmp_path, provider, asks_every=asks_every) as gateway:
        token = robot_token(provider, READ, gateway.audience)
        provider.stop()
        for era in ERAS:
            assert_told_to_wait(gateway.call(era, "memory_list_brains", {}, token))
            assert gateway.call(era, "memory_list_brains", {}).status_code == 401
        assert httpx.get(f"{gateway.url}/readyz", trust_env=False).status_code == 503
        assert httpx.get(f"{gateway.url}/healthz", trust_env=False).status_code == 200
        provider.start()
        if asks_every is None:
            # Until it asks again, it says the same.
            while (answer := gateway.call("modern", "memory_list_brains", {}, token)).status_code != 200:
                assert_told_to_wait(answer)
                time.sleep(0.2)
        assert [lists_brains(gateway, era, token) for era in ERAS] == [True, True]
        assert httpx.get(f"{gateway.url}/readyz", trust_env=False).status_code == 200
