"""Every tool of every surface with texts that mean harm: each is taken or refused, and holds nobody up.

A text is put into one argument of each tool, another one with each kind of text, and what was written is read again by
the tools that come last. `make nightly` takes all kinds, in three arguments, a megabyte long, on both platforms.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.operations.errors import CATALOGUE
from tests.hostile.arguments import Turn
from tests.hostile.gateway import SURFACES, Gateway, Platform, Watch, running
from tests.hostile.texts import KINDS, MEGABYTE, text_of
from tests.tiers import by_tier

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts by /proc")

# What one answer may cost while another is due, in time of the gateway's own.
HELD_SECONDS = 1.0
MEMORY_MIB = 500
ERROR_LENGTH = 3000
SIZE = by_tier(200_000, 200_000, MEGABYTE)
SLOTS = by_tier(1, 1, 3)
PLATFORMS: tuple[Platform, ...] = ("embedded", "daemon")
# Before one platform or the other, by turns that are not those of the arguments.
CASES = [
    (platform, kind)
    for n, kind in list(enumerate(KINDS))[:: by_tier(2, 2, 1)]
    for place, platform in enumerate(PLATFORMS)
    if n // 8 % 2 == place or by_tier(False, False, True)
]
# None of these was the platform's fault, or anybody's but the gateway's.
TROUBLE = {"upstream_error", "upstream_unavailable", "timeout", "outcome_unknown", "stream_truncated", "internal_error"}
REFUSALS = CATALOGUE.keys() - TROUBLE | {"invalid_request"}
INVALID_PARAMS = -32602


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Platform], Gateway]]:
    """The gateway before a platform; one for all texts, and none where no text is for it."""
    with ExitStack() as stack:
        yield cache(lambda platform: stack.enter_context(running(platform, tmp_path_factory.mktemp(platform))))


def calls(gateway: Gateway, turn: Turn, text: str) -> Iterator[tuple[str, str, Any]]:
    """For each tool, the text in so many of its arguments; those without any are called as they are."""
    for surface in SURFACES:
        for tool in gateway.tools[surface]:
            made = list(turn.hostile(tool["inputSchema"], text)) or [turn.good(tool["inputSchema"])]
            for n in range(min(SLOTS, len(made))):
                yield surface, tool["name"], made[(turn.n // 2 + n) % len(made)]


def assert_taken_or_refused(answer: dict[str, Any]) -> None:
    """Whoever reads a refusal learns what to do, and not what they sent."""
    if "error" in answer:
        assert answer["error"]["code"] == INVALID_PARAMS, answer
        said = answer["error"]["message"]
    elif answer["result"]["isError"]:
        said = answer["result"]["content"][0]["text"]
        assert any(code in said for code in REFUSALS) or said.startswith("Jettson Memory failed: "), said
        assert not any(code in said for code in TROUBLE), said
    else:
        return
    assert len(said) < ERROR_LENGTH


def assert_works(gateway: Gateway, brain: str) -> None:
    """Somebody else's ordinary day."""
    note = {"brain": brain, "content": "The zebra finch sings at dawn.", "path": "memory/global/finch.md"}
    stored = gateway.call("memory", brain, "memory_remember", note)
    assert stored["result"]["structuredContent"]["path"] == note["path"]
    found = gateway.call("memory", brain, "memory_search", {"brain": brain, "query": "zebra finch"})
    assert note["path"] in [hit["path"] for hit in found["result"]["structuredContent"]["hits"]]


def assert_unharmed(gateway: Gateway, watch: Watch) -> None:
    assert watch.asked > 0
    assert watch.held < HELD_SECONDS, watch
    assert gateway.peak_mib() < MEMORY_MIB
    logged = gateway.errors.read_text(encoding="utf-8")
    assert "crashed" not in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize(("platform", "kind"), CASES)
@pytest.mark.sampled(17)
@pytest.mark.few(12)
def test_a_hostile_text_is_taken_or_refused_and_holds_nobody_up(
    started: Callable[[Platform], Gateway], platform: Platform, kind: str
) -> None:
    gateway = started(platform)
    n, text = list(KINDS).index(kind), text_of(kind, SIZE)
    assert len(text.encode("utf-8", "surrogatepass")) <= SIZE
    brain = f"brain-{n}"
    with gateway.watched() as watch:
        assert_taken_or_refused(gateway.call("memory", "", "memory_create_brain", {"name": brain, "slug": brain}))
        for surface, tool, arguments in calls(gateway, Turn(n, brain), text):
            assert_taken_or_refused(gateway.call(surface, brain, tool, arguments))
        assert_works(gateway, brain)
    assert_unharmed(gateway, watch)


NESTED = json.loads("[" * 80 + "]" * 80)
VALUES = [10**400, -(10**30), 1e308, 1e-320, True, None, "", [], {}, [None] * 1000, {"": {}}, NESTED]


@pytest.mark.slow
def test_hostile_values_of_any_kind_are_taken_or_refused(started: Callable[[Platform], Gateway]) -> None:
    gateway, brain, turn = started("embedded"), "main", Turn(0, "main")
    tools = [(surface, tool["name"], tool["inputSchema"]) for surface in SURFACES for tool in gateway.tools[surface]]
    with gateway.watched() as watch:
        for n, (surface, name, schema) in enumerate(tools):
            for argument in schema["properties"]:
                for value in VALUES[n % 3 :: by_tier(3, 3, 1)]:
                    given = {**turn.good(schema), argument: value}
                    assert_taken_or_refused(gateway.call(surface, brain, name, given))
        assert_works(gateway, brain)
    assert_unharmed(gateway, watch)


@pytest.mark.slow
def test_a_gateway_that_gets_no_time_is_not_held_to_have_taken_it(started: Callable[[Platform], Gateway]) -> None:
    gateway = started("embedded")
    with gateway.watched() as watch:
        os.kill(gateway.pid, signal.SIGSTOP)
        try:
            time.sleep(1.5)
        finally:
            os.kill(gateway.pid, signal.SIGCONT)
    assert watch.slowest > HELD_SECONDS
    assert watch.held < HELD_SECONDS
