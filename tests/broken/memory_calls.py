"""Broken servers: the eleven tools of a memory."""

from tests.broken.calls import edits, server, without

SERVERS = [
    server("records have no path", edits("memory_remember", without("path")), "memory/remember/returns-the-record"),
]
