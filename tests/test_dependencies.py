"""What is imported is declared, what is declared is used, and private names of libraries stay where they are meant."""

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.lowest import pins

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = ("gateway", "contract", "bench", "tests")

# A distribution that is only a name for another with some of its extras.
STANDS_FOR = {"fastmcp": "fastmcp-slim"}
# Declared and imported by nobody here -> who needs it.
NOT_IMPORTED = {
    "httptools": "uvicorn, which is told its name",
    "mypy": "a command",
    "pytest-timeout": "a plugin of pytest",
    "pytest-xdist": "a plugin of pytest",
    "python-multipart": "starlette, for forms",
    "ruff": "a command",
    "types-pyyaml": "mypy",
    "uvloop": "uvicorn, which is told its name",
    "wordllama": "contract.platform.meaning.offline, which reads its files",
}

# A library -> the private names of it that are used, and the modules that may use them.
PRIVATE = {
    "aiohttp": (
        {"_acquired", "_close", "_conns", "_get", "_release"},
        {"gateway.upstream.wire.connections"},
    ),
    "fastmcp": ({"_mcp_server", "_origin_allowed"}, {"gateway.mcp.sdk", "bench.bare"}),
    "httpx": ({"_list", "_uri_reference"}, {"gateway.upstream.wire.request"}),
    "mcp": ({"_handle_request"}, {"gateway.mcp.sdk"}),
    "opentelemetry-exporter-otlp-proto-http": ({"_transport"}, {"gateway.app.traces.sending"}),
}
# Private in looks alone: of the standard library, and in its documentation.
DOCUMENTED = {"_exit", "_replace", "_asdict", "_fields", "_value_"}
LIBRARIES = (*PRIVATE, "mcp_types", "sse_starlette", "starlette", "uvicorn")


def sources(*packages: str) -> list[Path]:
    found = []
    for folder, below, names in (walked for package in packages for walked in os.walk(ROOT / package)):
        # What is being installed is not looked into: it comes and goes. Programs for agent frameworks have pins of
        # their own.
        below[:] = [name for name in below if name not in {"node_modules", "programs"}]
        found += [Path(folder) / name for name in names if name.endswith(".py")]
    return sorted(found)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def declared(*, dev: bool) -> dict[str, Requirement]:
    extras = PROJECT["optional-dependencies"]
    lines = [
        *PROJECT["dependencies"],
        *(line for name, extra in extras.items() if dev or name != "dev" for line in extra),
    ]
    return {canonicalize_name(made.name): made for made in map(Requirement, lines)}


@cache
def distributions() -> dict[str, set[str]]:
    """The distributions that a top-level module may come from, by their names as they are compared."""
    return {name: set(map(canonicalize_name, found)) for name, found in packages_distributions().items()}


@cache
def imported(path: Path) -> frozenset[str]:
    """Top-level modules of others; those too that are imported by name at run time, as `"key_value.aio.stores"`."""
    tops: set[str] = set()
    for node in ast.walk(tree_of(path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_module = re.fullmatch(r"[a-z_]\w*(\.[a-z_]\w*)+", node.value) is not None
            names = [node.value] if is_module and node.value.partition(".")[0] in distributions() else []
        for name in names:
            tops.add(name.partition(".")[0])
    return frozenset(tops - set(OURS) - sys.stdlib_module_names)


def missing(packages: tuple[str, ...], *, dev: bool) -> set[str]:
    names = {STANDS_FOR.get(name, name) for name in declared(dev=dev)}
    return {
        f"{module_of(path)} imports {top}"
        for path in sources(*packages)
        for top in imported(path)
        if not distributions().get(top, {top}) & names
    }


def test_what_the_product_imports_is_declared() -> None:
    assert missing(("gateway", "contract"), dev=False) == set()


@pytest.mark.slow
def test_what_tests_and_benchmarks_import_is_declared_for_developers() -> None:
    assert missing(("bench", "tests"), dev=True) == set()


def idle(packages: tuple[str, ...], names: set[str]) -> set[str]:
    tops = {top for path in sources(*packages) for top in imported(path)}
    used = {name for top in tops for name in distributions().get(top, set())}
    return {name for name in names if STANDS_FOR.get(name, name) not in used}


@pytest.mark.slow
def test_what_is_declared_is_imported_or_needed_by_name() -> None:
    product = set(declared(dev=False))
    developers = set(declared(dev=True)) - product
    assert idle(("gateway", "contract"), product) | idle(OURS, developers) == set(NOT_IMPORTED)


def test_every_lower_bound_can_be_tested() -> None:
    made = [Requirement(pin) for pin in pins((ROOT / "pyproject.toml").read_text(encoding="utf-8"))]
    pinned = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in made}
    assert pinned == {name: str(lower_bound(found)) for name, found in declared(dev=True).items()}


def lower_bound(made: Requirement) -> Version | None:
    return next((Version(part.version) for part in made.specifier if part.operator == ">="), None)


def test_what_is_pinned_fits_what_is_declared() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned: dict[str, str] = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}
    assert [line for line in lines if re.fullmatch(r"[\w.-]+==[\w.]+", line) is None] == []
    assert [name for name, made in declared(dev=True).items() if not made.specifier.contains(pinned[name])] == []


