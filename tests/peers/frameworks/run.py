"""One run of a framework: a gateway with memories, a scripted model, and the framework between them as a process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.app.http_app import http_app
from gateway.config.settings import load
from tests.peers.frameworks.catalog import ROOT, Framework, Place
from tests.peers.frameworks.conversation import MEMORIES, conversation
from tests.peers.frameworks.model import Asked, ScriptedModel
from tests.peers.frameworks.recorded import Recorded
from tests.peers.frameworks.shapes import Json
from tests.peers.quiet import LOOPBACK_ONLY
from tests.served import listening, raw_call

# Generous: on a busy machine some of them take a minute to be imported.
TIMEOUT = 240
# Nobody is told of the run.
QUIET = {
    **LOOPBACK_ONLY,
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "MCP_USE_ANONYMIZED_TELEMETRY": "false",
}


@dataclass(frozen=True)
class Run:
    """What a framework sent to the gateway, what it asked of its model, and what it said at the end."""

    framework: Framework
    calls: list[Json]
    asked: list[Asked]
    said: str

    @property
    def turns(self) -> list[str]:
        return list(conversation(self.framework))

    def sent(self, turn: str) -> Json:
        """The arguments of the call that a turn of the conversation led to."""
        kept = [name for name in self.turns if name not in self.framework.refuses]
        arguments: Json = self.calls[kept.index(turn)]["arguments"]
        return arguments

    def told(self, turn: str) -> str:
        """What the framework told its model after a turn of the conversation."""
        return self.asked[self.turns.index(turn) + 1].told


def run(framework: Framework, folder: Path, *, stdio: bool = False) -> Run:
    home, data, files = folder / "home", folder / "data", folder / "files"
    home.mkdir()
    files.mkdir()
    model = ScriptedModel(list(conversation(framework).values()))
    recorded = Recorded(http_app(load(data_dir=data, ingest_roots=(files,))))
    with listening(recorded) as gateway, listening(model.app()) as model_url:
        command = (sys.executable, "-m", "gateway", "stdio") if stdio else ()
        place = Place(gateway + "/mcp", model_url, home, command)
        for memory in MEMORIES[:-1]:
            stored = httpx.post(place.gateway, **raw_call("modern", "memory_remember", {"content": memory}))
            stored.raise_for_status()
        recorded.calls.clear()
        said = _spoken(framework, place, _over_stdio(command, data, files) if stdio else {})
    return Run(framework, recorded.calls, model.asked, said)


def _over_stdio(command: tuple[str, ...], data: Path, files: Path) -> dict[str, str]:
    """The same data, by a gateway that the framework starts itself."""
    return {
        "MCP_COMMAND": json.dumps(command),
        "PYTHONPATH": str(ROOT),
        "BRAINS_DATA_DIR": str(data),
        "BRAINS_INGEST_ROOTS": str(files),
    }


def _spoken(framework: Framework, place: Place, stdio: dict[str, str]) -> str:
    program = framework.start(place)
    environment = {"PATH": os.environ["PATH"], "HOME": str(place.home), **QUIET, **stdio}
    environment |= {"MCP_URL": place.gateway, "MODEL_URL": place.model, **program.environment}
    done = subprocess.run(
        program.command, capture_output=True, text=True, env=environment, cwd=place.home, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
