"""Deletes what runs left: brains and documents with names that only a run gives."""

from typing import Final

from contract.exchange import NoAnswer
from contract.mcp_target import McpTarget
from contract.names import OURS, own_name
from contract.outcome import Blocked, Unchecked
from contract.targets import HttpTarget
from contract.words import some

# The names that servers have for a tool that deletes a brain; the contract has none.
_DELETES: Final = ("memory_delete_brain", "delete_brain", "memory_forget_brain")
_LIST: Final = "memory_list_brains"


async def clean(target: HttpTarget, run: str | None, brain: str | None, *, for_real: bool) -> list[str]:
    """Delete what one run or all runs left. Returns sentences about that. What stays is in `target.left`.

    Raises: Unchecked.
    """
    try:
        await target.recognise()
        if brain is not None:
            return await _clean_documents(target, brain, run, for_real=for_real)
        names = [name for name in await target.all_brains() if _is_ours(name, run)]
        if not for_real:
            return [f"{some(len(names), 'brain', 'brains')} would be deleted.", *names]
        for name in names:
            await target.delete(name)
    except Blocked as error:
        raise Unchecked(error.cause.sentence) from error
    except NoAnswer as error:
        raise Unchecked(f"{target.url} stopped answering: {error}") from error
    return _told("brain", names, target.left)


async def clean_calls(target: McpTarget, run: str | None, *, for_real: bool) -> list[str]:
    """The same by the tools of a server, if one of them deletes a brain. What stays is in `target.left`.

    Raises: Unchecked.
    """
    try:
        await target.recognise()
        names = await _listed(target, run)
        tool = next((one for one in _DELETES if one in target.tools), None)
        if not for_real:
            can = "would be deleted" if tool else f"would stay, because no tool of {target.name} deletes one"
            return [f"{some(len(names), 'brain', 'brains')} {can}.", *names]
        for name in names:
            if tool is None or (await target.call(tool, {"brain": name}, {})).is_error:
                target.left.append(name)
    except NoAnswer as error:
        raise Unchecked(f"{target.name} stopped answering: {error}") from error
    if target.left and tool is None:
        stay = "1 brain stays" if len(names) == 1 else f"{len(names)} brains stay"
        return [
            f"{stay}, because no tool of {target.name} deletes one: {', '.join(names)}.",
            "Delete them at the platform behind it: contract clean --http URL. Of a brains-gateway, whoever runs it "
            "can type: brains-gateway brains delete NAME --yes",
        ]
    return _told("brain", names, target.left)


async def _listed(target: McpTarget, run: str | None) -> list[str]:
    """The brains of runs, as a tool lists them.

    Raises: Unchecked, NoAnswer.
    """
    if _LIST not in target.tools:
        raise Unchecked(f"{target.name} has no {_LIST}, so nobody can tell from here what runs left there")
    reply = await target.call(_LIST, {}, {})
    items = reply.structured.get("items") if isinstance(reply.structured, dict) else None
    if reply.is_error or not isinstance(items, list):
        raise Unchecked(f"{_LIST} of {target.name} should list the brains, and answered {reply.told()}")
    slugs = [str(one.get("slug") or one.get("id")) for one in items if isinstance(one, dict)]
    return [slug for slug in slugs if _is_ours(slug, run)]


async def _clean_documents(target: HttpTarget, brain: str, run: str | None, *, for_real: bool) -> list[str]:
    there = await target.paths(brain)
    if there is None:
        raise Unchecked(f"the documents of {brain} cannot be listed, so nobody can tell from here what runs left there")
    paths = [path for path in there if any(_is_ours(part, run) for part in path.split("/"))]
    if not for_real:
        return [f"{some(len(paths), 'document', 'documents')} would be deleted.", *paths]
    target.left += await target.delete_documents(brain, paths, own_name(run, "") if run else "contract-")
    return _told("document", paths, target.left)


def _is_ours(name: str, run: str | None) -> bool:
    return name.startswith(own_name(run, "")) if run else OURS.match(name) is not None


def _told(what: str, found: list[str], left: list[str]) -> list[str]:
    stay = [f"{len(left)} could not be deleted: {', '.join(left)}."] if left else []
    return [f"{some(len(found) - len(left), what, f'{what}s')} deleted.", *stay]
