"""Memory nodes, and the clusters they are in: finds, opens and merges them, and writes digests."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from gateway.brain.notebook import Notebook, draft_note
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.parallel import in_parallel
from gateway.operations.ranking import meaning_of, tells_words
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being import text as text
from gateway.surfaces.being.memory import LOOKED_AT, Cluster, Node, grouped, node_of

_CLUSTERS: Final = 50
_DIGESTED: Final = 20
# For how many clusters a model writes after one patrol, and from how many nodes of each.
_TOLD: Final = 10
_SHOWN: Final = 50
_SUMMARY_LENGTH: Final = 4_000
# How much opening a dead node counts, which brings it back.
_OPENING: Final = 2
# How many come back in one patrol; the others come back in the next.
_REVIVED: Final = 200
# A day counts as one word. Otherwise its parts would be found in any number.
_WORD: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}\b|\w+")


class Nodes:
    """The nodes of a brain."""

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    async def clusters(self, call: Call) -> list[Cluster]:
        """All there are, the one with the newest node first."""
        return grouped(await self._notes.entries(call, paths.NODES))

    async def cluster(self, call: Call, cluster_id: str) -> Cluster:
        entries = await self._notes.entries(call, f"{paths.NODES}/{cluster_id}") if names.is_word(cluster_id) else []
        if not entries:
            raise GatewayError("not_found", "There is no cluster with that cluster_id. recall_memory lists them.")
        return Cluster(cluster_id, tuple(entries))

    async def digests(self, call: Call, clusters: Sequence[Cluster]) -> list[tuple[Cluster, Note | None]]:
        """The first of these clusters, each with its digest."""
        shown = clusters[:_CLUSTERS]
        read = dict(await self._notes.read_all(call, (digest_path(cluster.id) for cluster in shown)))
        return [(cluster, read.get(digest_path(cluster.id))) for cluster in shown]

    async def live(self, call: Call, cluster: Cluster) -> list[Node]:
        """The nodes of a cluster that are not dead, of those that are looked at; the most important first."""
        return living(await self._looked_at(call, cluster))

    async def _looked_at(self, call: Call, cluster: Cluster) -> list[Node]:
        read = await self._notes.read_all(call, (entry.path for entry in cluster.nodes[:LOOKED_AT]))
        return [node_of(path, note) for path, note in read]

    async def _known(self, call: Call) -> dict[str, str]:
        """The paths of all nodes, by their ids."""
        return {paths.stem_of(entry.path): entry.path for entry in await self._notes.entries(call, paths.NODES)}

    async def open(self, call: Call, node_id: str) -> tuple[Node, int]:
        """A node, and how often it was recalled."""
        path = located(await self._known(call), [node_id])[node_id]
        note = await self._notes.read(call, path)
        if note is None:
            raise GatewayError("not_found", "That node is gone.")
        node, count = node_of(path, note), await self._notes.count(call, path)
        if node.dead:
            self._notes.hit(call, [path, f"{paths.OPENED}/{node_id}.md"], times=_OPENING)
        return node, count

    async def revive(self, call: Call) -> int:
        """Bring back the dead nodes that were opened since they died. Returns how many there were."""
        counted = await self._notes.entries(call, f"{paths.OPENED}/_hits", ending=".txt")
        opened = [entry for entry in counted if entry.size >= _OPENING][:_REVIVED]
        known = await self._known(call) if opened else {}
        found = [known[one] for one in (paths.stem_of(entry.path) for entry in opened) if one in known]
        kept = await in_parallel([self._reviving(call, path) for path in found])
        for cluster in sorted({node_of(path, note).cluster for path, (note, _) in zip(found, kept, strict=True)}):
            await self.digest(call, cluster)
        # The count is removed last: as long as it is there, the next patrol can finish a node that this one could not.
        await in_parallel([self._forgetting(call, entry.path) for entry in opened])
        return sum(is_revived for _, is_revived in kept)

    def _reviving(self, call: Call, path: str) -> Callable[[], Awaitable[tuple[Note, bool]]]:
        return lambda: self._notes.keep(call, path, revive)

    def _forgetting(self, call: Call, path: str) -> Callable[[], Awaitable[bool]]:
        return lambda: self._notes.remove(call, path)

    async def find(self, call: Call, query: str, limit: int, *, all_words: bool = False) -> tuple[list[Node], bool]:
        """The best nodes for a query, and whether they were found by their meaning."""
        # Some of them may be dead, or lack a word.
        hits = await self._notes.find(call, query, paths.NODES, 2 * limit + 10)
        # A caller who wants every word gets a search by words, if the platform has one: vectors know no `and`.
        wants_words = all_words and any(map(tells_words, hits))
        by_meaning = not wants_words and any(meaning_of(hit) is not None for hit in hits)
        read = dict(await self._notes.read_all(call, (str(hit["path"]) for hit in hits)))
        nodes = [node_of(path, note) for path, note in read.items()]
        words = _WORD.findall(query) if all_words and not by_meaning else []
        kept = [node for node in nodes if not node.dead and node.has(words)]
        return kept[:limit], by_meaning

    async def merge(self, call: Call, ids: Sequence[str], summary: str, feeling: str | None) -> str:
        """One node instead of several, which are dead from then on. The same merge again is the same node.

        Raises:
            GatewayError: not_found; conflict for a node that is dead already, as two nodes would then tell the same.
        """
        known = await self._known(call)
        # In an order that does not depend on the arguments, because the first one decides the folder of the new one.
        wanted = located(known, sorted(ids))
        read = dict(await self._notes.read_all(call, wanted.values()))
        if len(read) < len(wanted):
            raise GatewayError("not_found", "One of these nodes is gone.")
        nodes = [node_of(path, note) for path, note in read.items()]
        merged_id = paths.derived_id("merge", sorted(ids), summary, feeling)
        # If it exists, this is the same merge again, or the rest of one that broke off.
        if merged_id not in known:
            refuse_dead(nodes)
        await self._notes.keep(
            call, paths.node_path(nodes[0].cluster, merged_id), merging(nodes, summary, feeling), stored=summary
        )
        # The old nodes die only after the new one can be found.
        await in_parallel([self._killing(call, path) for path in wanted.values()])
        for cluster in dict.fromkeys(node.cluster for node in nodes):
            await self.digest(call, cluster)
        return merged_id

    def _killing(self, call: Call, path: str) -> Callable[[], Awaitable[object]]:
        return lambda: self._notes.keep(call, path, kill)

    async def digest(self, call: Call, cluster_id: str) -> tuple[Cluster, list[Node]]:
        """Write the digest of a cluster by rule. Returns the cluster and the nodes that were used."""
        cluster = Cluster(cluster_id, tuple(await self._notes.entries(call, f"{paths.NODES}/{cluster_id}")))
        nodes = await self._looked_at(call, cluster)
        await self._notes.keep(call, digest_path(cluster_id), digesting(cluster, nodes))
        return cluster, nodes

    async def tell_digests(self, call: Call, digested: Sequence[tuple[Cluster, list[Node]]]) -> None:
        """Put the summary of the platform's model, if it has one, at the beginning of the digests of clusters."""
        for cluster, nodes in digested[:_TOLD]:
            told = await self._notes.derive(call, "digest", paths=[node.path for node in living(nodes)][:_SHOWN])
            if not told or not isinstance(summary := told[0].get("digest"), str):
                return
            await self._notes.keep(call, digest_path(cluster.id), digesting(cluster, nodes, summary[:_SUMMARY_LENGTH]))


