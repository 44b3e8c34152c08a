"""The dialect of MemoAI's core service: it finds and records memos, and knows nothing else."""

import re
from typing import Any, Final

from gateway.operations.errors import GatewayError
from gateway.operations.table import Args, JsonObject, JsonValue, Op
from gateway.upstream.dialects.dialect import Dialect, Route, as_json

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ID_LENGTH: Final = 128
_TEXTS: Final = ("id", "content", "episode_type", "created_at")


def _memos(answer: JsonValue, args: Args) -> JsonObject:
    """The memos that were found, each as it came, and no more than were asked for."""
    if not isinstance(answer, list):
        raise GatewayError("upstream_error", "The platform's answer has no list of memos.")
    found = answer[: args["limit"]]
    if not all(map(_is_memo, found)):
        raise GatewayError("upstream_error", "The platform found something that is no memo.")
    return {"memos": found}


def _is_memo(memo: Any) -> bool:
    """Whether it has the fields of a memo. Null counts as left out. Other fields are not checked."""
    if not isinstance(memo, dict) or not all(isinstance(memo.get(name), str) for name in _TEXTS):
        return False
    likeness, tags = memo.get("similarity"), memo.get("tags")
    is_likeness = likeness is None or (
        isinstance(likeness, int | float) and not isinstance(likeness, bool) and 0 <= likeness <= 1
    )
    are_tags = tags is None or (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags))
    is_rest = isinstance(memo.get("source"), str | None) and isinstance(memo.get("extra_metadata"), dict | None)
    return is_likeness and are_tags and is_rest


def _recorded(answer: JsonValue, _args: Args) -> JsonObject:
    """The id of the recorded memo, from a record or from a sentence that names it."""
    if isinstance(answer, str) and (named := _UUID.search(answer[:1000])) is not None:
        return {"id": named.group()}
    memo_id = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(memo_id, str) or not 0 < len(memo_id) <= _ID_LENGTH or not memo_id.isprintable():
        raise GatewayError("upstream_error", "The platform's answer does not name the memo.")
    return {"id": memo_id}


MEMOAI = Dialect(
    name="memoai",
    routes={
        Op.FIND_MEMOS: Route("POST", "/internal/memos/search", as_json("query", "limit"), _memos),
        Op.RECORD_MEMO: Route("POST", "/internal/memos/record", as_json("content", "source", "metadata"), _recorded),
    },
    without_brains="This platform keeps memos and no brains: only the tools of the memo surface can be served.",
    wants="The platform did not accept the gateway's credential. A MemoAI core takes tokens that the gateway signs, "
    "and a shared secret: check BRAINS_UPSTREAM_AUTH=internal, BRAINS_SIGNING_KEYS_FILE and BRAINS_INTERNAL_KEY_FILE.",
)
