"""The pages of the documentation, and the tables in them that are made from the code.

python -m tests.docs     rewrites those tables, each where its marker is
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from gateway.app.metrics.families import AT_SCRAPE, FAMILIES
from gateway.config.settings import Settings
from gateway.config.sources import PREFIX
from gateway.operations.errors import CATALOGUE
from gateway.surfaces.catalog import SURFACES
from gateway.upstream.dialects.catalog import DIALECTS
from tests.peers.tried import clients_table
from tests.seeds.table import SEEDS, gaps_table, seed_table, totals_table

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), ROOT / "contract" / "README.md")
# <!-- name: generated --> … <!-- name: end -->
MARKED: Final = re.compile(r"<!-- ([a-z ]+): generated -->\n(.*?)<!-- \1: end -->", re.DOTALL)


def pin_of(surface: str) -> list[dict[str, Any]]:
    pin: list[dict[str, Any]] = json.loads(
        (ROOT / "contract" / "tools" / f"{surface}.json").read_text(encoding="utf-8")
    )
    return pin


def surfaces_table() -> str:
    rows = ["| Surface | Over HTTP | Over stdio | Tools |", "|---|---|---|---|"]
    for name in SURFACES:
        paths = [*(["/mcp"] if name == "memory" else []), f"/{name}/mcp"]
        over_http = ", ".join(f"`{path}`" for path in paths)
        tools = ", ".join(f"`{tool['name']}`" for tool in pin_of(name)) if name != "memory" else "11 `memory_*`"
        rows.append(f"| `{name}` | {over_http} | `stdio --surface {name}` | {tools} |")
    return "\n".join(rows)


def tools_table(surface: str) -> str:
    rows = ["| Tool | Arguments | What it does |", "|---|---|---|"]
    for tool in pin_of(surface):
        required = set(tool["inputSchema"].get("required", ()))
        names = tool["inputSchema"]["properties"]
        arguments = ", ".join(f"**{name}**" if name in required else name for name in names)
        rows.append(f"| `{tool['name']}` | {arguments or '–'} | {tool['description']} |")
    return "\n".join(rows)


def settings_table() -> str:
    rows = ["| Variable | Default | Meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        choices = [str(choice) for choice in getattr(alias, "choices", ())]
        own = PREFIX + name.upper()
        others = [f"`{choice}`" for choice in choices if choice != own]
        also = f" Also read from {', '.join(others)}." if others else ""
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        one_of = f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""
        usual = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        default = "–" if field.default_factory or usual in (None, "") else f"`{usual}`"
        rows.append(f"| `{own}` | {default} | {field.description}{one_of}{also} |")
    return "\n".join(rows)


def errors_table() -> str:
    rows = ["| Code | Retry? | Meaning |", "|---|---|---|"]
    rows += [f"| `{code}` | {'yes' if retry else 'no'} | {message} |" for code, (message, retry) in CATALOGUE.items()]
    return "\n".join(rows)


def routes_table() -> str:
    """How each dialect spells each operation."""
    operations = dict.fromkeys(operation for dialect in DIALECTS.values() for operation in dialect.routes)
    rows = [f"| Operation | {' | '.join(f'`{name}`' for name in DIALECTS)} |", "|---" * (1 + len(DIALECTS)) + "|"]
    for operation in operations:
        found = (dialect.routes.get(operation) for dialect in DIALECTS.values())
        spelled = (f"`{route.name}`" if route is not None else "–" for route in found)
        rows.append(f"| {str(operation).replace('_', ' ')} | {' | '.join(spelled)} |")
    return "\n".join(rows)


def metrics_table() -> str:
    """Every metric, as it is exported."""
    rows = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    for family in FAMILIES:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        rows.append(f"| `{name}` | {family.kind} | {labels} | {family.help} |")
    rows += [
        f"| `{name}` | gauge | {'`version`' if name.endswith('_info') else '–'} | {said} |"
        for name, said in AT_SCRAPE.items()
    ]
    return "\n".join(rows)


WAYS: Final = {
    "production": "every surface, as it is served",
    "fixtures": "the application, with the suite's own tools",
    "fixtures behind auth": "the same, behind an OAuth provider",
}


def conformance_table() -> str:
    record = json.loads((ROOT / "tests" / "peers" / "conformance" / "record.json").read_text(encoding="utf-8"))
    rows = [
        "| MCP | What is tested | Scored | Passed | Skipped | Expected failures | Checks that do not apply |",
        "|---|---|---|---|---|---|---|",
    ]
    for wire, cards in record["wires"].items():
        for way, words in WAYS.items():
            card = cards[way]
            counts = [cards["scored"], card["passed"], card["skipped"], card["expected"], card["not_applicable"]]
            rows.append(f"| {wire} | {words} | {' | '.join(str(count) for count in counts)} |")
    return "\n".join([*rows, "", f"With `@modelcontextprotocol/conformance` {record['suite']}."])


def contract_runs_table() -> str:
    """The contract on what can be run here, as last recorded."""
    record = json.loads((ROOT / "tests" / "peers" / "contract_table.json").read_text(encoding="utf-8"))
    rows = ["| What | Version | Command | Speaks | Musts | Shoulds | Not tried | Date |", "|---" * 8 + "|"]
    for one in record:
        musts, shoulds = (f"{passed} of {tried}" for passed, tried in (one["musts"], one["shoulds"]))
        cells = [one["what"], one["version"], f"`{one['command']}`", one["speaks"], musts, shoulds, one["untested"]]
        rows.append(f"| {' | '.join(map(str, cells))} | {one['date']} |")
    return "\n".join(rows)


def speed_table() -> str:
    """The budgets as they were last measured, with the machine and the date; `bench/RESULTS.md` has the rest."""
    page = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    facts = dict(re.findall(r"^\* ([a-zA-Z]+): (.+)$", page, re.MULTILINE))
    (budgets,) = re.findall(r"^## Budgets\n\n(.+?)\n\n((?:\|.+\n)+)", page, re.MULTILINE)
    rows = ["|".join(line.split("|")[:6]) + "|" for line in budgets[1].splitlines()]
    when = f"{facts['date']}, {facts['machine']}, {facts['Python']}, commit {facts['commit']}"
    return "\n".join([f"{when}: {budgets[0]}", "", *rows])


def side_by_side_table() -> str:
    """The gateway beside what people would compare it with, as last measured."""
    page = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"^## Side by side\n\n(.+?\n\n(?:\|.+\n)+)", page, re.MULTILINE)).rstrip()


TABLES: Final[dict[str, Callable[[], str]]] = {
    "settings": settings_table,
    "errors": errors_table,
    "surfaces": surfaces_table,
    "routes": routes_table,
    "metrics": metrics_table,
    "conformance": conformance_table,
    "contract runs": contract_runs_table,
    "side by side": side_by_side_table,
    "speed": speed_table,
    "clients": clients_table,
    "seeds": totals_table,
    "gaps": gaps_table,
    **{f"tools of {name}": partial(tools_table, name) for name in SURFACES},
    "extra tools of memory": partial(tools_table, "memory_extras"),
    **{f"seed of {name}": partial(seed_table, name) for name in SEEDS},
}


def with_tables(text: str) -> str:
    """The text with each table between its markers made anew. A table that is made elsewhere stays as it is."""

    def made(match: re.Match[str]) -> str:
        name = match.group(1)
        table = TABLES[name]() + "\n" if name in TABLES else match.group(2)
        return f"<!-- {name}: generated -->\n{table}<!-- {name}: end -->"

    return MARKED.sub(made, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
