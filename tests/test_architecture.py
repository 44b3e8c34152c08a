"""The shape of the code: who may import whom, and how large a piece may grow."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("gateway/**/*.py"), *ROOT.glob("contract/**/*.py"), *ROOT.glob("bench/**/*.py")])
MODULE_LINES, FUNCTION_LINES = 400, 60

# Prefix of a module -> prefixes it must not import. Data flows surface -> brain -> chain -> dialect -> client.
FORBIDDEN = {
    "contract": ("gateway", "tests", "bench"),
    # Those middlewares repeat writes, answer from a cache, and count all callers as one.
    "gateway": ("tests", "bench", "contract", "fastmcp.server.middleware"),
    "gateway.surfaces": ("httpx", "gateway.server", "gateway.commands", "gateway.upstream.client", "gateway.chains"),
    "gateway.brain": ("fastmcp", "httpx", "gateway.surfaces", "gateway.server", "gateway.upstream.platform"),
    "gateway.chains": ("fastmcp", "httpx", "gateway.surfaces", "gateway.brain", "gateway.upstream"),
    "gateway.steps": ("fastmcp", "httpx", "gateway.surfaces", "gateway.brain", "gateway.upstream", "gateway.chains"),
    "gateway.upstream": ("fastmcp", "gateway.surfaces", "gateway.brain", "gateway.chains", "gateway.server"),
    "gateway.auth": ("gateway.surfaces", "gateway.brain", "gateway.server", "gateway.upstream", "gateway.settings"),
    "gateway.names": ("fastmcp", "httpx", "gateway.upstream"),
}
# The composition side may reach the reference platform, to embed it, and the command the judge; nothing else may.
EXEMPT = {("gateway.embedded", "contract"), ("gateway.cli", "contract")}
READS_SETTINGS = {
    "gateway.settings",
    "gateway.server",
    "gateway.commands",
    "gateway.administration",
    "gateway.gates",
    "gateway.welcome",
    "gateway.cli",
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_point_downwards(path: Path) -> None:
    module = module_of(path)
    banned = {
        name
        for prefix, names in FORBIDDEN.items()
        for name in names
        if within(module, prefix) and (module, name) not in EXEMPT
    }
    assert [found for found in imports_of(path) if any(within(found, name) for name in banned)] == []


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_settings_are_read_by_the_composition_side_alone(path: Path) -> None:
    if module_of(path) not in READS_SETTINGS and not within(module_of(path), "bench"):
        assert not any(within(found, "gateway.settings") for found in imports_of(path))


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_pieces_stay_small(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= MODULE_LINES
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno is not None}
    assert {name: lines for name, lines in long.items() if lines > FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_every_module_says_what_lives_there(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    if source.strip():
        docstring = ast.get_docstring(ast.parse(source))
        assert docstring
        assert docstring.splitlines()[0].endswith((".", ":"))
