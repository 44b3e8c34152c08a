"""Views of notes: list, read, correct, put away and bring back."""

import asyncio
import difflib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gateway.brain.shelf import Document, Version
from gateway.mcp.surface import READ_ONLY
from gateway.operations import scopes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.notes import parse
from gateway.surfaces.catalog import SURFACES
from gateway.ui.catalogue import (
    PAGE_LENGTH,
    SCOPES,
    TIMES,
    Catalogue,
    Filters,
    is_over,
    scope_of,
    surface_of,
    text_of,
    without_title,
)
from gateway.ui.render import address, render_markdown
from gateway.ui.visit import Form, PageServices, Visit, get, post

# A longer note is not edited in a browser, because its form may be three times as long.
_EDITED_BYTES: Final = 1024 * 1024
_SHOWN_LENGTH: Final = 200_000
_COMPARED_LINES: Final = 2_000
_LAST_PAGE: Final = 100_000
_GONE: Final = "This note was deleted while you edited it. Nothing was saved. Bring it back, and save again."
_BRAIN: Final = "/ui/brains/{brain}"


def routes(services: PageServices) -> Sequence[Route]:
    return [
        get(f"{_BRAIN}/notes", notes, services),
        get(f"{_BRAIN}/note", note, services),
        get(f"{_BRAIN}/edit", edit, services),
        post(f"{_BRAIN}/edit", save, services),
        post(f"{_BRAIN}/remove", remove, services),
        post(f"{_BRAIN}/undo", undo, services),
        get(f"{_BRAIN}/difference", difference, services),
    ]


async def notes(visit: Visit) -> Response:
    filters = Filters(
        visit.asked("q")[:1000],
        _one_of(visit.asked("surface"), SURFACES),
        visit.asked("tag")[:200],
        _one_of(visit.asked("scope"), SCOPES),
        _one_of(visit.asked("days"), TIMES),
    )
    asked = visit.asked("offset")
    offset = min(int(asked), _LAST_PAGE) if asked.isdecimal() and len(asked) < 9 else 0
    async with visit.call("search" if filters.query else "list") as call:
        found = await Catalogue(visit.services.brain).find(call, filters, offset)
    return visit.page(
        "notes.html",
        filters=filters,
        found=found,
        offset=offset,
        page_length=PAGE_LENGTH,
        surfaces=list(SURFACES),
        scopes=SCOPES,
        times=TIMES,
    )


def _one_of(value: str, allowed: Any) -> str:
    return value if value in allowed else ""


async def note(visit: Visit) -> Response:
    async with visit.call("read") as call:
        path = visit.path_of(call, visit.asked("path"))
        versions = await _versions(visit, call, path)
        try:
            document = await visit.shelf.read(call, path)
        except GatewayError as error:
            if error.code != "not_found" or not versions:
                raise
            return visit.page("removed.html", path=path, versions=versions)
        if is_over(document):
            raise GatewayError("not_found", f"There is no note {path}.")
    text = without_title(text_of(document), document.title)
    return visit.page(
        "note.html",
        document=document,
        path=path,
        surface=surface_of(path),
        scope=SCOPES[scope_of(path)],
        rendered=await asyncio.to_thread(render_markdown, text) if path.endswith(".md") else None,
        text=text[:_SHOWN_LENGTH],
        was_cut=len(text) > _SHOWN_LENGTH,
        versions=versions,
        can_change=visit.can_write and _is_theirs(visit, call, path),
        is_short=len(document.body) <= _EDITED_BYTES,
        did=visit.asked("did"),
    )


async def _versions(visit: Visit, call: Call, path: str) -> list[Version]:
    """The earlier versions of a note, only for people who may change it: others may not read text that was removed."""
    if scopes.WRITE not in visit.principal.scopes or not _is_theirs(visit, call, path):
        return []
    try:
        return await visit.shelf.versions(call, path)
    except GatewayError as error:
        if error.code not in {"not_found", "not_implemented"}:
            raise
        return []


def _is_theirs(visit: Visit, call: Call, path: str) -> bool:
    try:
        visit.own_path_of(call, path)
    except GatewayError:
        return False
    return True


async def edit(visit: Visit) -> Response:
    async with visit.call("read", scopes.WRITE) as call:
        _check_writable(visit)
        document = await visit.shelf.read(call, visit.own_path_of(call, visit.asked("path")))
    _check_size(document)
    return _edit_page(visit, document, document.source)


def _edit_page(visit: Visit, document: Document, text: str, **values: Any) -> Response:
    common = {"document": document, "path": document.path, "text": text, "theirs": None, "problem": ""}
    return visit.page("edit.html", values.pop("status", 200), **{**common, **values})


