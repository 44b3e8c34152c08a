"""The chains: what a surface may ask of a brain, and the ways to do it, best first.

A chain moves on to its next step when a route is absent, and for no other reason.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.steps import (
    brains,
    documents,
    extraction,
    finding,
    index_files,
    ingesting,
    memos,
    note_writes,
    sessions,
)
from gateway.operations.steps.finding import in_agent_scope, is_sorted
from gateway.operations.table import Args, JsonObject, Op

_HALFWAY: Final = "The platform lost a route while this was under way; a part of it may be stored."

Run = Callable[[StepContext, Args], Awaitable[JsonObject]]


def always(_args: Args) -> bool:
    return True


def in_session(args: Args) -> bool:
    return args.get("session_id") is not None


def is_arranged(args: Args) -> bool:
    return is_sorted(args) or in_agent_scope(args)


@dataclass(frozen=True, slots=True)
class Step:
    """One way along a chain: the operations it takes, when it applies, and what is done."""

    via: Op
    """The operation whose route is named in receipts and logs."""
    also: tuple[Op, ...] = ()
    when: Callable[[Args], bool] = always
    run: Run | None = None
    """None: the operation is sent as it is."""
    how: str = "as the platform has it"

    @property
    def ops(self) -> tuple[Op, ...]:
        """Every operation that the step needs."""
        return (self.via, *self.also)


Chain = tuple[Step, ...]

_SEARCH: Final[Chain] = (
    Step(Op.SORTED_SEARCH, when=is_sorted),
    Step(Op.AGENT_SEARCH, when=in_agent_scope),
    Step(
        Op.SEARCH,
        also=(Op.LIST_DOCUMENTS,),
        when=is_arranged,
        run=finding.search_and_arrange,
        how="searched there, put in order here",
    ),
    Step(Op.SEARCH, run=finding.search),
)
_REMEMBER: Final[Chain] = (
    Step(Op.CREATE_DOCUMENT, run=documents.by_record),
    Step(
        Op.WRITE_DOCUMENT,
        also=(Op.READ_DOCUMENT,),
        when=documents.fits_a_put,
        run=documents.by_put,
        how="written as a note",
    ),
    Step(Op.BATCH_WRITE, also=(Op.READ_DOCUMENT,), run=documents.by_batch, how="written as a note, in a batch"),
)


_KEEP_NOTE: Final[Chain] = (
    Step(Op.CREATE_DOCUMENT, also=(Op.READ_DOCUMENT, Op.WRITE_DOCUMENT), run=note_writes.keep_by_record),
    Step(Op.WRITE_DOCUMENT, also=(Op.READ_DOCUMENT,), run=note_writes.keep_by_put, how="written as a note"),
)


def _as_notes(chain: Chain) -> Chain:
    """The ways by which the surface keeps memos as notes, where a platform keeps none itself."""
    return tuple(replace(step, run=memos.leave_to_notes) for step in chain)


def _after_a_fetch(step: Step) -> Step:
    """The page is fetched here, then stored as a memory is."""
    store = step.run
    assert store is not None

    async def run(context: StepContext, args: Args) -> JsonObject:
        document = {**await context.send(Op.FETCH_PAGE, args), "brain": args["brain"]}
        if not step.when(document):
            raise Absent
        return {"path": "fallback", "document": await store(context, document)}

    return Step(step.via, also=(Op.FETCH_PAGE, *step.also), run=run, how="fetched here, stored there")


CHAINS: Final[Mapping[str, Chain]] = {
    "list_brains": (
        Step(Op.LIST_NAMED_BRAINS),
        Step(Op.LIST_BRAINS, also=(Op.READ_DOCUMENT,), run=brains.list_named, how="names read from each brain"),
        Step(Op.LIST_BRAINS),
    ),
    "create_brain": (
        Step(Op.CREATE_BRAIN, run=brains.create_named),
        Step(
            Op.CREATE_BARE_BRAIN,
            also=(Op.WRITE_DOCUMENT,),
            run=brains.create_bare,
            how="created there; name and visibility kept as a note",
        ),
    ),
    "delete_brain": (Step(Op.DELETE_BRAIN, also=(Op.LIST_BRAINS,), run=brains.delete),),
    "search": _SEARCH,
    "recall": (
        Step(Op.SESSION_RECALL, when=in_session),
        Step(Op.RECALL, when=in_session, run=finding.recall_in_session),
        Step(
            Op.SEARCH,
            also=(Op.READ_DOCUMENT,),
            when=in_session,
            run=finding.recall_with_log,
            how="searched twice, blended with what was said in the session",
        ),
        *_SEARCH,
    ),
    "ask": (Step(Op.ASK, run=finding.ask),),
    "remember": _REMEMBER,
    "ingest_file": (
        Step(Op.INGEST_FILE, run=ingesting.ingest_by_platform),
        Step(
            Op.INGEST_TEXT,
            also=(Op.STAT_DOCUMENT,),
            run=ingesting.ingest_as_text,
            how="read here, ingested there as text",
        ),
    ),
    "ingest_url": (
        Step(Op.INGEST_URL, run=ingesting.ingest_by_server),
        *(_after_a_fetch(step) for step in _REMEMBER),
    ),
    "append_messages": (
        Step(Op.APPEND_MESSAGE, run=sessions.append_one_by_one),
        Step(
            Op.APPEND_DOCUMENT,
            also=(Op.READ_DOCUMENT,),
            run=sessions.append_to_log,
            how="kept as a log in the brain; memories extracted after the answer",
        ),
    ),
    "store_transcript": (
        Step(Op.CREATE_DOCUMENT, run=documents.by_record),
        Step(
            Op.WRITE_DOCUMENT,
            also=(Op.READ_DOCUMENT,),
            when=documents.fits_a_put,
            run=extraction.transcript_by_put,
            how="written as a note; memories extracted after the answer",
        ),
        Step(
            Op.BATCH_WRITE,
            also=(Op.READ_DOCUMENT,),
            run=extraction.transcript_by_batch,
            how="written as a note, in a batch; memories extracted after the answer",
        ),
    ),
    "close_session": (
        Step(Op.CLOSE_SESSION),
        Step(
            Op.REFLECT,
            also=(Op.READ_DOCUMENT, Op.APPEND_DOCUMENT, Op.WRITE_DOCUMENT),
            run=sessions.close_by_log,
            how="reflected on what the session's log holds",
        ),
    ),
    "read_note": (Step(Op.READ_DOCUMENT, run=note_writes.read_note),),
    "stat_note": (Step(Op.STAT_DOCUMENT, run=note_writes.size_and_time),),
    "list_notes": (Step(Op.LIST_DOCUMENTS),),
    "keep_note": _KEEP_NOTE,
    "replace_note": (Step(Op.WRITE_DOCUMENT, also=(Op.READ_DOCUMENT,), run=note_writes.replace_body),),
    "append_to_note": (Step(Op.APPEND_DOCUMENT, also=(Op.READ_DOCUMENT,), run=note_writes.append),),
    "move_note": (
        Step(Op.RENAME_DOCUMENT, also=(Op.READ_DOCUMENT, Op.WRITE_DOCUMENT), run=note_writes.move),
        Step(
            Op.DELETE_DOCUMENT,
            also=(Op.READ_DOCUMENT, Op.WRITE_DOCUMENT),
            run=note_writes.move_by_copy,
            how="copied, then deleted",
        ),
    ),
    "remove_note": (Step(Op.DELETE_DOCUMENT, also=(Op.READ_DOCUMENT,), run=note_writes.remove),),
    "find_memos": (Step(Op.FIND_MEMOS, run=memos.find), *_as_notes((Step(Op.SEARCH),))),
    "record_memo": (Step(Op.RECORD_MEMO, run=memos.record), *_as_notes(_KEEP_NOTE)),
    "derive": (Step(Op.DERIVE),),
    "consolidate": (Step(Op.CONSOLIDATE, run=index_files.consolidate), Step(Op.COMPILE, how="compiled instead")),
}


Serve = Callable[[Chain, Args, StepContext], Coroutine[Any, Any, tuple[JsonObject, Step]]]

# Chains that change nothing in the brain, whichever step serves.
READ_ONLY: Final = frozenset(
    name for name, chain in CHAINS.items() if not any(op.writes for step in chain for op in step.ops)
)


async def serve(chain: Chain, args: Args, context: StepContext) -> tuple[JsonObject, Step]:
    """The answer of the first step that applies and whose routes are there, and which step that was.

    Raises:
        GatewayError: a step was refused or failed; or `not_implemented`, when none is left.
    """
    for step in chain:
        # A step of one operation is simply sent, because sending looks up its route. A step of several operations
        # must not begin if a later one cannot be sent.
        if not step.when(args) or (step.run is not None and await _missing(step, context)):
            continue
        try:
            answer = await (context.send(step.via, args) if step.run is None else step.run(context, args))
            return answer, step
        except Absent:
            if context.may_have_written:
                # After a write, the next step would write the same again.
                raise GatewayError("outcome_unknown", _HALFWAY) from None
    raise GatewayError("not_implemented")


async def foresee(chain: Chain, args: Args, context: StepContext) -> tuple[Step | None, list[Op]]:
    """The step that would serve, as far as is known, and what the platform lacks for the better steps before it."""
    missing: dict[Op, None] = {}
    for step in chain:
        if step.when(args):
            lacking = await _missing(step, context)
            if not lacking:
                return step, list(missing)
            missing |= dict.fromkeys(lacking)
    return None, list(missing)


async def _missing(step: Step, context: StepContext) -> list[Op]:
    missing = [] if await context.has(step.via) else [step.via]
    if step.also:
        missing += [op for op in step.also if not await context.has(op)]
    return missing
