"""The chart as Helm renders it, and the plain manifests, which are the chart with its own values.

python -m tests.peers.rollout     writes deploy/kubernetes/brains-gateway.yaml again
"""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TOOLS: Final = ROOT / ".rollout" / "bin"
CHART: Final = ROOT / "deploy" / "helm" / "brains-gateway"
MANIFESTS: Final = ROOT / "deploy" / "kubernetes" / "brains-gateway.yaml"
_HEAD: Final = """\
# The gateway on Kubernetes, without Helm. Made of the chart: python -m tests.peers.rollout
#
#   1. brains-gateway key create, then: kubectl create secret generic brains-gateway --from-file=signing-keys.json
#   2. put your image, your addresses and your networks in the places of those that end in .example
#   3. kubectl apply -f brains-gateway.yaml
"""


def ran(*command: str | Path) -> str:
    """What a command says that must succeed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*options: str) -> str:
    return ran(TOOLS / "helm", "template", "brains-gateway", CHART, *options)


def manifests() -> str:
    return _HEAD + rendered()


if __name__ == "__main__":
    MANIFESTS.parent.mkdir(exist_ok=True)
    MANIFESTS.write_text(manifests(), encoding="utf-8")