def located(known: Mapping[str, str], ids: Iterable[str]) -> dict[str, str]:
    """The paths of these nodes.

    Raises:
        GatewayError: not_found.
    """
    wanted = list(ids)
    if missing := [one for one in wanted if one not in known]:
        message = f"There is no node {text.quoted(missing[0])}. search_memory shows their ids."
        raise GatewayError("not_found", message)
    return {one: known[one] for one in wanted}


def living(nodes: Iterable[Node]) -> list[Node]:
    """Those that are not dead, the most important first."""
    return sorted((node for node in nodes if not node.dead), key=lambda node: -node.importance)


def refuse_dead(nodes: Iterable[Node]) -> None:
    """Check that none of these was merged before.

    Raises:
        GatewayError: conflict.
    """
    for node in nodes:
        if node.dead:
            message = f"Node {text.quoted(node.id)} is dead: it was merged before. search_memory shows live ones."
            raise GatewayError("conflict", message)


def digest_path(cluster_id: str) -> str:
    return f"{paths.NODES}/{cluster_id}/{paths.DIGEST}"


def merging(nodes: Sequence[Node], summary: str, feeling: str | None) -> Change:
    """One node made of several: all of their actors and days, and the summary."""

    def change(before: Note | None) -> Draft | None:
        if before is not None:
            return None
        fields: JsonObject = {
            "digest": names.digest([summary, feeling]),
            "actors": paths.listed(_all(node.actors for node in nodes)),
            "when": paths.listed(sorted(_all(node.when for node in nodes))),
            "setting": next((node.setting for node in nodes if node.setting), None),
            "feeling": paths.one_line(feeling) or None,
            "themes": paths.listed(_all(node.themes for node in nodes)),
            "importance": f"{max(node.importance for node in nodes):g}",
            "merged": paths.listed([node.id for node in nodes]),
        }
        return draft_note(names.title_of(summary), summary, fields)

    return change


