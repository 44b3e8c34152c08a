"""What is said of bad arguments, and that saying it takes no longer the longer they are."""

import json
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from gateway.mcp.input_errors import printable, sentence
from gateway.surfaces.memo import schema, text
from tests.growth import least_seconds

LONG = "\x01" * 3_000_000


@pytest.mark.parametrize("shown", [printable, text.project_not_found])
@pytest.mark.not_quick
def test_of_a_long_name_only_the_beginning_is_looked_at(shown: Callable[[str], str]) -> None:
    assert "?" * 64 in shown(LONG)
    assert "…" in shown(LONG)
    assert len(shown(LONG)) < 200
    assert "…" not in shown("a" * 64)
    whole = least_seconds(lambda: "".join(c for c in LONG if c.isprintable()))
    assert least_seconds(lambda: shown(LONG)) < whole / 10


def test_metadata_that_are_too_long_are_refused_before_they_are_escaped() -> None:
    def refuse() -> str:
        with pytest.raises(ValidationError) as caught:
            schema.RecordInput.model_validate({"content": "x", "metadata": {"a": LONG}})
        return sentence(caught.value)

    assert refuse() == "metadata must have at most 16,000 characters as JSON."
    assert least_seconds(refuse) < 8 * least_seconds(lambda: json.dumps({"a": LONG}, ensure_ascii=False).encode())
    # Each of these is escaped to six characters, and only then too long.
    with pytest.raises(ValidationError, match="at most 16,000"):
        schema.RecordInput.model_validate({"content": "x", "metadata": {"a": "'" * 3000}})
