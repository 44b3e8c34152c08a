"""The result of a tool."""

from dataclasses import dataclass

from gateway.operations.table import JsonObject


@dataclass(frozen=True, slots=True)
class Result:
    """A text for people, and the same as data."""

    text: str
    data: JsonObject | None = None
    is_error: bool = False
    full: str | None = None
    """The full text, with everything that the first text leaves out, because many models get only texts."""

    @property
    def texts(self) -> list[str]:
        return [self.text] if self.full is None else [self.text, self.full]

    def as_json(self) -> JsonObject:
        """The result in the form of MCP. Older revisions use the fields that they know.

        Its values come from JSON, so no pydantic model needs to check each of them again.
        """
        said: JsonObject = {
            "content": [{"type": "text", "text": text} for text in self.texts],
            "isError": self.is_error,
            "resultType": "complete",
        }
        return said if self.data is None else {**said, "structuredContent": self.data}