def kill(before: Note | None) -> Draft | None:
    """A node marked as dead. Its other fields stay."""
    if before is None or before.text("dead") == "true":
        return None
    fields = {"digest": before.text("digest") or names.checksum(before.content), "dead": "true"}
    return draft_note(before.title or names.title_of(before.content), before.content, fields, before)


def revive(before: Note | None) -> Draft | None:
    """A node that is no longer dead. Its other fields stay, and so does the node that was merged from it."""
    if before is None or not node_of("", before).dead:
        return None
    fields = {"digest": before.text("digest") or names.checksum(before.content), "dead": None}
    return draft_note(before.title or names.title_of(before.content), before.content, fields, before)


def digesting(cluster: Cluster, nodes: Sequence[Node], summary: str = "") -> Change:
    """The digest of a cluster, with its dead nodes. The text of a person is not replaced."""
    # Not sorted by time of writing, so that a patrol that broke off and runs again writes the same digest.
    live = sorted(living(nodes), key=lambda node: node.id)
    live.sort(key=lambda node: (node.importance, max(node.when, default="")), reverse=True)
    theme = _theme(cluster.id, live)
    content = text.digest(theme, live[:_DIGESTED], len(live), cluster.is_large, summary)
    dead = paths.listed(sorted(node.id for node in nodes if node.dead))

    def change(before: Note | None) -> Draft | None:
        if before is not None and names.checksum(before.content.strip()) != before.text("digest"):
            return _marked(before, dead)
        if before is not None and before.content.strip() == content.strip() and before.text("dead_nodes") == dead:
            return None
        title = theme or (before.title if before is not None else None) or cluster.id
        return draft_note(title, content, {"digest": names.checksum(content.strip()), "dead_nodes": dead}, before)

    return change


def _marked(digest: Note, dead: str | None) -> Draft | None:
    """A digest of a person, with the dead nodes brought up to date; None if it has no front matter of ours."""
    if not digest.text("digest") or digest.text("dead_nodes") == dead:
        return None
    title = digest.title or names.title_of(digest.content)
    # The checksum of the text by rule stays, because it shows that the text was edited.
    kept = {"digest": digest.text("digest"), "description": digest.text("description") or title}
    return draft_note(title, digest.content, {**kept, "dead_nodes": dead}, digest)


def _theme(cluster_id: str, nodes: Iterable[Node]) -> str:
    """The theme that a cluster is named after; None if a person made the cluster."""
    found = (paths.theme_of(node.themes) for node in nodes if paths.cluster_of(node.themes) == cluster_id)
    return next(found, paths.GENERAL if cluster_id == paths.cluster_of(()) else "")


def _all(parts: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(value for values in parts for value in values))
