"""Broken peers: routes, tokens, refusals and brains."""

from dataclasses import replace

from tests.broken.peer import peer
from tests.broken.wrapping import Asked, Forward, Said, answers, asks, edits, lenient, on, problem, refuses, said, turns
from tests.contract.targets import TOKEN

ANY = "* .*"
BRAINS, BRAIN = "POST /v1/brains", "/v1/brains/[^/]+"
HTML = Said(404, {"content-type": "text/html"}, b"<h1>Not found</h1>")
NO_BRAIN = b"brain not found"

# Every case of a brain that is not there.
OF_MISSING_BRAINS = (
    "ask/missing-brain",
    "batch/missing-brain",
    "brains/get-a-missing-brain",
    "documents/append-to-a-missing-brain",
    "documents/create-in-a-missing-brain",
    "documents/list-a-missing-brain",
    "documents/put-to-a-missing-brain",
    "documents/read-from-a-missing-brain",
    "events/missing-brain",
    "ingest/file-to-a-missing-brain",
    "search/missing-brain",
    "service/brain-before-body",
    "sessions/close-in-a-missing-brain",
    "sessions/missing-brain",
    "stages/compile-in-a-missing-brain",
    "stages/consolidate-in-a-missing-brain",
    "stages/derive-in-a-missing-brain",
)

# Every task that a model can be given, and every request for one that is wrong.
DERIVE = "POST {b}/derive"
OF_TASKS = (
    "stages/derive-classify-episode",
    "stages/derive-consolidate",
    "stages/derive-digest",
    "stages/derive-entities",
    "stages/derive-facts",
    "stages/derive-reflect",
    "stages/derive-scenes",
    "stages/derive-title",
)
OF_BAD_TASKS = (
    "stages/derive-a-title-of-messages",
    "stages/derive-an-unknown-task",
    "stages/derive-from-a-climbing-path",
    "stages/derive-from-a-text",
    "stages/derive-from-an-empty-message",
    "stages/derive-from-an-unknown-role",
    "stages/derive-from-no-json",
    "stages/derive-from-no-paths",
    "stages/derive-from-nothing",
    "stages/derive-from-too-many-paths",
    "stages/derive-from-two-trees",
    "stages/derive-scenes-of-documents",
    "stages/derive-without-a-task",
)


def _no_token(asked: Asked) -> bool:
    return "authorization" not in asked.headers


def _for_everyone(asked: Asked) -> Asked:
    return replace(asked, headers={**asked.headers, "authorization": f"Bearer {TOKEN}"})


def _no_json(asked: Asked) -> bool:
    return asked.body.startswith(b"{ no")


async def _kept(asked: Asked, forward: Forward) -> Said:
    if asked.headers.get("x-confirm-delete") != "yes":
        return await forward(asked)
    return said(204)


async def _one_for_all(asked: Asked, forward: Forward) -> Said:
    _, _, rest = asked.path.partition("/documents")
    return await forward(replace(asked, path=f"/v1/brains/main/documents{rest}"))


async def _written_down(asked: Asked, forward: Forward) -> Said:
    """What was derived is kept, where it was only asked for."""
    path, text = asked.path.replace("/derive", "/documents"), {**asked.headers, "content-type": "text/markdown"}
    await forward(replace(asked, method="PUT", path=path, query={"path": "derived.md"}, headers=text))
    return await forward(asked)


def _visible(record: dict[str, str]) -> dict[str, str]:
    return {**record, "visibility": "public"}


