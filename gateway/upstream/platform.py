"""The canonical dialect: the hosted platform, and the embedded brain."""

from gateway.operations import Op
from gateway.upstream.dialect import Dialect, Route, as_json, as_query, as_upload

_BRAIN = "/v1/brains/{brain}"
_SESSION = _BRAIN + "/sessions/{session_id}"

PLATFORM = Dialect(
    name="platform",
    routes={
        Op.LIST_BRAINS: Route("GET", "/v1/brains", as_query(cursor="cursor")),
        Op.CREATE_BRAIN: Route("POST", "/v1/brains", as_json("name", "slug", "visibility")),
        Op.SEARCH: Route("GET", _BRAIN + "/search", as_query(q="query", top_k="top_k", scope="scope", sort="sort")),
        Op.SESSION_RECALL: Route("POST", _SESSION + "/recall", as_json("query", "scope", "top_k")),
        Op.CREATE_DOCUMENT: Route(
            "POST", _BRAIN + "/documents", as_json("title", "content", "path", "metadata", "source")
        ),
        Op.STAT_DOCUMENT: Route("GET", _BRAIN + "/documents/stat", as_query(path="path")),
        Op.READ_DOCUMENT: Route("GET", _BRAIN + "/documents/read", as_query(path="path")),
        Op.INGEST_FILE: Route("POST", _BRAIN + "/documents/ingest/file", as_upload),
        Op.INGEST_URL: Route("POST", _BRAIN + "/documents/ingest/url", as_json("url")),
        Op.APPEND_MESSAGE: Route("POST", _SESSION + "/messages", as_json("role", "content", "metadata")),
        Op.CLOSE_SESSION: Route("POST", _SESSION + "/close"),
        Op.CONSOLIDATE: Route("POST", _BRAIN + "/consolidate"),
        Op.COMPILE: Route("POST", _BRAIN + "/compile"),
        Op.ASK: Route("POST", _BRAIN + "/ask", as_json("query", "top_k")),
    },
)
