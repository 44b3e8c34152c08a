"""A provider that fails, seen over HTTP: whoever has a token is told to wait, and not to throw it away."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.app.gateway import Gateway
from gateway.config.settings import load
from gateway.http.auth.access import Resource
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.keys import ProviderKeys
from gateway.http.endpoint import Door, HttpOptions, Mount, endpoint
from gateway.surfaces.memory.surface import Memory
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.http.auth.conftest import Clock
from tests.gateway.http.auth.gateways import HTTP
from tests.gateway.http.auth.provider import AUDIENCE, FAULTS, PUBLIC_URL, Provider, providing, rsa, signed
from tests.gateway.http.auth.test_keys import HOUR
from tests.served import OPERATOR, listening, raw_call, serving


@pytest.fixture
def gateway(provider: Provider, clock: Clock, tmp_path: Path) -> Iterator[str]:
    """A whole gateway on the provider, whose clock is ours."""
    client = pooled_client()
    made = Gateway(load(data_dir=tmp_path), roots=None)
    inbound = JwtInbound(Expected(provider.issuer, AUDIENCE), ProviderKeys(provider.issuer, None, client, clock))
    door = Door(inbound, Resource(AUDIENCE, provider.issuer, PUBLIC_URL))

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with client, made.running():
            yield

    app = endpoint({"memory": Mount(made.server(Memory(made.brain)))}, running, HttpOptions(max_body=1_000_000), door)
    with listening(app) as url:
        yield url


def listed(url: str, token: str) -> httpx.Response:
    call = raw_call("modern", "memory_list_brains", {})
    call["headers"]["authorization"] = f"Bearer {token}"
    return HTTP.post(url + "/mcp", **call)


@pytest.mark.parametrize("fault", FAULTS)
def test_over_http_an_outage_is_503_with_a_time_to_wait(
    provider: Provider, gateway: str, clock: Clock, fault: str
) -> None:
    provider.fault = fault
    for token in (provider.token(), provider.token(header={"kid": "unknown"})):
        response = listed(gateway, token)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert "www-authenticate" not in response.headers
        said = response.json()
        assert (said["code"], said["retryable"]) == ("upstream_unavailable", True)
        assert said["retry_after_seconds"] == int(response.headers["retry-after"])
        assert provider.url not in response.text
    # What is wrong without any key is 401 all the same.
    assert listed(gateway, "nonsense").status_code == 401
    assert listed(gateway, provider.token(header={"alg": "none"})).status_code == 401
    provider.fault = None
    clock.now += 30
    assert listed(gateway, provider.token()).status_code == 200
    provider.fault = fault
    clock.now += 12 * HOUR
    assert listed(gateway, provider.token()).status_code == 200
    assert listed(gateway, provider.token(exp=1)).status_code == 401


def test_a_provider_that_is_down_from_the_start_is_503_and_the_gateway_is_not_ready(tmp_path: Path) -> None:
    with providing() as gone:
        pass
    settings = {"auth": "jwt", "auth_issuer": gone.issuer, "public_url": PUBLIC_URL}
    with serving(tmp_path, None, **settings) as served:
        response = listed(served.url, gone.token())
        assert (response.status_code, response.json()["code"]) == (503, "upstream_unavailable")
        ready = HTTP.get(served.url + "/readyz", headers=OPERATOR)
        assert ready.status_code == 503
        assert ready.json()["problems"] == ["the keys of the OAuth provider cannot be had"]
        assert HTTP.get(served.url + "/healthz").status_code == 200


def test_a_gateway_whose_provider_answers_is_ready(provider: Provider, tmp_path: Path) -> None:
    settings = {"auth": "jwt", "auth_issuer": provider.issuer, "public_url": PUBLIC_URL}
    with serving(tmp_path, None, **settings) as served:
        ready = HTTP.get(served.url + "/readyz", headers=OPERATOR)
        assert (ready.status_code, ready.json()["ready"], ready.json()["problems"]) == (200, True, [])
        rs256 = signed({"alg": "RS256", "kid": "r"}, provider.claims(), rsa(), "RS256")
        assert listed(served.url, rs256).status_code == 200
