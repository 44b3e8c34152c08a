"""Asks the person at the client which scope is meant, if the client can show a question."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gateway.mcp.request import INCOMING
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject
from gateway.surfaces.team import text as text

_QUESTION: Final = "scope"
_MOST_CHOICES: Final = 100


async def asked_scope(
    content: str, choices: Callable[[], Awaitable[Sequence[str]]], *, may_begin: bool
) -> str | InputRequiredResult:
    """The chosen scope, or the question, which a modern client answers by calling again.

    `may_begin` is whether a project that does not exist yet may be named, too.

    Raises:
        GatewayError: validation_error, with the scopes that exist, if nobody can be asked, or nobody chose.
    """
    incoming = INCOMING.get()
    if (answer := (incoming.input_responses or {}).get(_QUESTION)) is not None:
        return await _take_answer(answer if isinstance(answer, ElicitResult) else None, choices, may_begin)
    offered = list(await choices())
    if not _takes_questions(incoming.capabilities):
        raise unnamed(offered, may_begin)
    form = ElicitRequestFormParams(message=text.which_scope(content), requested_schema=_form(offered[:_MOST_CHOICES]))
    if incoming.revision in MODERN_PROTOCOL_VERSIONS:
        return InputRequiredResult(input_requests={_QUESTION: ElicitRequest(params=form)})
    try:
        result = await incoming.elicit(form.message, form.requested_schema)
    except (MCPError, ValidationError):
        # There is no way to the client, or its answer is not valid.
        raise unnamed(offered, may_begin) from None
    return await _take_answer(result, choices, may_begin)


def _takes_questions(capabilities: ClientCapabilities | None) -> bool:
    """Whether the client said that it shows forms. If it names no kind of question, it means forms."""
    said = None if capabilities is None else capabilities.elicitation
    return said is not None and (said.form is not None or said.url is None)


async def _take_answer(
    answer: ElicitResult | None, choices: Callable[[], Awaitable[Sequence[str]]], may_begin: bool
) -> str:
    scope = (answer.content or {}).get(_QUESTION) if answer is not None and answer.action == "accept" else None
    if not isinstance(scope, str):
        raise unnamed(await choices(), may_begin)
    return scope


def unnamed(scopes: Sequence[str], may_begin: bool) -> GatewayError:
    return GatewayError("validation_error", text.name_a_scope(scopes, may_begin), extra={"scopes": list(scopes)})


def _form(scopes: Sequence[str]) -> JsonObject:
    scope = {"type": "string", "title": "Scope", "enum": list(scopes)}
    return {"type": "object", "properties": {_QUESTION: scope}, "required": [_QUESTION]}
