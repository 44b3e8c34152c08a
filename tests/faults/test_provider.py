"""While a provider of models fails, every write of every surface is stored once, and what it owes is made up for."""

import json
from pathlib import Path

import pytest

from tests.faults.everything import played
from tests.faults.provider import KEY, TROUBLES

PINS = Path(__file__).parents[2] / "contract" / "tools"
WRITING = {
    (pin.stem, tool["name"])
    for pin in PINS.glob("*.json")
    if not pin.stem.endswith("_extras")
    for tool in json.loads(pin.read_text(encoding="utf-8"))
    if not tool["annotations"]["readOnlyHint"]
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.sampled(10)
async def test_a_provider_in_trouble_costs_no_write_and_no_search(
    trouble: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = await played(tmp_path, TROUBLES[trouble])
    assert outcome.complaints == []
    assert outcome.tools == WRITING
    assert outcome.chunks > 0
    assert outcome.derived == 1
    said = "".join(capfd.readouterr())
    assert KEY not in said
    assert "house 0" not in said
