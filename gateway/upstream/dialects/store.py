"""Routes that every dialect shares: documents by path, as bytes; and deleting a brain."""

import base64
from collections.abc import Mapping

from gateway.operations.table import Args, Op
from gateway.upstream.dialects.dialect import Body, Route, as_content, as_query

BRAIN = "/v1/brains/{brain}"
_DOCUMENTS = BRAIN + "/documents"


def _as_batch(args: Args) -> Body:
    """Many writes that are made together or not at all. Also used for a document that is too large for one PUT."""
    ops = [
        {"type": "write", "path": path, "content_base64": base64.b64encode(body).decode()}
        for path, body in args["writes"].items()
    ]
    return Body(json={"reason": str(args.get("reason", "write")), "ops": ops})


def _as_listing(args: Args) -> Body:
    recursive = "true" if args.get("recursive", True) else "false"
    # Files that are kept beside notes, under names that begin with `_`, are listed if a caller asks for their folder.
    generated = {"include_generated": "true"} if args.get("generated") else {}
    return Body(params={"dir": str(args.get("dir", "")), "recursive": recursive, **generated})


def _as_rename(args: Args) -> Body:
    return Body(json={"from": args["path"], "to": args["to"]})


def _as_confirmed(_args: Args) -> Body:
    return Body(headers={"x-confirm-delete": "yes"})


STORE: Mapping[Op, Route] = {
    Op.DELETE_BRAIN: Route("DELETE", BRAIN, _as_confirmed),
    Op.READ_DOCUMENT: Route("GET", _DOCUMENTS + "/read", as_query(path="path")),
    Op.STAT_DOCUMENT: Route("GET", _DOCUMENTS + "/stat", as_query(path="path")),
    Op.LIST_DOCUMENTS: Route("GET", _DOCUMENTS, _as_listing),
    Op.WRITE_DOCUMENT: Route("PUT", _DOCUMENTS, as_content),
    Op.APPEND_DOCUMENT: Route("POST", _DOCUMENTS + "/append", as_content),
    Op.RENAME_DOCUMENT: Route("POST", _DOCUMENTS + "/rename", _as_rename),
    Op.DELETE_DOCUMENT: Route("DELETE", _DOCUMENTS, as_query(path="path")),
    Op.BATCH_WRITE: Route("POST", _DOCUMENTS + "/batch-ops", _as_batch),
}
