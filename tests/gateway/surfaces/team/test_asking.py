"""Where a statement goes that names no scope: asked of a person where one can be, else as the operator decided."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from fastmcp.client.elicitation import ElicitResult

from tests.gateway.conftest import code_of, structured, text_of
from tests.gateway.http.auth.gateways import HTTP
from tests.served import MODE, Era, Served, messages_of, raw_call, serving, stdio_client

pytestmark = pytest.mark.not_quick

STATEMENT = {"content": "We deploy on Fridays.", "type": "decision"}
Action = Literal["accept", "decline", "cancel"]
# Where a question finds its way to a person.
WAYS: list[tuple[str, Era]] = [("http", "modern"), ("stdio", "modern"), ("stdio", "legacy")]


@dataclass
class Person:
    """Somebody at the client, and what they were asked."""

    answer: str = "global"
    action: Action = "accept"
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    async def __call__(self, message: str, _type: Any, params: Any, _context: Any) -> ElicitResult[Any]:
        schema = params.requested_schema
        assert schema["required"] == ["scope"]
        self.asked.append((message, schema["properties"]["scope"]["enum"]))
        return ElicitResult(action=self.action, content={"scope": self.answer} if self.action == "accept" else None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving(data, None) as found:
        yield found


@asynccontextmanager
async def client_of(served: Served, way: tuple[str, Era], person: Person | None) -> AsyncIterator[Client[Any]]:
    transport, era = way
    if transport == "http":
        plain = served.over_http(era, "/team/mcp/main")
    else:
        plain = stdio_client(era, served.root, surface="team", BRAINS_DATA_DIR=str(served.data_dir))
    async with Client(plain.transport, mode=MODE[era], elicitation_handler=person) as client:
        yield client


async def remembered(client: Client[Any], **more: Any) -> CallToolResult:
    return await client.call_tool("memory_remember", {**STATEMENT, **more}, raise_on_error=False)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.sampled(3)
async def test_a_person_is_asked_and_their_answer_is_the_scope(served: Served, way: tuple[str, Era]) -> None:
    person = Person()
    async with client_of(served, way, person) as client:
        await remembered(client, scope="apollo")
        assert person.asked == []
        kept = structured(await remembered(client))
        assert (kept["scope"], kept["outcome"]) == ("global", "stored")
        question = "Which scope shall this be remembered in? “We deploy on Fridays.”"
        assert person.asked == [(question, ["private", "global", "apollo"])]
        person.answer = "private"
        assert structured(await remembered(client))["scope"] == "private"
        person.answer = "Private"
        assert code_of(await remembered(client)) == "not_found"
        for action in ("decline", "cancel"):
            person.action = action
            assert structured(await remembered(client))["scopes"] == ["private", "global", "apollo"]
        entries = structured(await client.call_tool("memory_recall", {}))["entries"]
    assert sorted(entry["scope"] for entry in entries) == ["apollo", "global", "private"]


@pytest.mark.parametrize("way", [*WAYS, ("http", "legacy")], ids="-".join)
@pytest.mark.sampled(3)
async def test_who_cannot_be_asked_is_told_the_scopes(served: Served, way: tuple[str, Era]) -> None:
    async with client_of(served, way, None) as client:
        result = await remembered(client)
        assert code_of(result) == "validation_error"
        assert structured(result)["scopes"][:2] == ["private", "global"]
        assert text_of(result).startswith("validation_error: Name the scope that this belongs in. Yours are: private, ")
        new = ". A new project may be named, too: it begins with its first entry."
        assert structured(result)["message"].endswith(new)


async def test_without_sessions_an_older_client_cannot_be_asked(served: Served) -> None:
    person = Person()
    async with client_of(served, ("http", "legacy"), person) as client:
        assert code_of(await remembered(client)) == "validation_error"
    assert person.asked == []


async def test_bad_arguments_are_said_before_anybody_is_asked(served: Served) -> None:
    person = Person()
    async with client_of(served, ("http", "modern"), person) as client:
        assert code_of(await remembered(client, type="rumour")) == "validation_error"
    assert person.asked == []


@pytest.mark.slow
async def test_a_client_that_fails_to_ask_is_told_the_scopes(served: Served) -> None:
    async def broken(*_asked: Any) -> ElicitResult[Any]:
        raise RuntimeError("no screen")

    plain = stdio_client("legacy", served.root, surface="team", BRAINS_DATA_DIR=str(served.data_dir))
    async with Client(plain.transport, mode=MODE["legacy"], elicitation_handler=broken) as client:
        assert structured(await remembered(client))["scopes"][:2] == ["private", "global"]


def test_any_replica_takes_the_answer_to_a_question_of_another(tmp_path: Path) -> None:
    """They share no memory and no keys: the answer says all there is to know."""
    request = raw_call("modern", "memory_remember", STATEMENT)
    params = request["json"]["params"]
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    with serving(tmp_path, None) as one, serving(tmp_path, None) as two:
        (asked,) = messages_of(HTTP.post(f"{one.url}/team/mcp/main", **request))
        assert asked["result"]["resultType"] == "input_required"
        ((name, question),) = asked["result"]["inputRequests"].items()
        assert question["params"]["requestedSchema"]["properties"]["scope"]["enum"] == ["private", "global"]
        params["inputResponses"] = {name: {"action": "accept", "content": {"scope": "global"}}}
        (answered,) = messages_of(HTTP.post(f"{two.url}/team/mcp/main", **request))
        params["inputResponses"][name]["action"] = "decline"
        (declined,) = messages_of(HTTP.post(f"{two.url}/team/mcp/main", **request))
    assert answered["result"]["structuredContent"]["scope"] == "global"
    assert declined["result"]["structuredContent"]["code"] == "validation_error"


@pytest.mark.parametrize(
    ("said", "is_asked"), [({}, True), ({"form": {}}, True), ({"url": {}, "form": {}}, True), ({"url": {}}, False)]
)
def test_a_form_goes_to_clients_that_show_forms(served: Served, said: dict[str, Any], is_asked: bool) -> None:
    request = raw_call("modern", "memory_remember", STATEMENT)
    request["json"]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": said}
    (answer,) = messages_of(HTTP.post(f"{served.url}/team/mcp/main", **request))
    assert (answer["result"]["resultType"] == "input_required") is is_asked


@pytest.mark.parametrize(
    ("policy", "headers", "scope"),
    [
        ("global", {}, "global"),
        ("global", {"X-Project": "zeus"}, "global"),
        ("project", {"X-Project": "zeus"}, "zeus"),
        ("project", {}, "apollo"),
    ],
)
async def test_the_operator_may_decide(tmp_path: Path, policy: str, headers: dict[str, str], scope: str) -> None:
    with serving(tmp_path, None, write_scope=policy, project="apollo") as served:
        async with served.over_http("modern", "/team/mcp/main", headers) as client:
            assert structured(await remembered(client))["scope"] == scope
            assert structured(await remembered(client, scope="other"))["scope"] == "other"


async def test_a_policy_without_a_project_asks(tmp_path: Path) -> None:
    with serving(tmp_path, None, write_scope="project") as served:
        person = Person(answer="private")
        async with client_of(served, ("http", "modern"), person) as client:
            assert structured(await remembered(client))["scope"] == "private"
        assert len(person.asked) == 1


@pytest.mark.slow
async def test_the_project_of_the_environment_is_asked_about_over_stdio(tmp_path: Path) -> None:
    environment = {"BRAINS_DATA_DIR": str(tmp_path), "BRAINS_PROJECT": "apollo", "BRAINS_ACTOR": "ada@example.com"}
    plain = stdio_client("legacy", Path(os.getcwd()), surface="team", **environment)
    person = Person(answer="apollo")
    async with Client(plain.transport, mode=MODE["legacy"], elicitation_handler=person) as client:
        kept = structured(await remembered(client))
    assert (kept["scope"], kept["author"]) == ("apollo", "ada@example.com")
    assert person.asked[0][1] == ["private", "global", "apollo"]
