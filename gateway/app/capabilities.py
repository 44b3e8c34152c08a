"""What the gateway can do with this platform: each tool, the route that will serve it, and what is missing."""

from collections.abc import Sequence

from gateway.brain.brain import Brain
from gateway.mcp.surface import Surface
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject, Op

URI = "brains://capabilities"
_OWN_FETCH = Op.FETCH_PAGE.lacked
_ITSELF = "the gateway itself"

# code -> what a person should do about it. For other codes, the message is enough.
_REMEDIES = {
    "unauthorized": "Set BRAINS_UPSTREAM_TOKEN to a token that the platform accepts.",
    "forbidden": "Set BRAINS_UPSTREAM_TOKEN to a token that may list brains.",
    "upstream_unavailable": "Start the platform, or correct BRAINS_UPSTREAM_URL.",
    "upstream_error": "Check that BRAINS_UPSTREAM_URL is the root of a brains platform, without a path of its own.",
    "timeout": "Look at the platform's load and log, then try again.",
    "rate_limited": "Wait a little, then try again.",
    "no_brain": "Correct BRAINS_DEFAULT_BRAIN, or create it with memory_create_brain.",
    "not_implemented": "Upgrade the platform, or leave this tool alone.",
}


async def capabilities(brain: Brain, surfaces: Sequence[Surface], call: Call) -> JsonObject:
    """The report, as JSON: a failure is a problem in it, never an exception."""
    try:
        dialect, caveats = await brain.dialect(call)
    except GatewayError as error:
        nothing: JsonObject = {"dialect": None, "caveats": [], "brain": None, "tools": []}
        return {**nothing, "problems": [_problem(error)], "all_served": False}
    served = [(surface, name) for surface in surfaces for name in surface.uses() if name not in surface.hidden()]
    tools = [row for surface, name in served for row in await _rows(brain, surface, name, call)]
    all_served = all(row["served"] for row in tools)
    found: JsonObject = {"dialect": dialect, "caveats": list(caveats), "brain": None, "tools": tools}
    found["all_served"] = all_served
    if said := await brain.without_brains(call):
        # One sentence for all of them, and no brain to choose.
        lacking = {"code": "not_implemented", "message": said, "remedy": "Set BRAINS_SURFACES=memo."}
        return {**found, "problems": [] if all_served else [lacking]}
    problems = [_unserved(row) for row in tools if not row["served"]]
    try:
        brain_id, why = await brain.choice(call)
        listed = await brain.listed(call, brain_id)
        slug = str((listed or {}).get("slug") or brain_id)
        found["brain"] = {"id": brain_id, **({} if slug == brain_id else {"slug": slug}), "why": why}
        if listed is None:
            problems.append(_problem(GatewayError("no_brain", f"There is no brain {brain_id}.")))
    except GatewayError as error:
        problems.append(_problem(error))
    return {**found, "problems": problems}


async def _rows(brain: Brain, surface: Surface, name: str, call: Call) -> list[JsonObject]:
    of = {"surface": surface.name, "tool": surface.tool_prefix + name}
    if not surface.offers(name):
        how = "no directory is open to it here"
        return [{**of, "case": "", "served": False, "route": None, "how": how, "missing": []}]
    if not surface.uses()[name]:
        # This tool uses no brain, so no platform can lack anything for it.
        return [{**of, "case": "", "served": True, "route": _ITSELF, "how": "", "missing": []}]
    rows = []
    for use in surface.uses()[name]:
        way = await brain.way(call, use.chain, use.args)
        missing = list(dict.fromkeys(op.lacked for op in way.missing if op.lacked))
        served = way.route is not None
        found = {"case": use.case, "served": served, "route": way.route, "how": way.how, "missing": missing}
        rows.append({**of, **found})
    return rows


def _unserved(row: JsonObject) -> JsonObject:
    lacking = [name for name in row["missing"] if name != _OWN_FETCH]
    why = row["how"] or f"the platform lacks {', '.join(lacking)}"
    message = f"{row['tool']} cannot be served: {why}."
    if row["how"]:
        remedy = "Set BRAINS_INGEST_ROOTS to the directories it may read."
    elif _OWN_FETCH in row["missing"]:
        remedy = "Set BRAINS_FETCH=on, so that the gateway fetches pages itself."
    else:
        remedy = _REMEDIES["not_implemented"]
    return {"code": "not_implemented", "message": message, "remedy": remedy}


def _problem(error: GatewayError) -> JsonObject:
    # A message that names what to change needs no more advice.
    says_it = "BRAINS_" in error.message or "memory_create_brain" in error.message
    return {"code": error.code, "message": error.message, "remedy": "" if says_it else _REMEDIES.get(error.code, "")}
