"""One method per operation on a brain. What every surface speaks to; it keeps no data."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial

from gateway import chains, names
from gateway.caller import Call
from gateway.chains import Chain, only, serve
from gateway.directory import Directory
from gateway.errors import Absent, GatewayError
from gateway.files import Roots
from gateway.operations import Args, JsonObject, Op
from gateway.page import Fetch
from gateway.upstream.client import Upstream
from gateway.upstream.dialect import Upload

_MESSAGE_LENGTH = 1_000_000


class Brain:
    """Operations, each served by its chain, on the brain that the call means."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        default: str | None = None,
        roots: Roots | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        self._upstream = upstream
        self._directory = Directory(self._send, default=default)
        self._roots = roots
        self._ingest_url = chains.ingest_url(fetch)

    @property
    def takes_files(self) -> bool:
        return self._roots is not None

    async def list_brains(self, call: Call) -> JsonObject:
        return await self._directory.listing(call)

    async def create_brain(self, call: Call, name: str, slug: str | None, visibility: str) -> JsonObject:
        """Create a brain. Without a slug, the same name and visibility again is the same brain."""
        if call.caller.ceiling is not None:
            raise GatewayError("forbidden", "This endpoint serves one brain only; brains are created elsewhere.")
        wanted: JsonObject = {"name": name, "slug": slug or names.brain_slug(name), "visibility": visibility}
        self._directory.forget(call)
        try:
            created = await serve(only(Op.CREATE_BRAIN), wanted, partial(self._send, call))
        except GatewayError as error:
            if error.code not in {"conflict", "outcome_unknown"}:
                raise
            route = call.route
            existing = await self._existing_brain(call, wanted, derived=slug is None)
            if existing is None and error.code == "conflict":
                message = "A brain with that slug exists, under another name or visibility. Choose another slug."
                raise GatewayError("conflict", message) from None
            if existing is None:
                raise
            created, call.route = existing, route
        call.brain = str(created.get("id", wanted["slug"]))
        return created

    async def search(self, call: Call, brain: str | None, query: Args) -> JsonObject:
        return await self._serve(call, brain, only(Op.SEARCH), query)

    async def recall(self, call: Call, brain: str | None, query: Args) -> JsonObject:
        if query.get("session_id") is not None:
            names.checked_id(str(query["session_id"]), "session_id")
        return await self._serve(call, brain, chains.RECALL, query)

    async def remember(
        self, call: Call, brain: str | None, content: str, title: str | None, tags: Sequence[str], path: str | None
    ) -> JsonObject:
        title = title or names.title_of(content)
        digest = names.digest([content, title, list(tags)])
        document = {
            "title": title,
            "content": content,
            "path": names.memory_path(title, digest) if path is None else names.checked_path(path),
            "metadata": {"tags": ",".join(tags)} if tags else {},
            "source": "ingest",
        }
        return await self._serve(call, brain, only(Op.CREATE_DOCUMENT), document)

    async def ingest_file(
        self, call: Call, brain: str | None, path: str, upload: Callable[[bytes], Upload]
    ) -> JsonObject:
        if self._roots is None:
            raise GatewayError("file_not_allowed", "This gateway ingests no local files.")
        await self._directory.resolve(call, brain)
        content = await asyncio.to_thread(self._roots.read, path)
        return await self._serve(call, brain, only(Op.INGEST_FILE), {"upload": upload(content)})

    async def ingest_url(self, call: Call, brain: str | None, url: str) -> JsonObject:
        return await self._serve(call, brain, self._ingest_url, {"url": url})

    async def store_transcript(
        self, call: Call, brain: str | None, messages: Sequence[JsonObject], actor_id: str | None
    ) -> JsonObject:
        """Keep messages as one document, from which the platform extracts."""
        document = {
            "title": f"Transcript of {len(messages)} messages",
            "content": "# Transcript\n" + "".join(f"\n## {m['role']}\n\n{m['content']}\n" for m in messages),
            "path": names.transcript_path(names.digest([list(messages), actor_id])),
            "metadata": {"actor_id": actor_id} if actor_id is not None else {},
            "source": "extract",
        }
        return await self._serve(call, brain, only(Op.CREATE_DOCUMENT), document)

    async def append_messages(
        self, call: Call, brain: str | None, session_id: str, messages: Sequence[JsonObject], actor_id: str | None
    ) -> list[JsonObject]:
        """Append messages in order; only the last lets the platform extract. Stops at the first failure.

        Raises:
            GatewayError: with how many were `appended` and how many are `remaining`.
        """
        names.checked_id(session_id, "session_id")
        if any(len(message["content"]) > _MESSAGE_LENGTH for message in messages):
            raise GatewayError("validation_error", "A message in a session holds at most 1,000,000 characters.")
        actor = {} if actor_id is None else {"actor_id": actor_id}
        appended: list[JsonObject] = []
        for message in messages:
            metadata = {"skip_extract": len(appended) < len(messages) - 1, **actor}
            args = {"session_id": session_id, **message, "metadata": metadata}
            try:
                record = await self._serve(call, brain, only(Op.APPEND_MESSAGE), args)
            except GatewayError as error:
                error.extra |= {"appended": len(appended), "remaining": len(messages) - len(appended)}
                raise
            appended.append({key: value for key, value in record.items() if key != "metadata"})
        return appended

    async def close_session(self, call: Call, brain: str | None, session_id: str) -> JsonObject:
        names.checked_id(session_id, "session_id")
        return await self._serve(call, brain, only(Op.CLOSE_SESSION), {"session_id": session_id})

    async def consolidate(self, call: Call, brain: str | None) -> JsonObject:
        return await self._serve(call, brain, chains.CONSOLIDATE, {})

    async def ask(self, call: Call, brain: str | None, query: Args) -> AsyncGenerator[JsonObject, None]:
        """The frames of an answer, in order, `done` last."""
        resolved = await self._directory.resolve(call, brain)
        try:
            async with self._upstream.stream(call, Op.ASK, {**query, "brain": resolved}) as frames:
                async for frame in frames:
                    yield frame
        except Absent:
            raise GatewayError("not_implemented") from None

    async def _serve(self, call: Call, brain: str | None, chain: Chain, args: Args) -> JsonObject:
        resolved = await self._directory.resolve(call, brain)
        send = partial(self._send, call)
        try:
            return await serve(chain, {**args, "brain": resolved}, send)
        except GatewayError as error:
            if error.code != "no_brain" or (by_id := await self._directory.id_of(call, resolved)) is None:
                raise
        return await serve(chain, {**args, "brain": by_id}, send)

    async def _send(self, call: Call, op: Op, args: Args) -> JsonObject:
        try:
            return await self._upstream.send(call, op, args)
        except GatewayError as error:
            if op is not Op.CREATE_DOCUMENT or error.code not in {"conflict", "outcome_unknown"}:
                raise
            # The same write may have been made before, or just now with its answer lost: look.
            if (stored := await self._same_document(call, args)) is not None:
                return stored
            if error.code == "outcome_unknown":
                error.retryable = True
                raise
            message = "Something else is stored at that path. Choose another path, or leave it out."
            raise GatewayError("conflict", message) from None

    async def _same_document(self, call: Call, wanted: Args) -> JsonObject | None:
        """What is stored at the wanted path, if it is what was to be written."""
        route = call.route
        try:
            found = (await self._upstream.send(call, Op.STAT_DOCUMENT, wanted)).get("document") or {}
        except (Absent, GatewayError):
            return None
        finally:
            call.route = route
        same = (
            found.get("checksum_sha256") == names.checksum(str(wanted["content"]))
            and found.get("title") == wanted["title"]
            and (found.get("metadata") or {}).get("tags") == wanted["metadata"].get("tags")
        )
        return {**found, "reused": True} if same else None

    async def _existing_brain(self, call: Call, wanted: JsonObject, *, derived: bool) -> JsonObject | None:
        for brain in (await self._directory.listing(call))["items"]:
            if derived and all(brain.get(key) == value for key, value in wanted.items()):
                return {**brain, "reused": True}
        return None
