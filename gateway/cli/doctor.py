"""`brains-gateway doctor`: what can be done with the platform that is configured, for a person at a terminal."""

import asyncio
import json
import sys
import time
from pathlib import Path

from gateway.app.capabilities import capabilities
from gateway.app.database_file import backup_state
from gateway.app.diagnosis import facts, problems_of_file, problems_of_models
from gateway.app.gateway import Gateway
from gateway.cli.prepare import local_roots, prepare
from gateway.config import user_file
from gateway.config.settings import BadSetting, Settings
from gateway.config.sources import warnings
from gateway.config.unsafe_settings import check_local, check_serving, ignored
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

# How long `doctor` waits for the first answer of an embedding service, before it says that none came.
_FIRST_ANSWER_SECONDS = 5.0


def doctor(settings: Settings, *, as_json: bool) -> bool:
    """Say what can be done with the configured platform. Returns whether that is everything."""
    check_local(settings)
    prepare(settings.model_copy(update={"log_level": "error"}))
    roots = local_roots(settings)
    # `doctor` makes no backups.
    gateway = Gateway(settings.model_copy(update={"backup_dir": None}), roots=roots)

    async def run() -> JsonObject:
        async with gateway.running():
            report = await capabilities(gateway.brain, gateway.surfaces(), Call())
            if doubtful := warnings(Settings.model_fields):
                report["doubtful"] = doubtful
            if settings.read_only:
                report["read_only"] = True
            if settings.auth == "password":
                report["logins"] = _logins(settings)
            if in_vain := ignored(settings):
                report["ignored"] = in_vain
            found = [*problems_of_file(settings, thorough=True), *_of_the_door(settings), *await _of_redis(settings)]
            report["problems"] = [*found, *report["problems"]]
            if settings.dialect != "auto" and settings.upstream_url is not None:
                report["problems"] += await _other_dialect(settings)
            models = await _models_of(gateway)
            if models is None:
                return report
            return {**report, "models": models, "problems": [*report["problems"], *problems_of_models(models)]}

    report = asyncio.run(run())
    where = settings.upstream_url or f"the embedded brain in {settings.data_dir}"
    told = (
        [json.dumps({"platform": where, **report}, ensure_ascii=False, indent=2)]
        if as_json
        else report_lines(report, where, _files(settings, roots), backup_state(settings)[0])
    )
    sys.stdout.write("\n".join(told) + "\n")
    return bool(report["all_served"] and not report["problems"])


def _logins(settings: Settings) -> str:
    """How many users may log in, and where."""
    path = settings.users_path
    try:
        number = len(user_file.parse(path.read_bytes()))
    except (OSError, ValueError):
        return f"nobody: {path} cannot be read"
    return f"{number} user{'s' * (number != 1)} of {path}, at {settings.public_url or 'nowhere yet'}"


def _of_the_door(settings: Settings) -> list[JsonObject]:
    """Why `serve` would not start with its own login."""
    try:
        if settings.auth == "password":
            check_serving(settings)
    except BadSetting as error:
        return [{"code": "validation_error", "message": str(error), "remedy": ""}]
    return []


async def _of_redis(settings: Settings) -> list[JsonObject]:
    """Why limits do not hold for all replicas together, though they should."""
    if settings.redis_url is None:
        return []
    # Imported when used, because few have Redis.
    from gateway.app.redis_limits import trouble_with_redis

    if (trouble := await trouble_with_redis(settings.redis_url.get_secret_value())) is None:
        return []
    said = f"Redis does not serve ({trouble}), so each process counts its callers' limits for itself."
    return [{"code": "upstream_unavailable", "message": said, "remedy": "Check BRAINS_REDIS_URL, and Redis."}]


async def _models_of(gateway: Gateway) -> JsonObject | None:
    """The models. A model that is asked for the first time gets some time to answer."""
    ends = time.monotonic() + _FIRST_ANSWER_SECONDS
    # A language model is asked for one word, because there is no other way to know whether it works.
    await gateway.models(trying=True)
    while True:
        models = await gateway.models()
        embedding = (models or {}).get("embedding", {})
        if embedding.get("state") != "building" or embedding.get("dimensions"):
            return models
        if time.monotonic() > ends:
            silent = {"state": "failing", "error": f"has not answered for {_FIRST_ANSWER_SECONDS:g} s"}
            return {**(models or {}), "embedding": {**embedding, **silent}}
        await asyncio.sleep(0.05)


async def _other_dialect(settings: Settings) -> list[JsonObject]:
    """The problem of a dialect that was set and is not the platform's, if it is one."""
    finding_out = Gateway(settings.model_copy(update={"dialect": "auto"}), roots=None)
    async with finding_out.running():
        try:
            spoken, _ = await finding_out.brain.dialect(Call())
        except GatewayError:
            return []
    if spoken == settings.dialect:
        return []
    message = f"BRAINS_DIALECT is {settings.dialect}, but this platform speaks {spoken}. Unset it."
    return [{"code": "validation_error", "message": message, "remedy": ""}]


def _files(settings: Settings, roots: tuple[Path, ...] | None) -> str:
    if not roots:
        return "ingested from nowhere: set BRAINS_INGEST_ROOTS"
    told = f"ingested from {', '.join(str(root.absolute()) for root in roots)}"
    return told if settings.ingest_roots else f"{told} over stdio; over HTTP not at all: set BRAINS_INGEST_ROOTS"


def report_lines(report: JsonObject, platform: str, files: str, backups: str) -> list[str]:
    """Platform, brain, files, table, problems, and at the end one sentence as a summary."""
    return [
        *(f"{name:<11}{said}" for name, said in facts(report, platform, files, backups)),
        "",
        *(line for surface, rows in _by_surface(report["tools"]).items() for line in _table(surface, rows)),
        *_problems(report["problems"]),
        _verdict(report),
        *(["", "What to expect of such a platform"] if report["caveats"] else []),
        *(f"  - {caveat}" for caveat in report["caveats"]),
    ]


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
