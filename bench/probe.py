"""The gateway without MCP: one search of its brain after the other, in this process, and the CPU each took."""

import argparse
import asyncio
import json
import sys
import time

import uvloop

from bench import canned
from gateway.app.gateway import Gateway
from gateway.config.settings import load
from gateway.operations.caller import Call

_QUERY = {"query": canned.QUERY, "top_k": 10, "scope": None, "sort": None}


async def _run(url: str, clients: int, seconds: float) -> tuple[int, float]:
    gateway = Gateway(load(upstream_url=url, dialect="platform"), roots=None)
    done = 0

    async def client(until: float) -> None:
        nonlocal done
        while time.monotonic() < until:
            answer = await gateway.brain.serve(Call(), "main", "search", _QUERY)
            assert len(answer["hits"]) == canned.HITS
            done += 1

    async with gateway.running():
        await asyncio.gather(*(client(time.monotonic() + 0.5) for _ in range(clients)))
        done, before = 0, time.process_time()
        await asyncio.gather(*(client(time.monotonic() + seconds) for _ in range(clients)))
        return done, time.process_time() - before


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    done, cpu = uvloop.run(_run(arguments.url, arguments.clients, arguments.seconds))
    sys.stdout.write(json.dumps({"calls": done, "cpu_ms": cpu * 1e3 / done}))


if __name__ == "__main__":
    _main()
