"""Access tokens: what is not plainly for this gateway lets nobody in, and is never an accident of ours."""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config.signing_keys import SigningKeys, begin, serialize
from gateway.http.auth.inbound import Refused
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.keys import ProviderKeys
from gateway.operations.caller import Call, Principal
from gateway.upstream.credentials import Endpoint, Internal
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.http.auth.forgeries import ACCEPTED, REFUSED, more_keys
from tests.gateway.http.auth.forging import Make, raw_claims, signed_as, twice
from tests.gateway.http.auth.provider import AUDIENCE, KEYS, LOGIN_SCOPE, PUBLIC_URL, Provider, ed, providing, public
from tests.served import Served, messages_of, raw_call, serving

NOW = 1_900_000_000.0


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as made:
        made.publish(*more_keys())
        yield made


@pytest.fixture(scope="module")
def keys(provider: Provider) -> ProviderKeys:
    """Asked for once: their clock stands still, so that nobody asks again."""

    async def fetched() -> ProviderKeys:
        async with pooled_client() as http:
            keys = ProviderKeys(provider.issuer, None, http, clock=lambda: 0.0)
            await keys.named(None)
            return keys

    return asyncio.run(fetched())


@pytest.fixture
def inbound(provider: Provider, keys: ProviderKeys) -> JwtInbound:
    return JwtInbound(Expected(provider.issuer, AUDIENCE), keys, clock=now)


def now() -> float:
    return NOW


