"""Awkward servers: a careless run would harm them, or blame them a hundred times for one thing."""

import asyncio
import itertools
from typing import Any

import httpx

from contract.exchange import NoAnswer
from contract.rpc import JsonObject, Reply
from tests.broken.calls import Act, Asked, Forward, asks, describes, failed, on, succeeded

NEEDS_A_MODEL = ("memory_ask", "memory_extract", "memory_reflect", "memory_consolidate")


def _says_nothing_of_arguments(tool: JsonObject) -> JsonObject:
    return {**tool, "inputSchema": {"type": "object"}}


def _spelled_otherwise(tool: JsonObject) -> JsonObject:
    """The same schema as other libraries write it: null for what is optional, references, and other punctuation."""
    schema = tool["inputSchema"]
    required = set(schema.get("required", ()))
    defs = {f"Of{name.title()}": one for name, one in schema.get("properties", {}).items()}
    properties: JsonObject = {}
    for name in schema.get("properties", {}):
        reference = {"$ref": f"#/$defs/Of{name.title()}"}
        optional = {"anyOf": [reference, {"type": "null"}], "default": None}
        properties[name] = reference if name in required else optional
    described = tool["description"].replace("session_id", "`session_id`").replace("scope", "`scope`")
    return {
        **tool,
        "description": f"{described}\n",
        "inputSchema": {**schema, "properties": properties, "$defs": {**schema.get("$defs", {}), **defs}},
    }


def offers_no(*names: str) -> Act:
    """Tools that are neither listed nor known."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        if asked.tool in names:
            return Reply(None, {"code": -32602, "message": f"unknown tool {asked.tool}"})
        reply = await forward(asked)
        if asked.method != "tools/list" or reply.result is None:
            return reply
        tools = [one for one in reply.result["tools"] if one["name"] not in names]
        return Reply({**reply.result, "tools": tools})

    return act


def both(*acts: Act) -> Act:
    """One after the other, the first outermost."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        if not acts:
            return await forward(asked)
        return await acts[0](asked, lambda inner: both(*acts[1:])(inner, forward))

    return act


def fails(text: str, *tools: str) -> Act:
    async def act(_asked: Asked, _forward: Forward) -> Reply:
        return failed(text)

    return both(*(on(tool, act) for tool in tools))


def dies_after(calls: int) -> Act:
    """A process that ends in the middle."""
    count = itertools.count()
    is_dead = False

    async def act(asked: Asked, forward: Forward) -> Reply:
        nonlocal is_dead
        is_dead = is_dead or (bool(asked.tool) and next(count) >= calls)
        if is_dead:
            raise NoAnswer("the command ended with status 137", dead=True)
        return await forward(asked)

    return act


def hangs(seconds: float = 0.05) -> Act:
    """Every call takes longer than anybody waits."""

    async def act(_asked: Asked, _forward: Forward) -> Reply:
        await asyncio.sleep(0)
        raise NoAnswer(f"there was no answer within {seconds:g} seconds", dead=True)

    return on("*", act)


def never_answers(tool: str) -> Act:
    """One tool hangs, and the others are as they should be."""

    async def act(_asked: Asked, _forward: Forward) -> Reply:
        await asyncio.sleep(0)
        raise NoAnswer("there was no answer within 30 seconds", dead=True)

    return on(tool, act)


def is_slow(seconds: float = 0.05) -> Act:
    """Every call takes a while, and is answered then."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        await asyncio.sleep(seconds)
        return await forward(asked)

    return on("*", act)


def deletes_brains(url: str) -> Act:
    """A tool that the contract does not have: it deletes a brain at the platform."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        if asked.tool == "memory_delete_brain":
            async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
                path, sure = f"/v1/brains/{asked.arguments['brain']}", {"x-confirm-delete": "yes"}
                gone = await client.delete(path, headers=sure)
            return succeeded({"deleted": True}) if gone.is_success else failed("not_found: no such brain")
        reply = await forward(asked)
        if asked.method != "tools/list" or reply.result is None:
            return reply
        tool = {"name": "memory_delete_brain", "inputSchema": {"type": "object", "properties": {"brain": {}}}}
        return Reply({**reply.result, "tools": [*reply.result["tools"], tool]})

    return act


def takes_every_brain() -> Act:
    """A name that is no brain's is taken for the default brain."""

    def ignores(asked: Asked) -> Asked:
        return asked.without("brain")

    return asks("*", ignores)


def progress_in_floats(reply: Reply) -> Reply:
    told: tuple[Any, ...] = tuple({**one, "progress": float(one["progress"])} for one in reply.progress)
    return Reply(reply.result, reply.error, told, reply.token)


SCHEMAS_SAY_NOTHING = describes("*", _says_nothing_of_arguments)
SPELLED_OTHERWISE = describes("*", _spelled_otherwise)
NO_CREATE = offers_no("memory_create_brain")
NO_ASK = offers_no("memory_ask")
CREATE_FAILS = fails("internal_error: the disk of brain 4711 is full", "memory_create_brain")
REMEMBER_FAILS = fails("internal_error: the store is read-only", "memory_remember")
IGNORES_BRAIN = takes_every_brain()
NO_MODEL = fails("provider_error: no LLM provider configured", *NEEDS_A_MODEL)
MAKES_NOTHING = on("memory_create_brain", lambda _asked, _forward: _made_nothing())


async def _made_nothing() -> Reply:
    return succeeded({"ok": True})
