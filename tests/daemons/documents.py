"""The document routes: files by path, and batches of changes."""

import asyncio
import base64
import binascii
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.daemons.answers import Refused, read_body, read_json
from tests.daemons.notes import IS_DIRECTORY, Files, directories, disk_trouble, entry, listing
from tests.daemons.state import State, checked


def decoded(text: str, lenient: bool) -> bytes:
    if not lenient:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise Refused(400, "invalid base64") from None
    kept = re.sub(r"[^A-Za-z0-9+/]", "", text.split("=")[0].replace("-", "+").replace("_", "/"))
    kept = kept[:-1] if len(kept) % 4 == 1 else kept
    return base64.b64decode(kept + "=" * (-len(kept) % 4))


def missing(state: State, path: str) -> Refused:
    return Refused(404, state.traits.missing_document.format(path=path))


def tmp_lost(path: str) -> str:
    return f"rename {path}.tmp: no such file or directory"


def looked_up(state: State, request: Request, brain: str) -> tuple[Files, str]:
    files = state.files(brain)
    path = checked(request.query_params.get("path", ""))
    if (trouble := disk_trouble(files, path)) is not None:
        raise Refused(500, f"{trouble}, open '{path}'")
    return files, path


async def read(state: State, request: Request, brain: str) -> Response:
    files, path = looked_up(state, request, brain)
    headers = {"cache-control": "no-store"}
    if state.traits.leaks_index and path == ".search.db":
        return Response(b"SQLite format 3\0", headers=headers, media_type="application/octet-stream")
    if path in directories(files):
        raise Refused(500, f"{IS_DIRECTORY}, read")
    if path not in files:
        raise missing(state, path)
    return Response(files[path][0], headers=headers, media_type="application/octet-stream")


async def stat(state: State, request: Request, brain: str) -> Response:
    files, path = looked_up(state, request, brain)
    if path in directories(files):
        newest = max(moment for name, (_, moment) in files.items() if name.startswith(f"{path}/"))
        return JSONResponse({**entry(path, (b"", newest), state.traits), "size": 4096, "is_dir": True})
    if path not in files:
        raise missing(state, path)
    return JSONResponse(entry(path, files[path], state.traits))


