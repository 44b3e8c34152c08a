"""What somebody might try: each attack, and that it fails; often beside what is right, so that the test can fail."""

import base64
import html
import json
import re
import secrets
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from gateway.http import refusal_log
from gateway.http.auth.login.redirects import is_registered
from gateway.http.auth.signed import claims_of
from tests.gateway.http.auth.login.house import (
    PASSWORD,
    REDIRECT,
    Clock,
    Person,
    add_user,
    answer_of,
    challenge,
    hidden,
    house,
)

# --- Codes


def test_a_code_that_is_brought_again_ends_what_was_issued_for_it(ada: Person) -> None:
    code = ada.code()
    tokens = ada.redeem(code).json()
    assert ada.status(tokens["access_token"]) == 200
    assert ada.redeem(code).json()["error"] == "invalid_grant"
    assert ada.status(tokens["access_token"]) == 401
    assert ada.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_code_without_its_verifier_is_worth_nothing_and_costs_its_owner_nothing(ada: Person) -> None:
    code = ada.code()
    for verifier in (None, "short", secrets.token_urlsafe(48), challenge(ada.verifier), ada.verifier + "x"):
        assert ada.redeem(code, code_verifier=verifier).json()["error"] == "invalid_grant"
    assert ada.redeem(code).status_code == 200


@pytest.mark.parametrize(
    "pkce",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "s256"},
        {"code_challenge": "too short"},
        {"code_challenge": "x" * 44},
    ],
)
def test_nobody_gets_far_without_pkce_by_s256(ada: Person, pkce: dict[str, str | None]) -> None:
    told = answer_of(ada.begin(**pkce))
    assert (told["error"], told["iss"], told["state"]) == ("invalid_request", ada.issuer, "a state")
    assert "code" not in told


def test_a_code_is_for_one_client_and_one_address(url: str) -> None:
    ada, mallory = Person(url), Person(url)
    mallory.register(client_name="Mallory")
    mallory.verifier = ada.verifier
    code = ada.code()
    assert mallory.redeem(code).json()["error"] == "invalid_grant"
    for uri in ("http://127.0.0.1:10/callback", "https://evil.example/", None):
        assert ada.redeem(code, redirect_uri=uri).json()["error"] == "invalid_grant"
    assert ada.redeem(code).status_code == 200


def test_two_codes_of_one_consent_are_one_login(ada: Person) -> None:
    """Somebody has pressed the button twice."""
    page = ada.enter(ada.begin())
    first, second = (answer_of(ada.fill(page, decision="allow"))["code"] for _ in range(2))
    tokens = ada.redeem(first).json()
    assert ada.redeem(second).json()["error"] == "invalid_grant"
    assert ada.status(tokens["access_token"]) == 401


# --- Where the browser is sent


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:9/callback/",
        "http://127.0.0.1:9/callback?more=1",
        "http://127.0.0.1:9/callback#x",
        "http://127.0.0.1:9/Callback",
        "http://127.0.0.1:9/callback/../other",
        "http://localhost:9/callback",
        "https://127.0.0.1:9/callback",
        "http://127.0.0.1:9@evil.example/callback",
        "http://127.0.0.1.evil.example:9/callback",
        "javascript:alert(1)",
        "//evil.example",
        "",
    ],
)
def test_a_browser_is_never_sent_where_the_program_has_not_said(ada: Person, uri: str) -> None:
    """Whatever else is wrong with the request."""
    for wrong in ({}, {"response_type": "token"}, {"code_challenge": None}, {"resource": "https://evil.example/"}):
        answer = ada.begin(redirect_uri=uri, **wrong)
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "evil.example" not in answer.text


