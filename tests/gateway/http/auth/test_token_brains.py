"""Which brains a token of ours is good for: the one it is bound to, or the one in the URL."""

from collections.abc import Iterator

import pytest

from tests.gateway.http.auth.gateways import HTTP
from tests.gateway.http.auth.tokens import called, gateway, kept, structured
from tests.served import Era, Served, raw_call


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str], dict[str, str]]]:
    """A gateway with two brains; tokens for one of them by slug and by id, and one for the brain in the URL."""
    data = tmp_path_factory.mktemp("data")
    with gateway(data) as served:
        file = data / "tokens.json"
        maker = kept(file, scope="brains:admin")
        own, other = (structured(called(served, maker, "memory_create_brain", name=name)) for name in ("Own", "Other"))
        brains = {"slug": own["slug"], "id": own["id"], "other slug": other["slug"], "other id": other["id"]}
        tokens = {
            "by slug": kept(file, brain=own["slug"], scope="brains:write"),
            "by id": kept(file, brain=own["id"], scope="brains:write"),
            "in the URL": kept(file, scope="brains:write"),
        }
        yield served, tokens, brains


Bound = tuple[Served, dict[str, str], dict[str, str]]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("token", ["by slug", "by id"])
@pytest.mark.parametrize("named", [None, "slug", "id"])
@pytest.mark.parametrize("in_url", [None, "slug", "id"])
def test_a_bound_token_is_good_for_its_brain_however_that_is_named(
    bound: Bound, era: Era, token: str, named: str | None, in_url: str | None
) -> None:
    served, tokens, brains = bound
    path = "/mcp" if in_url is None else f"/mcp/{brains[in_url]}"
    arguments = {} if named is None else {"brain": brains[named]}
    stored = called(served, tokens[token], "memory_remember", path, era, content="Otters hold hands.", **arguments)
    assert structured(stored)["brain_id"] == brains["id"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("token", ["by slug", "by id"])
@pytest.mark.parametrize(
    ("named", "in_url"),
    [
        ("other slug", None),
        ("other id", None),
        ("main", None),
        ("nowhere", None),
        (None, "other slug"),
        (None, "other id"),
        (None, "main"),
        (None, "nowhere"),
        ("slug", "other slug"),
        ("other slug", "slug"),
        ("other id", "other slug"),
    ],
)
@pytest.mark.parametrize("tool", ["memory_search", "memory_remember", "memory_consolidate", "memory_ask"])
def test_a_bound_token_is_good_for_no_other_brain(
    bound: Bound, era: Era, token: str, named: str | None, in_url: str | None, tool: str
) -> None:
    served, tokens, brains = bound
    path = "/mcp" if in_url is None else f"/mcp/{brains.get(in_url, in_url)}"
    arguments = {} if named is None else {"brain": brains.get(named, named)}
    given = {"memory_remember": {"content": "x"}, "memory_consolidate": {}}.get(tool, {"query": "x"})
    response = called(served, tokens[token], tool, path, era, **given, **arguments)
    if tool == "memory_consolidate":
        assert response.status_code == 403
    else:
        assert structured(response)["code"] == "forbidden"


@pytest.mark.parametrize("token", ["by slug", "by id"])
def test_a_bound_token_sees_its_brain_alone_and_makes_none(bound: Bound, token: str) -> None:
    served, tokens, brains = bound
    listed = structured(called(served, tokens[token], "memory_list_brains"))
    assert [brain["id"] for brain in listed["items"]] == [brains["id"]]
    assert structured(called(served, tokens[token], "memory_create_brain", name="x"))["code"] == "forbidden"


@pytest.mark.parametrize("token", ["by slug", "by id"])
@pytest.mark.parametrize("in_url", ["other slug", "main", "nowhere"])
def test_a_bound_token_sees_no_other_brain_where_the_url_names_one(bound: Bound, token: str, in_url: str) -> None:
    served, tokens, brains = bound
    path = f"/mcp/{brains.get(in_url, in_url)}"
    listed = structured(called(served, tokens[token], "memory_list_brains", path))
    assert {brain["id"] for brain in listed.get("items", [])} <= {brains["id"]}
    assert structured(called(served, tokens[token], "memory_create_brain", path, name="x"))["code"] == "forbidden"


def test_the_x_brain_header_does_not_lead_away_from_the_bound_brain(bound: Bound) -> None:
    served, tokens, brains = bound
    call = raw_call("modern", "memory_search", {"query": "otters"})
    call["headers"] |= {"authorization": f"Bearer {tokens['by slug']}", "x-brain": brains["other slug"]}
    assert structured(HTTP.post(served.url + "/mcp", **call)).get("brain_id", brains["id"]) == brains["id"]


@pytest.mark.parametrize("named", [None, "slug", "id"])
def test_an_unbound_token_needs_the_brain_in_the_url(bound: Bound, named: str | None) -> None:
    served, tokens, brains = bound
    arguments = {} if named is None else {"brain": brains[named]}
    call = raw_call("modern", "memory_search", {"query": "x", **arguments})
    call["headers"] |= {"authorization": f"Bearer {tokens['in the URL']}", "x-brain": brains["slug"]}
    assert structured(HTTP.post(served.url + "/mcp", **call))["code"] == "forbidden"
    for in_url in ("slug", "id", "other slug"):
        path = f"/mcp/{brains[in_url]}"
        found = structured(called(served, tokens["in the URL"], "memory_search", path, query="otters"))
        assert "code" not in found
