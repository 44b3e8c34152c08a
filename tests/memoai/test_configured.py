"""What must be set for a MemoAI core, and what `doctor` and the resource of capabilities say of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import TextResourceContents

from gateway.app.capabilities import URI
from gateway.cli.doctor import doctor
from gateway.config.settings import BadSetting, Settings, load
from gateway.config.unsafe_settings import check_local, check_serving
from gateway.upstream.dialects.memoai import MEMOAI
from tests.gateway.upstream.platforms import Wild
from tests.memoai.world import World, core_settings, memo_world
from tests.served import listening

LOOPBACK = "http://127.0.0.1:8787"


def for_one_user(world: World) -> None:
    """The core takes tokens of a gateway that serves on loopback."""
    world.core.issuer = LOOPBACK


@pytest.mark.parametrize("check", [check_serving, check_local])
@pytest.mark.parametrize(
    ("without", "words"),
    [
        ({"upstream_auth", "internal_key_file"}, "set BRAINS_UPSTREAM_AUTH=internal."),
        ({"internal_key_file"}, "set BRAINS_INTERNAL_KEY_FILE."),
        ({"signing_keys_file"}, "set BRAINS_SIGNING_KEYS_FILE too."),
        ({"upstream_audience"}, "set BRAINS_UPSTREAM_AUDIENCE too."),
    ],
)
def test_what_a_core_wants_must_be_set(
    tmp_path: Path, without: set[str], words: str, check: Callable[[Settings], None]
) -> None:
    settings = core_settings(tmp_path, dialect="memoai", upstream_url="http://127.0.0.1:9", data_dir=tmp_path)
    settings["public_url"] = LOOPBACK
    check(load(**settings))
    with pytest.raises(BadSetting) as caught:
        check(load(**{name: value for name, value in settings.items() if name not in without}))
    assert str(caught.value).endswith(words)


@pytest.mark.parametrize("dialect", ["auto", "memoai"])
def test_a_wrong_shared_secret_is_told_by_the_names_of_the_settings(tmp_path: Path, dialect: str) -> None:
    with memo_world(tmp_path, dialect=dialect) as world:
        world.core.internal_key = "another"
        said = world.person("ada", "acme", "orion").error("search", query="x")
    assert said == {"type": "authentication_error", "message": MEMOAI.wants}


@pytest.mark.parametrize("dialect", ["auto", "memoai"])
def test_one_tenant_may_name_any_project(tmp_path: Path, dialect: str) -> None:
    """The header says which, as MemoAI has it."""
    with memo_world(tmp_path, dialect=dialect, single_tenant=True) as world:
        ada = world.person("ada", "acme").but(project="orion")
        memo_id = ada.record("Otters hold hands.")
        assert [memo["id"] for memo in ada.search("otters")] == [memo_id]
        # Before a core is known for one, nothing is signed that only a core may be told.
        signed = [claims.get("project_id") for claims in world.core.claims]
        assert signed == [*([None] if dialect == "auto" else []), "orion", "orion"]


def test_with_many_tenants_the_project_of_somebody_else_is_never_signed(tmp_path: Path) -> None:
    with memo_world(tmp_path) as world:
        ada = world.person("ada", "acme", "orion")
        ada.search("otters")
        assert ada.but(project="lyra").error("search", query="otters")["type"] == "not_found"
        assert {claims.get("project_id") for claims in world.core.claims} <= {None, "orion"}


async def test_the_report_says_that_memos_alone_are_served(tmp_path: Path) -> None:
    reports: dict[str, Any] = {}
    with memo_world(tmp_path, auth=None, public_url=LOOPBACK) as world:
        for_one_user(world)
        for surface in ("memo", "memory"):
            async with Client(StreamableHttpTransport(f"{world.url}/{surface}/mcp")) as client:
                (block,) = await client.read_resource(URI)
                assert isinstance(block, TextResourceContents)
                reports[surface] = json.loads(block.text)
    memo, memory = reports["memo"], reports["memory"]
    assert (memo["dialect"], memo["brain"], memo["problems"], memo["all_served"]) == ("memoai", None, [], True)
    assert {row["tool"]: (row["route"], row["missing"]) for row in memo["tools"]} == {
        "memoai_memo_search": ("POST /internal/memos/search", []),
        "memoai_memo_record": ("POST /internal/memos/record", []),
    }
    assert not any(row["served"] for row in memory["tools"])
    assert [(p["code"], p["message"]) for p in memory["problems"]] == [("not_implemented", MEMOAI.without_brains)]


@pytest.mark.parametrize("surfaces", ["memo", "memo,kv"])
@pytest.mark.parametrize("dialect", ["auto", "memoai"])
def test_doctor_says_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], surfaces: str, dialect: str) -> None:
    with memo_world(tmp_path, auth=None, public_url=LOOPBACK) as world:
        for_one_user(world)
        settings = {**world.settings, "data_dir": tmp_path, "surfaces": surfaces, "dialect": dialect}
        is_all = doctor(load(**settings), as_json=False)
    said = capsys.readouterr().out
    assert is_all is (surfaces == "memo")
    assert "Dialect    memoai" in said
    assert (MEMOAI.without_brains in said) is (surfaces != "memo")


def test_doctor_notices_that_brains_are_kept_where_memos_were_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(Wild().app()) as url:
        settings = core_settings(tmp_path, dialect="memoai", upstream_url=url, data_dir=tmp_path, surfaces="memo")
        assert not doctor(load(**{**settings, "public_url": LOOPBACK}), as_json=False)
    assert "Nothing at the platform's URL answers" in capsys.readouterr().out
