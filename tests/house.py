"""The shape of a tree in figures: how far calls travel in it, and how large its pieces are.

python -m tests.house [TREE]     for this tree, or for another one that lies beside it
"""

import ast
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from pathlib import Path
from typing import Any

import httpx

from tests.daemons.fake import FakeDaemon, Script
from tests.served import listening, raw_call

_HERE = Path(__file__).parents[1]
# A tool, the method of its surface, its arguments, and the path of the surface.
_CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("memory_search", "search", {"query": "otters"}, "/memory/mcp"),
    ("memory_remember", "remember", {"content": "Otters hold hands."}, "/memory/mcp"),
    ("memory_ask", "ask", {"query": "What do otters hold?"}, "/memory/mcp"),
    ("jettson_memory_put", "put", {"key": "otter", "value": "Otters"}, "/kv/mcp"),
]


def journey(tree: Path, upstream: str | None, tool: str, method: str, arguments: object, path: str) -> dict[str, Any]:
    """What a call takes in a gateway of that tree, in a process of its own, before that platform."""
    with tempfile.TemporaryDirectory() as made:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            port = bound.getsockname()[1]
        page = Path(made) / "journey.json"
        environment = {**os.environ, "PYTHONPATH": str(tree), "BRAINS_DATA_DIR": made, "BRAINS_LOG_LEVEL": "error"}
        environment |= {"BRAINS_DEFAULT_BRAIN": "main"} | ({"BRAINS_UPSTREAM_URL": upstream} if upstream else {})
        program = [sys.executable, "-P", str(_HERE / "tests" / "journey.py"), f"{tree}/gateway/", method, str(page)]
        command = [*program, "serve", "--port", str(port)]
        served = subprocess.Popen(command, env=environment, cwd=made, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port)
            # The first call finds out what the platform can do: the second is the one that counts.
            for turn in ("first", "second"):
                changed = {key: f"{value}-{turn}" for key, value in dict(arguments).items()}  # type: ignore[call-overload]
                url = f"http://127.0.0.1:{port}{path}"
                answer = httpx.post(url, timeout=60, **raw_call("modern", tool, changed))
                assert '"isError":false' in answer.text.replace(" ", ""), answer.text
        finally:
            served.send_signal(signal.SIGTERM)
            served.wait(30)
        found: dict[str, Any] = json.loads(page.read_text(encoding="utf-8"))
        return found


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz")
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise RuntimeError("the gateway did not start")


def sizes(tree: Path) -> dict[str, Any]:
    sources = sorted((tree / "gateway").rglob("*.py"))
    modules, functions, comments, lines = [], [], 0, 0
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            continue
        modules.append(text.count("\n"))
        lines += text.count("\n")
        comments += sum(
            token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline)
        )
        functions += [
            (node.end_lineno or 0) - node.lineno + 1
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    return {
        "modules": len(modules),
        "at the top of gateway/": len(list((tree / "gateway").glob("*.py"))),
        "lines": lines,
        "module, median": round(statistics.median(modules)),
        "module, largest": max(modules),
        "functions": len(functions),
        "function, median": round(statistics.median(functions)),
        "function, p90": round(statistics.quantiles(functions, n=10)[-1]),
        "function, largest": max(functions),
        "comments per 100 lines": round(100 * comments / lines, 1),
    }


def main(tree: Path) -> None:
    out = sys.stdout
    out.write(f"| {tree.name} | frames to the transport | calls of ours | modules |\n|---|---|---|---|\n")
    daemon = FakeDaemon(llm=Script())
    daemon.state.brains["main"] = {}
    with listening(daemon.app()) as url:
        for platform, upstream in (("platform", None), ("daemon", url)):
            for tool, method, arguments, path in _CALLS:
                found = journey(tree, upstream, tool, method, arguments, path)
                counts = f"{found['frames']} | {found['calls']} | {found['modules']}"
                out.write(f"| {tool}, {platform} | {counts} |\n")
                if "-v" in sys.argv:
                    out.write("    " + " > ".join(found["way"]) + "\n")
    for name, figure in sizes(tree).items():
        out.write(f"{name}: {figure}\n")


if __name__ == "__main__":
    named = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    main(Path(named[0]).resolve() if named else _HERE)
