"""Runs cases against a server of the tools, over MCP."""

import asyncio
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from contract import judge_call
from contract.call import CallCase, CallExpect, CallStep, ParallelCallStep
from contract.causes import SILENCE, fault_of, says_no_model
from contract.exchange import NO_JSON, NoAnswer
from contract.fill import Unknown, filled, found
from contract.http_player import all_of
from contract.mcp_target import CREATE, McpTarget, pins, scoped, writers
from contract.names import names_of, own_name
from contract.outcome import Blocked, Cause, Failed, Failure, NotSupported
from contract.rpc import Reply
from contract.silence import Silence
from contract.words import cut, shown

# How a server says that it does not have something.
SAYS_IT_HAS_NONE: Final = re.compile(
    r"not[_ ](?:implemented|supported)|unsupported|does not (?:offer|have)", re.IGNORECASE
)
# Tools that need a language model, on servers without one of their own.
MODELS: Final = ("memory_ask", {"query": "contract"})
SHARED: Final = "shared"


class McpPlayer:
    def __init__(self, target: McpTarget) -> None:
        self._target = target
        self._no_brain: Blocked | None = None
        self._shared: str | None = target.brain
        self._apart: asyncio.Task[str | None] | None = None
        self._once: dict[str, asyncio.Task[Reply]] = {}
        self._silence = Silence(target.is_alive)
        self._has_documents = False

    @property
    def told(self) -> str:
        return self._target.told

    async def prepare(self, cases: Sequence[CallCase]) -> None:
        """Finds out, before anything is judged, which tools and which model there are, and makes a brain for the run.

        Raises: Unchecked.
        """
        target = self._target
        await target.recognise()
        chosen = [case for case in cases if case.surface == target.surface]
        if any(case.tools & writers(target.surface) for case in chosen):
            await target.refuse_to_write_elsewhere()
        missing = sorted(pins()[target.surface].keys() - target.tools.keys())
        target.capabilities["tools"] = f"all but {', '.join(missing)}" if missing else "all"
        if target.surface == "chat":
            target.capabilities["documents"] = await self._find_documents()
        if target.surface != "memory" or not any(case.brain != "none" for case in chosen):
            return
        if target.brain is None:
            try:
                self._shared = await target.make_brain(SHARED)
            except Blocked as error:
                self._no_brain = error
        target.capabilities["brains"] = self._no_brain.cause.sentence if self._no_brain else "yes"
        if self._no_brain is None and MODELS[0] in target.tools:
            target.capabilities["model"] = await self._find_model()

    async def _find_documents(self) -> str:
        """Whether there is anything to read: no tool of this vocabulary writes."""
        try:
            reply = await self._target.call("search", {"query": self._target.query}, {})
        except NoAnswer as error:
            return f"search: {error}"
        said = judge_call.json_of(reply.text)
        self._has_documents = reply.is_error or not isinstance(said, dict) or said.get("results") != []
        return "there" if self._has_documents else f"none that {self._target.query!r} finds"

    async def _find_model(self) -> str:
        tool, arguments = MODELS
        try:
            reply = await self._target.call(tool, self._with_brain(tool, arguments, self._shared), {})
        except NoAnswer as error:
            return f"{tool}: {error}"
        if not reply.is_error:
            return "not needed, or there"
        return f"none: {cut(reply.text, 120)}" if says_no_model(reply.text) else f"{tool} fails: {cut(reply.text, 120)}"

    def applies(self, case: CallCase) -> str | None:
        """Why the case does not apply, if it does not."""
        return None if case.surface == self._target.surface else f"of the {case.surface} tools"

    def lacks(self, case: CallCase) -> str | None:
        """What the case needs and the run does not have."""
        if case.needs == "page" and self._target.page is None:
            return "it needs a page that the server can fetch: give --page"
        if case.needs == "folder" and self._target.folder is None:
            return "it needs a folder that the server can read: give --folder"
        if case.needs == "document" and not self._has_documents:
            return f"it needs a document, and {self._target.query!r} finds none: give --query with words of one"
        if self._target.brain is not None and (case.brain == "apart" or CREATE in case.tools):
            return f"it makes brains, and --brain {self._target.brain} says to make none"
        return None

    def offers(self, case: CallCase) -> str | None:
        """Which tool of the case the server does not have."""
        missing = sorted(case.tools - self._target.tools.keys())
        return f"the server has no tool {missing[0]}" if missing else None

    async def play(self, case: CallCase) -> None:
        names = await self._names(case)
        files = filled({name: file.model_dump() for name, file in case.files.items()}, names)
        with _written(files, self._target.folder, names["unique"]):
            for number, step in enumerate(case.steps):
                if isinstance(step, ParallelCallStep):
                    many = step.parallel
                    await all_of(self._step(case, many.step, {**names, "n": n + 1}) for n in range(many.times))
                else:
                    names |= await self._step(case, step, names, may_be_missing=case.optional and number == 0)

    async def _names(self, case: CallCase) -> dict[str, Any]:
        names = names_of(case, self._target.run, self._target.page)
        names |= {"folder": str(self._target.folder or ""), "query": self._target.query}
        if case.brain == "none":
            return names
        if self._no_brain is not None:
            raise Blocked(self._no_brain.cause)
        brain = self._shared if case.brain == "shared" else await self._brain_apart()
        slug = self._target.brain or own_name(self._target.run, SHARED)
        return {**names, "brain": brain, "shared": self._shared, "slug": slug}

    async def _brain_apart(self) -> str | None:
        """One brain for all cases that would disturb the others."""
        self._apart = self._apart or asyncio.ensure_future(self._target.make_brain("apart"))
        return await self._apart

    async def _step(
        self, case: CallCase, step: CallStep, names: dict[str, Any], *, may_be_missing: bool = False
    ) -> dict[str, Any]:
        """What the step saved."""
        try:
            asked = step.model_copy(
                update=filled({"with_": step.with_, "meta": step.meta, "request": _dumped(step)}, names)
            )
            expect = judge_call.with_names(step.expect, names)
        except (Unknown, ValidationError) as error:
            raise Failed(Failure(_told(step), "a value saved before", cut(str(error)))) from error
        reply = await self._reply(case, asked, expect, names)
        if wrong := judge_call.faults(expect, reply):
            is_needed = any(step is one for one in case.only_needed)
            raise self._verdict(case, asked, expect, reply, wrong, is_needed=is_needed, may_be_missing=may_be_missing)
        return _saved(step, reply, names)

    def _verdict(
        self,
        case: CallCase,
        step: CallStep,
        expect: CallExpect,
        reply: Reply,
        wrong: list[str],
        *,
        is_needed: bool,
        may_be_missing: bool,
    ) -> Exception:
        """A failure of the case; or, if a step that only prepares it failed, a case that was not tried."""
        refused = reply.is_error and expect.error is False and not expect.refused
        if reply.is_error and says_no_model(reply.text):
            return Blocked(Cause(f"the server has no model: {cut(reply.text, 160)}", False, "model"))
        if may_be_missing and refused and SAYS_IT_HAS_NONE.search(reply.text):
            return NotSupported(f"{step.call} says: {cut(reply.text, 120).rstrip('.')}")
        subject = step.call or case.own_tool
        if refused and is_needed:
            return Blocked(fault_of(subject, reply.text))
        error = reply.text if reply.is_error else ""
        harms = case.harm is not None and not (refused and step.call in writers(self._target.surface))
        return Failed(Failure(_told(step), "; ".join(wrong[:5]), reply.told(), subject, error, refused, harms))

    async def _reply(self, case: CallCase, step: CallStep, expect: CallExpect, names: dict[str, Any]) -> Reply:
        tool = step.call or ""
        self._silence.refuse(tool)
        try:
            reply = await self._asked(case, step, names)
        except NoAnswer as error:
            if error.dead:
                await self._silence.note(tool, str(error))
            subject = SILENCE if error.dead else tool
            raise Failed(Failure(_told(step), "a reply", str(error), subject, str(error))) from error
        self._silence.end()
        return reply

    async def _asked(self, case: CallCase, step: CallStep, names: dict[str, Any]) -> Reply:
        if step.request is not None:
            request: Any = step.request
            return await self._target.session.ask(request["method"], request["params"], self._target.seconds)
        assert step.call is not None
        arguments = self._with_brain(step.call, step.with_, names.get("brain"))
        if step.once:
            key = json.dumps([step.call, arguments], sort_keys=True)
            if key not in self._once:
                self._once[key] = asyncio.ensure_future(self._call(step, arguments))
            return await self._once[key]
        return await self._call(step, arguments)

    async def _call(self, step: CallStep, arguments: dict[str, Any]) -> Reply:
        assert step.call is not None
        meta = {**step.meta, **({"progressToken": secrets.token_hex(8)} if step.progress else {})}
        return await self._target.call(step.call, arguments, meta)

    def _with_brain(self, tool: str, arguments: dict[str, Any], brain: str | None) -> dict[str, Any]:
        """The arguments with the brain of the run, where a case does not name one itself.

        A brain that was given is named even if the schema does not show it, so that nothing is written elsewhere.
        """
        if brain is None or tool not in scoped(self._target.surface):
            return dict(arguments)
        named = self._target.shows_brain(tool) or self._target.brain is not None
        return {"brain": brain, **arguments} if named else dict(arguments)


