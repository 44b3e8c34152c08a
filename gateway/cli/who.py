"""`who`: what is kept for one caller, and nothing of anybody else's."""

import argparse
from collections import Counter
from datetime import UTC, datetime

from gateway.app.desk import Desk, tokens_of
from gateway.app.kept import kept_for
from gateway.app.startup import say
from gateway.cli.output import print_json, print_rows, printable
from gateway.config.settings import BadSetting
from gateway.operations.caller import LOCAL
from gateway.operations.table import JsonObject


async def who(desk: Desk, arguments: argparse.Namespace) -> None:
    if desk.principal is LOCAL and desk.settings.auth in ("tokens", "jwt", "password"):
        raise BadSetting("Here callers are told apart, so say who: the id or subject of a token, a user, or a subject.")
    notes = await kept_for(desk, arguments.brain)
    told: JsonObject = {"who": _who(desk), "tokens": _tokens(desk), "memberships": _memberships(desk), "kept": notes}
    if arguments.json:
        print_json(told)
        return
    _print(told, with_paths=arguments.paths, is_limited=desk.principal is not LOCAL)
    if desk.settings.auth in ("jwt", "password"):
        say("Sessions go by the client that held them, too: those of theirs cannot be found by a subject alone.")


def _who(desk: Desk) -> str:
    return desk.settings.actor if desk.principal is LOCAL else desk.principal.subject


def _tokens(desk: Desk) -> list[JsonObject]:
    now = datetime.now(UTC)
    return [
        {"id": one.id, "name": one.name, "scope": one.scope, "brain": one.brain, "state": one.state(now)}
        for one in tokens_of(desk)
    ]


def _memberships(desk: Desk) -> JsonObject:
    records = tokens_of(desk)
    return {
        "organizations": sorted({one.org for one in records if one.org}),
        "projects": sorted({project for one in records for project in one.projects}),
    }


def _print(told: JsonObject, *, with_paths: bool, is_limited: bool) -> None:
    kept: list[JsonObject] = told["kept"]
    say(f"Kept for {printable(told['who'])}, notes and other files: {len(kept):,}.")
    counts, sizes = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for one in kept:
        place = (one["brain"], one["surface"], one["folder"])
        counts[place] += 1
        sizes[place] += one["bytes"]
    if with_paths:
        print_rows(("BRAIN", "PATH", "BYTES"), [(one["brain"], one["path"], f"{one['bytes']:,}") for one in kept])
    else:
        rows = [(*place, f"{counts[place]:,}", f"{sizes[place]:,}") for place in sorted(counts)]
        print_rows(("BRAIN", "SURFACE", "FOLDER", "FILES", "BYTES"), rows)
    for one in told["tokens"]:
        say(f"Token {one['id']} ({printable(one['name'])}): {one['scope']}, {one['state']}.")
    for kind, names in told["memberships"].items():
        if names:
            say(f"{kind.capitalize()}: {printable(', '.join(names))}.")
    if is_limited:
        say("Notes that several people may write, and that do not say who did, are not listed.")
