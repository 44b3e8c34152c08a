"""Logging in, from a refusal to a call that is answered; and what each step says of itself."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from gateway.app.login import login_of
from gateway.config.settings import load
from gateway.http.auth.signed import ALGORITHMS, claims_of
from tests.gateway.http.auth.login.house import ADMIN, READ, REDIRECT, WRITE, Person, add_user, answer_of, hidden, house
from tests.served import messages_of, raw_call


def document(url: str) -> dict[str, object]:
    return dict(httpx.get(url, trust_env=False).raise_for_status().json())


def test_a_client_that_knows_only_the_address_finds_the_login_and_is_let_in(url: str) -> None:
    refused = httpx.post(f"{url}/mcp", **raw_call("modern", "memory_list_brains", {}), trust_env=False)
    told = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers["www-authenticate"]))
    assert refused.status_code == 401
    assert told["scope"] == f"{READ} {WRITE}"
    resource = document(told["resource_metadata"])
    assert (resource["resource"], resource["authorization_servers"]) == (f"{url}/mcp", [url])
    metadata = document(f"{url}/.well-known/oauth-authorization-server")
    assert metadata == {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "registration_endpoint": f"{url}/register",
        "revocation_endpoint": f"{url}/revoke",
        "scopes_supported": [READ, WRITE, ADMIN],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }
    ada = Person(url)
    tokens = ada.log_in()
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, f"{READ} {WRITE}")
    answer = ada.call(tokens["access_token"])
    assert answer.status_code == 200
    assert messages_of(answer)[-1]["result"]["isError"] is False


def test_the_pages_say_who_asks_for_what(ada: Person) -> None:
    ada.register(client_name="Notes & <b>more</b>\u202e")
    first = ada.begin()
    assert first.status_code == 200
    assert "<b>Notes &amp; &lt;b&gt;more&lt;/b&gt;</b> wants to use the memory at" in first.text
    assert "This name is what it says of itself." in first.text
    assert "a program on the computer that this browser runs on" in first.text
    second = ada.enter(first)
    assert second.status_code == 200
    for said in (">ada<", "read and search notes", f"({WRITE})", "every brain that you may use"):
        assert said in second.text
    assert f"({ADMIN})" not in second.text
    assert "password" not in second.text.lower()
    for page in (first, second):
        assert "<script" not in page.text
        assert "\u202e" not in page.text


def test_the_host_that_a_browser_is_sent_to_is_shown(ada: Person) -> None:
    ada.redirect_uri = "https://claude.ai/api/mcp/auth_callback"
    ada.register()
    assert "your browser is sent to <b>claude.ai</b>" in ada.begin().text


def test_nobody_is_granted_more_than_they_have(url: str) -> None:
    bob = Person(url)
    page = bob.enter(bob.begin(scope=f"{READ} {WRITE} {ADMIN}"), "bob")
    assert "the brain main" in page.text
    assert f"({WRITE})" not in page.text
    tokens = bob.redeem(answer_of(bob.fill(page, decision="allow"))["code"]).json()
    assert tokens["scope"] == READ
    said = claims_of(tokens["access_token"])
    assert (said["sub"], said["org_id"], said["brain"], said["projects"]) == ("bob@acme", "acme", "main", ["north"])
    assert bob.call(tokens["access_token"], "memory_remember", content="Otters.").status_code == 403
    assert bob.call(tokens["access_token"], "memory_search", query="otters", brain="main").status_code == 200
    other = bob.call(tokens["access_token"], "memory_search", query="otters", brain="other")
    assert messages_of(other)[-1]["result"]["structuredContent"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (None, f"{READ} {WRITE}"),
        ("openid email profile", f"{READ} {WRITE}"),
        (f"openid {READ}", READ),
        (ADMIN, f"{READ} {WRITE} {ADMIN}"),
    ],
)
def test_scopes_are_those_of_ours_that_were_asked_for(ada: Person, asked: str | None, granted: str) -> None:
    assert ada.log_in(scope=asked)["scope"] == granted


def test_without_a_resource_the_token_is_for_this_gateway_all_the_same(ada: Person) -> None:
    tokens = ada.redeem(ada.code(resource=None), resource=None).json()
    assert claims_of(tokens["access_token"])["aud"] == ada.resource
    assert ada.status(tokens["access_token"]) == 200


def test_a_refreshed_token_is_as_good_and_may_have_less(ada: Person) -> None:
    first = ada.log_in()
    less = ada.refresh(first["refresh_token"], scope=READ, resource=ada.resource).json()
    assert less["scope"] == READ
    assert ada.status(less["access_token"]) == 200
    again = ada.refresh(less["refresh_token"]).json()
    assert again["scope"] == f"{READ} {WRITE}"
    assert ada.status(first["access_token"]) == 200
    assert ada.refresh(again["refresh_token"], scope=ADMIN).json()["error"] == "invalid_scope"


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_who_revokes_one_token_ends_the_login(ada: Person, which: str) -> None:
    tokens = ada.log_in()
    given = {"token": tokens[which], "client_id": ada.client_id}
    assert httpx.post(f"{ada.url}/revoke", data=given, trust_env=False).status_code == 200
    assert ada.status(tokens["access_token"]) == 401
    assert ada.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_token_of_another_client_or_of_nobody_is_not_revoked(ada: Person) -> None:
    tokens = ada.log_in()
    other = Person(ada.url)
    other.register(client_name="Another")
    for token in (tokens["access_token"], tokens["refresh_token"], "made up"):
        given = {"token": token, "client_id": other.client_id}
        assert httpx.post(f"{ada.url}/revoke", data=given, trust_env=False).status_code == 200
    assert ada.status(tokens["access_token"]) == 200
    assert ada.refresh(tokens["refresh_token"]).status_code == 200


def test_who_says_no_sends_the_browser_back_without_a_code(ada: Person) -> None:
    first = ada.begin()
    second = ada.enter(first)
    for page in (first, second):
        done = ada.fill(page, decision="deny")
        assert done.status_code == 303
        assert done.headers["location"].startswith(f"{REDIRECT}?")
        assert answer_of(done) == {"error": "access_denied", "state": "a state", "iss": ada.issuer}


def test_what_an_address_has_already_stays_there(ada: Person) -> None:
    ada.redirect_uri = "https://app.example/back?to=notes"
    ada.register()
    there = ada.fill(ada.enter(ada.begin(state=None)), decision="allow").headers["location"]
    assert there.startswith("https://app.example/back?to=notes&code=")
    assert "state" not in urlsplit(there).query


def test_a_user_who_is_removed_or_changed_is_out_at_once(data: Path) -> None:
    with house(data) as url:
        ada = Person(url)
        tokens = ada.log_in()
        page = ada.enter(ada.begin())
        code = ada.code()
        assert ada.status(tokens["access_token"]) == 200
        (data / "users.json").unlink()
        add_user(data, "ada", "another password")
        assert ada.status(tokens["access_token"]) == 401
        assert ada.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
        assert ada.redeem(code).json()["error"] == "invalid_grant"
        assert ada.fill(page, decision="allow").status_code == 400
        assert hidden(ada.enter(ada.begin())).keys() == {"request"}, "the old password"
        assert hidden(ada.enter(ada.begin(), password="another password")).keys() == {"consent"}


async def test_private_notes_go_by_the_same_name_whatever_the_address_is(data: Path) -> None:
    owners = set()
    for public_url in ("https://one.example", "https://two.example"):
        with house(data, public_url=public_url) as url:
            token = Person(url, public_url).log_in()["access_token"]
        login = login_of(load(data_dir=data, auth="password", public_url=public_url), None, None)
        principal = await login.inbound.principal(token)
        owners.add((principal.issuer, principal.subject, principal.org))
        await login.close()
    assert owners == {("brains-gateway:users", "ada", None)}
