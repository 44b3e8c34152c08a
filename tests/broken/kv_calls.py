"""Broken servers: the five tools of a store of keys."""

from tests.broken.calls import edits, having, server

SERVERS = [
    server("get forgets the tags", edits("jettson_memory_get", having({"tags": []})), "kv/put/then-get"),
]
