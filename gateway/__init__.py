"""brains-gateway: one MCP endpoint for the brain you already run."""

__version__ = "0.1.0"