@pytest.fixture(scope="module")
def served(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    settings = {"auth": "jwt", "auth_issuer": provider.issuer, "public_url": PUBLIC_URL, "calls_per_second": 1e6}
    with serving(data, None, **settings) as gateway:
        yield gateway


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as client:
        yield client


def answer(http: httpx.Client, served: Served, *authorization: str | bytes, path: str = "/mcp") -> httpx.Response:
    """Of a listing with these Authorization headers, as many as there are."""
    call = raw_call("modern", "memory_list_brains", {})
    headers: list[tuple[str | bytes, str | bytes]] = [*call["headers"].items()]
    headers += [("authorization", value) for value in authorization]
    return http.post(served.url + path, headers=headers, json=call["json"])  # type: ignore[arg-type]  # a list of pairs


def assert_refused(response: httpx.Response) -> None:
    assert response.status_code == 401, response.text
    assert response.headers["www-authenticate"].startswith(f'Bearer error="invalid_token", scope="{LOGIN_SCOPE}"')
    assert set(response.json()) == {"code", "message", "retryable"}
    assert response.json()["code"] == "unauthorized"


@pytest.mark.parametrize(("reason", "make"), REFUSED.values(), ids=REFUSED.keys())
async def test_it_lets_nobody_in(provider: Provider, inbound: JwtInbound, reason: str, make: Make) -> None:
    with pytest.raises(Refused, match=f"^({reason})$"):
        await inbound.principal(make(provider, NOW))
    assert provider.asked_for("/elsewhere") == 0


@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_it_lets_somebody_in(provider: Provider, inbound: JwtInbound, make: Make) -> None:
    principal = await inbound.principal(make(provider, NOW))
    assert (principal.issuer, principal.scopes) == (provider.issuer, frozenset({"brains:read"}))
    assert provider.asked_for("/elsewhere") == 0


@pytest.mark.parametrize("make", [make for _reason, make in REFUSED.values()], ids=REFUSED.keys())
@pytest.mark.sampled(5)
def test_over_http_it_is_401(provider: Provider, served: Served, http: httpx.Client, make: Make) -> None:
    assert_refused(answer(http, served, f"Bearer {make(provider, time.time())}"))


@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_over_http_it_is_200(provider: Provider, served: Served, http: httpx.Client, make: Make) -> None:
    response = answer(http, served, f"Bearer {make(provider, time.time())}")
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("end", ["\n", "\r\n", " ", "\t", "\x00", "\u00a0", "é"], ids=repr)
async def test_a_token_with_something_after_it_is_another_token(
    provider: Provider, inbound: JwtInbound, end: str
) -> None:
    with pytest.raises(Refused):
        await inbound.principal(provider.token(NOW) + end)


async def test_who_somebody_is_follows_from_the_token(provider: Provider, inbound: JwtInbound) -> None:
    token = provider.token(NOW, org_id=["acme"], projects=["north", 7, "", "south"], scope="openid brains:write")
    assert await inbound.principal(token) == Principal(
        issuer=provider.issuer,
        subject="ada",
        client="notebook",
        org="acme",
        projects=("north", "south"),
        scopes=frozenset({"brains:read", "brains:write"}),
    )


def bound_by(claim: str | None, provider: Provider, keys: ProviderKeys) -> JwtInbound:
    return JwtInbound(Expected(provider.issuer, AUDIENCE, brain_claim=claim), keys, clock=now)


@pytest.mark.parametrize(
    ("claim", "claims", "brain"),
    [
        ("brain", {"brain": "main"}, "main"),
        ("brain", {"brain": ["main"]}, "main"),
        ("brain", {"https://brains.example/brain": "main"}, None),
        ("https://brains.example/brain", {"https://brains.example/brain": "brn_1"}, "brn_1"),
        ("brain", {}, None),
        (None, {"brain": "main", "brain_id": "main", "None": "main"}, None),
        (None, {"brain": 7}, None),
    ],
    ids=str,
)
async def test_the_brain_a_token_is_bound_to_is_the_one_that_the_configured_claim_names(
    provider: Provider, keys: ProviderKeys, claim: str | None, claims: dict[str, Any], brain: str | None
) -> None:
    principal = await bound_by(claim, provider, keys).principal(provider.token(NOW, **claims))
    assert (principal.brain, principal.brain_in_path) == (brain, False)


@pytest.mark.parametrize(
    "said",
    [None, 7, True, "", " ", "../x", "a/b", "a\nb", "x" * 129, [], ["main", "other"], [["main"]], {"id": "main"}],
)
async def test_a_claim_that_names_no_brain_lets_nobody_in(provider: Provider, keys: ProviderKeys, said: Any) -> None:
    with pytest.raises(Refused, match=r"^brain$"):
        await bound_by("brain", provider, keys).principal(provider.token(NOW, brain=said))


def test_over_http_a_bound_access_token_is_good_for_its_brain_alone(
    provider: Provider, http: httpx.Client, tmp_path: Path
) -> None:
    door = {"auth": "jwt", "auth_issuer": provider.issuer, "public_url": PUBLIC_URL, "brain_claim": "brain"}
    with serving(tmp_path, None, **door) as served:

        def code(path: str = "/mcp", brain_claim: Any = "main", **arguments: str) -> str | None:
            call = raw_call("modern", "memory_search", {"query": "x", **arguments})
            call["headers"]["authorization"] = f"Bearer {provider.token(brain=brain_claim)}"
            said = http.post(served.url + path, **call)
            if said.status_code != 200:
                return str(said.status_code)
            found: str | None = messages_of(said)[-1]["result"]["structuredContent"].get("code")
            return found

        assert (code(), code("/mcp/main"), code(brain="main")) == (None, None, None)
        assert (code("/mcp/other"), code(brain="other"), code("/mcp/main", brain="other")) == ("forbidden",) * 3
        assert (code(brain_claim=7), code(brain_claim=None)) == ("401", "401")
        # One that is bound to none is for all brains, as ever.
        assert code(brain_claim=..., brain="main") is None


@pytest.mark.parametrize(
    ("claims", "highest"),
    [
        ({"scope": "brains:read"}, "read"),
        ({"scope": "brains:write"}, "write"),
        ({"scope": ["brains:write"]}, "write"),
        ({"scope": ..., "scp": "brains:admin"}, "admin"),
        ({"scope": ..., "scp": ["openid", "brains:read"]}, "read"),
        ({"scope": "openid", "scp": ["brains:write"]}, "write"),
        ({"scope": "brains:readbrains:admin"}, None),
        ({"scope": "BRAINS:ADMIN"}, None),
        ({"scope": "brains:*"}, None),
        ({"scope": "brains:admin,brains:write"}, None),
        ({"scope": {"brains:admin": True}}, None),
        ({"scope": [["brains:admin"]]}, None),
        ({"scope": 7, "scp": True}, None),
        ({"scope": ""}, None),
        ({"scope": ..., "permissions": ["brains:admin"], "roles": ["brains:admin"]}, None),
    ],
    ids=str,
)
async def test_scopes_are_those_of_ours_and_what_they_include(
    provider: Provider, inbound: JwtInbound, claims: dict[str, Any], highest: str | None
) -> None:
    included = {None: [], "read": ["read"], "write": ["read", "write"], "admin": ["read", "write", "admin"]}[highest]
    principal = await inbound.principal(provider.token(NOW, **claims))
    assert principal.scopes == {f"brains:{name}" for name in included}


@pytest.mark.parametrize(
    ("claims", "client"),
    [
        ({"client_id": "a", "azp": "b"}, "a"),
        ({"client_id": ..., "azp": "b"}, "b"),
        ({"client_id": ["a"], "azp": "b"}, "b"),
        ({"client_id": ...}, ""),
        ({"client_id": "a\nb"}, ""),
    ],
    ids=str,
)
async def test_the_client_is_told_by_either_name(
    provider: Provider, inbound: JwtInbound, claims: dict[str, Any], client: str
) -> None:
    assert (await inbound.principal(provider.token(NOW, **claims))).client == client


@pytest.mark.parametrize(
    ("audience", "is_let_in"),
    [
        ([AUDIENCE, "https://other.example"], True),
        (["https://other.example", AUDIENCE], True),
        (["https://other.example"], False),
        ("https://other.example", False),
        ([], False),
        (AUDIENCE, True),
    ],
    ids=str,
)
async def test_a_token_for_others_too_is_good_where_that_is_configured(
    provider: Provider, audience: Any, is_let_in: bool
) -> None:
    async with pooled_client() as http:
        expected = Expected(provider.issuer, AUDIENCE, shared_audience=True)
        inbound = JwtInbound(expected, ProviderKeys(provider.issuer, None, http), clock=now)
        token = provider.token(NOW, aud=audience)
        if is_let_in:
            assert (await inbound.principal(token)).subject == "ada"
        else:
            with pytest.raises(Refused):
                await inbound.principal(token)


async def test_the_token_is_kept_only_where_it_is_passed_on_and_never_shown(provider: Provider) -> None:
    async with pooled_client() as http:
        expected, keys = Expected(provider.issuer, AUDIENCE), ProviderKeys(provider.issuer, None, http)
        token = provider.token(NOW)
        kept = await JwtInbound(expected, keys, keeps_token=True, clock=now).principal(token)
        assert kept.token == token
        assert token not in repr(kept)
        assert (await JwtInbound(expected, keys, clock=now).principal(token)).token is None


async def test_a_token_of_ours_for_the_platform_does_not_come_back_in(
    provider: Provider, inbound: JwtInbound, tmp_path: Path
) -> None:
    """Not even where the provider publishes our key, and issuer and audience were the same."""
    file = tmp_path / "keys.json"
    file.write_bytes(serialize(begin("ES256")))
    keys = SigningKeys(file)
    for issuer, audience in ((PUBLIC_URL, AUDIENCE), (provider.issuer, AUDIENCE)):
        internal = Internal(keys, issuer=issuer, audience=audience, clock=now)
        bearer = internal.headers(Endpoint("https://platform.example"), Call())["authorization"]
        with pytest.raises(Refused, match="no such key"):
            await inbound.principal(bearer.removeprefix("Bearer "))
    provider.publish(*more_keys(), *keys.published()["keys"])
    async with pooled_client() as http:
        fresh = JwtInbound(Expected(provider.issuer, AUDIENCE), ProviderKeys(provider.issuer, None, http), clock=now)
        with pytest.raises(Refused, match="typ"):
            await fresh.principal(bearer.removeprefix("Bearer "))
    provider.publish(*more_keys())


def test_a_hundred_unknown_keys_are_one_question_to_the_provider(
    provider: Provider, served: Served, http: httpx.Client
) -> None:
    assert answer(http, served, f"Bearer {provider.token()}").status_code == 200
    before = provider.asked_for(KEYS)
    for n in range(100):
        assert_refused(answer(http, served, f"Bearer {provider.token(header={'kid': f'made-up-{n}'})}"))
    assert provider.asked_for(KEYS) <= before + 1


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
@pytest.mark.parametrize("space", [" ", "  "], ids=["one space", "two spaces"])
def test_the_scheme_is_bearer_in_any_case(
    provider: Provider, served: Served, http: httpx.Client, scheme: str, space: str
) -> None:
    assert answer(http, served, f"{scheme}{space}{provider.token()}").status_code == 200


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "Bearer",
        "Bearer{}",
        "Bearer\t{}",
        "Bearer: {}",
        "Bearer {} x",
        "Bearer {}, Bearer {}",
        "Bearer {},{}",
        'Bearer token="{}"',
        "Basic {}",
        "DPoP {}",
        "Token {}",
        "JWT {}",
        "Negotiate, Bearer {}",
        "Bearer Bearer {}",
        'Bearer "{}"',
        "Bearer é{}",
    ],
)
def test_anything_but_one_bearer_token_is_401(
    provider: Provider, served: Served, http: httpx.Client, form: str
) -> None:
    assert_refused(answer(http, served, form.replace("{}", provider.token()).encode("latin-1")))


