"""What a model may be asked to derive: a fixed list of tasks, each with the form that its result must have."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from contract.platform.llm.client import MOST_TOKENS
from contract.platform.llm.prompt import clean

CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
DAY: Final = r"^\d{4}-\d{2}-\d{2}$"


def _one_line(value: object) -> object:
    return " ".join(CONTROL.sub(" ", clean(value)).split()) if isinstance(value, str) else value


def _text(value: object) -> object:
    return CONTROL.sub(" ", clean(value)).strip() if isinstance(value, str) else value


def _unless_empty(value: object) -> object:
    return _one_line(value) or None


def _first(most: int) -> BeforeValidator:
    """A list that is too long is cut: what comes first is meant most."""
    return BeforeValidator(lambda value: value[:most] if isinstance(value, list) else value)


Theme: TypeAlias = Annotated[str, BeforeValidator(_one_line), Field(min_length=1, max_length=64)]
Name: TypeAlias = Annotated[str, BeforeValidator(_one_line), Field(min_length=1, max_length=128)]
Words: TypeAlias = Annotated[str, BeforeValidator(_one_line), Field(min_length=1, max_length=200)]
Sentence: TypeAlias = Annotated[str, BeforeValidator(_one_line), Field(min_length=1, max_length=600)]
Passage: TypeAlias = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=4000)]


class Form(BaseModel):
    """What a model sends more than it was asked for is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


EpisodeType: TypeAlias = Literal[
    "bug_fix",
    "implementation",
    "refactoring",
    "guideline",
    "decision",
    "incident",
    "investigation",
    "configuration",
    "documentation",
    "other",
]
Kind: TypeAlias = Literal["identity", "preference", "decision", "plan", "reminder", "fact"]


class Episode(Form):
    episode_type: EpisodeType


class Entity(Form):
    name: Name
    type: Literal["person", "organization", "project", "technology", "file", "place", "other"] = "other"


class Entities(Form):
    entities: Annotated[list[Entity], _first(20)]


class Title(Form):
    title: Words


class Digest(Form):
    digest: Passage


class Told(Form):
    kind: Kind = "fact"
    sentence: Sentence


class Facts(Form):
    facts: Annotated[list[Told], _first(30)]


class Scene(Form):
    action: Passage
    actors: Annotated[list[Name], _first(20)]
    when: Annotated[list[Annotated[str, Field(pattern=DAY)]], _first(10)]
    setting: Annotated[Sentence | None, BeforeValidator(_unless_empty)] = None
    feeling: Annotated[Sentence | None, BeforeValidator(_unless_empty)] = None
    themes: Annotated[list[Theme], _first(3)] = []
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5


class Scenes(Form):
    scenes: Annotated[list[Scene], _first(20)]


class Reflection(Form):
    outcome: Literal["success", "partial", "failure", "unknown"]
    summary: Passage
    learned: Annotated[list[Sentence], _first(8)] = []
    retry_feedback: Annotated[Sentence | None, BeforeValidator(_unless_empty)] = None
    should_record_episode: bool = True


class Action(Form):
    action: Literal["merge", "prune", "promote"]
    notes: Annotated[list[int], _first(20), Field(min_length=1)]
    text: Annotated[Sentence | None, BeforeValidator(_unless_empty)] = None
    reason: Annotated[Sentence | None, BeforeValidator(_unless_empty)] = None


class Consolidation(Form):
    actions: Annotated[list[Action], _first(40)]


@dataclass(frozen=True, slots=True)
class Task:
    """One thing that can be derived, and from what."""

    form: type[Form]
    paths: int = 0
    """From so many documents at most."""
    each: bool = False
    """Whether each document has a result of its own."""
    messages: bool = False
    """Whether it may be derived from messages."""
    joins: str = ""
    """The list that grows, where there is more than a model can be shown at once."""
    ends: bool = False
    """Whether the end says more than the beginning, where not all can be shown."""
    tokens: int = MOST_TOKENS
    """So many at most: a model that does not find an end is stopped."""


TASKS: Final[Mapping[str, Task]] = {
    "classify_episode": Task(Episode, paths=10, each=True, tokens=512),
    "entities": Task(Entities, paths=10, each=True, tokens=1024),
    "title": Task(Title, paths=10, each=True, tokens=512),
    "digest": Task(Digest, paths=50, tokens=1024),
    "facts": Task(Facts, paths=10, messages=True, joins="facts"),
    "scenes": Task(Scenes, messages=True, joins="scenes"),
    "reflect": Task(Reflection, paths=10, messages=True, ends=True),
    "consolidate": Task(Consolidation, paths=50),
}


def read(said: str, form: type[Form]) -> Form | None:
    """The result in what a model said: an object, perhaps with a fence or a sentence around it."""
    # What a model thinks aloud before it answers may have braces in it too.
    said = said.rpartition("</think>")[2]
    begin, end = said.find("{"), said.rfind("}")
    if not 0 <= begin < end:
        return None
    try:
        found = json.loads(said[begin : end + 1])
        return form.model_validate(found)
    except (ValueError, RecursionError):
        return None
