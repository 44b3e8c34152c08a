"""The tables of the README that are made from the code.

python -m tests.docs     rewrites them
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from gateway.config.settings import PREFIX, SURFACES, Settings
from gateway.operations.errors import CATALOGUE

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


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


WAYS = {
    "production": "every surface, as it is served",
    "fixtures": "the application, with the suite's own tools",
    "fixtures behind auth": "the same, behind an OAuth provider",
}


def conformance_table() -> str:
    record = json.loads((ROOT / "tests" / "peers" / "conformance" / "record.json").read_text(encoding="utf-8"))
    rows = ["| MCP | What is tested | Result | Checks that do not apply |", "|---|---|---|---|"]
    for wire, cards in record["wires"].items():
        for way, words in WAYS.items():
            card = cards[way]
            passed = f"{card['passed']} of {cards['scored']} scored"
            result = f"{passed}, {card['skipped']} skipped, {card['expected']} expected"
            rows.append(f"| {wire} | {words} | {result} | {card['not_applicable'] or '–'} |")
    return "\n".join([*rows, "", f"With `@modelcontextprotocol/conformance` {record['suite']}."])


def speed_table() -> str:
    """The budgets as they were last measured, with the machine and the date; told in full by the page itself."""
    page = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    facts = dict(re.findall(r"^\* ([a-zA-Z]+): (.+)$", page, re.MULTILINE))
    (budgets,) = re.findall(r"^## Budgets\n\n(.+?)\n\n((?:\|.+\n)+)", page, re.MULTILINE)
    rows = ["|".join(line.split("|")[:6]) + "|" for line in budgets[1].splitlines()]
    when = f"{facts['date']}, {facts['machine']}, {facts['Python']}, commit {facts['commit']}"
    return "\n".join([f"<details><summary>{when}: {budgets[0]}</summary>", "", *rows, "", "</details>"])


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "errors": errors_table,
    "surfaces": surfaces_table,
    "conformance": conformance_table,
    "speed": speed_table,
    **{f"tools of {name}": partial(tools_table, name) for name in SURFACES},
}


def with_tables(text: str) -> str:
    """The text with each table between its markers made anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md has no place for the {name} table")
        made = f"{begin}\n{table()}\n{end}"
        text = pattern.sub(lambda _match, made=made: made, text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
