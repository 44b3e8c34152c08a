"""The suite's tools that ask the client: by a result on the modern wire, by a request of their own on the older one."""

import json
from typing import Any, Final

from fastmcp import Context
from fastmcp.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

_STRING: Final = {"type": "string"}
_SEP1034: Final[dict[str, Any]] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_TITLED: Final = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
_SEP1330: Final[dict[str, Any]] = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


def tools() -> list[Tool]:
    bodies = (
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_missing_capability,
        test_streaming_elicitation,
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
    )
    return [Tool.from_function(body, output_schema=None) for body in bodies]


def form(message: str, **properties: Any) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampling(text: str) -> CreateMessageRequest:
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=text))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=100))


def _answer(ctx: Context, key: str) -> Any:
    return (ctx.input_responses or {}).get(key)


# --- The older wire: the server asks, while the call is open


async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    params = _sampling(prompt).params
    answer = await ctx.session.create_message(
        params.messages, max_tokens=params.max_tokens, related_request_id=ctx.request_id
    )
    return f"LLM response: {answer.content}"


async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the person at the client."""
    return await _elicited(ctx, message, {"username": _STRING, "email": _STRING})


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with defaults."""
    return await _elicited(ctx, "Please review", _SEP1034)


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks for choices."""
    return await _elicited(ctx, "Please choose", _SEP1330)


async def _elicited(ctx: Context, message: str, properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties, "required": []}
    answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


# --- The modern wire: the result says what is missing, and the client calls again


async def test_missing_capability(ctx: Context) -> str:
    """Needs a client with a model."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs a client that samples.", needed)
    return "The client samples."


async def test_streaming_elicitation(ctx: Context) -> Any:
    """Tells how far it is, then asks."""
    await ctx.session.report_progress(1, 2)
    if isinstance(_answer(ctx, "user_name"), ElicitResult):
        return "Thank you."
    return InputRequiredResult(input_requests={"user_name": form("What is your name?", name=_STRING)})


async def test_input_required_result_elicitation(ctx: Context) -> Any:
    """Asks for a name."""
    answer = _answer(ctx, "user_name")
    if isinstance(answer, ElicitResult) and answer.content:
        return f"Hello, {answer.content.get('name')}!"
    return InputRequiredResult(input_requests={"user_name": form("What is your name?", name=_STRING)})


async def test_input_required_result_sampling(ctx: Context) -> Any:
    """Asks the client's model."""
    answer = _answer(ctx, "capital_question")
    if isinstance(answer, CreateMessageResult):
        return f"The model says: {answer.content}"
    return InputRequiredResult(input_requests={"capital_question": _sampling("What is the capital of France?")})


async def test_input_required_result_list_roots(ctx: Context) -> Any:
    """Asks for the client's roots."""
    answer = _answer(ctx, "client_roots")
    if isinstance(answer, ListRootsResult):
        return f"Roots: {', '.join(str(root.uri) for root in answer.roots)}"
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


async def test_input_required_result_request_state(ctx: Context) -> Any:
    """Asks, and knows its own state again."""
    return _confirmed(ctx)


async def test_input_required_result_tampered_state(ctx: Context) -> Any:
    """Asks, and takes no state but its own: that is checked before we are called."""
    return _confirmed(ctx)


def _confirmed(ctx: Context) -> Any:
    if isinstance(_answer(ctx, "confirm"), ElicitResult) and ctx.request_state == "asked":
        return "state-ok"
    asked = form("Please confirm", ok={"type": "boolean"})
    return InputRequiredResult(input_requests={"confirm": asked}, request_state="asked")


async def test_input_required_result_multiple_inputs(ctx: Context) -> Any:
    """Asks for three things at once."""
    answers = ctx.input_responses or {}
    requests: dict[str, Any] = {
        "user_name": form("What is your name?", name=_STRING),
        "greeting": _sampling("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if requests.keys() <= answers.keys() and ctx.request_state == "asked":
        return "All three are there."
    return InputRequiredResult(input_requests=requests, request_state="asked")


async def test_input_required_result_multi_round(ctx: Context) -> Any:
    """Asks twice."""
    if isinstance(_answer(ctx, "step2"), ElicitResult) and ctx.request_state == "second":
        return "Both are answered."
    if isinstance(_answer(ctx, "step1"), ElicitResult) and ctx.request_state == "first":
        asked = form("Step 2: What is your favorite color?", color=_STRING)
        return InputRequiredResult(input_requests={"step2": asked}, request_state="second")
    asked = form("Step 1: What is your name?", name=_STRING)
    return InputRequiredResult(input_requests={"step1": asked}, request_state="first")


async def test_input_required_result_capabilities(ctx: Context) -> Any:
    """Asks for what the client can give, and for nothing else."""
    capabilities = ctx.session.client_capabilities
    requests: dict[str, Any] = {}
    if capabilities is not None and capabilities.sampling is not None:
        requests["model"] = _sampling("Say something.")
    if capabilities is not None and capabilities.elicitation is not None:
        requests["person"] = form("What is your name?", name=_STRING)
    return InputRequiredResult(input_requests=requests) if requests else "There is nothing to ask for."
