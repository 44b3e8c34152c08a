"""Which steps fulfil which operation. A chain moves on when a route is absent, and for no other reason."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.page import Fetch, document_of

Send = Callable[[Op, Args], Awaitable[JsonObject]]


def always(_args: Args) -> bool:
    return True


def in_session(args: Args) -> bool:
    return args.get("session_id") is not None


async def as_given(args: Args) -> Args:
    return args


def unshaped(answer: JsonObject) -> JsonObject:
    return answer


@dataclass(frozen=True, slots=True)
class Step:
    """One way to fulfil an operation: by which route, when it applies, and how arguments and answer change."""

    via: Op
    when: Callable[[Args], bool] = always
    prepare: Callable[[Args], Awaitable[Args]] = as_given
    shape: Callable[[JsonObject], JsonObject] = unshaped


Chain = tuple[Step, ...]

RECALL: Chain = (Step(Op.SESSION_RECALL, when=in_session), Step(Op.SEARCH))
CONSOLIDATE: Chain = (Step(Op.CONSOLIDATE), Step(Op.COMPILE))


def ingest_url(fetch: Fetch | None) -> Chain:
    """By the platform; where it cannot, by a fetch of our own if there is one."""
    by_server = Step(Op.INGEST_URL, shape=lambda answer: {"path": "server", "result": answer})
    if fetch is None:
        return (by_server,)

    async def fetched(args: Args) -> Args:
        return {**await document_of(await fetch(str(args["url"]))), "brain": args["brain"]}

    return (
        by_server,
        Step(Op.CREATE_DOCUMENT, prepare=fetched, shape=lambda answer: {"path": "fallback", "document": answer}),
    )


async def serve(chain: Chain, args: Args, send: Send) -> JsonObject:
    """The answer of the first step that applies and exists.

    Raises:
        GatewayError: a step was refused or failed; or `not_implemented`, when none exists.
    """
    for step in chain:
        if not step.when(args):
            continue
        try:
            return step.shape(await send(step.via, await step.prepare(args)))
        except Absent:
            continue
    raise GatewayError("not_implemented")


def only(op: Op) -> Chain:
    return (Step(op),)
