"""The canonical dialect: the hosted platform, and the embedded brain."""

from gateway.operations.table import Op
from gateway.upstream.dialects.dialect import Dialect, Route, as_json, as_query, as_upload
from gateway.upstream.dialects.store import BRAIN, STORE

_SESSION = BRAIN + "/sessions/{session_id}"
_LIST = Route("GET", "/v1/brains", as_query(cursor="cursor"))
_SEARCH = Route(
    "GET",
    BRAIN + "/search",
    as_query(
        q="query",
        top_k="top_k",
        scope="scope",
        sort="sort",
        path_prefix="tree",
        exclude="exclude",
        include="include",
    ),
)
_FOLDERS = ("exclude", "include")

PLATFORM = Dialect(
    name="platform",
    routes={
        Op.LIST_BRAINS: _LIST,
        Op.LIST_NAMED_BRAINS: _LIST,
        Op.CREATE_BRAIN: Route("POST", "/v1/brains", as_json("name", "slug", "visibility")),
        Op.SEARCH: _SEARCH,
        Op.SORTED_SEARCH: _SEARCH,
        Op.AGENT_SEARCH: _SEARCH,
        Op.SESSION_RECALL: Route("POST", _SESSION + "/recall", as_json("query", "scope", "top_k", *_FOLDERS)),
        Op.RECALL: Route("POST", BRAIN + "/recall", as_json("query", "scope", "session_id", "top_k", *_FOLDERS)),
        Op.ASK: Route("POST", BRAIN + "/ask", as_json("query", "top_k", *_FOLDERS)),
        Op.CREATE_DOCUMENT: Route(
            "POST", BRAIN + "/documents", as_json("title", "content", "path", "metadata", "source")
        ),
        Op.INGEST_FILE: Route("POST", BRAIN + "/documents/ingest/file", as_upload),
        Op.INGEST_URL: Route("POST", BRAIN + "/documents/ingest/url", as_json("url")),
        Op.APPEND_MESSAGE: Route("POST", _SESSION + "/messages", as_json("role", "content", "metadata")),
        Op.LIST_MESSAGES: Route("GET", _SESSION + "/messages", as_query(limit="limit")),
        Op.CLOSE_SESSION: Route("POST", _SESSION + "/close"),
        Op.CONSOLIDATE: Route("POST", BRAIN + "/consolidate"),
        Op.COMPILE: Route("POST", BRAIN + "/compile"),
        Op.DERIVE: Route("POST", BRAIN + "/derive", as_json("task", "paths", "messages")),
        **STORE,
    },
)
