"""`make release`: builds what a version consists of into dist/, and checks what a machine can of RELEASE.md.

    python -m tests.release [--draft]

Nothing is published. With --draft, what is not yet as a release must be is only said.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from gateway import __version__

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NODE_MODULES = ROOT / "tests" / "peers" / "node_modules"
# What the bundle for Claude Desktop is made of.
BUNDLED = ("pyproject.toml", "README.md", "LICENSE", "gateway", "contract")


def build(into: Path, *kinds: str) -> list[Path]:
    """The wheel and the source distribution, made by the backend that pyproject.toml names, in a place of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "build"
        _run(sys.executable, "-m", "venv", "--without-pip", str(place))
        pip = [sys.executable, "-m", "pip", "--python", str(place), "install", "-qq", "--disable-pip-version-check"]
        _run(*pip, "hatchling")
        python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        targets = [word for kind in kinds or ("sdist", "wheel") for word in ("-t", kind)]
        _run(str(python), "-m", "hatchling", "build", "-d", str(into), *targets)
    return sorted(path for path in into.iterdir() if path.suffix in {".whl", ".gz"})


def bundle(into: Path) -> Path:
    """The bundle for Claude Desktop, packed by the tool of those who define the format."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "deploy" / "mcpb" / "manifest.json", folder)
        for name in BUNDLED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder)
        made = into / f"brains-gateway-{__version__}.mcpb"
        tool = NODE_MODULES / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
        node = NODE_MODULES / "node" / "bin" / "node"
        _run(str(node), str(tool), "validate", str(Path(folder) / "manifest.json"))
        _run(str(node), str(tool), "pack", folder, str(made))
    return made


def disagreeing() -> Iterator[str]:
    """A sentence on each place that names another version, or another server."""
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "brains-gateway" / "Chart.yaml").read_text(encoding="utf-8"))
    registry = json.loads((ROOT / "deploy" / "server.json").read_text(encoding="utf-8"))
    manifest = json.loads((ROOT / "deploy" / "mcpb" / "manifest.json").read_text(encoding="utf-8"))
    named = {
        "version of Chart.yaml": chart["version"],
        "appVersion of Chart.yaml": chart["appVersion"],
        "version of deploy/server.json": registry["version"],
        "version of the package in deploy/server.json": registry["packages"][0]["version"],
        "version of deploy/mcpb/manifest.json": manifest["version"],
    }
    for what, version in named.items():
        if version != __version__:
            yield f"The {what} is {version}, and not {__version__}."
    if f"mcp-name: {registry['name']} " not in (ROOT / "README.md").read_text(encoding="utf-8"):
        yield f"README.md does not name {registry['name']}, by which the registry knows whose package it is."


def not_released() -> Iterator[str]:
    """A sentence on each thing that is not yet as it must be for this version to be released."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)
    if newest is None or newest[1] != __version__:
        yield f"The newest version in CHANGELOG.md is not {__version__} (step 7)."
    if changelog.partition("## [Unreleased]")[2].partition("\n## [")[0].strip():
        yield "Entries of CHANGELOG.md stand under Unreleased (step 7)."
    if _run("git", "status", "--porcelain").strip():
        yield "The working tree is not clean (step 1)."
    if _run("git", "tag", "--list", f"v{__version__}").strip():
        yield f"The tag v{__version__} is there already: choose the next version."


def missing_in(wheel: Path, source: Path) -> Iterator[str]:
    """A sentence on each file of ours that is not in what was built, and on what should not be."""
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in ("gateway", "contract")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    with tarfile.open(source) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    yield from (f"{name} is not in the wheel." for name in sorted(ours - packed))
    yield from (f"{name} is in the wheel." for name in sorted(packed - ours) if ".dist-info/" not in name)
    yield from (f"{name} is not in the source distribution." for name in sorted({*ours, "LICENSE"} - sources))


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and check a version. Nothing is published.")
    parser.add_argument("--draft", action="store_true", help="only say what is not yet as a release must be")
    draft = parser.parse_args().draft
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    source, wheel = sorted(build(DIST), key=lambda path: path.suffix)
    made = [wheel, source, bundle(DIST)]
    problems = [*disagreeing(), *missing_in(wheel, source)]
    open_steps = list(not_released())
    for path in made:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{digest}  {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")  # noqa: T201
    for problem in [*problems, *open_steps]:
        print(f"- {problem}", file=sys.stderr)  # noqa: T201
    if problems or (open_steps and not draft):
        print(f"{__version__} is not ready.", file=sys.stderr)  # noqa: T201
        return 1
    print(f"{__version__} is built. What is left is for a person: RELEASE.md, steps 2 to 6, 9 and 10.")  # noqa: T201
    return 0


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
