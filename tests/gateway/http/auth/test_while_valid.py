"""A token that ends while its answer is under way: the answer ends with it, and so does the platform's."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from gateway.app.gateway import Gateway
from gateway.config.settings import load
from gateway.config.token_file import change
from gateway.http.auth.inbound import Inbound, ProviderDown, Refused
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.keys import ProviderKeys
from gateway.http.auth.tokens import Tokens
from gateway.http.auth.while_valid import do_while_valid
from gateway.http.endpoint import Door, HttpOptions, Mount, endpoint
from gateway.operations.caller import Principal
from gateway.surfaces.memory.surface import Memory
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.http.auth.provider import AUDIENCE, Provider
from tests.gateway.http.auth.tokens import kept
from tests.served import Era, listening, raw_call
from tests.upstreams import Scripted, SlowStream, SlowWrite

ERAS: tuple[Era, ...] = ("modern", "legacy")
ASK = "POST /v1/brains/main/ask"


@contextmanager
def gateway(tmp_path: Path, inbound: Inbound, route: str, answer: Any) -> Iterator[str]:
    """One that looks at its tokens again all the time, before a platform that answers so."""
    with listening(Scripted({route: answer}).app()) as upstream:
        settings = load(data_dir=tmp_path, upstream_url=upstream, dialect="platform", single_tenant=True)
        made = Gateway(settings, roots=None)
        mounts = {"memory": Mount(made.server(Memory(made.brain)))}
        door = Door(inbound, recheck_seconds=0.05)
        with listening(endpoint(mounts, made.running, HttpOptions(max_body=1_000_000), door)) as url:
            yield url


def asked(era: Era, token: str, tool: str = "memory_ask", **arguments: str) -> dict[str, Any]:
    call = raw_call(era, tool, arguments or {"query": "x"}, "progress")
    call["headers"]["authorization"] = f"Bearer {token}"
    return call


async def happened(event: Any) -> bool:
    return await asyncio.to_thread(event.wait, 30)


def revoke(file: Path) -> None:
    with change(file) as records:
        records[:] = [record.model_copy(update={"revoked": datetime.now(UTC)}) for record in records]


ENDINGS: dict[str, Callable[[Path], None]] = {"revoked": revoke, "gone with its file": Path.unlink}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_answer_ends_with_its_token_and_others_go_on(tmp_path: Path, era: Era, ending: str) -> None:
    stream, file = SlowStream(), tmp_path / "tokens.json"
    token = kept(file, brain="main")
    with gateway(tmp_path, Tokens(file), ASK, stream) as url:
        async with (
            httpx.AsyncClient(timeout=30) as http,
            http.stream("POST", url + "/mcp", **asked(era, token)) as said,
        ):
            assert said.status_code == 200
            assert await happened(stream.started)
            # More than one look went by: whoever is still valid is not cut off.
            lines = said.aiter_lines()
            assert [await anext(lines) for _ in range(40)]
            assert not stream.closed.is_set()
            ENDINGS[ending](file)
            async with asyncio.timeout(30):
                rest = [line async for line in lines]
        assert not any('"result"' in line for line in rest)
        assert await happened(stream.closed)


@pytest.mark.parametrize("era", ERAS)
async def test_where_nothing_was_said_yet_it_is_401(tmp_path: Path, era: Era) -> None:
    arrived, left, file = threading.Event(), threading.Event(), tmp_path / "tokens.json"

    async def never(request: Request) -> None:
        arrived.set()
        while not await request.is_disconnected():  # noqa: ASYNC110  # there is nothing else to wait for
            await asyncio.sleep(0.01)
        left.set()

    token = kept(file, brain="main")
    with gateway(tmp_path, Tokens(file), "GET /v1/brains/main/search", never) as url:
        async with httpx.AsyncClient(timeout=30) as http:
            asking = asyncio.ensure_future(http.post(url + "/mcp", **asked(era, token, "memory_search")))
            assert await happened(arrived)
            revoke(file)
            answer = await asking
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
        assert await happened(left)


@pytest.mark.parametrize("era", ERAS)
async def test_a_write_that_was_begun_is_seen_through(tmp_path: Path, era: Era) -> None:
    write, file = SlowWrite(), tmp_path / "tokens.json"
    token = kept(file, brain="main", scope="brains:write")
    with gateway(tmp_path, Tokens(file), "POST /v1/brains/main/documents", write) as url:
        async with httpx.AsyncClient(timeout=30) as http:
            call = asked(era, token, "memory_remember", content="Otters hold hands.")
            writing = asyncio.ensure_future(http.post(url + "/mcp", **call))
            assert await happened(write.arrived)
            revoke(file)
            assert (await writing).status_code == 401
        assert await happened(write.committed)


class Moody:
    """Says of every token what it is told to say."""

    tells_apart = True
    wants = "Send a token."

    def __init__(self) -> None:
        self.says: Principal | Exception = ADA
        self.asked = threading.Semaphore(0)

    async def principal(self, token: str) -> Principal:
        self.asked.release()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    async def problem(self) -> str | None:
        return None


ADA = Principal(issuer="i", subject="ada", scopes=frozenset({"brains:read"}), brain="main")


@pytest.mark.parametrize(
    ("says", "ends"),
    [
        (Refused("expired"), True),
        (replace(ADA, brain="other"), True),
        (replace(ADA, scopes=frozenset()), True),
        (ProviderDown("keys are too old"), False),
        (replace(ADA, token="a copy"), False),
    ],
    ids=["refused", "another brain", "another scope", "nobody can tell", "the same"],
)
async def test_an_answer_goes_on_as_long_as_the_token_says_the_same(
    tmp_path: Path, says: Principal | Exception, ends: bool
) -> None:
    stream, inbound = SlowStream(), Moody()
    with gateway(tmp_path, inbound, ASK, stream) as url:
        async with (
            httpx.AsyncClient(timeout=30) as http,
            http.stream("POST", url + "/mcp", **asked("modern", "t")) as said,
        ):
            assert await happened(stream.started)
            inbound.says = says
            if ends:
                async with asyncio.timeout(30):
                    assert len([line async for line in said.aiter_lines()]) > 0
                assert await happened(stream.closed)
            else:
                for _ in range(5):
                    assert await asyncio.to_thread(inbound.asked.acquire, timeout=30)
                assert not stream.closed.is_set()


async def test_an_access_token_that_expires_ends_its_answer(tmp_path: Path, provider: Provider) -> None:
    stream, now = SlowStream(), [time.time()]
    async with pooled_client() as provider_http:
        keys = ProviderKeys(provider.issuer, None, provider_http)
        await keys.named(None)
        inbound = JwtInbound(Expected(provider.issuer, AUDIENCE, brain_claim="brain"), keys, clock=lambda: now[0])
        call = asked("modern", provider.token(brain="main"))
        with gateway(tmp_path, inbound, ASK, stream) as url:
            async with httpx.AsyncClient(timeout=30) as http, http.stream("POST", url + "/mcp", **call) as said:
                assert await happened(stream.started)
                now[0] += 3600
                async with asyncio.timeout(30):
                    assert len([line async for line in said.aiter_lines()]) > 0
            assert await happened(stream.closed)


async def test_what_is_done_in_time_is_not_looked_at() -> None:
    async def never() -> bool:
        raise AssertionError("nobody needed to look")

    assert await do_while_valid(asyncio.sleep(0), never, 30)
    assert len(asyncio.all_tasks()) == 1


async def test_what_fails_fails_as_ever_and_is_looked_at_no_more() -> None:
    looked = asyncio.Event()

    async def look() -> bool:
        looked.set()
        return True

    async def fail() -> None:
        await looked.wait()
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await do_while_valid(fail(), look, 0.001)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_whoever_is_cancelled_from_outside_is_cancelled() -> None:
    async def valid() -> bool:
        return True

    doing = asyncio.ensure_future(do_while_valid(asyncio.sleep(60), valid, 0.001))
    await asyncio.sleep(0.01)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
