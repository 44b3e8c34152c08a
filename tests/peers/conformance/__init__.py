"""The official MCP conformance suite, run against the gateway."""