def test_of_a_program_on_the_same_machine_the_port_is_whichever_it_got(ada: Person) -> None:
    ada.register()
    ada.redirect_uri = "http://127.0.0.1:54321/callback"
    assert ada.redeem(ada.code()).status_code == 200


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://ada@app.example/",
        "https://app.example/#fragment",
        "https://app.example/ x",
        "https://app.example/;form-action *",
        "https:///callback",
        "app://callback",
        "https://app.example:99999/",
        "https://app.example/" + "x" * 1024,
    ],
)
def test_an_address_that_is_not_safe_cannot_be_registered(ada: Person, uri: str) -> None:
    answer = ada.register(redirect_uris=[uri])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "uri",
    [
        "https://chatgpt.com/connector_platform_oauth_redirect",
        "http://localhost:33418/",
        "http://[::1]/x",
        "cursor://anysphere.cursor-retrieval/oauth/user-agent/callback",
        "com.example.app:/callback",
    ],
)
def test_the_form_may_lead_to_the_program_and_nowhere_else(ada: Person, uri: str) -> None:
    """Browsers hold the redirect after a form against form-action too."""
    ada.redirect_uri = uri
    assert ada.register().status_code == 201
    page = ada.begin()
    (form_action,) = (rule for rule in page.headers["content-security-policy"].split("; ") if "form-action" in rule)
    origin = uri.partition("/callback")[0] if uri.startswith("com.") else "/".join(uri.split("/")[:3])
    assert form_action == f"form-action 'self' {origin if uri.startswith('http') else uri.partition(':')[0] + ':'}"
    done = ada.fill(ada.enter(page), decision="allow")
    assert done.headers["location"].startswith(f"{uri}?code=")


# --- The pages


def test_no_page_can_be_framed_scripted_kept_or_told_of(ada: Person) -> None:
    first = ada.begin()
    pages = [first, ada.enter(first), ada.enter(first, password="wrong password"), ada.begin(redirect_uri="x:")]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "frame-ancestors 'none'" in policy
        assert "script" not in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["x-content-type-options"] == "nosniff"


