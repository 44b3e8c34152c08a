"""The page in a real Chromium: searched, edited, asked and looked at, judged by axe, with no error in its console."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.gateway.ui.browsing import call
from tests.served import serving

HERE = Path(__file__).parent
TOKEN = "correct-horse-battery"

CONFLICT = "Failed to load resource: the server responded with a status of 409 (Conflict)"

pytestmark = pytest.mark.needs_command("chromium")


@pytest.mark.timeout(400)
def test_people_do_in_a_browser_what_the_page_offers(tmp_path: Path) -> None:
    train = "# Night train\n\nThe night train leaves at 22:10.\n\n- at nine\n\n| Car | Seat |\n|---|---|\n| 263 | 41 |"
    hostile = "<script>globalThis.ran = 1</script><img src=x onerror='ran = 1'> ![x](https://evil.example/x.png)"
    with (
        serving(tmp_path / "open", tmp_path) as served,
        serving(tmp_path / "closed", tmp_path, token=TOKEN) as closed,
    ):
        path = "memory/global/train.md"
        call(served, "memory_remember", content=train, title="Night train", tags=["travel"], path=path)
        call(served, "memory_remember", content=hostile, title=hostile, path="memory/global/hostile.md")
        call(served, "memory_remember", content="Green tea, no coffee.", title="Tea")
        call(served, "memory_create_brain", name="Empty")
        command = ["node", "page.mjs", served.url, closed.url, TOKEN, str(tmp_path)]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["violations"] == []
    # What the browser itself says of the status of a conflict.
    assert [line.partition(": ")[2] for line in seen["console"]] == [CONFLICT]
    assert seen["overflows"] == []
    steps = seen["steps"]
    assert steps["search"] == "Night train"
    assert steps["searchAddress"] == "?q=night+train"
    assert "22:20" in steps["edited"]
    assert "22:30" in steps["conflict"][0]
    assert "22:20" in steps["conflict"][1]
    assert "22:40" in steps["solved"]
    assert "22:40" in steps["restored"]
    assert "22:40" in steps["answer"]
    # In how many pieces it shows depends on how fast it comes; `tests/gateway/ui` holds that it comes in several.
    assert steps["grown"] >= 1
    assert steps["source"] == path
    assert steps["copied"].startswith("claude mcp add ")
    # The one picture is our own mark.
    assert steps["hostile"] == ["nothing ran", 1]
    assert steps["cookie"] == ""
    assert "22:50" in steps["withoutScripts"]
