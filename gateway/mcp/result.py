"""What a tool has to say."""

from dataclasses import dataclass

from gateway.operations.table import JsonObject


@dataclass(frozen=True, slots=True)
class Result:
    """A text for people, and the same as data."""

    text: str
    data: JsonObject | None = None
    is_error: bool = False
    full: str | None = None
    """What the text leaves out, readable: many models are shown texts alone."""

    @property
    def texts(self) -> list[str]:
        return [self.text] if self.full is None else [self.text, self.full]

    def as_json(self) -> JsonObject:
        """As MCP has it; older revisions take what they know of it.

        It came as JSON, or was made of it: that no model looks at each value is what this is for.
        """
        said: JsonObject = {
            "content": [{"type": "text", "text": text} for text in self.texts],
            "isError": self.is_error,
            "resultType": "complete",
        }
        return said if self.data is None else {**said, "structuredContent": self.data}
