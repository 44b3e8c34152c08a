"""python -m tests.peers.contract_table     runs the contract on what can be run here, and records the public table

Needs what `make test-peers` needs. What the cases find is counted; what is critical in a server of others is not told
here, but to its makers.
"""

import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from contract import case
from contract.machines import facts_of
from contract.outcome import Run
from contract.report import Report
from gateway import __version__
from gateway.app import log
from tests.contract.servers import check_calls, check_command, stdio_command
from tests.contract.targets import PAGE, TOKEN, check, page_app, reference_app
from tests.daemons.real import PROGRAM, running_daemon
from tests.served import Served, listening, serving
from tests.web import web_on

RECORD: Final = Path(__file__).parent / "contract_table.json"
# On a busy machine, too, only what hangs takes as long.
PATIENCE: Final = 120.0
HTTP: Final = "contract check --http URL"
MCP: Final = "contract check --mcp URL/mcp"
STDIO: Final = 'contract check --mcp-command "brains-gateway stdio"'


def row(name: str, version: str, command: str, done: Run[Any], *, ours: bool) -> dict[str, Any]:
    told = facts_of(Report(done))
    critical = [one for one in told["findings"] if one["severity"] == "critical"]
    # Neither counted as held nor as not held: what is critical in a server of others is left out.
    hidden = set() if ours else {name for one in critical for name in one["failed"]}
    cases = [one for one in told["cases"] if one["id"] not in hidden]
    return {
        "what": name,
        "version": version,
        "command": command,
        "speaks": told.get("dialect") or f"{told['surface']} tools, MCP {told['protocol']}",
        "date": datetime.now(UTC).date().isoformat(),
        "musts": _held(cases, "must"),
        "shoulds": _held(cases, "should"),
        "untested": told["counts"]["not tested"] + told["counts"]["not supported"],
        **({"critical": len(critical)} if ours else {}),
    }


def _held(cases: list[dict[str, Any]], requirement: str) -> list[int]:
    """How many passed, of how many that were tried."""
    outcomes = [one["outcome"] for one in cases if one["requirement"] == requirement]
    return [outcomes.count("passed"), outcomes.count("passed") + outcomes.count("failed")]


def daemon_version() -> str:
    package = PROGRAM.parents[1] / "@jeffs-brain" / "memory" / "package.json"
    return f"@jeffs-brain/memory {json.loads(package.read_text(encoding='utf-8'))['version']}"


@contextmanager
def gateway_before(platform: str, folder: Path, direct: str) -> Iterator[Served]:
    files, data = folder / "files", folder / "data"
    for one in (files, data):
        one.mkdir(parents=True)
    with (
        listening(page_app()) as pages,
        web_on(pages),
        serving(data, files, upstream_url=platform, direct=direct) as served,
    ):
        yield served


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    calls, ours = case.load_calls(), f"brains-gateway {__version__}"
    with ExitStack() as stack:
        app = stack.enter_context(reference_app())
        reference = stack.enter_context(listening(app))
        yield row("reference platform", ours, HTTP, check(reference, case.load(), seconds=PATIENCE), ours=True)
        daemon = stack.enter_context(running_daemon(folder / "daemon", token=TOKEN))
        yield row("published daemon", daemon_version(), HTTP, check(daemon, case.load(), seconds=PATIENCE), ours=False)
    with ExitStack() as stack:
        app = stack.enter_context(reference_app(token=None))
        platforms = {
            "reference platform": stack.enter_context(listening(app)),
            "published daemon, no model": stack.enter_context(running_daemon(folder / "behind")),
        }
        for name, platform in platforms.items():
            for direct, more in (("on", ""), ("off", ", BRAINS_DIRECT=off")):
                served = stack.enter_context(gateway_before(platform, folder / name.replace(" ", "-") / direct, direct))
                done = check_calls(f"{served.url}/mcp", calls, page=PAGE, folder=served.root, seconds=PATIENCE)
                yield row(f"gateway before the {name}{more}", ours, MCP, done, ours=True)
            done = check_command(stdio_command(served, "memory"), calls, folder=served.root, seconds=PATIENCE)
            yield row(f"gateway before the {name}", ours, STDIO, done, ours=True)


if __name__ == "__main__":
    logging.disable()
    log.configure("error", "text")
    with tempfile.TemporaryDirectory() as directory:
        made = list(rows(Path(directory)))
    RECORD.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(made, indent=2) + "\nNow: python -m tests.docs\n")
