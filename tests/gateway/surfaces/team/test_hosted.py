"""Many people on one brain by `team`: who sees which project, whose private entries, and who may write."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.http.auth.gateways import HTTP
from tests.gateway.http.auth.tokens import called, gateway, kept
from tests.served import Era, Served, messages_of, raw_call, serving

pytestmark = pytest.mark.not_quick

PATH = "/team/mcp/main"
ERAS: tuple[Era, ...] = ("modern", "legacy")
WRITE = "brains:write"
STATEMENT = {"content": "Canary of ann.", "type": "status"}


@dataclass
class Office:
    """One brain for all, and a token for everybody."""

    served: Served
    tokens: dict[str, str]

    def result(self, who: str, tool: str, *, era: Era = "modern", **arguments: Any) -> dict[str, Any]:
        answer = called(self.served, self.tokens[who], tool, PATH, era, **arguments)
        return dict(messages_of(answer)[-1]["result"])

    def good(self, who: str, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.result(who, tool, **arguments)
        assert not result["isError"], result
        return dict(result["structuredContent"])

    def code(self, who: str, tool: str, **arguments: Any) -> str:
        return str(self.result(who, tool, **arguments)["structuredContent"]["code"])

    def request(self, who: str, era: Era, method: str, **params: Any) -> httpx.Response:
        """Of anything but a tool."""
        made = raw_call(era, "x", {})
        made["json"] |= {"method": method, "params": {**params, "_meta": made["json"]["params"]["_meta"]}}
        if era == "modern":
            del made["headers"]["mcp-name"]
            made["headers"] |= {"mcp-method": method, **({"mcp-name": params["uri"]} if "uri" in params else {})}
        made["headers"]["authorization"] = f"Bearer {self.tokens[who]}"
        return HTTP.post(self.served.url + PATH, **made)

    def scopes(self, who: str) -> list[str]:
        return [scope["scope"] for scope in self.good(who, "memory_scopes")["scopes"]]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    data = tmp_path_factory.mktemp("data")
    with gateway(data) as served:
        file = data / "tokens.json"
        people: dict[str, dict[str, Any]] = {
            "ann": {"subject": "ann", "projects": ("apollo", "zeus"), "scope": WRITE},
            "ann's other client": {"subject": "ann", "projects": ("apollo",), "scope": WRITE},
            "ben": {"subject": "ben", "projects": ("zeus", "global", "not a word", "Private"), "scope": WRITE},
            "cleo": {"subject": "cleo", "scope": WRITE},
            "reader": {"subject": "ann", "projects": ("apollo",), "scope": "brains:read"},
        }
        yield Office(served, {name: kept(file, **fields) for name, fields in people.items()})


def test_everybody_sees_the_projects_of_their_token_alone(office: Office) -> None:
    assert office.scopes("ann") == ["private", "global", "apollo", "zeus"]
    assert office.scopes("ben") == ["private", "global", "zeus"]
    assert office.scopes("cleo") == ["private", "global"]


def test_who_may_begin_no_project_is_not_told_to(office: Office) -> None:
    told = office.result("cleo", "memory_remember", content="x", type="status")["structuredContent"]
    assert told["message"] == "Name the scope that this belongs in. Yours are: private, global."


def test_a_project_of_others_is_not_there(office: Office) -> None:
    office.good("ann", "memory_remember", **STATEMENT, scope="apollo", key="canary")
    for scope in ("apollo", "nowhere"):
        for tool in ("memory_recall", "memory_load_context"):
            assert office.code("ben", tool, scope=scope) == "not_found"
        assert office.code("ben", "memory_remember", **STATEMENT, scope=scope) == "not_found"
        assert office.code("ben", "memory_forget", scope=scope, key="canary") == "not_found"
        assert office.code("ben", "memory_forget", id=f"{scope}/canary") == "not_found"
    words = [office.result("ben", "memory_recall", scope=scope) for scope in ("apollo", "nowhere")]
    assert len({word["structuredContent"]["message"] for word in words}) == 1
    found = office.good("ann", "memory_recall", scope="apollo")["entries"]
    assert [entry["id"] for entry in found] == ["apollo/canary"]
    office.good("ann", "memory_forget", scope="apollo", key="canary")


def test_private_entries_are_their_owners_alone(office: Office) -> None:
    mine = office.good("ann", "memory_remember", **STATEMENT, scope="private", key="canary")
    everybody = ("ben", "cleo")
    for who in everybody:
        said = [
            office.result(who, "memory_recall"),
            office.result(who, "memory_recall", scope="private"),
            office.result(who, "memory_load_context"),
            office.result(who, "memory_forget", id=mine["id"]),
            office.result(who, "memory_forget", scope="private", key="canary"),
            office.request(who, "modern", "resources/read", uri="memory://private").json(),
            called(office.served, office.tokens[who], "memory_search", "/mcp/main", query="Canary").text,
        ]
        assert "Canary of ann" not in json.dumps(said)
        assert said[3]["structuredContent"]["code"] == "not_found"
        assert said[4]["structuredContent"]["forgotten"] is False
    # Whatever client she uses, and with a token that may only read.
    for who in ("ann", "ann's other client", "reader"):
        found = office.good(who, "memory_recall", scope="private", include_global=False)["entries"]
        assert [entry["id"] for entry in found] == [mine["id"]]
    assert office.good("ann's other client", "memory_forget", id=mine["id"])["forgotten"] is True


def test_authors_are_who_they_are(office: Office) -> None:
    for who, author in (("ann", "ann"), ("ben", "ben")):
        entry = office.good(who, "memory_remember", content=f"Said by {author}.", type="glossary", scope="zeus")
        assert entry["author"] == author
    found = office.good("ben", "memory_recall", scope="zeus", type="glossary")["entries"]
    assert {entry["content"]: entry["author"] for entry in found} == {"Said by ann.": "ann", "Said by ben.": "ben"}
    again = office.good("ben", "memory_remember", content="Said by ann.", type="glossary", scope="zeus")
    assert (again["reused"], again["author"]) == (True, "ann")


@pytest.mark.parametrize("era", ERAS)
def test_who_may_only_read_changes_nothing(office: Office, era: Era) -> None:
    for tool, arguments in (
        ("memory_remember", {**STATEMENT, "scope": "private"}),
        ("memory_forget", {"scope": "private", "key": "x"}),
    ):
        answer = called(office.served, office.tokens["reader"], tool, PATH, era, **arguments)
        assert answer.status_code == 403
        assert 'scope="brains:read brains:write"' in answer.headers["www-authenticate"]
    for tool in ("memory_recall", "memory_scopes", "memory_load_context"):
        assert not office.result("reader", tool, era=era)["isError"]


@pytest.mark.parametrize("era", ERAS)
def test_the_resource_and_its_completions_know_who_asks(office: Office, era: Era) -> None:
    def read(who: str, scope: str) -> dict[str, Any]:
        return dict(messages_of(office.request(who, era, "resources/read", uri=f"memory://{scope}"))[-1])

    def completed(who: str, value: str) -> Any:
        ref = {"type": "ref/resource", "uri": "memory://{scope}"}
        answer = office.request(who, era, "completion/complete", ref=ref, argument={"name": "scope", "value": value})
        return messages_of(answer)[-1]["result"]["completion"]["values"]

    assert json.loads(read("ann", "apollo")["result"]["contents"][0]["text"])["scope"] == "apollo"
    assert read("ben", "apollo")["error"]["code"] == read("ben", "nowhere")["error"]["code"] == -32602
    assert completed("ann", "") == ["private", "global", "apollo", "zeus"]
    assert completed("ann", "a") == ["apollo"]
    assert completed("cleo", "a") == []


@pytest.mark.parametrize("era", ERAS)
def test_without_a_scope_of_ours_nothing_is_read_or_completed(tmp_path: Path, era: Era) -> None:
    with gateway(tmp_path) as served:
        office = Office(served, {"nobody": kept(tmp_path / "tokens.json", scope="openid")})
        ref = {"type": "ref/resource", "uri": "memory://{scope}"}
        argument = {"name": "scope", "value": ""}
        for answer in (
            office.request("nobody", era, "resources/read", uri="memory://global"),
            office.request("nobody", era, "completion/complete", ref=ref, argument=argument),
        ):
            assert answer.status_code == 403
            assert 'scope="brains:read"' in answer.headers["www-authenticate"]


def test_where_there_is_one_tenant_everybody_sees_all(tmp_path: Path) -> None:
    """Also what the operator's own project is, which no token names."""
    token = kept(tmp_path / "tokens.json", subject="ann", scope=WRITE)
    settings = {"auth": "tokens", "single_tenant": True, "project": "apollo", "write_scope": "project"}
    with serving(tmp_path, None, calls_per_second=1e6, **settings) as served:
        office = Office(served, {"ann": token})
        entry = office.good("ann", "memory_remember", **STATEMENT)
        assert (entry["scope"], entry["author"]) == ("apollo", "ann")
        assert office.good("ann", "memory_remember", **STATEMENT, scope="zeus")["scope"] == "zeus"
        assert office.scopes("ann") == ["private", "global", "apollo", "zeus"]
