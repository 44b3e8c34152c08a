"""Memory: flat over many calls and streams, and what one open stream takes."""

import asyncio
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from bench import contestants
from bench.client import Connection
from bench.processes import Contestant
from bench.result import Row, Section, Spread, Unmeasured, ratios, table, verdict
from bench.sizes import Sizes
from bench.streams import run, streamed
from bench.wire import MODERN, ToolCall, result

# Few: the more clients, the longer a call takes, and memory does not mind.
_CLIENTS = 2
_WARM_CALLS = 2_000
_WARM_STREAMS = 100
# A process that grows more than this between its warm state and the end is not flat.
_FLAT = 1.05
_OPEN = 1.2
_STEPS = 6
_MIB = 1024 * 1024


def measure(sizes: Sizes, workdir: Path) -> Section:
    section = Section("Memory")
    with ExitStack() as stack:
        upstream = stack.enter_context(contestants.platform(workdir))
        served = stack.enter_context(contestants.gateway(upstream, workdir))
        calls = [(0, served.rss_bytes() / _MIB)]
        for upto in _steps(_WARM_CALLS, sizes.calls):
            run(_calls(served.port, upto - calls[-1][0]))
            calls.append((upto, served.rss_bytes() / _MIB))
        streams = [(0, served.rss_bytes() / _MIB)]
        for upto in _steps(_WARM_STREAMS, sizes.streams):
            run(_streams(served.port, upto - streams[-1][0]))
            streams.append((upto, served.rss_bytes() / _MIB))
        contestants.check(served, contestants.SEARCH, MODERN)
        section.rows = [_flat_row("calls", calls), _flat_row("streams", streams)]
        per_stream = _open_streams(sizes, upstream, workdir)
    section.rows.append(per_stream[0])
    section.details = [
        table(["`memory_search` calls", "RSS MiB"], [[f"{n:,}", f"{mib:.1f}"] for n, mib in calls]),
        table(["then `memory_ask` streams", "RSS MiB"], [[f"{n:,}", f"{mib:.1f}"] for n, mib in streams]),
        per_stream[1],
    ]
    return section


def _steps(warm: int, total: int) -> list[int]:
    return [warm, *(warm + (total - warm) * n // _STEPS for n in range(1, _STEPS + 1))]


def _flat_row(what: str, points: list[tuple[int, float]]) -> Row:
    (warm, before), (total, after) = points[1], points[-1]
    middle = points[len(points) // 2][1]
    growth = after / before
    remark = "" if growth <= _FLAT else f"{middle:.0f} MiB half way, so it {'grew on' if after > middle else 'settled'}"
    return Row(
        f"memory over {total:,} {what}",
        f"{before:.1f} MiB after {warm:,}, {after:.1f} after {total:,}",
        f"{growth:.3f}",
        f"flat: ≤ {_FLAT} × after warm-up",
        verdict(growth <= _FLAT),
        remark,
    )


async def _calls(port: int, number: int) -> None:
    """So many calls, every answer looked at."""
    request = contestants.SEARCH.request(MODERN)
    left = number

    async def client() -> None:
        nonlocal left
        connection = await Connection.open(port)
        while left > 0:
            left -= 1
            answer = await connection.exchange(request)
            if answer.status != 200 or b'"isError":true' in answer.body:
                raise Unmeasured(f"A call was answered {answer.status}: {answer.body[:200]!r}")
        await connection.close()

    await asyncio.gather(*(client() for _ in range(_CLIENTS)))


async def _streams(port: int, number: int) -> None:
    call, deltas = contestants.ask(10), 10
    for start in range(0, number, _CLIENTS):
        batch = range(min(_CLIENTS, number - start))
        done = await asyncio.gather(*(streamed(port, call, MODERN) for _ in batch))
        if any(one.notifications != deltas for one in done):
            raise Unmeasured("A stream lost notifications.")


def _open_streams(sizes: Sizes, upstream: Contestant, workdir: Path) -> tuple[Row, str]:
    ours, theirs = [], []
    for _ in range(sizes.rounds):
        ours.append(_kib_each(contestants.gateway(upstream, workdir), contestants.ask(1, hold=True), sizes))
        theirs.append(_kib_each(contestants.bare("progress", workdir), ToolCall("hold", {}, with_progress=True), sizes))
    ratio = ratios(ours, theirs)
    holds = ratio.median <= _OPEN
    row = Row(
        "an open ask stream",
        f"{Spread.of(ours).median:.0f} KiB",
        ratio.text(),
        f"≤ {_OPEN} × bare FastMCP's",
        verdict(holds),
        "" if holds else "the sources of the answer, an httpx response and its connection are held besides",
    )
    lines = [["gateway", Spread.of(ours).text(0)], ["bare FastMCP", Spread.of(theirs).text(0)]]
    return row, table(["Who", f"KiB of each of {sizes.open_streams} open streams"], lines)


def _kib_each(started: AbstractContextManager[Contestant], call: ToolCall, sizes: Sizes) -> float:
    with started as contestant:
        taken: float = run(_held(contestant, call, sizes.open_streams))
        return taken


async def _held(contestant: Contestant, call: ToolCall, number: int) -> float:
    """KiB of one of so many streams that have sent a token and stay open, in a process that has seen a few before."""
    for connection in await _opened(contestant.port, call, 20):
        await connection.close()
    await asyncio.sleep(0.5)
    before = contestant.rss_bytes()
    connections = await _opened(contestant.port, call, number)
    after = contestant.rss_bytes()
    for connection in connections:
        await connection.close()
    return (after - before) / 1024 / number


async def _opened(port: int, call: ToolCall, number: int) -> list[Connection]:
    connections = [await Connection.open(port) for _ in range(number)]
    await asyncio.gather(*(_first_notification(connection, call) for connection in connections))
    return connections


async def _first_notification(connection: Connection, call: ToolCall) -> None:
    async with asyncio.timeout(60):
        _, chunks = await connection.stream(call.request(MODERN))
        async for chunk in chunks:
            if b"notifications/progress" in chunk:
                return
    raise Unmeasured("A stream ended that should have stayed open.")


def requests(_sizes: Sizes, workdir: Path) -> Section:
    """How often the platform is asked for one call."""
    section = Section("Requests to the platform")
    number = 50
    with contestants.platform(workdir) as upstream, contestants.gateway(upstream, workdir) as served:
        for call, kind in ((contestants.SEARCH, "search"), (contestants.ask(3), "ask")):
            # The first call finds out what the platform can do, and that a slug and an id are one brain's.
            run(_answered(served.port, call, 1))
            before = contestants.counts(upstream)
            run(_answered(served.port, call, number))
            after = contestants.counts(upstream)
            taken = {name: after[name] - before[name] for name in after}
            total = sum(taken.values())
            others = ", ".join(f"{name} {n}" for name, n in taken.items() if n and name != kind)
            row = Row(
                f"requests to the platform for one `{call.tool}`",
                f"{total / number:g}",
                "",
                "1",
                verdict(total == number and taken[kind] == number),
                f"also {others}" if others else "",
            )
            section.rows.append(row)
    return section


async def _answered(port: int, call: ToolCall, number: int) -> None:
    connection = await Connection.open(port)
    for _ in range(number):
        result((await connection.exchange(call.request(MODERN))).body)
    await connection.close()
