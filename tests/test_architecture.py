"""The shape of the code: which package may import which, and how large a piece may grow. Each test lists offenders."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from gateway.surfaces.catalog import SURFACES

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("gateway/**/*.py"), *ROOT.glob("contract/**/*.py"), *ROOT.glob("bench/**/*.py")])
MODULE_LINES, FUNCTION_LINES = 400, 60

# A package of the gateway -> the packages it may import. The lowest stands first; nothing imports upwards.
MAY_IMPORT = {
    "surfaces.catalog": (),
    "operations": (),
    "ingest": ("operations",),
    "config": ("surfaces.catalog", "operations", "ingest"),
    "upstream": ("operations", "config"),
    "brain": ("operations", "ingest", "upstream"),
    "mcp": ("operations", "brain"),
    "surfaces": ("operations", "brain", "mcp"),
    "http": ("operations", "config", "brain", "mcp"),
    "ui": ("surfaces.catalog", "operations", "brain", "mcp", "http"),
    "app": ("surfaces.catalog", "operations", "ingest", "config", "upstream", "brain", "mcp", "surfaces", "http", "ui"),
    "cli": ("surfaces.catalog", "operations", "config", "app"),
}
# A module, or all below it -> libraries and packages that it must not import, with the modules that may.
FORBIDDEN = {
    "contract": ("gateway", "tests", "bench"),
    # FastMCP's middlewares repeat writes, answer from a cache, and count all callers as one.
    "gateway": ("tests", "bench", "contract", "fastmcp.server.middleware"),
    "gateway.operations": ("fastmcp", "httpx", "mcp"),
    "gateway.brain": ("fastmcp", "httpx", "mcp"),
    "gateway.surfaces": ("httpx", "gateway.operations.steps", "gateway.operations.chains"),
    "gateway.upstream": ("fastmcp", "mcp"),
}
EXEMPT = {
    # The embedded brain is the reference platform, and one command is the judge.
    ("gateway.app.embedded", "contract"),
    ("gateway.app.database_file", "contract"),
    ("gateway.cli.main", "contract"),
}
# Everybody else is given values, never the settings.
READS_SETTINGS = ("gateway.app", "gateway.cli", "gateway.config", "bench")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def package_of(module: str) -> str | None:
    """The package of a module of the gateway; None for what lies above the packages."""
    return max((name for name in MAY_IMPORT if within(module, f"gateway.{name}")), key=len, default=None)


def test_packages_import_only_those_they_may() -> None:
    offending = [
        f"{module_of(path)} imports {found}"
        for path in SOURCES
        if (package := package_of(module_of(path))) is not None
        for found in imports_of(path)
        if (other := package_of(found)) not in (None, package) and other not in MAY_IMPORT[package]
    ]
    assert offending == []


def test_the_table_of_packages_has_no_circle_and_names_them_all() -> None:
    list(TopologicalSorter(MAY_IMPORT).static_order())
    packages = {path.name for path in (ROOT / "gateway").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == {name for name in MAY_IMPORT if "." not in name}
    assert {path.name for path in (ROOT / "gateway").glob("*.py")} == {"__init__.py", "__main__.py"}


def test_nothing_imports_what_is_not_for_it() -> None:
    offending = [
        f"{module_of(path)} imports {found}"
        for path in SOURCES
        for prefix, names in FORBIDDEN.items()
        if within(module_of(path), prefix)
        for name in names
        if (module_of(path), name) not in EXEMPT
        for found in imports_of(path)
        if within(found, name)
    ]
    assert offending == []


def test_no_module_of_http_names_a_surface() -> None:
    offending = [
        f"{module_of(path)}: {node.value!r}"
        for path in sorted((ROOT / "gateway" / "http").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and node.value in SURFACES
    ]
    assert offending == []


def test_settings_are_read_by_the_composition_side_alone() -> None:
    offending = [
        module_of(path)
        for path in SOURCES
        if not any(within(module_of(path), reader) for reader in READS_SETTINGS)
        and any(within(found, "gateway.config.settings") for found in imports_of(path))
    ]
    assert offending == []


def test_pieces_stay_small() -> None:
    offending = []
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        if source.count("\n") > MODULE_LINES:
            offending.append(f"{module_of(path)}: {source.count(chr(10))} lines")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    offending.append(f"{module_of(path)}.{node.name}: {lines} lines")
    assert offending == []


def test_every_module_says_what_lives_there() -> None:
    offending = []
    for path in SOURCES:
        if path.read_text(encoding="utf-8").strip():
            docstring = ast.get_docstring(tree_of(path)) or ""
            if not docstring.partition("\n")[0].endswith((".", ":")):
                offending.append(module_of(path))
    assert offending == []
