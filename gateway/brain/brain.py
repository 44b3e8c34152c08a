"""What every surface speaks to: `serve` for any chain, and a method where that needs more. It keeps no data."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from gateway.brain.answer_sources import NotTheirs, Sources, quote_hits
from gateway.brain.background import Background
from gateway.brain.call_context import CallContext, Services, Vet
from gateway.brain.directory import DEFAULT, Directory, Known, going_by, list_brains, no_default
from gateway.brain.finder import Finder
from gateway.brain.limits import Limits
from gateway.brain.locks import Locks, SharedPlaces
from gateway.brain.visibility import View, view_of
from gateway.ingest.files import Roots
from gateway.ingest.web_page import Fetch
from gateway.operations import names
from gateway.operations.caller import LOCAL, Call
from gateway.operations.chains import CHAINS, READ_ONLY, Serve, foresee, serve
from gateway.operations.errors import Doubt, GatewayError, StreamBroken, Unsure
from gateway.operations.observer import Observer
from gateway.operations.table import Args, JsonObject, Op, Upload
from gateway.upstream.pipeline import Upstream

log = structlog.get_logger()

_MESSAGE_LENGTH = 1_000_000
_WOULD_MIX = (
    "This platform consolidates a whole brain at once, and this brain holds notes that you may not see. "
    "Consolidating would mix them with yours."
)


@dataclass(frozen=True, slots=True)
class Way:
    """How a chain would be served: by which route, and what the platform lacks for a better one."""

    route: str | None
    how: str
    missing: tuple[Op, ...]


class Brain:
    """What surfaces ask for, each served by its chain, on the brain that the call means."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        default: str | None = None,
        roots: Roots | None = None,
        fetch: Fetch | None = None,
        vet: Vet | None = None,
        limits: Limits | None = None,
        turns: SharedPlaces | None = None,
        shared: bool = False,
        actor: str = LOCAL.subject,
        read_only: bool = False,
        serve: Serve = serve,
        observer: Observer | None = None,
    ) -> None:
        """With `turns`, replicas write to a session one after the other. `shared` is whether callers are different
        people, none of whom may learn of another; `actor` is who calls if callers are not told apart."""
        self._services = Services(upstream, fetch, vet, shared, read_only, serve, Background(observer), Locks(turns))
        self._directory = Directory(partial(list_brains, upstream), default=default, guesses=not shared)
        self._roots = roots
        self._limits = limits or Limits()
        self._shared = shared
        self._actor = actor
        self._finder = Finder(self.view, self._serve, self._run)

    async def close(self, seconds: float) -> None:
        """Wait for writes whose callers have left, and for jobs after answers."""
        await self._services.background.drain(seconds)

    @property
    def takes_files(self) -> bool:
        return self._roots is not None

    async def list_brains(self, call: Call) -> JsonObject:
        await self._directory.check_url(call)
        return await self._directory.listing(call, lambda call, args: self._run(call, "list_brains", args))

    async def create_brain(self, call: Call, name: str, slug: str | None, visibility: str) -> JsonObject:
        """Create a brain. The same name, slug and visibility again is the same brain."""
        if call.caller.ceiling is not None:
            raise GatewayError("forbidden", "This endpoint serves one brain only; brains are created elsewhere.")
        wanted = {"name": name, "slug": slug or names.brain_slug(name), "visibility": visibility}
        try:
            created = await self._run(call, "create_brain", {**wanted, "derived": slug is None})
        finally:
            # Only now, because a list that is read before this may still be without the new brain.
            self._directory.forget(call)
        call.brain = str(created.get("id", wanted["slug"]))
        return created

    async def search(self, call: Call, brain: str | None, query: Args) -> JsonObject:
        return await self._finder.find(call, brain, "search", query)

    async def recall(self, call: Call, brain: str | None, query: Args) -> JsonObject:
        if query.get("session_id") is not None:
            names.check_id(str(query["session_id"]), "session_id")
        return await self._finder.find(call, brain, "recall", query)

    async def remember(
        self, call: Call, brain: str | None, content: str, title: str | None, tags: Sequence[str], path: str | None
    ) -> JsonObject:
        await self._limits.admit_stored(call.caller.partition, content)
        title = title or names.title_of(content)
        digest = names.digest([content, title, list(tags)])
        view = self.view(call)
        path = names.memory_path(title, digest) if path is None else view.place(names.check_path(path))
        if not view.takes(path):
            raise GatewayError(
                "forbidden", "That folder is not yours. Choose a path in a project of yours, or outside."
            )
        document = {
            "title": title,
            "content": content,
            "path": path,
            "metadata": {"tags": ",".join(tags)} if tags else {},
            "tags": list(tags),
            "source": "ingest",
        }
        return await self.serve(call, brain, "remember", document)

    async def ingest_file(
        self, call: Call, brain: str | None, path: str, upload: Callable[[bytes], Upload]
    ) -> JsonObject:
        if self._roots is None:
            raise GatewayError("file_not_allowed", "This gateway ingests no local files.")
        await self._directory.resolve(call, brain)
        roots = self._roots.of(names.caller_name(call.caller.partition)) if self._shared else self._roots
        content = await asyncio.to_thread(roots.read, path)
        await self._limits.admit_stored(call.caller.partition, content)
        return await self.serve(call, brain, "ingest_file", {"upload": upload(content)})

    async def ingest_url(self, call: Call, brain: str | None, url: str) -> JsonObject:
        async with self._limits.hold_page(call.caller.partition):
            return await self.serve(call, brain, "ingest_url", {"url": url})

    async def store_transcript(
        self, call: Call, brain: str | None, messages: Sequence[JsonObject], actor_id: str | None
    ) -> JsonObject:
        """Keep messages as one document, from which the platform extracts."""
        names.check_actor(actor_id)
        await self._limits.admit_stored(call.caller.partition, *(message["content"] for message in messages))
        document = {
            "title": f"Transcript of {len(messages)} messages",
            "content": "# Transcript\n" + "".join(f"\n## {m['role']}\n\n{m['content']}\n" for m in messages),
            "path": names.transcript_path(names.digest([list(messages), actor_id])),
            "metadata": {"actor_id": actor_id} if actor_id is not None else {},
            "source": "extract",
            "messages": list(messages),
        }
        return await self.serve(call, brain, "store_transcript", document)

    async def append_messages(
        self,
        call: Call,
        brain: str | None,
        session_id: str,
        messages: Sequence[JsonObject],
        actor_id: str | None,
        key: str | None = None,
    ) -> JsonObject:
        """Append messages to a session, in order. The same call again, soon or with the same key, is the same call.

        Raises:
            GatewayError: with how many were `appended` and how many are `remaining`.
        """
        names.check_id(session_id, "session_id")
        names.check_actor(actor_id)
        if any(len(message["content"]) > _MESSAGE_LENGTH for message in messages):
            raise GatewayError("validation_error", "A message in a session holds at most 1,000,000 characters.")
        await self._limits.admit_stored(call.caller.partition, *(message["content"] for message in messages))
        args = {"session_id": session_id, "messages": list(messages), "actor_id": actor_id, "key": key}
        return await self.serve(call, brain, "append_messages", args)

    async def close_session(self, call: Call, brain: str | None, session_id: str) -> JsonObject:
        names.check_id(session_id, "session_id")
        return await self.serve(call, brain, "close_session", {"session_id": session_id})

    async def settle(self, call: Call, brain: str | None) -> None:
        """Let the rest of a call mean the brain that one of its arguments names."""
        if brain is not None:
            call.caller = replace(call.caller, preferred=await self._directory.resolve(call, brain))

    async def note(self, call: Call, chain: str, args: Args, *, stored: str | bytes = "") -> JsonObject:
        """A chain on a note of a surface. A note that the caller may not see is treated as if it did not exist."""
        await self._limits.admit_stored(call.caller.partition, stored)
        view = self.view(call)
        if not all(view.sees(str(args[key])) for key in ("path", "to", "dir") if args.get(key)):
            raise GatewayError("not_found")
        return await self.serve(call, None, chain, args)

    async def derive(
        self, call: Call, task: str, *, paths: Sequence[str] = (), messages: Sequence[JsonObject] = ()
    ) -> list[JsonObject]:
        """The result of the platform's language model for notes or messages; None without a model, or if it fails."""
        if not all(map(self.view(call).sees, paths)):
            raise GatewayError("not_found")
        args = {"task": task, "paths": list(paths) or None, "messages": list(messages) or None}
        try:
            results = (await self.serve(call, None, "derive", args)).get("results")
        except GatewayError as error:
            if error.code != "not_implemented":
                log.info("derive.failed", task=task, code=error.code)
            return []
        return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []

    async def memos(self, call: Call, chain: str, args: Args, *, stored: str = "") -> JsonObject | None:
        """The answer of a platform that keeps memos itself, in no brain; None if memos are notes of a brain."""
        caller = call.caller
        await self._limits.admit_stored(caller.partition, stored)
        # With one tenant, the platform decides who owns the memos.
        org = caller.principal.org if self._shared else ""
        answer = await self._run(call, chain, {**args, "ceiling": caller.ceiling or caller.preferred, "org": org})
        return answer or None

    async def consolidate(self, call: Call, brain: str | None) -> JsonObject:
        """Let the platform tidy up the whole brain, unless that would mix what the caller may not see."""
        if self.view(call).is_limited and await self._would_mix(call, brain):
            raise GatewayError("forbidden", _WOULD_MIX)
        return await self.serve(call, brain, "consolidate", {})

    async def _would_mix(self, call: Call, brain: str | None) -> bool:
        resolved = await self._directory.resolve(call, brain)
        if (await self._directory.known(call, resolved)).keeps_folders_apart:
            return False
        for folder in ("memory/project", "memory/agent", "reflections"):
            try:
                listed = await self._serve(call, brain, "list_notes", {"dir": folder, "recursive": False})
            except GatewayError as error:
                if error.code not in {"not_implemented", "not_found"}:
                    raise
                # If the listing fails, the brain may hold anything, or it is not a brain of the caller.
                if error.code == "not_implemented":
                    return await self.listed(call, resolved) is not None
            else:
                if not all(map(self.view(call).shows, listed.get("items") or ())):
                    return True
        return False

    def later(self, call: Call, name: str, job: Callable[[Call], Awaitable[None]]) -> None:
        """Do this after the call was answered, for the same caller. Of each name, only one job runs at a time."""
        context = CallContext(call, self._services)
        context.later(f"{name} of {call.brain}", lambda _: job(context.call_afterwards()))

    def view(self, call: Call) -> View:
        """What the caller may see."""
        return view_of(call.caller, shared=self._shared, actor=self._actor)

    def project_folder(self, call: Call, project: str) -> str:
        """Where a project of the caller's is."""
        org = call.caller.principal.org if self._shared else None
        return f"memory/project/{names.project_folder(project, org)}"

    async def known(self, call: Call) -> Known:
        """The brain that a call means, as the platform lists it."""
        return await self._directory.known(call, await self._directory.resolve(call, None))

    async def way(self, call: Call, chain: str, args: Args) -> Way:
        """How a chain would be served, as far as is known of the platform."""
        step, missing = await foresee(CHAINS[chain], args, CallContext(call, self._services))
        if step is None:
            return Way(None, "", tuple(missing))
        verdict = await self._services.upstream.verdict(call)
        return Way(verdict.route(step.via).name, step.how, tuple(missing))

    async def dialect(self, call: Call) -> tuple[str, tuple[str, ...]]:
        """Which dialect the platform speaks, and what to expect of such a platform."""
        dialect = (await self._services.upstream.examine(call)).dialect
        return dialect.name, dialect.caveats

    async def without_brains(self, call: Call) -> str:
        """A sentence about a platform that has no brains; None if it has brains."""
        return (await self._services.upstream.verdict(call)).dialect.without_brains

    async def choice(self, call: Call) -> tuple[str, str]:
        """The brain that a call would get that names none, and why that one."""
        return await self._directory.choice(call, None)

    async def listed(self, call: Call, brain: str) -> JsonObject | None:
        """The brain as the platform lists it; None if it does not."""
        return next(iter(going_by((await self._directory.listing(call))["items"], brain)), None)

    async def ask(self, call: Call, brain: str | None, query: Args) -> AsyncGenerator[list[JsonObject], None]:
        """The frames of an answer, in the groups in which they came, `done` last. All sources are the caller's."""
        async with self._limits.hold_ask(call.caller.partition):
            finder = self._finder
            sources = Sources(
                self.view(call), partial(finder.ended, call), partial(finder.paths_by_id, call, brain, query)
            )
            stream = (await self._serve(call, brain, "ask", {**query, **self.view(call).folders()}))["stream"]
            try:
                async with stream:
                    async for frames in stream:
                        checked, failure = await self._check_frames(call, sources, frames)
                        if checked:
                            yield checked
                        if failure is not None:
                            raise failure
                        del frames, checked
            except NotTheirs:
                yield quote_hits(await finder.search_instead(call, brain, query))
            except GatewayError as error:
                raise self._in_same_words(error) from None

    async def serve(self, call: Call, brain: str | None, chain: str, args: Args) -> JsonObject:
        """The answer of a chain, on the brain that the call means, as far as the caller may see it."""
        shown: JsonObject = self.view(call).without_hidden(await self._serve(call, brain, chain, args))
        return shown

    async def _serve(self, call: Call, brain: str | None, chain: str, args: Args) -> JsonObject:
        """The whole answer of a chain."""
        resolved = await self._directory.resolve(call, brain)
        try:
            answer = await self._run(call, chain, {**args, "brain": resolved})
        except GatewayError as error:
            error = self._in_same_words(error)
            if (other := await self._after_no_brain(call, brain, resolved, error)) is None:
                raise error from None
            answer = await self._run(call, chain, {**args, "brain": other})
        await self._check(call, chain, call.brain or resolved, answer)
        return answer

    def _in_same_words(self, error: GatewayError) -> GatewayError:
        """With many callers, a brain of somebody else gets the same error as a brain that does not exist."""
        return GatewayError("no_brain", extra=error.extra) if self._shared and error.code == "forbidden" else error

    async def _check(self, call: Call, chain: str, asked: str, answer: JsonObject) -> None:
        """Check that the answer is from the brain that was asked."""
        try:
            await self._directory.check(call, asked, answer)
        except GatewayError as error:
            if chain in READ_ONLY:
                raise
            # The write was made, so the receipt is refused only if the answer names another brain.
            if error.code == "upstream_error":
                raise Unsure(error, Doubt.ANSWERED) from None

    async def _check_frames(
        self, call: Call, sources: Sources, frames: list[JsonObject]
    ) -> tuple[list[JsonObject], Exception | None]:
        """The frames that may be passed on, and the reason why the next one may not."""
        checked: list[JsonObject] = []
        try:
            for frame in frames:
                if not sources.is_plain_piece(frame):
                    await self._check_brain_of(call, frame)
                    await sources.check(frame)
                checked.append(frame)
        except (NotTheirs, GatewayError) as failure:
            return checked, failure
        return checked, None

    async def _check_brain_of(self, call: Call, frame: JsonObject) -> None:
        """Check that the sources of an answer are from the brain that was asked."""
        if frame["type"] == "answer_delta" or call.brain is None:
            return
        try:
            await self._directory.check(call, call.brain, frame)
        except GatewayError as error:
            raise StreamBroken(error.code, error.message, retryable=error.retryable) from error

    async def _after_no_brain(self, call: Call, brain: str | None, resolved: str, error: GatewayError) -> str | None:
        """What to try if the platform does not know a brain: its id, or the first brain of the list as it is now."""
        # A call that has begun to write on one brain is not begun again on another.
        if error.code != "no_brain" or error.extra.get("appended"):
            return None
        self._directory.forget(call)
        if (by_id := await self._directory.id_of(call, resolved)) is not None:
            return by_id
        now, why = await self._directory.choice(call, brain)
        if now == resolved and why == DEFAULT:
            raise no_default(now) from error
        call.brain = now
        return None if now == resolved else now

    async def _run(self, call: Call, chain: str, args: Args) -> JsonObject:
        """The answer of a chain. The call notes which operation gave it."""
        call.served_by = None
        context = CallContext(call, self._services)
        serving = self._services.serve(CHAINS[chain], args, context)
        if chain not in READ_ONLY:
            serving = self._services.background.finish(serving, lambda: context.may_have_written)
        try:
            answer, step = await serving
        except GatewayError as error:
            if error.code == "not_implemented" and (said := await self.without_brains(call)):
                raise GatewayError(error.code, said) from None
            raise
        call.served_by = step.via
        return answer
