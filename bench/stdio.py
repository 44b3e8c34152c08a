"""Over stdio: from the start of a process to its answer to tools/list, and what that answer weighs."""

import json
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.processes import ROOT, environment
from bench.result import Row, Section, Spread, Unmeasured, Verdict, ratios, table, verdict
from bench.sizes import Sizes

_BUDGET = 0.5
_TOKENS = {"memory": 2_500, "kv": 2_000, "team": 2_000, "being": 2_000, "memo": 2_000}
_ANSWER_SECONDS = 30.0
_IMPORT_RUNS = 3
_MESSAGES: tuple[dict[str, Any], ...] = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)
_COUNT_TOKENS = """
const { encode } = require('gpt-tokenizer');
const tools = JSON.parse(require('fs').readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(tools.map((tool) => encode(JSON.stringify(tool)).length)));
"""


def listed(module: list[str], env: dict[str, str], workdir: Path) -> tuple[float, list[dict[str, Any]]]:
    """Seconds from spawn to the answer, and the tools in it.

    Raises:
        Unmeasured: there was no such answer.
    """
    with (workdir / "stdio.log").open("wb") as log:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env=environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        answer = _conversation(process)
        seconds = time.perf_counter() - started
    finally:
        process.kill()
        process.communicate()
    return seconds, list(answer["result"]["tools"])


def _conversation(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdin is not None
    answer: dict[str, Any] = {}
    for message in _MESSAGES:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        if "id" in message:
            answer = _answer(process)
    if "result" not in answer:
        raise Unmeasured(f"tools/list was answered with {json.dumps(answer)[:200]}")
    return answer


def _answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _ANSWER_SECONDS)[0]:
        raise Unmeasured(f"{process.args!r} did not answer within {_ANSWER_SECONDS:.0f} s.")
    line = process.stdout.readline()
    if not line:
        raise Unmeasured(f"{process.args!r} ended without an answer.")
    answer: dict[str, Any] = json.loads(line)
    return answer


def measure(sizes: Sizes, workdir: Path) -> Section:
    ours, theirs = [], []
    env = {"BRAINS_DATA_DIR": str(workdir / "stdio-data")}
    off = {"FASTMCP_CHECK_FOR_UPDATES": "off"}
    # The first run of each writes what bytecode is missing, and is not counted.
    for _ in range(sizes.stdio_runs + 1):
        seconds, tools = sizes.quiet.take(lambda: listed(["gateway", "stdio"], env, workdir))
        if "memory_search" not in {tool["name"] for tool in tools}:
            raise Unmeasured("The gateway's tools/list has no memory_search.")
        ours.append(seconds * 1e3)
        theirs.append(sizes.quiet.take(lambda: listed(["bench.bare", "stdio"], off, workdir))[0] * 1e3)
    ours, theirs = ours[1:], theirs[1:]
    ratio, pairs = Spread.of(ours).median / Spread.of(theirs).median, ratios(ours, theirs)
    row = Row(
        "`tools/list` over stdio, from process start",
        f"{Spread.of(ours).median:.0f} ms",
        f"{ratio:.3f} ({pairs.low:.2f} to {pairs.high:.2f})",
        f"≤ {_BUDGET} × bare FastMCP",
        verdict(ratio <= _BUDGET),
        ""
        if ratio <= _BUDGET
        else "what is imported before the first answer; are the recorded ones of these libraries?",
    )
    lines = [["gateway", Spread.of(ours).text(0)], ["bare FastMCP, one tool", Spread.of(theirs).text(0)]]
    details = [table(["Who", "ms to the answer of tools/list"], lines)]
    return Section("Start over stdio", [row], details, [_imports(sizes)])


def _imports(sizes: Sizes) -> str:
    """How much of a start is importing, and whose."""
    steps = {
        "Python alone": "pass",
        "FastMCP": "from fastmcp import FastMCP",
        "the gateway, FastMCP included": "import gateway.cli.serve",
    }
    lines = [[what, f"{_import_ms(statement, sizes):.0f}"] for what, statement in steps.items()]
    return "Start over stdio: importing, from spawn to exit.\n\n" + table(["What", "ms"], lines)


def _import_ms(statement: str, sizes: Sizes) -> float:
    command = [sys.executable, "-c", statement]

    def once() -> float:
        started = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environment({}), capture_output=True, timeout=60, check=True)
        return (time.perf_counter() - started) * 1e3

    return Spread.of([sizes.quiet.take(once) for _ in range(_IMPORT_RUNS)]).median


def definitions(_sizes: Sizes, workdir: Path) -> Section:
    """What a client's model must read before it can call anything, by surface."""
    section = Section("Tool definitions")
    env, lines = {"BRAINS_DATA_DIR": str(workdir / "stdio-data")}, []
    tools = {name: listed(["gateway", "stdio", "--surface", name], env, workdir)[1] for name in _TOKENS}
    kept = [
        {key: tool.get(key) for key in ("name", "description", "inputSchema")} for name in tools for tool in tools[name]
    ]
    try:
        counts, version = _tokens(kept)
    except Unmeasured as error:
        return Section("Tool definitions", [Row("tool definitions", "", "", "", Verdict.NOT_MEASURED, str(error))])
    for name, most in _TOKENS.items():
        own, counts = counts[: len(tools[name])], counts[len(tools[name]) :]
        what, measured = f"tool definitions, `{name}` ({len(own)} tools)", f"{sum(own):,} tokens"
        row = Row(what, measured, f"{sum(own) / most:.2f}", f"≤ {most:,} tokens", verdict(sum(own) <= most))
        section.rows.append(row)
        lines += [[name, f"`{tool['name']}`", str(count)] for tool, count in zip(tools[name], own, strict=True)]
    counted = f"Counted by gpt-tokenizer {version} (its default encoding), compact JSON, each tool by itself."
    section.details = [table(["Surface", "Tool", "tokens"], lines), counted]
    return section


def _tokens(tools: list[dict[str, Any]]) -> tuple[list[int], str]:
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        raise Unmeasured(f"not measured: {missing[0]} is missing")
    with tempfile.TemporaryDirectory() as folder:
        install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "gpt-tokenizer"]
        try:
            subprocess.run(install, cwd=folder, capture_output=True, timeout=90, check=True)
            text = json.dumps(tools)
            done = subprocess.run(
                ["node", "-e", _COUNT_TOKENS], cwd=folder, input=text, capture_output=True, text=True, check=True
            )
            package = Path(folder, "node_modules/gpt-tokenizer/package.json").read_text(encoding="utf-8")
        except (subprocess.SubprocessError, OSError):
            raise Unmeasured("not measured: gpt-tokenizer could not be installed with npm") from None
    return json.loads(done.stdout), str(json.loads(package)["version"])
