"""`python -m bench.adding_up`: whether the metrics of all processes add up to what wrk sent, and a limit holds.

wrk loads two replicas of two workers at the same time. It falls silent some seconds before it ends, so that every
request is answered, and tells how many it sent and how many were refused. All processes together must have counted just
as many. The limit is one for both replicas, in a Redis of this run, and must hold within 5%. The exit code is 1 if any
of this is not so.
"""

import asyncio
import json
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from bench import contestants
from bench.client import checked
from bench.processes import Contestant, free_port
from bench.result import Unmeasured, table
from bench.wire import HOST, MODERN, PATH, ToolCall
from bench.wrk import require_wrk
from gateway.config.token_file import Record, change, digest, make_token

_WORKERS, _REPLICAS, _CLIENTS = 2, 2, 8
_SECONDS, _REST_SECONDS = 20, 5
_A_SECOND: Final = 100
# What a caller may take at once, in seconds of the limit.
_AT_ONCE_SECONDS: Final = 2
_WITHIN: Final = 0.05
_OPERATOR: Final = "the-token-of-an-operator"
_REFUSED: Final = 429
# wrk asks for one request before it begins, which it does not send. An empty one is not sent either, and then the
# connection is silent.
_SCRIPT: Final = """
local threads = {}
setup = function(thread) table.insert(threads, thread) end
init = function() sent = -1 end
request = function()
  if os.time() >= %d then return "" end
  sent = sent + 1
  return wrk.format()
end
done = function(summary)
  local e = summary.errors
  local lost = e.connect + e.read + e.write + e.timeout
  io.stderr:write(string.format("told %%d %%d %%d %%d\\n", threads[1]:get("sent"), summary.requests, e.status, lost))
end
"""


class Sent(NamedTuple):
    """What one wrk tells."""

    sent: int
    answered: int
    refused: int


class Counts(NamedTuple):
    """What the processes of one replica have counted together."""

    served: int
    """Calls that ended well."""
    refused: int
    """Requests that were answered with 429."""
    others: int
    """Calls and requests that ended in any other way."""

    def since(self, before: "Counts") -> "Counts":
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


@contextmanager
def _redis(workdir: Path) -> Iterator[str]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(workdir)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def _counted(replica: Contestant) -> Counts:
    asked = f"GET /metrics HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {_OPERATOR}\r\n\r\n"
    page = asyncio.run(checked(replica.port, asked.encode())).decode()
    calls, requests = Counter[str](), Counter[str]()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == "brains_calls_total":
                calls[sample.labels["outcome"]] += int(sample.value)
            elif sample.name == "brains_http_requests_total":
                requests[sample.labels["status"]] += int(sample.value)
    other_calls = calls.total() - calls["ok"] - calls["rate_limited"]
    other_requests = requests.total() - requests["200"] - requests[str(_REFUSED)]
    return Counts(calls["ok"], requests[str(_REFUSED)], other_calls + other_requests)


def _script(workdir: Path, call: ToolCall, ends: int) -> Path:
    lines = ['wrk.method = "POST"', f"wrk.body = {json.dumps(call.body(MODERN).decode())}"]
    lines += [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in call.headers(MODERN).items()]
    path = workdir / "silent-at-the-end.lua"
    path.write_text("\n".join([*lines, _SCRIPT % ends]), encoding="utf-8")
    return path


def _load(replicas: list[Contestant], script: Path) -> list[Sent]:
    command = ["wrk", "-t1", f"-c{_CLIENTS}", f"-d{_SECONDS + _REST_SECONDS}s", "--timeout", "10s", "-s", str(script)]
    running = [
        subprocess.Popen(
            [*command, f"http://127.0.0.1:{replica.port}{PATH}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for replica in replicas
    ]
    told = []
    for wrk in running:
        _, said = wrk.communicate(timeout=_SECONDS + _REST_SECONDS + 30)
        words = next((line.split()[1:] for line in said.splitlines() if line.startswith("told")), None)
        if words is None or words[-1] != "0":
            raise Unmeasured(f"wrk failed: {said.strip()[:200]}")
        told.append(Sent(*map(int, words[:-1])))
    return told


def _token(file: Path) -> str:
    token = make_token()
    with change(file) as records:
        record = Record(
            id="1", sha256=digest(token), name="wrk", subject="wrk", brain="main", created=datetime.now(UTC)
        )
        records.append(record)
    return token


def main() -> int:
    require_wrk()
    with ExitStack() as stack:
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tokens = workdir / "tokens.json"
        call = replace(contestants.SEARCH, token=_token(tokens))
        settings = {
            "BRAINS_AUTH": "tokens",
            "BRAINS_TOKENS_FILE": str(tokens),
            "BRAINS_SINGLE_TENANT": "true",
            "BRAINS_CALLS_PER_SECOND": str(_A_SECOND),
            "BRAINS_REDIS_URL": stack.enter_context(_redis(workdir)),
            "BRAINS_METRICS_TOKEN": _OPERATOR,
        }
        upstream = stack.enter_context(contestants.platform(workdir))
        replicas = [
            stack.enter_context(contestants.gateway(upstream, workdir, _WORKERS, more=settings))
            for _ in range(_REPLICAS)
        ]
        for replica in replicas:
            contestants.check(replica, call, MODERN)
        # What the check took is earned again.
        time.sleep(1)
        before = [_counted(replica) for replica in replicas]
        ends = math.ceil(time.time()) + _SECONDS
        took = ends - time.time()
        sent = _load(replicas, _script(workdir, call, ends))
        counts = [_counted(replica).since(then) for replica, then in zip(replicas, before, strict=True)]
        alone = any(b"limits.local" in replica.stderr.read_bytes() for replica in replicas)
    return _tell(sent, counts, took, alone=alone)


def _tell(sent: list[Sent], counts: list[Counts], took: float, *, alone: bool) -> int:
    rows = [
        [str(n), *map(str, (one.sent, one.answered - one.refused, of.served, one.refused, of.refused, of.others))]
        for n, (one, of) in enumerate(zip(sent, counts, strict=True), 1)
    ]
    totals = [str(sum(int(row[column]) for row in rows)) for column in range(1, len(rows[0]))]
    head = ["replica", "wrk sent", "wrk: served", "metrics: served", "wrk: 429", "metrics: 429", "metrics: others"]
    adds_up = all(
        one.sent == one.answered == of.served + of.refused and one.refused == of.refused and not of.others
        for one, of in zip(sent, counts, strict=True)
    )
    served, allowed = sum(of.served for of in counts), _A_SECOND * (took + _AT_ONCE_SECONDS)
    off = served / allowed - 1
    print(f"{_REPLICAS} replicas of {_WORKERS} workers, each loaded by {_CLIENTS} clients for {took:.1f} s.\n")  # noqa: T201
    print(table(head, [*rows, ["all", *totals]]))  # noqa: T201
    print(f"\nThe metrics {'add' if adds_up else 'do NOT add'} up to what wrk sent.")  # noqa: T201
    print(f"Served: {served}; the limit allows {allowed:.0f}: {off:+.1%}.")  # noqa: T201
    if alone:
        print("Redis was slow for a moment: a process counted for itself, as the log says.")  # noqa: T201
    return 0 if adds_up and abs(off) <= _WITHIN else 1


if __name__ == "__main__":
    sys.exit(main())