async def save(visit: Visit, form: Form) -> Response:
    """Store the edited text, unless the note changed meanwhile: then both texts are shown."""
    async with visit.call("edit", scopes.WRITE) as call:
        _check_writable(visit)
        path = visit.own_path_of(call, form.get("path", ""))
        text, expected = form.get("text", ""), form.get("checksum", "")
        try:
            before = await visit.shelf.read(call, path)
        except GatewayError as error:
            if error.code != "not_found":
                raise
            return _edit_page(visit, Document(path, b""), text, problem=_GONE, status=409)
        text = _with_line_ends(text, before.source)
        try:
            if text == before.source:
                return _go(visit, path, "same")
            if before.checksum != expected:
                raise GatewayError("conflict")
            await visit.shelf.replace(call, path, text, expected)
        except GatewayError as error:
            if error.code == "conflict":
                now = await visit.shelf.read(call, path)
                return _edit_page(visit, now, text, theirs=now.source, status=409)
            if error.code not in {"forbidden", "validation_error"}:
                raise
            return _edit_page(visit, before, text, problem=error.message, status=400)
    return _go(visit, path, "edited")


def _with_line_ends(text: str, before: str) -> str:
    """The text of a form with the line ends of the note, because a browser sends every line end as CRLF."""
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if "\r\n" in before else plain


async def remove(visit: Visit, form: Form) -> Response:
    async with visit.call("remove", scopes.WRITE) as call:
        _check_writable(visit)
        path = visit.own_path_of(call, form.get("path", ""))
        await visit.shelf.remove(call, path)
    return _go(visit, path, "removed")


async def undo(visit: Visit, form: Form) -> Response:
    async with visit.call("undo", scopes.WRITE) as call:
        _check_writable(visit)
        path = visit.own_path_of(call, form.get("path", ""))
        await visit.shelf.bring_back(call, path, form.get("version") or None)
    return _go(visit, path, "restored")


def _go(visit: Visit, path: str, did: str) -> Response:
    return RedirectResponse(address(visit.brain_name, "note", path=path, did=did), 303)


def _check_writable(visit: Visit) -> None:
    if visit.services.read_only:
        raise GatewayError("forbidden", READ_ONLY)


def _check_size(document: Document) -> None:
    if len(document.body) > _EDITED_BYTES:
        message = "This note is too long to be edited in a browser. Use: brains-gateway edit"
        raise GatewayError("payload_too_large", f"{message} {document.path}")


async def difference(visit: Visit) -> Response:
    """What changed from one version to the next, or to the note as it is."""
    async with visit.call("read", scopes.WRITE) as call:
        path, name = visit.own_path_of(call, visit.asked("path")), visit.asked("version")
        versions = await visit.shelf.versions(call, path)
        at = next((place for place, one in enumerate(versions) if one.name == name), None)
        if at is None:
            raise GatewayError("not_found", f"There is no such version of {path}.")
        before = await visit.shelf.read(call, versions[at].path)
        after = await _after(visit, call, path, versions[:at])
    lines = await asyncio.to_thread(_compare, *_lines_of(before, after))
    return visit.page(
        "difference.html",
        path=path,
        version=versions[at],
        is_newest=at == 0,
        lines=lines,
        is_gone=after is None,
    )


async def _after(visit: Visit, call: Call, path: str, newer: Sequence[Version]) -> Document | None:
    """What came after a version: the next one, or the note as it is now."""
    try:
        return await visit.shelf.read(call, newer[-1].path if newer else path)
    except GatewayError as error:
        if error.code != "not_found":
            raise
        return None


class Line(NamedTuple):
    """One line of a comparison."""

    kind: str
    """added, removed, same, or where: the place of what follows."""
    text: str


def _lines_of(before: Document, after: Document | None) -> tuple[list[str], list[str]]:
    """Both texts for a comparison, with front matter only if both have it: one may be from the platform's record."""
    documents = [before] if after is None else [before, after]
    whole = all(parse(document.body).front for document in documents)
    texts = [document.body.decode("utf-8", "replace") if whole else text_of(document) for document in documents]
    return texts[0].strip().splitlines(), texts[1].strip().splitlines() if after is not None else []


_KINDS: Final = {"+": "added", "-": "removed", "@": "where"}


def _compare(before: list[str], after: list[str]) -> list[Line] | None:
    """None if the texts are too long to compare."""
    if max(len(before), len(after)) > _COMPARED_LINES:
        return None
    compared = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [Line(_KINDS.get(line[:1], "same"), _place(line) if line.startswith("@") else line[1:]) for line in compared]


def _place(line: str) -> str:
    """Where a part of a comparison begins: `@@ -12,6 +12,7 @@` is line 12 of the older text."""
    return f"From line {line[4:].partition(' ')[0].partition(',')[0]}"