def test_two_authorization_headers_are_401_whichever_is_good(
    provider: Provider, served: Served, http: httpx.Client
) -> None:
    good, bad = f"Bearer {provider.token()}", "Bearer x"
    for pair in ((good, bad), (bad, good), (good, good), (good, ""), ("", good)):
        assert_refused(answer(http, served, *pair))


def test_a_token_anywhere_but_in_the_header_is_none(provider: Provider, served: Served, http: httpx.Client) -> None:
    token = provider.token()
    call = raw_call("modern", "memory_list_brains", {})
    places: list[dict[str, Any]] = [
        {"params": {"access_token": token}},
        {"headers": {"cookie": f"access_token={token}; authorization=Bearer {token}"}},
        {"headers": {"x-forwarded-authorization": f"Bearer {token}"}},
        {"headers": {"proxy-authorization": f"Bearer {token}"}},
        {"headers": {"x-access-token": token}},
        {"json": {**call["json"], "access_token": token, "authorization": f"Bearer {token}"}},
    ]
    for place in places:
        request = {**call, **place, "headers": {**call["headers"], **place.get("headers", {})}}
        response = http.post(served.url + "/mcp", **request)
        assert response.status_code == 401, place
        assert "error=" not in response.headers["www-authenticate"]


@pytest.mark.parametrize(("size", "statuses"), [(17_000, {401}), (64 * 1024, {400, 401, 431})])
def test_a_token_that_is_too_long_is_refused(
    provider: Provider, served: Served, http: httpx.Client, size: int, statuses: set[int]
) -> None:
    assert answer(http, served, f"Bearer {provider.token(filler='x' * size)}").status_code in statuses


