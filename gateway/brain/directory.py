"""Which brain a call means, and the brains there are."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.table import Args, JsonObject, JsonValue, Op
from gateway.upstream.pipeline import Upstream

_KEPT_SECONDS = 30.0
_KEPT_CALLERS = 1000
_PAGES = 20
_MOST_BRAINS = 10_000
# The keys in which platforms say from which brain an answer is.
_BRAIN_KEYS = frozenset({"brain", "Brain", "BRAIN"}).union(
    *(
        {f"brain_{word}", f"brain-{word}", f"brain{word}", f"brain{word.title()}", f"brain{word.upper()}"}
        | {f"Brain{word.title()}", f"Brain{word.upper()}", f"BRAIN_{word.upper()}"}
        for word in ("id", "slug", "ref")
    )
)
# Values that came from callers, who may write anything there; and a listing, of which only paths are used.
_NOT_THE_PLATFORMS = frozenset({"metadata", "front_matter", "frontMatter", "frontmatter"})
_LISTING = "items"

DEFAULT = "the configured default"

_NOT_NAMED = "Name a brain: pass `brain`, or use the endpoint /mcp/{brain}. memory_list_brains shows yours."

List = Callable[[Call, Args], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class Known:
    """A brain as the platform lists it."""

    id: str
    slug: str
    keeps_folders_apart: bool = False
    """Whether consolidating the brain keeps folders apart."""


async def list_brains(upstream: Upstream, call: Call, args: Args) -> JsonObject:
    """One page of the platform's list.

    Raises:
        GatewayError: not_implemented, where a platform has none.
    """
    try:
        return (await upstream.send(call, Op.LIST_BRAINS, args)).answer
    except Absent:
        said = (await upstream.verdict(call)).dialect.without_brains
        message = said or "The platform does not list its brains. Name one, or set BRAINS_DEFAULT_BRAIN."
        raise GatewayError("not_implemented", message) from None


class Directory:
    """Resolves brains by the platform's own list, remembered per caller for half a minute."""

    def __init__(
        self,
        list_: List,
        *,
        default: str | None = None,
        guesses: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`guesses` is whether a call that names no brain gets one, which is so only with one user."""
        self._list = list_
        self._default, self._guesses = default, guesses
        self._clock = clock
        self._kept: dict[tuple[str, str | None, str | None], tuple[float, list[JsonObject]]] = {}
        self._known_as: set[tuple[str, str | None, str, str]] = set()
        self._listed: dict[tuple[str, str | None, str], Known] = {}

    async def resolve(self, call: Call, brain: str | None) -> str:
        """The URL's brain, the argument's, the header's, the configured one, or the first there is.

        Raises:
            GatewayError: forbidden for another brain than the URL's; no_brain when there is none.
        """
        call.brain, _why = await self.choice(call, brain)
        self._note_id(call, call.brain)
        return call.brain

    async def choice(self, call: Call, brain: str | None) -> tuple[str, str]:
        """The brain a call means, and why that one.

        Raises:
            GatewayError: forbidden for another brain than the URL's; no_brain when there is none.
        """
        ref, why = await self._choose(call, brain)
        if not names.is_derived_uuid(ref):
            return ref, why
        # Platforms do not know the UUIDs that we derive from ids.
        try:
            if (brain_id := await self._id_by_uuid(call, ref)) is not None:
                return brain_id, why
        except GatewayError as error:
            if error.code != "not_implemented":
                raise
            return ref, why
        raise no_default(ref) if why == DEFAULT else GatewayError("no_brain")

    async def _id_by_uuid(self, call: Call, ref: str) -> str | None:
        found = going_by(await self._brains(call), ref)
        if not found:
            # The brain may be newer than the list.
            self.forget(call)
            found = going_by(await self._brains(call), ref)
        return names.check_id(_own_name(found[0]), "brain") if found else None

    async def _choose(self, call: Call, brain: str | None) -> tuple[str, str]:
        """The name of the brain that a call means, and why it is that one."""
        asked = names.check_id(brain, "brain") if brain is not None else None
        ceiling, preferred = call.caller.ceiling, call.caller.preferred
        if ceiling is not None:
            names.check_id(ceiling, "the brain in the URL")
            await self.check_url(call)
            if asked is not None and asked != ceiling:
                await self._require_one(call, asked, ceiling, "This endpoint serves one brain only; leave `brain` out.")
            return ceiling, "named in the URL" if call.caller.principal.brain is None else "bound to the token"
        if call.caller.principal.brain_in_path:
            raise GatewayError("forbidden", "Your token is bound to no brain: name one in the URL, as in /mcp/{brain}.")
        if asked is not None:
            return asked, "named in the call"
        if preferred:
            return names.check_id(preferred, "the X-Brain header"), "named in the X-Brain header"
        if not self._guesses:
            raise GatewayError("no_brain", _NOT_NAMED)
        if self._default is not None:
            return self._default, DEFAULT
        return await self._first(call)

    async def check_url(self, call: Call) -> None:
        """Check that the brain in the URL is the one that the token is bound to.

        Raises:
            GatewayError: forbidden.
        """
        ceiling, in_url = call.caller.ceiling, call.caller.in_url
        if ceiling is not None and in_url not in (None, ceiling):
            named = names.check_id(str(in_url), "the brain in the URL")
            await self._require_one(call, named, ceiling, "Your token is for another brain than the URL names.")

    async def id_of(self, call: Call, ref: str) -> str | None:
        """The id behind a slug, for platforms that take only ids; None if there is nothing better to try."""
        brains = going_by(await self._brains(call), ref)
        found = next((b for b in brains if ref == b.get("slug") and b.get("id") not in (None, ref)), None)
        return None if found is None else names.check_id(str(found["id"]), "brain")

    async def known(self, call: Call, ref: str) -> Known:
        """A brain by its id or slug, both as the platform lists them; looked up once, as ids do not change.

        If the list cannot be fetched, the name of the caller is used: that is no reason to refuse a call.
        """
        key = (call.caller.partition, call.caller.project, ref)
        if key in self._listed:
            return self._listed[key]
        try:
            found = next(iter(going_by(await self._brains(call), ref)), None)
        except GatewayError:
            found = None
        return Known(ref, ref) if found is None else self._keep_listed(key, found)

    def _keep_listed(self, key: tuple[str, str | None, str], found: JsonObject) -> Known:
        if len(self._listed) >= _KEPT_CALLERS:
            self._listed.clear()
        ref, apart = key[2], found.get("keeps_folders_apart") is True
        return self._listed.setdefault(key, Known(str(found.get("id") or ref), str(found.get("slug") or ref), apart))

    def _note_id(self, call: Call, ref: str) -> None:
        """Note the id of a brain in its call, if a list that was fetched for another reason has it."""
        caller = call.caller
        key = (caller.partition, caller.project, ref)
        if (known := self._listed.get(key)) is None:
            kept = self._kept.get((caller.partition, caller.project, caller.ceiling))
            found = going_by(kept[1], ref) if kept is not None else []
            known = self._keep_listed(key, found[0]) if found else None
        call.brain_id = None if known is None else known.id

    async def listing(self, call: Call, page: List | None = None) -> JsonObject:
        """All pages of the platform's list as one answer; below a ceiling, that brain alone."""
        list_ = page or self._list
        answer = await list_(call, {})
        items, cursor = _items(answer), answer.get("next_cursor")
        for _ in range(_PAGES):
            if not cursor:
                break
            more = await list_(call, {"cursor": cursor})
            items, cursor = items + _items(more), more.get("next_cursor")
            if len(items) > _MOST_BRAINS:
                raise GatewayError("upstream_error", "The platform lists more brains than the gateway can keep.")
        ceiling = call.caller.ceiling
        visible = items if ceiling is None else going_by(items, ceiling)
        if ceiling is not None and not visible:
            raise GatewayError("no_brain", "The URL names a brain that does not exist, or that is not yours.")
        return {**answer, "items": visible}

    async def check(self, call: Call, asked: str, answer: JsonObject) -> None:
        """Refuse an answer of another brain, should the platform mix them up.

        Raises:
            GatewayError: upstream_error.
        """
        for said in _brains_named({key: value for key, value in answer.items() if key != _LISTING}):
            if said != asked and not await self._is_known_as(call, asked, said):
                raise GatewayError("upstream_error", "The platform answered for another brain than it was asked for.")
        self._note_id(call, asked)

    async def _is_known_as(self, call: Call, slug: str, brain_id: str) -> bool:
        """Whether these are names of one brain; looked up once, as ids do not change."""
        key = (call.caller.partition, call.caller.project, slug, brain_id)
        if key not in self._known_as:
            brains = await self._brains(call)
            if not any(_is(b, slug) and brain_id in (b.get("id"), b.get("slug"), b.get("name")) for b in brains):
                return False
            if len(self._known_as) >= _KEPT_CALLERS:
                self._known_as.clear()
            self._known_as.add(key)
        return True

    def forget(self, call: Call) -> None:
        for key in [key for key in self._kept if key[0] == call.caller.partition]:
            del self._kept[key]

    async def _first(self, call: Call) -> tuple[str, str]:
        brains = await self._brains(call)
        if not brains:
            raise GatewayError("no_brain", "There is no brain yet. Create one with memory_create_brain.")
        first = brains[0]
        if (ref := first.get("id") or first.get("slug")) is None:
            raise GatewayError("upstream_error", "The platform's brain list has a brain without an id.")
        if len(brains) > 1:
            call.brain_note = f"brain: {first.get('slug')} (the first of {len(brains)}; pass `brain` to choose another)"
        why = "the only one" if len(brains) == 1 else f"the first of {len(brains)}"
        return names.check_id(str(ref), "brain"), why

    async def _require_one(self, call: Call, one: str, other: str, message: str) -> None:
        if not await self._are_one(call, one, other):
            raise GatewayError("forbidden", message)

    async def _are_one(self, call: Call, one: str, other: str) -> bool:
        return any(_is(b, one) and _is(b, other) for b in await self._brains(call))

    async def _brains(self, call: Call) -> list[JsonObject]:
        # Below a ceiling there is only one brain, so this list must not be kept for other calls.
        key = (call.caller.partition, call.caller.project, call.caller.ceiling)
        kept = self._kept.get(key)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        brains: list[JsonObject] = (await self.listing(call))["items"]
        if len(self._kept) >= _KEPT_CALLERS:
            self._kept.clear()
        self._kept[key] = (self._clock() + _KEPT_SECONDS, brains)
        return brains


def no_default(brain: str) -> GatewayError:
    message = f"There is no brain {brain}, the default of this gateway. Name another, or correct BRAINS_DEFAULT_BRAIN."
    return GatewayError("no_brain", message)


def going_by(brains: Sequence[JsonObject], ref: str) -> list[JsonObject]:
    """The brains that have this name. A UUID that is derived from a brain's id means that brain rather than one with
    this UUID as its id, because some platforms let callers choose ids."""
    found = [b for b in brains if _is(b, ref)]
    derived = [b for b in found if names.is_derived_uuid(ref) and _own_name(b) != ref]
    return derived or found


def _items(answer: JsonObject) -> list[JsonObject]:
    items = answer.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise GatewayError("upstream_error", "The platform's brain list is not a list.")
    return items


def _brains_named(answer: JsonObject) -> set[str]:
    """Every brain that an answer names, at any depth and in any spelling."""
    named: set[str] = set()
    held: list[JsonValue] = [answer]
    # This looks at every value of every answer, so it compares exact types, which is enough for values from JSON.
    for part in held:
        if type(part) is list:
            held += [inner for inner in part if type(inner) is dict or type(inner) is list]
            continue
        for key, value in part.items():
            kind = type(value)
            # Most values are texts.
            if kind is str:
                if key in _BRAIN_KEYS and value:
                    named.add(value)
            elif kind is dict or kind is list:
                if key in _BRAIN_KEYS:
                    refs = [value.get("id"), value.get("slug")] if kind is dict else [value]
                    named.update([str(ref) for ref in refs if ref])
                if key not in _NOT_THE_PLATFORMS:
                    held.append(value)
            elif key in _BRAIN_KEYS and value:
                named.add(str(value))
    return named


def _is(brain: JsonObject, ref: str) -> bool:
    brain_id, slug = (None if brain.get(key) is None else str(brain[key]) for key in ("id", "slug"))
    return names.is_brain(ref, brain_id, slug)


def _own_name(brain: JsonObject) -> str:
    return str(brain.get("id") or brain.get("slug"))
