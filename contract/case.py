"""Cases: one behaviour in each file, read from YAML and checked before anything is sent."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import yaml
from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from contract.call import CallCase
from contract.parts import Base64, Head, Part, Pattern

CASES: Final = Path(__file__).parent / "cases"

# The loader in C reads hundreds of files in a moment, but is not on every machine.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Area: TypeAlias = Literal[
    "service", "brains", "documents", "batch", "ingest", "search", "ask", "sessions", "stages", "events"
]
Dialect: TypeAlias = Literal["platform", "daemon"]


AnyCase = TypeVar("AnyCase", bound=Head)


class BadCase(Exception):
    """A case file that the harness does not understand; the text is one sentence."""


class Filled(Part):
    """A body of a given size, so that the file need not hold it."""

    with_: str = Field(alias="with", min_length=1)
    bytes: int = Field(ge=0, le=64 * 1024 * 1024)


class Upload(Part):
    """A multipart form with one file."""

    name: str
    content_type: str = "application/octet-stream"
    text: str | None = None
    bytes_base64: Base64 | None = None
    filled: Filled | None = None
    field: str = "file"
    fields: dict[str, str] = Field(default_factory=dict)


class Request(Part):
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    path: str = Field(pattern=r"^(/|\$\{b\})")
    query: dict[str, Any] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    json_: Any = Field(default=None, alias="json")
    text: str | None = None
    bytes_base64: Base64 | None = None
    filled: Filled | None = None
    file: Upload | None = None
    token: Literal["given", "none", "wrong"] = "given"
    # A stream without an end is left after this many events. A ping does not count.
    take: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_body(self) -> "Request":
        bodies = {"json_", "text", "bytes_base64", "filled", "file"} & self.model_fields_set
        if len(bodies) > 1:
            raise ValueError("has more than one body: choose one of json, text, bytes_base64, filled and file")
        return self


class Event(Part):
    """One event of a stream, or several that follow each other."""

    event: str | list[str]
    count: Literal["one", "some", "any"] = "one"
    data: Pattern = Field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [self.event] if isinstance(self.event, str) else self.event


class Expect(Part):
    status: int | list[int]
    headers: dict[str, Pattern] = Field(default_factory=dict)
    json_: Pattern = Field(default=None, alias="json")
    text: Pattern = None
    bytes_base64: Base64 | None = None
    problem: str | list[str] | None = None
    sse: list[Event] | None = None
    answer: list[Literal["deltas_make_the_answer", "citations_point_into_the_answer"]] = Field(default_factory=list)

    @property
    def statuses(self) -> list[int]:
        return [self.status] if isinstance(self.status, int) else self.status


class Step(Part):
    request: Request
    expect: Expect
    save: dict[str, str] = Field(default_factory=dict)


class Parallel(Part):
    """The same step several times at once; `${n}` in it counts from 1."""

    times: int = Field(ge=2, le=64)
    step: Step


class ParallelStep(Part):
    parallel: Parallel


class Listening(Step):
    """A stream that is open while other steps run. They begin after its first event."""

    meanwhile: list[Step] = Field(min_length=1)

    @model_validator(mode="after")
    def _ends(self) -> "Listening":
        if self.request.take is None:
            raise ValueError("needs take in its request, to know when it has heard enough")
        return self


class ListeningStep(Part):
    listening: Listening


def _kind(written: Any) -> str:
    for name, kind in (("parallel", ParallelStep), ("listening", ListeningStep)):
        if isinstance(written, kind) or name in (written or ()):
            return name
    return "step"


AnyStep: TypeAlias = Annotated[
    Annotated[Step, Tag("step")]
    | Annotated[ParallelStep, Tag("parallel")]
    | Annotated[ListeningStep, Tag("listening")],
    Discriminator(_kind),
]


class Case(Head):
    area: Area
    dialect: Literal["platform", "daemon", "both"]
    brain: Literal["shared", "own", "none"] = "shared"
    needs: Literal["token", "page", "vectors", "model", "rules"] | None = None
    optional: bool = False
    steps: list[AnyStep] = Field(min_length=1)

    def speaks(self, dialect: Dialect) -> bool:
        return self.dialect in (dialect, "both")

    @property
    def makes_a_brain(self) -> bool:
        return self.brain == "own" or any(
            (one.request.method, one.request.path) == ("POST", "/v1/brains") for one in single_steps(self.steps)
        )


def single_steps(steps: Iterable[Any]) -> Iterator[Step]:
    """Every step, also those within others."""
    for step in steps:
        if isinstance(step, ParallelStep):
            yield step.parallel.step
        elif isinstance(step, ListeningStep):
            yield step.listening
            yield from step.listening.meanwhile
        else:
            yield step


def load(root: Path = CASES) -> list[Case]:
    """Every case for a platform, by id.

    Raises: BadCase.
    """
    return [read(path, root) for path in sorted((root / "http").rglob("*.yaml"))]


def load_calls(root: Path = CASES) -> list[CallCase]:
    """Every case for a server of the tools, by id.

    Raises: BadCase.
    """
    return [_read(path, root, CallCase) for path in sorted((root / "mcp").rglob("*.yaml"))]


def read(path: Path, root: Path = CASES) -> Case:
    """The case of one file; its id is its path below the folder, without the ending.

    Raises: BadCase.
    """
    return _read(path, root, Case)


def _read(path: Path, root: Path, kind: type[AnyCase]) -> AnyCase:
    name = path.relative_to(root)
    try:
        written = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadCase(f"{name}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(written, dict):
        raise BadCase(f"{name}: should be an object with what, requirement, source and steps")
    try:
        return kind.model_validate({**written, "id": str(name.with_suffix("").as_posix())})
    except ValidationError as error:
        raise BadCase(f"{name}: {'; '.join(_sentences(error))}") from error


def _sentences(error: ValidationError) -> Iterator[str]:
    for item in error.errors():
        # The place names the kind of a step twice, once as our own tag.
        parts = [str(part) for part in item["loc"]]
        if len(parts) > 2 and parts[0] == "steps":
            del parts[2]
        place = ".".join(parts)
        yield f"{place or 'the case'}: {item['msg'].removeprefix('Value error, ')}"


def selected(cases: Iterable[AnyCase], only: Iterable[str], skip: Iterable[str] = ()) -> list[AnyCase]:
    """The cases that match one of the first patterns, or all if there is none, without those that match the second.

    A pattern is an id, a folder, a shell pattern of ids, or a word that a case has: must, should, critical, traversal,
    injection, sizes.
    """
    wanted, unwanted = list(only), list(skip)
    return [
        case
        for case in cases
        if (not wanted or any(_means(one, case) for one in wanted)) and not any(_means(one, case) for one in unwanted)
    ]


def _means(pattern: str, case: Head) -> bool:
    words = {case.requirement, case.tries, "critical" if case.harm else None}
    return pattern in words or fnmatchcase(case.id, pattern) or case.id.startswith(pattern.rstrip("/") + "/")
