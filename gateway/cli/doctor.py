"""The capabilities report for a person at a terminal. Pure functions."""

from gateway.operations.table import JsonObject


def lines(report: JsonObject, platform: str, files: str) -> list[str]:
    """Platform, brain, files, table, problems, and in the end one sentence that says it all."""
    return [
        f"Platform   {platform}",
        f"Dialect    {report['dialect'] or 'not known'}",
        f"Brain      {_brain(report['brain'])}",
        f"Files      {files}",
        "",
        *(line for surface, rows in _by_surface(report["tools"]).items() for line in _table(surface, rows)),
        *_problems(report["problems"]),
        _verdict(report),
        *([f"But: {report['caveat']}"] if report["caveat"] else []),
    ]


def _brain(brain: JsonObject | None) -> str:
    if brain is None:
        return "none"
    hint = "; set BRAINS_DEFAULT_BRAIN to keep to one" if "first of" in brain["why"] else ""
    return f"{brain['id']} ({brain['why']}{hint})"


def _by_surface(tools: list[JsonObject]) -> dict[str, list[JsonObject]]:
    surfaces: dict[str, list[JsonObject]] = {}
    for row in tools:
        surfaces.setdefault(row["surface"], []).append(row)
    return surfaces


def _table(surface: str, tools: list[JsonObject]) -> list[str]:
    rows = [(f"Tool of {surface}", "Served by", "Missing for a better way")]
    rows += [(_name(row), row["route"] or "-", ", ".join(row["missing"])) for row in tools]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    told = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip() for row in rows]
    notes = [f"  {_name(row)}: {row['how']}." for row in tools if row["missing"] and row["served"]]
    return [told[0], "-" * len(told[0]), *told[1:], "", *([*notes, ""] if notes else [])]


def _name(row: JsonObject) -> str:
    return f"{row['tool']}, {row['case']}" if row["case"] else str(row["tool"])


def _problems(problems: list[JsonObject]) -> list[str]:
    if not problems:
        return []
    told = [f"  {n}. {p['code']}: {p['message']} {p['remedy']}".rstrip() for n, p in enumerate(problems, start=1)]
    return ["Problems", *told, ""]


def _verdict(report: JsonObject) -> str:
    tools = {(row["surface"], row["tool"]): True for row in report["tools"]}
    for row in report["tools"]:
        tools[row["surface"], row["tool"]] &= row["served"]
    if report["all_served"]:
        then = " once that is solved" if report["problems"] else ""
        return f"All {len(tools)} tools can be served{then}."
    return f"{sum(tools.values())} of {len(tools)} tools can be served." if tools else "No tool can be served."
