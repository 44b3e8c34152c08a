"""Arguments for any tool, made from the schema that it is served with: one of them hostile, the others in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
FITTING = {
    r"^\d{4}-\d{2}-\d{2}$": "2026-01-02",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": "a.b",
    r"^[a-z0-9]+([.-][a-z0-9]+)*$": "a.b",
    r"^[a-z0-9][a-z0-9-]*$": "a-b",
    r"^[0-9a-f]{64}$": "0" * 64,
}


@dataclass(frozen=True)
class Turn:
    """What differs from one text to the next: which of several values is taken, and which arguments are left out."""

    n: int
    brain: str

    def good(self, schema: Schema, name: str = "") -> Any:
        """A value that is allowed."""
        if "enum" in schema:
            return schema["enum"][self.n % len(schema["enum"])]
        match schema.get("type"):
            case "string":
                plain = {"brain": self.brain, "path": "a.md"}.get(name, "otter")
                return FITTING[schema["pattern"]] if "pattern" in schema else plain
            case "integer" | "number":
                return schema.get("maximum", 3)
            case "boolean":
                return bool(self.n % 3)
            case "array":
                # What stands beside a long list may be kept with each of its entries.
                return [self.good(schema["items"])] * (schema["maxItems"] if self.n % 8 > 5 else 1)
            case _:
                return {key: self.good(one, key) for key, one in self._given(schema).items()}

    def _given(self, schema: Schema) -> dict[str, Schema]:
        wanted = {*schema.get("required", ()), "brain"}
        return {name: one for name, one in schema.get("properties", {}).items() if name in wanted or self.n % 4 > 1}

    def hostile(self, schema: Schema, text: str) -> Iterator[Any]:
        """Values with the text in them, one for each place that it fits in."""
        match schema.get("type"):
            case "string" if "enum" not in schema:
                yield text[: schema.get("maxLength")]
            case "array":
                yield from ([one] for one in self.hostile(schema["items"], text))
                # And as many as are allowed, together no longer than the text.
                most = schema["maxItems"]
                yield from ([one] * most for one in self.hostile(schema["items"], text[: len(text) // most + 1]))
            case "object":
                yield from self._objects(schema, text)

    def _objects(self, schema: Schema, text: str) -> Iterator[dict[str, Any]]:
        given = self.good(schema)
        for name, one in schema.get("properties", {}).items():
            yield from ({**given, name: hostile} for hostile in self.hostile(one, text))
        if schema.get("additionalProperties") is True:
            yield {"a": text}
            yield {text: "a"}
            yield {f"{text[:9]}{n}": text[:9] for n in range(len(text) // 40)}