def test_what_the_image_installs_is_pinned_by_its_hashes() -> None:
    made = (ROOT / "deploy" / "requirements.txt").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    parts = [line.split() for line in made if not line.startswith("#")]
    hashed = {canonicalize_name(pin.partition("==")[0]): pin.partition("==")[2] for pin, *_ in parts}
    assert [pin for pin, *hashes in parts if not hashes] == []
    assert [h for _, *hashes in parts for h in hashes if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h)] == []
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    versions = {canonicalize_name(name): version for name, version in pinned.items()}
    assert {name: versions.get(name) for name in hashed} == hashed
    assert set(declared(dev=False)) <= set(hashed)
    assert "--require-hashes -r deploy/requirements.txt" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_a_library_whose_private_names_are_used_is_held_to_the_minor_version_that_was_tested() -> None:
    for library in PRIVATE:
        specifier = declared(dev=False)[library].specifier
        lowest = lower_bound(declared(dev=False)[library])
        assert lowest is not None
        next_minor = f"{lowest.major}.{lowest.minor + 1}"
        assert {part.version for part in specifier if part.operator == "<"} == {next_minor}, library


# Private names. What an object is, is not known without running the code, so the rule is the other way round: a private
# name must be defined in the module that uses it, or anywhere here if it is used on `self`; else it is a library's.


def defined(tree: ast.Module) -> set[str]:
    """Names that the classes and functions of a module define."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
    return names


@cache
def defined_anywhere() -> set[str]:
    return set().union(*(defined(tree_of(path)) for path in sources("gateway", "contract", "bench")))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def foreign_private_names(tree: ast.Module) -> Iterator[str]:
    here = defined(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (part for alias in aliases for part in private_parts(alias.name))
            case ast.ImportFrom(module=str(module), names=aliases):
                yield from (part for alias in aliases for part in private_parts(f"{module}.{alias.name}"))
            case ast.Attribute(value=value, attr=name) if is_private(name) and name not in DOCUMENTED:
                is_own = ast.unparse(value) in ("self", "cls", "super()")
                if name not in (defined_anywhere() if is_own else here):
                    yield name
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[_, ast.Constant(str(name)), *_]):
                if is_private(name) and name not in here:
                    yield name


def private_parts(dotted: str) -> list[str]:
    top, *parts = dotted.split(".")
    return [part for part in parts if is_private(part)] if top in LIBRARIES else []


def overridden(tree: ast.Module) -> Iterator[str]:
    """Private methods of a class that extends one of a library: they may be the library's own, put in other words."""
    origin = {
        alias.asname or alias.name: (node.module if isinstance(node, ast.ImportFrom) else alias.name) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).partition(".")[0] for base in node.bases]
            if any(origin.get(base, "").partition(".")[0] in LIBRARIES for base in bases):
                inherited = {
                    called.attr
                    for called in ast.walk(node)
                    if isinstance(called, ast.Attribute) and ast.unparse(called.value) == "super()"
                }
                yield from (name for name in inherited if is_private(name))


@pytest.mark.slow
def test_private_names_of_libraries_are_used_only_where_they_are_meant_to_be() -> None:
    offending, used = [], set()
    for path in sources("gateway", "contract", "bench"):
        for name in {*foreign_private_names(tree_of(path)), *overridden(tree_of(path))}:
            used.add(name)
            if not any(name in names and module_of(path) in modules for names, modules in PRIVATE.values()):
                offending.append(f"{module_of(path)}: {name}")
    assert offending == []
    assert used == {name for names, _ in PRIVATE.values() for name in names}, "an entry that nothing uses any more"