@pytest.mark.parametrize(
    "value", [b"Bearer ", b"Bearer \x00", b"Bearer \x01x", b"Bearer a\x7fb", b"Bearer \xff\xfe"], ids=repr
)
def test_bytes_that_are_no_token_are_refused(served: Served, value: bytes) -> None:
    """On a socket of its own, because no client sends them."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        start = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\nconnection: close\r\nauthorization: "
        connection.sendall(start + value + b"\r\n\r\n")
        assert connection.recv(100).split(b" ")[1] in {b"400", b"401"}


async def test_claims_that_are_nested_too_deeply_are_refused(provider: Provider, inbound: JwtInbound) -> None:
    nested = raw_claims(b'{"sub": ' + b"[" * 3000 + b"]" * 3000 + b"}")
    with pytest.raises(Refused):
        await inbound.principal(nested(provider, NOW))


@pytest.mark.parametrize(
    "make",
    [twice("aud", "https://other.example"), twice("sub", "eve"), twice("exp", 0), twice("iss", "https://evil.example")],
    ids=["aud", "sub", "exp", "iss"],
)
async def test_a_claim_that_is_there_twice_is_refused(provider: Provider, inbound: JwtInbound, make: Make) -> None:
    """Which of the two others read, such as a platform that the token is passed on to, nobody knows."""
    with pytest.raises(Refused):
        await inbound.principal(make(provider, NOW))


async def test_a_header_field_that_nobody_knows_is_ignored(provider: Provider, inbound: JwtInbound) -> None:
    """RFC 7515 4: they must be. Clerk has a `cat` in every header."""
    assert (await inbound.principal(provider.token(NOW, {"cat": "cl_B7d4PD111AAA"}))).subject == "ada"


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_the_older_name_of_ed25519_is_good_too(provider: Provider, inbound: JwtInbound) -> None:
    assert (await inbound.principal(signed_as("EdDSA", "o", ed)(provider, NOW))).subject == "ada"


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize(("published", "said"), [("EdDSA", "Ed25519"), ("Ed25519", "EdDSA")])
async def test_a_key_published_by_one_name_of_ed25519_is_good_by_the_other(published: str, said: str) -> None:
    with providing() as provider:
        provider.keys = [public(ed(), "o", alg=published)]
        async with pooled_client() as http:
            keys = ProviderKeys(provider.issuer, None, http)
            inbound = JwtInbound(Expected(provider.issuer, AUDIENCE), keys, clock=now)
            assert (await inbound.principal(signed_as(said, "o", ed)(provider, NOW))).subject == "ada"
