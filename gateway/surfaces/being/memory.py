"""A memory as the `being` surface knows it, from its note: a scene, or the node that was made from it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.brain.notebook import Entry
from gateway.operations import names
from gateway.operations.notes import Note
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.schema import Scene

_USUAL_IMPORTANCE = 0.5
# How many nodes of a cluster are looked at, the newest ones.
LOOKED_AT: Final = 50


@dataclass(frozen=True, slots=True)
class Node:
    """What happened, who was there, and how it felt."""

    path: str
    action: str
    actors: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    setting: str = ""
    feeling: str = ""
    themes: tuple[str, ...] = ()
    importance: float = _USUAL_IMPORTANCE
    merged: tuple[str, ...] = ()
    dead: bool = False

    @property
    def id(self) -> str:
        return paths.stem_of(self.path)

    @property
    def cluster(self) -> str:
        """The folder it is in, or that of its theme if a person put it in no folder."""
        return self.path.removeprefix(paths.NODES + "/").rpartition("/")[0] or paths.cluster_of(self.themes)

    def has(self, words: Iterable[str]) -> bool:
        """Whether each of these words is in its text, or is a day of it."""
        said = "\n".join((self.action, *self.actors, self.setting, self.feeling, *self.themes)).casefold()
        return all(word.casefold() in said or word in self.when for word in words)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A folder of nodes."""

    id: str
    nodes: tuple[Entry, ...]
    """Newest first; dead ones are among them."""

    @property
    def is_large(self) -> bool:
        """Whether it has more nodes than are looked at, so that the real counts may be larger."""
        return len(self.nodes) > LOOKED_AT

    def living(self, digest: Note | None) -> int:
        """How many of the nodes that are looked at are not dead. The digest says which are, so no node is read."""
        dead = set(digest.listed("dead_nodes")) if digest is not None else set()
        return sum(paths.stem_of(entry.path) not in dead for entry in self.nodes[:LOOKED_AT])


def grouped(entries: Iterable[Entry]) -> list[Cluster]:
    """Nodes by their folder, in the order they come in."""
    clusters: dict[str, list[Entry]] = {}
    for entry in entries:
        if folder := entry.path.removeprefix(paths.NODES + "/").rpartition("/")[0]:
            clusters.setdefault(folder, []).append(entry)
    return [Cluster(folder, tuple(nodes)) for folder, nodes in clusters.items()]


def node_of(path: str, note: Note) -> Node:
    """A note as a node. Fields that are missing because a person wrote it get defaults."""
    return Node(
        path=path,
        action=note.content,
        actors=tuple(note.listed("actors")),
        when=tuple(note.listed("when")),
        setting=note.text("setting") or "",
        feeling=note.text("feeling") or "",
        themes=tuple(note.listed("themes")),
        importance=_importance(note),
        merged=tuple(note.listed("merged")),
        dead=(note.text("dead") or "").lower() == "true",
    )


def scene_id(scene: Scene) -> str:
    return paths.derived_id("scene", scene.model_dump(mode="json"))


def fields_of(scene: Scene) -> JsonObject:
    """A scene as front matter; the text of the note says what happened."""
    return {
        "digest": names.digest(scene.model_dump(mode="json")),
        "actors": paths.listed(scene.actors),
        "when": paths.listed(scene.when),
        "setting": paths.one_line(scene.setting) or None,
        "feeling": paths.one_line(scene.feeling) or None,
        "themes": paths.listed(scene.themes or ()),
        "importance": f"{scene.importance:g}",
    }


def _importance(note: Note) -> float:
    try:
        found = float(note.text("importance") or "")
    except ValueError:
        return _USUAL_IMPORTANCE
    return min(max(found, 0.0), 1.0) if math.isfinite(found) else _USUAL_IMPORTANCE
