"""What each scope allows: every tool with every token on both wires, and no way to word a call that gets round it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.app.capabilities import URI
from tests.gateway.http.auth.gateways import TOOLS, Guarded, allows, guarded, result
from tests.served import Era, messages_of, raw_call

ERAS: tuple[Era, ...] = ("modern", "legacy")
TOKENS = ("none", "foreign", "read", "write", "admin")
INCLUDED = {"read": ["brains:read"], "write": ["brains:read", "brains:write"]}
INCLUDED["admin"] = [*INCLUDED["write"], "brains:admin"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_does_what_the_token_allows_and_else_nothing(gateway: Guarded, era: Era, token: str, tool: str) -> None:
    needed = TOOLS[tool][0]
    before = gateway.stored()
    answer = gateway.least(token, era, tool)
    if token == "none":
        assert answer.status_code == 401
    elif allows(token, needed):
        assert answer.status_code == 200
        assert "www-authenticate" not in answer.headers
        assert result(answer)["structuredContent"].get("code") in {None, "fetch_blocked", "not_found"}
    else:
        assert answer.status_code == 403
        said = result(answer)["structuredContent"]
        assert (said["code"], said["required_scopes"]) == ("insufficient_scope", INCLUDED[needed])
        assert f'scope="{" ".join(INCLUDED[needed])}"' in answer.headers["www-authenticate"]
    if not allows(token, needed) or needed == "read":
        assert gateway.stored() == before


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", TOKENS[1:])
@pytest.mark.parametrize("visibility", ["private", "tenant", "public"])
def test_a_brain_that_others_see_is_made_by_admins_alone(
    gateway: Guarded, era: Era, token: str, visibility: str
) -> None:
    needed = "write" if visibility == "private" else "admin"
    before = gateway.stored()
    name = f"{visibility} {token} {era}"
    answer = gateway.call(token, era, "memory_create_brain", name=name, visibility=visibility)
    if allows(token, needed):
        assert answer.status_code == 200
        assert result(answer)["structuredContent"]["visibility"] == visibility
    else:
        assert answer.status_code == 403
        expected = INCLUDED["admin" if token == "write" else "write"]
        assert result(answer)["structuredContent"]["required_scopes"] == expected
        assert gateway.stored() == before


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", TOKENS)
def test_the_capabilities_are_for_readers(gateway: Guarded, era: Era, token: str) -> None:
    answer = gateway.request(token, era, "resources/read", uri=URI)
    if token == "none":
        assert answer.status_code == 401
    elif token == "foreign":
        assert answer.status_code == 403
        assert 'scope="brains:read"' in answer.headers["www-authenticate"]
        assert "memory_search" not in answer.text
    else:
        assert answer.status_code == 200
        report = json.loads(result(answer)["contents"][0]["text"])
        assert {row["tool"] for row in report["tools"]} == set(TOOLS)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", ["foreign", "read"])
def test_a_tool_that_is_not_there_is_unknown_and_no_question_of_scopes(gateway: Guarded, era: Era, token: str) -> None:
    answer = gateway.call(token, era, "memory_nothing")
    assert answer.status_code in {200, 400, 404}
    assert "insufficient_scope" not in answer.text


@pytest.mark.parametrize("era", ERAS)
def test_who_lacks_the_scope_learns_nothing_of_the_arguments(gateway: Guarded, era: Era) -> None:
    """Neither whether they are right, nor whether a brain is there."""
    said = [
        gateway.call("read", era, "memory_remember", **arguments)
        for arguments in ({}, {"content": 7}, {"content": "x", "brain": "nowhere"}, {"content": "x", "brain": "main"})
    ]
    assert {answer.status_code for answer in said} == {403}
    assert len({result(answer)["structuredContent"]["message"] for answer in said}) == 1


REMEMBER = '"memory_remember"'
WRITTEN = '{"content": "smuggled", "brain": "main"}'
LOOKED = '{"query": "otters", "brain": "main"}'
META = (
    '"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", '
    '"io.modelcontextprotocol/clientCapabilities": {}}'
)


def call(params: str, method: str = '"method": "tools/call"') -> str:
    return f'{{"jsonrpc": "2.0", "id": 1, {method}, "params": {{{params}, {META}}}}}'


READ = call(f'"name": "memory_search", "arguments": {LOOKED}')
WRITE = call(f'"name": {REMEMBER}, "arguments": {WRITTEN}')
BODIES: dict[str, str | bytes] = {
    "name twice, the write last": call(f'"name": "memory_search", "name": {REMEMBER}, "arguments": {WRITTEN}'),
    "name twice, the write first": call(f'"name": {REMEMBER}, "name": "memory_search", "arguments": {WRITTEN}'),
    "name twice, once escaped": call(f'"name": "memory_search", "n\\u0061me": {REMEMBER}, "arguments": {WRITTEN}'),
    "name escaped": call(f'"name": "memory_\\u0072emember", "arguments": {WRITTEN}'),
    "name in wide letters": call(f'"name": "memory_ｒemember", "arguments": {WRITTEN}'),
    "name in upper case": call(f'"name": "Memory_Remember", "arguments": {WRITTEN}'),
    "name with a space": call(f'"name": "memory_remember ", "arguments": {WRITTEN}'),
    "name with a NUL": call(f'"name": "memory_remember\\u0000", "arguments": {WRITTEN}'),
    "name in a list": call(f'"name": ["memory_remember"], "arguments": {WRITTEN}'),
    "arguments twice": call(f'"name": {REMEMBER}, "arguments": {LOOKED}, "arguments": {WRITTEN}'),
    "arguments as text": call(f'"name": {REMEMBER}, "arguments": {json.dumps(WRITTEN)}'),
    "params twice, the write last": READ[:-1] + f', "params": {{"name": {REMEMBER}, "arguments": {WRITTEN}, {META}}}}}',
    "params twice, the write first": WRITE[:-1] + READ[READ.index(', "params"') :],
    "method twice": call(
        f'"name": {REMEMBER}, "arguments": {WRITTEN}', '"method": "tools/list", "method": "tools/call"'
    ),
    "method escaped": call(f'"name": {REMEMBER}, "arguments": {WRITTEN}', '"method": "tools\\/c\\u0061ll"'),
    "a batch": f"[{READ}, {WRITE}]",
    "a batch of one": f"[{WRITE}]",
    "two bodies in a row": READ + WRITE,
    "two bodies on two lines": READ + "\n" + WRITE,
    "a byte order mark": b"\xef\xbb\xbf" + WRITE.encode(),
    "UTF-16": WRITE.encode("utf-16"),
    "UTF-16 without a mark": WRITE.encode("utf-16-le"),
    "UTF-32": WRITE.encode("utf-32"),
    "UTF-7": WRITE.replace('"', "+ACI-").encode(),
    "scopes in the body": WRITE[:-1] + ', "scope": "brains:admin", "principal": {"scopes": ["brains:admin"]}}',
    "scopes in the meta": WRITE.replace('"_meta": {', '"_meta": {"scopes": ["brains:admin"], '),
    "a notification": WRITE.replace('"id": 1, ', ""),
    "an id that is null": WRITE.replace('"id": 1', '"id": null'),
    "a comment": "/* */" + WRITE,
    "nested deeply": WRITE.replace('"smuggled"', "[" * 5000 + "]" * 5000),
}
TYPES = (
    "application/json",
    "application/json; charset=utf-16",
    "application/json; charset=utf-7",
    "text/plain",
    "application/x-www-form-urlencoded",
)


def headers(era: Era, said: str | None) -> dict[str, str]:
    made: dict[str, str] = raw_call(era, "memory_search", {})["headers"]
    if era == "modern":
        made["mcp-name"] = said or "memory_search"
    return made


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("token", ["read", "foreign"])
@pytest.mark.sampled(3)
def test_no_wording_of_a_write_gets_past_a_token_that_may_not_write(
    gateway: Guarded, era: Era, token: str, body: str | bytes
) -> None:
    raw = body.encode() if isinstance(body, str) else body
    before = gateway.stored()
    for named in ("memory_search", "memory_remember"):
        for content_type in TYPES if named == "memory_remember" else TYPES[:1]:
            given = {**headers(era, named), "content-type": content_type}
            answer = gateway.post(token, content=raw, headers=given)
            assert answer.status_code < 500, answer.text
    assert gateway.stored() == before


VISIBILITIES = {
    "public last": '"visibility": "private", "visibility": "public"',
    "public first": '"visibility": "public", "visibility": "private"',
    "escaped": '"visibility": "private", "visibilit\\u0079": "public"',
    "escaped value": '"visibility": "publi\\u0063"',
    "upper case": '"visibility": "PUBLIC"',
    "other case": '"visibility": "private", "Visibility": "public"',
    "in a list": '"visibility": ["public"]',
    "with a space": '"visibility": "public "',
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("visibility", VISIBILITIES.values(), ids=VISIBILITIES.keys())
def test_no_wording_makes_a_writers_brain_public(gateway: Guarded, era: Era, visibility: str) -> None:
    made = f'"name": "memory_create_brain", "arguments": {{"name": "Smuggled {era}", {visibility}}}'
    given = {**headers(era, "memory_create_brain"), "content-type": "application/json"}
    answer = gateway.post("write", content=call(made).encode(), headers=given)
    assert answer.status_code < 500
    brains = result(gateway.least("admin", era, "memory_list_brains"))["structuredContent"]["items"]
    assert {brain["visibility"] for brain in brains if "Smuggled" in brain["name"]} <= {"private"}


@pytest.mark.parametrize("era", ERAS)
def test_the_same_body_is_a_write_with_a_token_that_may(gateway: Guarded, era: Era) -> None:
    """Else the bodies above would be refused for something else."""
    before = gateway.stored()
    given = {**headers(era, "memory_remember"), "content-type": "application/json"}
    body = WRITE.replace("smuggled", f"written on the {era} wire").encode()
    answer = gateway.post("write", content=body, headers=given)
    assert (answer.status_code, messages_of(answer)[-1]["result"]["isError"]) == (200, False)
    assert gateway.stored() != before


def test_a_claim_named_as_a_scope_of_ours_is_none(gateway: Guarded) -> None:
    def status(**claims: Any) -> int:
        made = raw_call("modern", "memory_list_brains", {})
        made["headers"]["authorization"] = f"Bearer {gateway.provider.token(scope='openid', **claims)}"
        return gateway.post(None, **made).status_code

    assert status() == 403
    assert status(permissions=["brains:admin"], roles="brains:admin", **{"brains:admin": True}) == 403
    assert status(scp=["brains:read"]) == 200
