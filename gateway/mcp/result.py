"""What a tool has to say."""

from dataclasses import dataclass

from gateway.operations.table import JsonObject


@dataclass(frozen=True, slots=True)
class Result:
    """A text for people, and the same as data."""

    text: str
    data: JsonObject | None = None
    is_error: bool = False

    def as_json(self) -> JsonObject:
        """As MCP has it; older revisions take what they know of it.

        It came as JSON, or was made of it: that no model looks at each value is what this is for.
        """
        said: JsonObject = {
            "content": [{"type": "text", "text": self.text}],
            "isError": self.is_error,
            "resultType": "complete",
        }
        return said if self.data is None else {**said, "structuredContent": self.data}
