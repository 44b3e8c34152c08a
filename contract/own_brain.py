"""Whether what is written to the brain that a run has just made will land there, and in no brain of the owner."""

from typing import Final
from urllib.parse import quote

from contract.case import Request
from contract.causes import silence_of
from contract.exchange import Answer, NoAnswer
from contract.names import own_name
from contract.outcome import Blocked, Cause, Unchecked
from contract.targets import HttpTarget
from contract.words import cut, shown

HOW: Final = "Give --brain NAME if what the run writes may go there"
LIST: Final = "GET /v1/brains/{brain}/documents"
# Words that nearly every document has one of.
COMMON: Final = "the and a of to in is"


async def refuse_to_write_elsewhere(target: HttpTarget, made: str) -> None:
    """Stop before the first document is written, unless reading shows that the platform keeps brains apart.

    The brain is then not deleted either, because that might delete another brain.
    Raises: Unchecked, where brains are not kept apart; Blocked, where that cannot be seen.
    """
    try:
        paths = await target.paths(made)
        why = await _why_not_found(target, made) if paths is None else _why_not_listed(paths, made)
    except NoAnswer as error:
        _leave(target, made)
        raise Blocked(silence_of(str(error))) from error
    except Blocked:
        _leave(target, made)
        raise
    if why:
        target.brains.remove(made)
        raise Unchecked(
            f"no document was written, because {target.url} seems to ignore which brain is named: {why}; that brain "
            f"was not deleted either. {HOW}"
        )


def _leave(target: HttpTarget, made: str) -> None:
    target.brains.remove(made)
    target.left.append(made)


def _why_not_listed(paths: list[str], made: str) -> str:
    # An index that a platform keeps beside the documents, such as `.search.db`, does not count.
    there = [path for path in paths if not path.rpartition("/")[2].startswith((".", "_"))]
    if not there:
        return ""
    return f"{made} was just made, and lists {len(there)} documents, such as {cut(shown(there[0]), 80)}"


async def _why_not_found(target: HttpTarget, made: str) -> str:
    """A platform that cannot list documents keeps brains apart if it searches the new one, and none that is not.

    Raises: Blocked, NoAnswer.
    """
    nowhere = own_name(target.run, "nowhere")
    here, there = await _search(target, made), await _search(target, nowhere)
    body = here.json()
    hits = next((body[key] for key in ("hits", "chunks") if key in body), None) if isinstance(body, dict) else None
    if here.status != 200 or not isinstance(hits, list):
        # No answer tells one brain from another.
        why = f"nobody can see where it writes. The documents of {made} cannot be listed, and a search in it answers "
        raise Blocked(Cause(f"no document was written: {why}{here.told()}. {HOW}", True, LIST, why))
    if hits:
        return f"{made} was just made, and a search in it finds {len(hits)}"
    if there.status < 400:
        return f"a search in {nowhere}, a brain that does not exist, is answered as if it did, and {made} lists nothing"
    return ""


async def _search(target: HttpTarget, brain: str) -> Answer:
    """Raises: NoAnswer."""
    path = f"/v1/brains/{quote(brain, safe='')}/search"
    if target.dialect == "daemon":
        return await target.send(Request(method="POST", path=path, json={"query": COMMON}))
    return await target.send(Request(method="GET", path=path, query={"q": COMMON}))
