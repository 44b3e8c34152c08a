"""Every case can fail: for each there is a peer that is broken so, and every broken peer is caught."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp

from contract import case
from contract.case import Case
from contract.outcome import Run
from tests.broken import daemons, deeper, documents, events, finding, limits, service, wider
from tests.broken.events import streaming
from tests.broken.peer import Peer
from tests.broken.wrapping import wrapped
from tests.contract.platform.serving import served
from tests.contract.targets import TOKEN, check, check_app, failures, reference_app
from tests.daemons.fake import FakeDaemon, T

PLATFORMS = service.PEERS + documents.PEERS + finding.PEERS + limits.PEERS + wider.PEERS + deeper.PEERS
DAEMONS = daemons.PEERS
STREAMS = events.PEERS
# Cases that no broken peer breaks yet. The list may only shrink.
NOT_YET: set[str] = set()


@pytest.fixture(scope="module")
def every() -> dict[str, Case]:
    return {one.id: one for one in case.load()}


@pytest.fixture(scope="module")
def platform() -> Iterator[ASGIApp]:
    with reference_app() as app:
        yield app


def caught(app: ASGIApp, peer: Peer, every: dict[str, Case], token: str | None) -> None:
    noticed(check_app(wrapped(app, peer.act), [every[name] for name in peer.breaks], token), peer.breaks)


def noticed(done: Run[Any], breaks: tuple[str, ...]) -> None:
    failed = failures(done)
    assert {one.case.id: one.outcome for one in done.results if one.case.id not in failed} == {}
    assert set(failed) == set(breaks)
    # A case that could not even begin has noticed nothing.
    for result in failed.values():
        assert result.failure is not None
        assert not result.failure.request.startswith(("a brain", "the case")), result.failure


@pytest.mark.parametrize("peer", PLATFORMS, ids=lambda peer: peer.name)
@pytest.mark.sampled(3)
def test_a_broken_platform_is_caught(platform: ASGIApp, every: dict[str, Case], peer: Peer) -> None:
    caught(platform, peer, every, "a-test-token")


@pytest.mark.parametrize("peer", DAEMONS, ids=lambda peer: peer.name)
def test_a_broken_daemon_is_caught(every: dict[str, Case], peer: Peer) -> None:
    caught(FakeDaemon(T).app(), peer, every, None)


@pytest.mark.parametrize("peer", STREAMS, ids=lambda peer: peer.name)
def test_a_broken_stream_is_caught(platform: ASGIApp, every: dict[str, Case], peer: events.StreamPeer) -> None:
    # Over a real connection: the one without a socket waits for the end of an answer.
    with served(streaming(platform, peer)) as url:
        noticed(check(url, [every[name] for name in peer.breaks], token=TOKEN), peer.breaks)


def test_every_case_is_broken_by_a_peer(every: dict[str, Case]) -> None:
    broken = {name for peer in PLATFORMS + DAEMONS for name in peer.breaks}
    broken |= {name for peer in STREAMS for name in peer.breaks}
    assert set(every) - broken == NOT_YET, "add a peer(…) to a list in tests/broken/ for each of these"


def test_every_peer_has_a_name_of_its_own() -> None:
    for names in ([peer.name for peer in peers] for peers in (PLATFORMS, DAEMONS, STREAMS)):
        assert len(set(names)) == len(names)
