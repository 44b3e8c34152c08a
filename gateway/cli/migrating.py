"""Notes from other programs: folders of markdown, mem0's memories, the graph of the reference server."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.app.startup import CannotStart
from gateway.operations import names, notes
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

_LARGEST_BYTES: Final = 64 * 1024 * 1024
_MEM0_FIELDS: Final = ("user_id", "agent_id", "app_id", "run_id", "actor_id", "role")


@dataclass(frozen=True, slots=True)
class Foreign:
    """One item of another program as a note; or the reason why it cannot be a note."""

    origin: str
    content: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    metadata: JsonObject = field(default_factory=dict)
    problem: str = ""

    def document(self) -> JsonObject:
        tags = list(self.tags)
        metadata = {**self.metadata, **({"tags": ",".join(tags)} if tags else {})}
        return {
            "title": self.title,
            "content": self.content,
            "path": self.path,
            "tags": tags,
            "metadata": metadata,
            "source": "ingest",
        }


def read_markdown(folder: Path) -> Iterator[Foreign]:
    """The files of a folder such as Obsidian's or basic-memory's. Their front matter stays as it is."""
    if not folder.is_dir():
        raise CannotStart(f"{folder} is no folder.")
    for file in sorted(folder.rglob("*")):
        origin = file.relative_to(folder).as_posix()
        if any(part.startswith(".") for part in origin.split("/")) or file.is_dir():
            continue
        if file.suffix.lower() not in {".md", ".markdown"}:
            yield Foreign(origin, problem="it is no markdown")
            continue
        yield _of_markdown(origin, file)


def _of_markdown(origin: str, file: Path) -> Foreign:
    if file.is_symlink():
        return Foreign(origin, problem="it is a link")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return Foreign(origin, problem="it is no text in UTF-8")
    if not text.strip():
        return Foreign(origin, problem="it is empty")
    note = notes.parse(text.encode())
    title = note.text("title") or note.title or names.title_of(note.content) or file.stem
    tags = note.tag_list or [tag.strip().lstrip("#") for tag in (note.text("tags") or "").split(",")]
    created = note.text("created") or note.text("date")
    metadata = {"created": created} if notes.milliseconds(created) else {}
    return Foreign(origin, text, title, tuple(filter(None, tags)), _path(origin), metadata)


def _path(origin: str) -> str:
    """The path of the note for a file: its own, if a note may have it."""
    wanted = f"memory/global/{origin.removesuffix('.markdown').removesuffix('.md')}.md"
    try:
        return names.check_path(wanted)
    except GatewayError:
        parts = origin.removesuffix(".md").split("/")
        slugs = "/".join(names.slug(part, empty="note") for part in parts)
        return f"memory/global/{slugs}-{names.digest(origin)[:12]}.md"


def read_mem0(file: Path) -> Iterator[Foreign]:
    """The result of mem0's `get_all()`, as JSON, or one memory on each line."""
    said = _json(file)
    held = said.get("results", said.get("memories")) if isinstance(said, dict) else said
    if not isinstance(held, list):
        raise CannotStart(f"{file} holds no list of memories, as get_all() of mem0 gives it.")
    for number, item in enumerate(held, start=1):
        content = item.get("memory") or item.get("data") if isinstance(item, dict) else None
        if not isinstance(content, str) or not content.strip():
            yield Foreign(f"memory {number}", problem="it has no text in `memory`")
            continue
        title = names.title_of(content)
        known = {name: item[name] for name in _MEM0_FIELDS if isinstance(item.get(name), str)}
        times = {"created": item.get("created_at"), "modified": item.get("updated_at")}
        known |= {name: time for name, time in times.items() if notes.milliseconds(time)}
        own = item.get("metadata") if isinstance(item.get("metadata"), dict) else {}
        known |= {f"mem0_{key}": value for key, value in own.items() if isinstance(value, str | int | float | bool)}
        categories = item.get("categories") if isinstance(item.get("categories"), list) else []
        identity = str(item.get("id") or names.digest([content, known]))
        path = f"memory/global/mem0/{names.slug(title, empty='memory')}-{names.digest(identity)[:12]}.md"
        yield Foreign(identity, content, title, tuple(map(str, categories)), path, {**known, "mem0_id": identity})


def read_memory_json(file: Path) -> Iterator[Foreign]:
    """The graph of the reference memory server: an entity or a relation on each line. Each entity becomes a note."""
    entities: dict[str, tuple[str, dict[str, None]]] = {}
    relations: list[tuple[str, str, str]] = []
    for number, item in enumerate(_lines(file), start=1):
        match item:
            case {"type": "entity", "name": str(name), "observations": list(observations)}:
                kind, kept = entities.setdefault(name, (str(item.get("entityType") or ""), {}))
                kept.update(dict.fromkeys(filter(None, map(_observation, observations))))
            case {"type": "relation", "from": str(one), "to": str(other), "relationType": str(kind)}:
                relations.append((one, kind, other))
            case _:
                yield Foreign(f"line {number}", problem="it is neither an entity nor a relation")
    for one, kind, other in relations:
        if one not in entities:
            yield Foreign(f"{one} {kind} {other}", problem=f"there is no entity {one}")
    for name, (kind, facts) in entities.items():
        related = dict.fromkeys(f"- {said} {other}" for one, said, other in relations if one == name)
        parts = [f"# {name}", *(["\n".join(f"- {said}" for said in facts)] if facts else [])]
        parts += ["## Relations", "\n".join(related)] if related else []
        path = f"memory/global/graph/{names.slug(name, empty='entity')}-{names.digest(name)[:12]}.md"
        metadata = {"entity_type": kind} if kind else {}
        yield Foreign(name, "\n\n".join(parts) + "\n", name[:512], (kind[:64],) if kind else (), path, metadata)


def _observation(said: Any) -> str:
    """One fact, on one line. In newer versions a fact is an object."""
    text = said.get("content") if isinstance(said, dict) else said
    return " ".join(str(text or "").split())


def _json(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError):
        return _lines(file)


def _lines(file: Path) -> list[Any]:
    found = []
    for number, line in enumerate(_text(file).splitlines(), start=1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                raise CannotStart(f"{file} is no JSON, and line {number} is none either.") from None
    return found


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise CannotStart(f"{file} is larger than {_LARGEST_BYTES:,} bytes: cut it into parts.")
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CannotStart(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CannotStart(f"{file} is no text in UTF-8.") from None


READERS: Final[Mapping[str, Callable[[Path], Iterator[Foreign]]]] = {
    "markdown": read_markdown,
    "mem0": read_mem0,
    "memory-json": read_memory_json,
}
