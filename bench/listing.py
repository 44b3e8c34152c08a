"""A namespace of 10,000 notes on the embedded brain: how long its newest 50 take, through the gateway."""

import json
import time
from pathlib import Path

from bench.client import Connection
from bench.processes import running
from bench.result import Row, Section, Unmeasured, percentile, verdict
from bench.sizes import Sizes
from bench.streams import run
from bench.wire import MODERN, ToolCall
from contract.platform.library import Operation
from contract.platform.store import Store
from gateway.surfaces.kv.schema import PutInput
from gateway.surfaces.kv.surface import path_of, putting

_NOTES = 10_000
_BATCH = 500
_CALLS = 20
_BUDGET_MS = 1000.0
_LIST = ToolCall("jettson_memory_list", {"namespace": "many"})


def measure(sizes: Sizes, workdir: Path) -> Section:
    data_dir = workdir / "brain"
    _load(data_dir)
    command = ["gateway", "serve"]
    with running(
        "gateway", command, workdir, env={"BRAINS_DATA_DIR": str(data_dir), "BRAINS_SURFACE": "kv"}
    ) as gateway:
        times: list[float] = sizes.quiet.take(lambda: run(_listed(gateway.port)))
    worst = max(times)
    row = Row(
        f"the newest 50 of a namespace of {_NOTES:,} notes, embedded brain",
        f"p50 {percentile(times, 0.5):.0f} ms, worst of {_CALLS} {worst:.0f} ms",
        "",
        f"≤ {_BUDGET_MS:.0f} ms",
        verdict(worst <= _BUDGET_MS),
        "" if worst <= _BUDGET_MS else "the platform lists the whole namespace; 50 reads follow",
    )
    return Section("Listing a large namespace", [row])


def _load(data_dir: Path) -> None:
    store = Store.open(data_dir)
    try:
        brain = store.brain("main")
        for begin in range(0, _NOTES, _BATCH):
            store.documents.batch(brain, [_note(n) for n in range(begin, begin + _BATCH)])
    finally:
        store.close()


def _note(n: int) -> Operation:
    put = PutInput(key=f"note-{n}", value=f"What is known of the otter with the number {n}.", namespace="many")
    path = path_of(put.namespace, put.key)
    draft = putting(put, path)(None)
    assert draft is not None
    return Operation("write", path, draft.body)


async def _listed(port: int) -> list[float]:
    times: list[float] = []
    connection = await Connection.open(port)
    request = _LIST.request(MODERN)
    for _ in range(_CALLS + 1):
        began = time.perf_counter()
        answer = await connection.exchange(request)
        times.append((time.perf_counter() - began) * 1e3)
        if b'"count":50' not in answer.body.replace(b" ", b""):
            raise Unmeasured(f"The list was answered {answer.status}: {json.dumps(answer.body[:200].decode())}")
    await connection.close()
    # The first one starts the embedded brain.
    return times[1:]
