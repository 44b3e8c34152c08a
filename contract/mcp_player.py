"""Plays cases against a server of the tools, over MCP."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from contract import judge_call
from contract.call import CallCase, CallExpect, CallStep, ParallelCallStep
from contract.exchange import NO_JSON, NoAnswer
from contract.fill import Unknown, filled, found
from contract.http_player import GIVEN_UP, all_of
from contract.mcp_target import McpTarget
from contract.names import names_of, short_name
from contract.outcome import Failed, Failure, NoBrain, NotSupported
from contract.rpc import Reply
from contract.words import cut, shown


class McpPlayer:
    def __init__(self, target: McpTarget) -> None:
        self._target = target
        self._no_brain: NoBrain | None = None
        self._shared: str | None = None
        self._silent = 0

    @property
    def told(self) -> str:
        return self._target.told

    async def prepare(self) -> None:
        """A brain that cannot be made is the failure of the cases that need it.

        Raises: Unchecked.
        """
        await self._target.recognise()
        try:
            self._shared = await self._target.make_brain("shared")
        except NoBrain as error:
            self._no_brain = error

    def applies(self, case: CallCase) -> bool:
        return case.surface == self._target.surface

    def lacks(self, case: CallCase) -> str | None:
        """What the run has not got and the case needs."""
        if case.needs == "page" and self._target.page is None:
            return "needs a page that the server can fetch; none was given"
        if case.needs == "folder" and self._target.folder is None:
            return "needs a folder that the server can read; none was given"
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
        names["folder"] = str(self._target.folder or "")
        if case.brain == "none":
            return names
        if self._no_brain is not None:
            raise self._no_brain
        brain = self._shared if case.brain == "shared" else await self._target.make_brain(short_name(case))
        return {**names, "brain": brain}

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
            if may_be_missing:
                raise NotSupported(f"the server does not offer {asked.call or asked.request}")
            raise Failed(Failure(_told(asked), "; ".join(wrong[:5]), reply.told()))
        return _saved(step, reply, names)

    async def _reply(self, case: CallCase, step: CallStep, expect: CallExpect, names: dict[str, Any]) -> Reply:
        if self._silent >= GIVEN_UP:
            raise Failed(Failure(_told(step), "a reply", f"not sent: {self._silent} calls in a row had no answer"))
        try:
            reply = await self._asked(case, step, names)
        except NoAnswer as error:
            self._silent += error.dead
            raise Failed(Failure(_told(step), "a reply", str(error))) from error
        self._silent = 0
        return reply

    async def _asked(self, case: CallCase, step: CallStep, names: dict[str, Any]) -> Reply:
        if step.request is not None:
            request: Any = step.request
            return await self._target.session.ask(request["method"], request["params"], self._target.seconds)
        assert step.call is not None
        arguments = dict(step.with_)
        if names.get("brain") is not None and self._takes_a_brain(step.call):
            # The brain of the run, where a case does not name one itself.
            arguments.setdefault("brain", names["brain"])
        meta = {**step.meta, **({"progressToken": secrets.token_hex(8)} if step.progress else {})}
        return await self._target.call(step.call, arguments, meta)

    def _takes_a_brain(self, tool: str) -> bool:
        schema = self._target.tools.get(tool, {}).get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return isinstance(properties, dict) and "brain" in properties


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
