"""What the `being` surface says. Pure functions."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gateway.operations.errors import GatewayError
from gateway.operations.notes import Note
from gateway.operations.table import JsonObject
from gateway.surfaces.being.history import Said
from gateway.surfaces.being.memory import LOOKED_AT, Cluster, Node
from gateway.surfaces.being.names import key_of, one_line

_SHOWN: Final = 1_000
_ENTRY: Final = 100_000
_CLOSING: Final = re.compile(r"<(?=/?recalled_memories>)", re.IGNORECASE)
NO_BRAIN: Final = (
    "There is no such being, or it is not yours. Name it in the URL, as in /being/mcp/{brain} or "
    "/being/mcp?being_id={brain}."
)


def as_json(answer: JsonObject) -> str:
    return json.dumps(answer, ensure_ascii=False)


def recalled(nodes: Sequence[Node]) -> str:
    if not nodes:
        return "No related memories were found."
    # A memory must not end the block that it is shown in.
    lines = (_CLOSING.sub("&lt;", f"- {scene_line(node)}") for node in nodes)
    return "\n".join(["<recalled_memories>", *lines, "</recalled_memories>"])


def scene_line(node: Node) -> str:
    """A node on one line: when, who, where, what, and how it felt."""
    when = f"[{', '.join(node.when)}] " if node.when else ""
    who = ", ".join(node.actors)
    place = " @ ".join(part for part in (who, node.setting) if part)
    themes = "".join(f" #{one_line(theme).replace(' ', '_')}" for theme in node.themes)
    feeling = f" (feeling: {node.feeling})" if node.feeling else ""
    return f"{when}{place + ': ' if place else ''}{clipped(one_line(node.action))}{feeling}{themes}"


def searched(nodes: Sequence[Node], by_meaning: bool) -> str:
    header = f"{'Vector' if by_meaning else 'Keyword'} search: {_count(len(nodes), 'node')}."
    return "\n".join([header, *(_with_id(node) for node in nodes)])


def clusters(found: Sequence[tuple[Cluster, Note | None]], left_out: int) -> str:
    if not found:
        return "There are no memory clusters yet. A patrol makes them of scenes."
    lines = [f"{_count(len(found), 'cluster')}:"]
    for cluster, digest in found:
        title = (digest.title if digest is not None else None) or cluster.id
        lines.append(f"- {one_line(title)} ({_nodes(cluster, digest)}) id={cluster.id}")
    return "\n".join(lines + _left_out(left_out, "older cluster"))


def cluster(found: Cluster, digest_: Note | None, nodes: Sequence[Node] | None, limit: int) -> str:
    """A cluster with the first of these nodes, or without any."""
    title = (digest_.title if digest_ is not None else None) or found.id
    said = digest_.content.strip() if digest_ is not None else "(no digest yet; the next patrol writes it)"
    lines = [f"Cluster: {one_line(title)} id={found.id}", "", said]
    if nodes is not None:
        more = " or more" if found.is_large else ""
        of = f"{limit} of {len(nodes)}" if len(nodes) > limit else f"{len(nodes)}"
        lines += ["", f"Nodes ({of}{more}):", *(_with_id(node) for node in nodes[:limit])]
        lines += _left_out(len(found.nodes) - LOOKED_AT, "older node")
    return "\n".join(lines)


def node(found: Node, count: int) -> str:
    known = {
        "cluster": found.cluster,
        "when": ", ".join(found.when),
        "actors": ", ".join(found.actors),
        "setting": found.setting,
        "feeling": found.feeling,
        "themes": ", ".join(found.themes),
        "importance": f"{found.importance:g}",
        "reactivation_count": str(count),
        "merged from": ", ".join(found.merged),
        "dead": "yes" if found.dead else "",
    }
    lines = [f"{name}: {value}" for name, value in known.items() if value]
    return "\n".join([f"Node {found.id}", *lines, "action:", found.action.strip()])


def merged(new_id: str, ids: Sequence[str]) -> str:
    return f"Merged {len(ids)} nodes into {new_id}."


def digest(theme: str, nodes: Sequence[Node], total: int, is_part: bool, summary: str = "") -> str:
    """The digest of a cluster, from its nodes."""
    days = sorted(day for one in nodes for day in one.when)
    span = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    more = " or more" if is_part else ""
    head = f"{theme + ': ' if theme else ''}{_count(total, 'memory', 'memories')}{more}{span}."
    told = [summary.strip(), ""] if summary.strip() else []
    return "\n".join([head, "", *told, *(f"- {scene_line(one)}" for one in nodes)]).strip() + "\n"


def history(found: Sequence[Said], left_out: int) -> str:
    if not found:
        return "\n".join(["No messages were found.", *_left_out(left_out, "older day")])
    lines = [f"{_count(len(found), 'message')}, newest first:"]
    lines += [f"[{said.at}] {said.role}: {clipped(said.content)}" for said in found]
    return "\n".join(lines + _left_out(left_out, "older day"))


def sections(found: Mapping[str, tuple[Sequence[tuple[str, Note]], int]]) -> str:
    """Sections that have something in them, each under its heading."""
    told = [_section(heading, *section) for heading, section in found.items() if section[0]]
    return "\n\n".join(told)


def failed(error: GatewayError, request_id: str) -> str:
    body = error.as_json(request_id)
    if error.code == "no_brain":
        body["message"] = NO_BRAIN
    return f"{error.code}: {body['message']}\n{as_json(body)}"


def quoted(name: str) -> str:
    """A caller's own words for a message: short, and on one line."""
    return "".join(c if c.isprintable() else "?" for c in name[:64])


def clipped(words: str) -> str:
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …"


def _section(heading: str, entries: Iterable[tuple[str, Note]], left_out: int) -> str:
    told = "\n".join(_entry(path, note) for path, note in entries)
    return "\n".join([f"## {heading}", "", told.strip(), *_left_out(left_out, "older entry", "older entries")])


def _entry(path: str, note: Note) -> str:
    """An entry on one line, or, if it has several lines, under a heading of its own."""
    content, label = note.content.strip()[:_ENTRY], _label(path, note)
    if "\n" not in content:
        return "- " + ": ".join(part for part in (label, content) if part)
    return f"\n### {label}\n\n{content}\n" if label else f"\n{content}\n"


def _label(path: str, note: Note) -> str:
    if entity := note.text("entity"):
        kind = note.text("relation")
        return f"{entity} ({kind})" if kind else entity
    name = key_of(path, note) or ""
    place, to = note.text("location"), note.text("to")
    said = [name, f"({place})" if place and place != name else "", f"to {to}" if to else ""]
    return " ".join(part for part in said if part)


def _nodes(found: Cluster, digest_: Note | None) -> str:
    """How many nodes a cluster has that are not dead, as opening it says."""
    living = found.living(digest_)
    return f"{living} or more nodes" if found.is_large else _count(living, "node")


def _with_id(found: Node) -> str:
    return f"- {scene_line(found)} id={found.id}"


def _count(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def _left_out(number: int, noun: str, nouns: str | None = None) -> list[str]:
    return [f"({_count(number, noun, nouns)} left out)"] if number > 0 else []
