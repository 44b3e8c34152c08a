"""What a dialect is made of: a table from operation to route, and the shapes a request can have."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gateway.operations.table import Args, JsonObject, JsonValue, Op, Upload

# Frames that came together are one group.
Frames = AsyncGenerator[list[JsonObject], None]


@dataclass(frozen=True, slots=True)
class Body:
    """What a route sends besides its path."""

    params: Mapping[str, str | list[str]] = field(default_factory=dict)
    json: JsonObject | None = None
    upload: Upload | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Encoder = Callable[[Args], Body]
Decoder = Callable[[JsonValue, Args], JsonValue]
Reframe = Callable[[Frames], Frames]


def as_json(*names: str, **renamed: str) -> Encoder:
    """Send these arguments, where given, as a JSON object: `as_json("top_k", q="query")` sends `query` as `q`."""
    keys = {**dict(zip(names, names, strict=True)), **renamed}
    return lambda args: Body(json={key: args[name] for key, name in keys.items() if args.get(name) is not None})


def as_query(**names: str) -> Encoder:
    """Send arguments as query parameters: `as_query(q="query")` sends `query` as `q`, and a list as several."""
    return lambda args: Body(params={key: _as_text(args[n]) for key, n in names.items() if args.get(n) is not None})


def _as_text(value: Any) -> str | list[str]:
    return value if isinstance(value, list) else str(value)


def as_empty_object(_args: Args) -> Body:
    return Body(json={})


def as_upload(args: Args) -> Body:
    return Body(upload=args["upload"])


def as_content(args: Args) -> Body:
    """Send the document's bytes as they are, its path in the query."""
    return Body(params={"path": str(args["path"])}, content=args["body"])


def unchanged(answer: JsonValue, _args: Args) -> JsonValue:
    return answer


def as_they_come(frames: Frames) -> Frames:
    return frames


@dataclass(frozen=True, slots=True)
class Route:
    """How one operation is spelled: method, path, encoder, decoder; and for a stream, its frames."""

    method: str
    path: str
    encode: Encoder = as_empty_object
    decode: Decoder = unchanged
    reframe: Reframe = as_they_come
    name: str = field(init=False)
    """The name of this route in receipts and logs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.method} {self.path}")

    def fill(self, args: Args) -> str:
        """The path for these arguments, every value quoted as one segment.

        Callers check ids first (`names.check_id`). Dot segments are refused here once more,
        because an HTTP client silently resolves `..`.
        """
        segments = self.path.split("/")
        for place, segment in enumerate(segments):
            if segment.startswith("{"):
                value = segments[place] = quote(str(args[segment[1:-1]]), safe="")
                if value in {"", ".", ".."}:
                    raise ValueError("an empty or a dot segment reached a URL")
        return "/".join(segments)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of platform spells operations. An operation that is not in the table is absent.

    So a dialect whose search cannot sort leaves `SORTED_SEARCH` out, and the gateway sorts. All dialects share the
    routes of `store.py`.
    """

    name: str
    routes: Mapping[Op, Route]
    brain_key: str = "id"
    """The key by which a brain in its list is known."""
    finds: Callable[[str], bool] = lambda _path: True
    """Whether search ever finds what is stored at a path."""
    writes_index: bool = False
    """Whether consolidating there writes index files, `MEMORY.md`, which still name notes that are gone."""
    caveats: tuple[str, ...] = ()
    """What to expect there that cannot be found out without doing it, in sentences for a person."""
    without_brains: str = ""
    """A sentence about platforms of this kind if they have no brains; otherwise empty."""
    wants: str = ""
    """The settings that give it the credential it wants, if a token alone is not enough."""
    plain: "Dialect | None" = None
    """The make of platform that answers an unknown route in plain text."""


def json_object(answer: Any) -> JsonObject | None:
    return answer if isinstance(answer, dict) else None