def _dumped(step: CallStep) -> Any:
    return None if step.request is None else step.request.model_dump()


def _told(step: CallStep) -> str:
    if step.call is not None:
        return cut(f"{step.call} {shown(step.with_, 380)}", 400)
    return cut(shown(step.request if isinstance(step.request, dict) else _dumped(step), 400), 400)


def _saved(step: CallStep, reply: Reply, names: dict[str, Any]) -> dict[str, Any]:
    text = judge_call.json_of(reply.text)
    whole = {
        "structured": reply.structured,
        "text": reply.text,
        "json": None if text is NO_JSON else text,
        "result": reply.result,
    }
    try:
        saved = {name: found(str(filled(place, names)), whole) for name, place in step.save.items()}
        return saved | {name: _found(str(filled(one, names)), reply.text) for name, one in step.find.items()}
    except Unknown as error:
        raise Failed(Failure(_told(step), cut(shown({**step.save, **step.find})), str(error))) from error


def _found(expression: str, text: str) -> str:
    if (match := re.search(expression, text)) is None:
        raise Unknown(f"the text has nothing like {expression}")
    return match.group(match.re.groups and 1)


@contextmanager
def _written(files: dict[str, dict[str, Any]], folder: Path | None, unique: str) -> Iterator[None]:
    """The files of a case, for as long as it runs; their names begin with the case's own."""
    paths = []
    try:
        for name, file in files.items():
            assert folder is not None
            path = folder / f"{unique}-{name}"
            path.write_bytes(file["text"].encode() if file["bytes"] is None else b"x" * file["bytes"])
            paths.append(path)
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