EVIL: list[dict[str, str]] = [
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", EVIL)
def test_a_form_that_another_page_sends_is_refused(ada: Person, headers: dict[str, str]) -> None:
    first = ada.begin()
    page = ada.enter(first)
    for form, fields in ((page, {"decision": "allow"}), (first, {"user": "ada", "password": PASSWORD})):
        answer = ada.fill(form, headers=headers, **fields)
        assert answer.status_code in {400, 403}
        assert "location" not in answer.headers
    assert ada.fill(page, decision="allow").status_code == 303


def test_a_form_is_good_only_in_the_browser_that_was_shown_it(url: str) -> None:
    """Mallory begins, logs in, and has ada's browser send the form: her program would be Mallory's."""
    mallory, ada = Person(url), Person(url)
    first = mallory.begin()
    page = mallory.enter(first)
    assert ada.fill(page, decision="allow").status_code == 400, "no cookie"
    ada.begin()
    assert ada.cookies.keys() == mallory.cookies.keys()
    assert ada.fill(page, decision="allow").status_code == 400, "another cookie"
    assert ada.fill(first, user="ada", password=PASSWORD).status_code == 400
    assert mallory.fill(page, decision="allow").status_code == 303


def test_a_consent_cannot_be_had_without_the_page_before(ada: Person) -> None:
    first = ada.begin()
    sealed = hidden(first)["request"]
    for fields in ({"consent": sealed, "decision": "allow"}, {"consent": "made up"}, {"request": "made up"}, {}):
        answer = ada.send("POST", "/authorize", data=fields, headers={"origin": ada.issuer})
        assert answer.status_code == 400
        assert "location" not in answer.headers
    assert hidden(ada.fill(first, decision="allow")).keys() == {"request"}, "no password was typed"


def test_over_https_the_cookie_is_this_hosts_alone(data: Path) -> None:
    with house(data, public_url="https://brains.example") as url:
        page = Person(url, "https://brains.example").begin()
    (cookie,) = page.headers.get_list("set-cookie")
    name, *flags = cookie.split("; ")
    assert name.startswith("__Host-brains-login=")
    assert {flag.lower() for flag in flags} >= {"secure", "httponly", "path=/", "samesite=lax"}


# --- Tokens


def test_a_refresh_token_that_is_brought_again_ends_the_login(ada: Person) -> None:
    first = ada.log_in()
    second = ada.refresh(first["refresh_token"]).json()
    third = ada.refresh(second["refresh_token"]).json()
    assert ada.status(third["access_token"]) == 200
    assert ada.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    for tokens in (first, second, third):
        assert ada.status(tokens["access_token"]) == 401
        assert ada.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_refresh_token_is_for_one_client(ada: Person) -> None:
    tokens = ada.log_in()
    mallory = Person(ada.url)
    mallory.register(client_name="Mallory")
    assert mallory.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert ada.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("resource", ["https://evil.example/mcp", "{url}", "{url}/mcp/", "{url}/mcp/main", "mcp"])
def test_nothing_is_granted_for_another_resource(ada: Person, resource: str) -> None:
    named = resource.format(url=ada.issuer)
    assert answer_of(ada.begin(resource=named))["error"] == "invalid_target"
    code = ada.code()
    assert ada.redeem(code, resource=named).json()["error"] == "invalid_target"
    tokens = ada.redeem(code).json()
    assert ada.refresh(tokens["refresh_token"], resource=named).json()["error"] == "invalid_target"
    assert ada.refresh(tokens["refresh_token"], resource=ada.resource).status_code == 200


def test_a_token_of_another_gateway_is_none_here_though_both_have_the_same_keys(tmp_path: Path) -> None:
    """Another issuer: another audience, and keys that follow from both."""
    (tmp_path / "keys").write_text("ab" * 32)
    (tmp_path / "keys").chmod(0o600)
    people = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        add_user(tmp_path / name)
    with (
        house(tmp_path / "one", login_keys_file=tmp_path / "keys") as one,
        house(tmp_path / "two", login_keys_file=tmp_path / "keys") as two,
    ):
        people = [Person(one), Person(two)]
        tokens = [person.log_in() for person in people]
        assert [person.status(had["access_token"]) for person, had in zip(people, tokens, strict=True)] == [200, 200]
        assert people[0].status(tokens[1]["access_token"]) == 401
        assert people[0].refresh(tokens[1]["refresh_token"]).json()["error"] == "invalid_grant"
        people[0].client_id = people[1].client_id
        assert people[0].begin().status_code == 400


def changed(sealed: str, place: int) -> str:
    """The same with one letter changed."""
    letter = "A" if sealed[place] != "A" else "B"
    return sealed[:place] + letter + sealed[place + 1 :]


def test_nothing_that_is_sealed_or_signed_can_be_changed(ada: Person) -> None:
    tokens, page, code = ada.log_in(), ada.enter(ada.begin()), ada.code()
    consent, refresh, client = hidden(page)["consent"], tokens["refresh_token"], ada.client_id
    for part in (0.02, 0.5, 0.8):
        assert ada.redeem(changed(code, int(len(code) * part))).json()["error"] == "invalid_grant"
        assert ada.refresh(changed(refresh, int(len(refresh) * part))).json()["error"] == "invalid_grant"
        assert ada.status(changed(tokens["access_token"], int(len(tokens["access_token"]) * part))) == 401
        sent = {"consent": changed(consent, int(len(consent) * part)), "decision": "allow"}
        assert ada.send("POST", "/authorize", data=sent).status_code == 400
        assert ada.begin(client_id="dyn." + changed(client[4:], int(len(client[4:]) * part))).status_code == 400
    assert ada.redeem(code).status_code == 200


def test_what_is_sealed_as_one_thing_is_good_for_no_other(ada: Person) -> None:
    code = ada.code()
    tokens = ada.redeem(code).json()
    request = hidden(ada.begin())["request"]
    for sealed in (code, request, ada.client_id[4:], tokens["access_token"]):
        assert ada.refresh(sealed).json()["error"] == "invalid_grant"
    for sealed in (tokens["refresh_token"], request, tokens["access_token"]):
        assert ada.redeem(sealed).json()["error"] == "invalid_grant"
    for sealed in (code, tokens["refresh_token"], request):
        assert ada.status(sealed) == 401


def test_a_token_that_says_more_for_itself_is_not_believed(ada: Person) -> None:
    token = ada.log_in()["access_token"]
    header, _, signature = token.split(".")
    said = base64.urlsafe_b64encode(json.dumps({**claims_of(token), "scope": "brains:admin"}).encode()).rstrip(b"=")
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","typ":"at+jwt"}').rstrip(b"=").decode()
    assert ada.status(f"{header}.{said.decode()}.{signature}") == 401
    assert ada.status(f"{unsigned}.{said.decode()}.") == 401


# --- Time


def test_everything_expires(data: Path, clock: Clock) -> None:
    with house(data, clock, clock) as url:
        ada = Person(url)
        first = ada.begin()
        page = ada.enter(first)
        clock.go_on(601)
        assert ada.enter(first).status_code == 400
        assert ada.fill(page, decision="allow").status_code == 400
        code = ada.code()
        clock.go_on(61)
        assert ada.redeem(code).json()["error"] == "invalid_grant"
        tokens = ada.log_in()
        clock.go_on(3500)
        assert ada.status(tokens["access_token"]) == 200
        clock.go_on(200)
        assert ada.status(tokens["access_token"]) == 401
        clock.go_on(29 * 24 * 3600)
        tokens = ada.refresh(tokens["refresh_token"]).json()
        assert ada.status(tokens["access_token"]) == 200
        clock.go_on(31 * 24 * 3600)
        assert ada.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_no_login_lasts_for_ever(data: Path, clock: Clock) -> None:
    with house(data, clock, clock) as url:
        ada = Person(url)
        refresh = ada.log_in()["refresh_token"]
        for _ in range(6):
            clock.go_on(29 * 24 * 3600)
            answer = ada.refresh(refresh)
            assert answer.status_code == 200
            refresh = answer.json()["refresh_token"]
        clock.go_on(7 * 24 * 3600)
        assert ada.refresh(refresh).json()["error"] == "invalid_grant"


# --- Requests that are not what they should be


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "scope", "code_challenge", "resource"])
def test_a_parameter_that_is_there_twice_is_refused(ada: Person, name: str) -> None:
    ada.register()
    twice = [*ada.query().items(), (name, "https://evil.example/")]
    answer = ada.send("GET", "/authorize", params=twice)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    code = ada.code()
    body = f"grant_type=authorization_code&code={code}&code={code}&client_id=x"
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{ada.url}/token", content=body, headers=form, trust_env=False)
    assert answer.json()["error"] == "invalid_request"


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"request": "eyJ"}, "request_not_supported"),
        ({"request_uri": "https://evil.example/"}, "request_not_supported"),
    ],
)
def test_another_flow_is_not_served(ada: Person, asked: dict[str, str | None], error: str) -> None:
    assert answer_of(ada.begin(**asked))["error"] == error


