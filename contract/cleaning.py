"""Takes away what runs left: brains and documents whose names only a run gives."""

from contract.exchange import NoAnswer
from contract.names import OURS, own_name
from contract.outcome import Blocked, Unchecked
from contract.targets import HttpTarget


async def clean(target: HttpTarget, run: str | None, brain: str | None, *, for_real: bool) -> list[str]:
    """Delete what a run left, or what every run left; what was done, in sentences. What stays is in `target.left`.

    Raises: Unchecked.
    """
    try:
        await target.recognise()
        if brain is not None:
            return await _clean_documents(target, brain, run, for_real=for_real)
        names = [name for name in await target.all_brains() if _is_ours(name, run)]
        if not for_real:
            return [f"{len(names)} brains would be deleted.", *names]
        for name in names:
            await target.delete(name)
    except Blocked as error:
        raise Unchecked(error.cause.sentence) from error
    except NoAnswer as error:
        raise Unchecked(f"{target.url} stopped answering: {error}") from error
    return _told("brains", names, target.left)


async def _clean_documents(target: HttpTarget, brain: str, run: str | None, *, for_real: bool) -> list[str]:
    paths = [path for path in await target.paths(brain) if any(_is_ours(part, run) for part in path.split("/"))]
    if not for_real:
        return [f"{len(paths)} documents would be deleted.", *paths]
    target.left += await target.delete_documents(brain, paths, own_name(run, "") if run else "contract-")
    return _told("documents", paths, target.left)


def _is_ours(name: str, run: str | None) -> bool:
    return name.startswith(own_name(run, "")) if run else OURS.match(name) is not None


def _told(what: str, found: list[str], left: list[str]) -> list[str]:
    stay = [f"{len(left)} could not be deleted: {', '.join(left)}."] if left else []
    return [f"{len(found) - len(left)} {what} deleted.", *stay]