async def head(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    try:
        files, path = looked_up(state, request, brain)
    except Refused as refused:
        if refused.status != 400:
            raise
        return Response(status_code=400)
    known = path in files or path in directories(files)
    return Response(status_code=200, headers={"cache-control": "no-store"}) if known else Response(status_code=404)


async def list_(state: State, request: Request, brain: str) -> Response:
    files, asked = state.files(brain), request.query_params
    folder = asked.get("dir", "")
    if folder:
        checked(folder)
    if (trouble := disk_trouble(files, folder)) is not None:
        raise Refused(500, f"{trouble}, stat '{folder}'")
    if folder in files:
        raise Refused(500, f"fsstore: list {folder}: not a directory")
    recursive, generated = (asked.get(name) in {"true", "1"} for name in ("recursive", "include_generated"))
    return JSONResponse({"items": listing(files, state.traits, folder, recursive, generated, asked.get("glob") or "")})


async def put(state: State, request: Request, brain: str) -> Response:
    files, path = looked_up(state, request, brain)
    body = await read_body(request, state.traits.caps.single)
    if state.put_collisions > 0 and path in files:
        state.put_collisions -= 1
        raise Refused(500, tmp_lost(path))
    if state.traits.puts_collide and state.writing[brain, path]:
        raise Refused(500, tmp_lost(path))
    state.writing[brain, path] += 1
    try:
        await asyncio.sleep(state.traits.write_seconds)
        state.write(brain, path, body)
    finally:
        state.writing[brain, path] -= 1
    return Response(status_code=204)


async def append(state: State, request: Request, brain: str) -> Response:
    files, path = looked_up(state, request, brain)
    body = await read_body(request, state.traits.caps.single)
    state.write(brain, path, files.get(path, (b"", 0.0))[0] + body)
    return Response(status_code=204)


async def delete(state: State, request: Request, brain: str) -> Response:
    files, path = looked_up(state, request, brain)
    if path in directories(files):
        raise Refused(500, f"Path is a directory: rm returned EISDIR (is a directory) {path}")
    if path not in files:
        raise missing(state, path)
    del files[path]
    state.announce(brain, "deleted", path)
    return Response(status_code=204)


async def rename(state: State, request: Request, brain: str) -> Response:
    files = state.files(brain)
    body = await read_json(request, state.traits.caps.small, state.traits)
    source, target = checked(body.get("from")), checked(body.get("to"))
    if source not in files and source not in directories(files):
        raise missing(state, source)
    for path in [name for name in files if name == source or name.startswith(f"{source}/")]:
        files[target + path.removeprefix(source)] = files.pop(path)
    state.announce(brain, "renamed", target, old=source)
    return Response(status_code=204)


async def batch(state: State, request: Request, brain: str) -> Response:
    files, traits = state.files(brain), state.traits
    body = await read_json(request, traits.caps.batch * 2 + 64 * 1024, traits, status=413)
    ops = body.get("ops")
    if not isinstance(ops, list):
        if traits.requires_ops:
            raise Refused(400, "ops required")
        ops = []
    ops = [op if isinstance(op, dict) else {} for op in ops]
    if len(ops) > traits.caps.batch_ops:
        raise Refused(413, f"ops length exceeds {traits.caps.batch_ops}")
    contents = [decoded(op.get("content_base64") or "", traits.lenient_base64) for op in ops]
    if sum(map(len, contents)) > traits.caps.batch:
        raise Refused(413, f"batch payload exceeds {traits.caps.batch} bytes after decode")
    appended = {str(op.get("path")) for op in ops if op.get("type") == "append"} if traits.batch_appends_race else set()
    if any(state.writing[brain, path] > 1 for path in appended):
        raise Refused(400, tmp_lost(min(appended)))
    # A daemon whose appends race reads before it waits, and writes back what it had read.
    planned = dict(files)
    state.writing.update((brain, path) for path in appended)
    try:
        if appended:
            await asyncio.sleep(traits.write_seconds)
            files.update({path: planned[path] for path in appended if path in planned})
            for path in appended - planned.keys():
                files.pop(path, None)
        run_batch(state, brain, ops, contents, body.get("reason") or "batch")
    finally:
        state.writing.subtract((brain, path) for path in appended)
    return JSONResponse({"committed": len(ops)})


def run_batch(state: State, brain: str, ops: list[dict[str, Any]], contents: list[bytes], reason: str) -> None:
    """All or nothing, unless the daemon works op by op."""
    before = dict(state.files(brain))
    state.untold = []
    try:
        for op, content in zip(ops, contents, strict=True):
            run_op(state, brain, op, content, reason)
    except Refused:
        if state.traits.batch_atomic:
            state.brains[brain].clear()
            state.brains[brain].update(before)
        state.batch_done(tell=not state.traits.batch_atomic)
        raise
    state.batch_done(tell=True)


def run_op(state: State, brain: str, op: dict[str, Any], content: bytes, reason: str) -> None:
    files: Files = state.files(brain)
    path, kind = checked(op.get("path")), op.get("type") or ""
    if kind == "write":
        state.write(brain, path, content, reason)
    elif kind == "append":
        state.write(brain, path, files.get(path, (b"", 0.0))[0] + content, reason)
    elif kind in {"delete", "rename"}:
        target = checked(op.get("to")) if kind == "rename" else None
        if path not in files:
            if kind == "delete" and state.traits.batch_delete_missing == 200:
                return
            raise missing(state, path)
        moved = files.pop(path)
        state.announce(brain, "deleted", path, reason=reason)
        if target is not None:
            state.write(brain, target, moved[0], reason)
    else:
        raise Refused(state.traits.unknown_op, f"unknown op type: {kind}")
