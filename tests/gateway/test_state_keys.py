"""What a client carries from one request to the next is good at every replica, and for nobody else."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from gateway.app.gateway import Gateway
from gateway.config.reread_file import replace_file
from gateway.config.settings import load
from gateway.http.endpoint import HttpOptions, Mount, endpoint
from gateway.surfaces.memory.surface import Memory
from tests.gateway.http.auth.provider import PUBLIC_URL, Provider, providing
from tests.served import listening, messages_of, raw_call

SAID = "what nobody may read"


async def two_rounds(ctx: Context) -> str | InputRequiredResult:
    """A tool that asks back once, and has the client keep what it needs for its second round."""
    if ctx.request_state is not None:
        return ctx.request_state
    form = ElicitRequestFormParams(message="Go on?", requested_schema={"type": "object", "properties": {}})
    return InputRequiredResult(input_requests={"go": ElicitRequest(params=form)}, request_state=SAID)


@contextmanager
def replica(data: Path, provider: Provider, keys: Path | None) -> Iterator[str]:
    settings = load(
        data_dir=data,
        auth="jwt",
        auth_issuer=provider.issuer,
        public_url=PUBLIC_URL,
        **({} if keys is None else {"state_keys_file": keys}),
    )
    gateway = Gateway(settings, roots=None)
    mcp = gateway.server(Memory(gateway.brain))
    mcp.tool(two_rounds)
    app = endpoint({"memory": Mount(mcp)}, gateway.running, HttpOptions(settings.max_body), gateway.door())
    with listening(app) as url:
        yield url


def round_at(url: str, token: str, state: str | None = None) -> dict[str, Any]:
    request = raw_call("modern", "two_rounds", {})
    params = request["json"]["params"]
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    if state is not None:
        params |= {"requestState": state, "inputResponses": {"go": {"action": "accept", "content": {}}}}
    request["headers"]["authorization"] = f"Bearer {token}"
    return messages_of(httpx.post(f"{url}/mcp", **request, timeout=30, trust_env=False))[-1]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as made:
        yield made


def test_the_second_round_may_be_at_another_replica_with_the_same_keys(tmp_path: Path, provider: Provider) -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    ahead, behind, strange = tmp_path / "ahead", tmp_path / "behind", tmp_path / "strange"
    replace_file(ahead, f"{new}\n{old}\n".encode())
    replace_file(behind, f"{old}\n{new}\n".encode())
    replace_file(strange, secrets.token_hex(32).encode())
    with ExitStack() as stack:
        urls = [stack.enter_context(replica(tmp_path, provider, keys)) for keys in (ahead, behind, strange, None)]
        token = provider.token()
        states = [round_at(url, token)["result"]["requestState"] for url in urls]
        assert not any(SAID in state for state in states)
        told = [["result" in round_at(url, token, state) for url in urls] for state in states]
        answer = round_at(urls[1], token, states[0])["result"]
    assert answer["content"][0]["text"] == SAID
    # The first two have the same keys, in the other order while they are changed; the others have their own.
    assert told == [
        [True, True, False, False],
        [True, True, False, False],
        [False, False, True, False],
        [False, False, False, True],
    ]


OTHERS = [
    {"sub": "bob"},
    {"client_id": "another"},
    {"org_id": "globex"},
    # One name made of both would be the same.
    {"client_id": "notebook:acme", "org_id": ...},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_the_second_round_is_for_whoever_made_the_first(
    tmp_path: Path, provider: Provider, other: dict[str, Any]
) -> None:
    own: dict[str, Any] = {"client_id": "notebook", "org_id": "acme:"}
    with replica(tmp_path, provider, None) as url:
        state = round_at(url, provider.token(**own))["result"]["requestState"]
        assert "result" in round_at(url, provider.token(**own), state)
        assert "result" not in round_at(url, provider.token(**{**own, **other}), state)
