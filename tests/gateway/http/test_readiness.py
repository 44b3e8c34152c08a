"""What `/readyz` says is true: of a platform that is dead, of a file that is damaged, and to whom it says more."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.platform.health import DAMAGED, FULL
from contract.platform.store import Store
from tests.commands import run_here
from tests.daemons.fake import FakeDaemon, Y
from tests.daemons.real import free_port
from tests.served import OPERATOR, listening, raw_call, serving

HTTP = httpx.Client(trust_env=False)


def damaged(data: Path) -> None:
    """A brain whose file has a hole in the middle, and still opens."""
    store = Store.open(data)
    for n in range(40):
        store.documents.put(store.brain("main"), f"n{n}.md", f"Note {n}. ".encode() * 800)
    store.close()
    file = data / "brains.sqlite3"
    body = bytearray(file.read_bytes())
    middle = len(body) // 2 // 4096 * 4096
    body[middle : middle + 10 * 4096] = b"\xff" * 10 * 4096
    file.write_bytes(body)


def ready(url: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    answer = HTTP.get(f"{url}/readyz", headers=headers or {})
    return answer.status_code, answer.json()


def test_a_platform_that_is_dead_is_told_without_a_call_and_the_gateway_is_ready(tmp_path: Path) -> None:
    with serving(tmp_path, None, upstream_url=f"http://127.0.0.1:{free_port()}") as served:
        status, said = ready(served.url)
    assert (status, said["ready"], said["platform"], said["problems"]) == (200, True, "unavailable", [])


def test_a_platform_that_lives_is_told_as_such(tmp_path: Path) -> None:
    with listening(FakeDaemon(Y).app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        assert ready(served.url)[1]["platform"] == "ok"


def test_what_was_not_tried_is_unknown_and_counts_as_ready(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        assert ready(served.url) == (
            200,
            {
                "ready": True,
                "platform": "unknown",
                "problems": [],
                "requests": {"read": "ok", "write": "ok", "ask": "ok", "derive": "ok"},
            },
        )
        HTTP.post(f"{served.url}/mcp", **raw_call("modern", "memory_search", {"query": "x"}))
        assert ready(served.url)[1]["platform"] == "ok"


def test_a_damaged_brain_is_not_ready_and_says_why_to_the_operator_alone(tmp_path: Path) -> None:
    damaged(tmp_path)
    with serving(tmp_path, None, token="fedcba9876543210") as served:
        call = raw_call("modern", "memory_list_brains", {})
        call["headers"] |= {"authorization": "Bearer fedcba9876543210"}
        HTTP.post(f"{served.url}/mcp", **call)
        assert ready(served.url) == (503, {"ready": False, "platform": "unavailable"})
        for wrong in ("Bearer fedcba9876543210", "Bearer 0123456789abcdeF", "0123456789abcdef"):
            assert "problems" not in ready(served.url, {"authorization": wrong})[1]
        status, said = ready(served.url, OPERATOR)
    assert (status, said["problems"]) == (503, [DAMAGED])


def test_doctor_does_not_say_that_all_is_well_with_a_damaged_brain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    done = run_here("doctor", BRAINS_DATA_DIR=str(tmp_path / "data"), BRAINS_SURFACES="memory")
    assert done.returncode == 1
    assert "upstream_unavailable: The brain file" in done.stdout
    assert "Put a backup in its place" in done.stdout
    assert "All 15 tools can be served once that is solved." in done.stdout


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contract.platform.health._free", lambda _: 4096)
    with serving(tmp_path, None) as served:
        HTTP.post(f"{served.url}/mcp", **raw_call("modern", "memory_list_brains", {}))
        status, said = ready(served.url)
    assert (status, said["platform"], said["problems"]) == (503, "unavailable", [FULL])


@pytest.mark.parametrize(
    "settings",
    [
        {"token": "fedcba9876543210"},
        {"allowed_hosts": ("brains.example",)},
        {"auth": "tokens", "tokens_file": "{tokens}"},
    ],
)
def test_where_others_are_served_the_details_are_not_for_everybody(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "tokens.json").write_text('{"tokens": []}')
    told = {name: tmp_path / "tokens.json" if value == "{tokens}" else value for name, value in settings.items()}
    with serving(tmp_path, None, **told) as served:
        assert ready(served.url) == (200, {"ready": True, "platform": "unknown"})
        assert set(ready(served.url, OPERATOR)[1]) == {"ready", "platform", "problems", "requests"}


@pytest.mark.parametrize("names", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
def test_a_web_page_is_not_told_the_details(tmp_path: Path, names: dict[str, str]) -> None:
    """It may have a name of its own for this machine, or send where it is from."""
    with serving(tmp_path, None) as served:
        assert "problems" in ready(served.url)[1]
        assert ready(served.url, names) == (200, {"ready": True, "platform": "unknown"})


def test_it_is_alive_by_three_names(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        for path in ("/livez", "/healthz", "/health"):
            assert HTTP.get(served.url + path).json() == {"ok": True}
