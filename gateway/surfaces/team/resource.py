"""The resource `memory://{scope}`: the entries of a scope, and completion of the names of scopes."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fastmcp import FastMCP
from fastmcp.exceptions import FastMCPError, ResourceError, ValidationError, to_mcp_error
from mcp_types import CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from gateway.mcp.run import require, tell_http
from gateway.mcp.surface import Surface
from gateway.operations import scopes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

URI: Final = "memory://{scope}"

Listing = Callable[[Call, str], Awaitable[JsonObject]]
Names = Callable[[Call], Awaitable[list[str]]]


def add_resource(mcp: FastMCP, surface: Surface, listing: Listing, names: Names) -> None:
    @mcp.resource(
        URI,
        name="scope",
        title="Entries of a scope",
        description="The entries of one scope, newest first.",
        mime_type="application/json",
    )
    async def list_scopes(scope: str) -> str:
        with _reading(surface) as call:
            return json.dumps(await listing(call, scope), ensure_ascii=False)

    @mcp.completion
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> list[str]:
        if not isinstance(ref, ResourceTemplateReference) or (ref.uri, argument.name) != (URI, "scope"):
            return []
        try:
            with _reading(surface) as call:
                return [name for name in await names(call) if name.startswith(argument.value)]
        except FastMCPError as error:
            raise to_mcp_error(error) from None


@contextmanager
def _reading(surface: Surface) -> Iterator[Call]:
    """A call of a caller who may read. Failures become MCP's errors for resources."""
    call = surface.call()
    try:
        require(call, scopes.READ, surface)
        yield call
    except GatewayError as error:
        tell_http(call, error)
        kind = ValidationError if error.code == "not_found" else ResourceError
        raise kind(str(error), log_level=logging.DEBUG) from None