@pytest.mark.parametrize("redirect_uri", ["https://evil.example/back", "com.evil.app:/back"])
def test_a_link_to_us_alone_leads_nobody_elsewhere(ada: Person, redirect_uri: str) -> None:
    """Anybody can register an address of theirs. People see it before they go there."""
    ada.redirect_uri = redirect_uri
    page = ada.begin(response_type="token")
    assert (page.status_code, "location" in page.headers) == (400, False)
    (link,) = re.findall(r'<a href="([^"]*)" rel="noreferrer">Tell (?:evil.example|com.evil.app:)</a>', page.text)
    assert html.unescape(link).startswith(f"{redirect_uri}?error=unsupported_response_type&")
    denied = ada.fill(ada.begin(), decision="deny")
    assert answer_of(denied)["error"] == "access_denied", "after the page that says where it goes"


def test_large_and_slow_bodies_are_not_read(ada: Person) -> None:
    for path in ("/token", "/register", "/revoke", "/authorize"):
        kind = {"content-type": "application/x-www-form-urlencoded"}
        answer = httpx.post(f"{ada.url}{path}", content=b"x=" + b"y" * 40_000, headers=kind, trust_env=False)
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{}",
        b'{"redirect_uris": []}',
        b'{"redirect_uris": "https://a.example/"}',
        b'{"redirect_uris": ["https://a.example/"], "grant_types": ["client_credentials"]}',
        json.dumps({"redirect_uris": [f"https://a.example/{n}" for n in range(6)]}).encode(),
        json.dumps({"redirect_uris": [f"https://a.example/{n}{'x' * 900}" for n in range(5)]}).encode(),
    ],
)
def test_a_registration_that_says_too_little_or_too_much_is_refused(ada: Person, said: bytes) -> None:
    answer = httpx.post(f"{ada.url}/register", content=said, trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["error"] in {"invalid_client_metadata", "invalid_redirect_uri"}


# --- What is told


def test_a_login_that_cannot_be_granted_is_logged_with_its_reason_and_address(ada: Person) -> None:
    with capture_logs() as logs:
        ada.begin(response_type="token")
        ada.fill(ada.begin(), decision="deny")
    told = [event for event in logs if event["event"] == "login.refused"]
    assert [event["error"] for event in told] == ["unsupported_response_type", "access_denied"]
    assert [event["reason"] for event in told] == ["Only response_type=code is served here.", None]
    assert {event["address"] for event in told} == {"127.0.0.1"}
    assert all(event["request_id"] for event in told)


def test_refusals_are_logged_with_their_reason_and_no_secret(ada: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    # All tests of a process count together, and have caused many refusals before.
    for most in ("LINES", "LINES_OF_ONE"):
        monkeypatch.setattr(refusal_log, most, 1_000_000)
    with capture_logs() as logs:
        page = ada.begin()
        ada.enter(page, "nobody", "a typed secret")
        ada.enter(page, "a typed secret", "x")
        code = ada.code()
        ada.redeem(code, code_verifier="x" * 43)
        tokens = ada.redeem(code).json()
        ada.redeem(code)
    reasons = [event["reason"] for event in logs if event["event"] == "http.refused"]
    assert reasons == [
        "user or password",
        "user or password",
        "invalid_grant: not the verifier",
        "invalid_grant: used before, or revoked: the login is ended",
    ]
    told = json.dumps(logs)
    for secret in ("a typed secret", PASSWORD, code, tokens["access_token"], tokens["refresh_token"], ada.verifier):
        assert secret not in told


def test_nobody_learns_who_is_a_user(ada: Person) -> None:
    page = ada.begin()
    known, unknown = ada.enter(page, "ada", "wrong password"), ada.enter(page, "nobody", "wrong password")
    assert known.status_code == unknown.status_code == 400
    assert known.text == unknown.text


def test_a_key_that_is_taken_away_ends_what_it_made_and_one_that_is_added_does_not(data: Path) -> None:
    with house(data) as url:
        ada = Person(url)
        tokens = ada.log_in()
        keys = data / "login-keys"
        assert keys.stat().st_mode & 0o777 == 0o600
        old = keys.read_text()
        keys.write_text("cd" * 32 + "\n" + old)
        assert ada.status(tokens["access_token"]) == 200
        fresh = ada.refresh(tokens["refresh_token"]).json()
        keys.write_text("cd" * 32 + "\n")
        assert ada.status(tokens["access_token"]) == 401
        assert ada.status(fresh["access_token"]) == 200
        assert ada.refresh(fresh["refresh_token"]).status_code == 200
        assert ada.begin().status_code == 400, "the program was registered with the old key"


def test_a_redirect_keeps_nothing_but_the_answer(ada: Person) -> None:
    assert ada.code()
    done = ada.fill(ada.enter(ada.begin()), decision="allow")
    assert done.headers["location"].startswith(REDIRECT)
    assert set(answer_of(done)) == {"code", "state", "iss"}
    assert done.text == ""


# --- Addresses that a browser reads in another way than we do

ODD = (
    "http://evil.example\\@127.0.0.1/callback",
    "http://evil.example\\ http: @127.0.0.1/callback",
    "http://ada@127.0.0.1/callback",
    "http://127.0.0.1@evil.example/callback",
    "http://127.0.0.1:80;x/callback",
    "http://127.0.0.1/call\tback",
    "http://127.0.0.1/callback\r\nlocation: x",
    "http://[",
    "http://127.0.0.1:999999/callback",
)


@pytest.mark.parametrize("uri", ODD)
def test_a_program_of_this_machine_is_sent_nothing_at_an_odd_address(uri: str) -> None:
    assert not is_registered(uri, ["http://127.0.0.1/callback"])


def test_a_program_of_this_machine_may_have_any_port() -> None:
    for uri in ("http://127.0.0.1/callback", "http://127.0.0.1:1/callback", "http://127.0.0.1:65535/callback"):
        assert is_registered(uri, ["http://127.0.0.1:8000/callback"])
    assert not is_registered("http://localhost:1/callback", ["http://127.0.0.1:8000/callback"])