PEERS = [
    peer("health needs a token", refuses("GET /healthz", _no_token, problem(401, "unauthorized")), "service/health"),
    peer(
        "no model is told of",
        edits("* /v1/models", lambda told: {"data": []}),
        "service/models",
        "service/models-tried",
    ),
    peer(
        "unknown routes are HTML",
        answers(ANY, lambda told: HTML if b"no route for" in told.body else told),
        "service/unknown-route",
        "service/unknown-route-in-a-brain",
        "service/trailing-slash",
    ),
    peer(
        "slashes are redirected",
        refuses(ANY, lambda asked: asked.path.endswith("/"), Said(307, {"location": "/"})),
        "service/trailing-slash",
    ),
    peer(
        "another method is a missing route",
        turns(ANY, 405, problem(404, "not_found", "no route for it")),
        "service/wrong-method",
        "documents/read-with-another-method",
    ),
    peer(
        "Allow is not whole",
        answers(ANY, lambda told: replace(told, headers={**told.headers, "allow": "OPTIONS"})),
        "service/wrong-method",
        "documents/read-with-another-method",
    ),
    peer(
        "everyone is let in",
        asks(ANY, _for_everyone),
        "service/no-token",
        "service/wrong-token",
        "service/malformed-token",
        "service/no-token-on-a-write",
        "service/token-before-route",
    ),
    peer("a wrong token is no token", turns(ANY, 403, problem(401, "unauthorized")), "service/wrong-token"),
    peer(
        "routes are told to everyone",
        refuses("* /v1/no-such.*", _no_token, problem(404, "not_found", "no route for it")),
        "service/token-before-route",
    ),
    peer(
        "a body is read before a brain is looked for",
        refuses("POST {b}/ask", _no_json, problem(400, "validation_error")),
        "service/brain-before-body",
    ),
    peer(
        "a compressed body is stored as it is",
        asks(ANY, lambda asked: replace(asked, headers={k: v for k, v in asked.headers.items() if "coding" not in k})),
        "service/compressed-body",
    ),
    peer(
        "a missing brain is a missing document",
        answers(ANY, lambda told: problem(404, "not_found", "document not found") if NO_BRAIN in told.body else told),
        *OF_MISSING_BRAINS,
    ),
    peer(
        "a missing brain is an empty one",
        answers(ANY, lambda told: said(200, {}) if NO_BRAIN in told.body else told),
        *OF_MISSING_BRAINS,
        "brains/delete-a-missing-brain",
        "brains/delete",
    ),
    peer(
        "brains are listed without their visibility",
        edits(
            "GET /v1/brains",
            lambda told: {"items": [{k: v for k, v in one.items() if k != "visibility"} for one in told["items"]]},
        ),
        "brains/list",
    ),
    peer(
        "new brains are not listed",
        edits("GET /v1/brains", lambda told: {"items": told["items"][:1]}),
        "brains/list",
    ),
    peer(
        "every brain is public",
        edits(f"* {BRAIN}|/v1/brains", lambda told: told if "items" in told else _visible(told)),
        "brains/create",
        "brains/create-public",
        "brains/create-private-by-default",
    ),
    peer(
        "a derived slug is the name",
        edits(BRAINS, lambda told: {**told, "slug": told["name"]}),
        "brains/create-derives-a-slug",
        "brains/create",
    ),
    peer("a slug may be taken twice", turns(BRAINS, 409, said(201, {"id": "nobody"})), "brains/create-again"),
    peer(
        "any brain is made",
        turns(BRAINS, 400, said(201, {"id": "nobody"})),
        "brains/create-without-a-name",
        "brains/create-with-a-long-name",
        "brains/create-with-a-bad-slug",
        "brains/create-with-a-long-slug",
        "brains/create-with-a-bad-visibility",
        "brains/create-with-no-json",
        "brains/create-with-a-list",
    ),
    peer(
        "brains are found by id alone",
        refuses(f"GET {BRAIN}", lambda asked: "brn_" not in asked.path, problem(404, "not_found", "brain not found")),
        "brains/get-by-slug",
        "brains/create-public",
    ),
    peer("brains are not deleted", on(f"DELETE {BRAIN}", _kept), "brains/delete"),
    peer(
        "brains are deleted without a confirmation",
        asks(f"DELETE {BRAIN}", lambda asked: replace(asked, headers={**asked.headers, "x-confirm-delete": "yes"})),
        "brains/delete-unconfirmed",
    ),
    peer("all brains are one", on("* {b}/documents.*", _one_for_all), "brains/keep-apart"),
    peer(
        "refusals are plain text",
        answers(
            ANY,
            lambda told: replace(told, headers={"content-type": "text/plain"}) if told.status >= 400 else told,
        ),
        "service/unknown-route",
        "service/no-token",
        "brains/create-again",
        "documents/read-a-missing-document",
        "search/no-query",
    ),
    peer("whatever is asked for is nothing", turns(DERIVE, 501, said(200, {"results": []})), *OF_TASKS),
    peer("any work is taken on", lenient(DERIVE), *OF_BAD_TASKS),
    peer(
        "there is no model, and no such document",
        turns(DERIVE, 501, problem(400, "validation_error")),
        *OF_TASKS,
        "stages/derive-from-a-missing-document",
    ),
    peer("what was derived is written down", on(DERIVE, _written_down), "stages/derive-writes-nothing"),
    peer("bad requests are taken", lenient(ANY), "batch/without-operations", "sessions/recall-nothing"),
]
