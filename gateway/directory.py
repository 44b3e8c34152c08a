"""Which brain a call means, and the brains there are."""

import time
from collections.abc import Awaitable, Callable

from gateway import names
from gateway.caller import Call
from gateway.errors import GatewayError
from gateway.operations import Args, JsonObject, Op

_KEPT_SECONDS = 30.0
_KEPT_CALLERS = 1000
_PAGES = 20

SendCall = Callable[[Call, Op, Args], Awaitable[JsonObject]]


class Directory:
    """Resolves brains by the platform's own list, remembered per caller for half a minute."""

    def __init__(
        self, send: SendCall, *, default: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._send = send
        self._default = default
        self._clock = clock
        self._kept: dict[str, tuple[float, list[JsonObject]]] = {}

    async def resolve(self, call: Call, brain: str | None) -> str:
        """The URL's brain, the argument's, the header's, the configured one, or the first there is.

        Raises:
            GatewayError: forbidden for another brain than the URL's; no_brain when there is none.
        """
        asked = names.checked_id(brain, "brain") if brain is not None else None
        ceiling = call.caller.ceiling
        if ceiling is not None:
            names.checked_id(ceiling, "the brain in the URL")
            if asked is not None and asked != ceiling and not await self._are_one(call, asked, ceiling):
                raise GatewayError("forbidden", "This endpoint serves one brain only; leave `brain` out.")
            chosen = ceiling
        else:
            preferred = call.caller.preferred
            header = names.checked_id(preferred, "the X-Brain header") if preferred and not asked else None
            chosen = asked or header or self._default or await self._first(call)
        call.brain = chosen
        return chosen

    async def id_of(self, call: Call, ref: str) -> str | None:
        """The id behind a slug, for platforms that take ids only; None when there is nothing better to try."""
        found = next((b for b in await self._brains(call) if ref == b.get("slug") and b.get("id") != ref), None)
        return None if found is None else names.checked_id(str(found["id"]), "brain")

    async def listing(self, call: Call) -> JsonObject:
        """All pages of the platform's list as one answer; below a ceiling, that brain alone."""
        answer = await self._send(call, Op.LIST_BRAINS, {})
        items, cursor = _items(answer), answer.get("next_cursor")
        for _ in range(_PAGES):
            if not cursor:
                break
            page = await self._send(call, Op.LIST_BRAINS, {"cursor": cursor})
            items, cursor = items + _items(page), page.get("next_cursor")
        ceiling = call.caller.ceiling
        visible = [b for b in items if ceiling is None or _is(b, ceiling)]
        if ceiling is not None and not visible:
            raise GatewayError("no_brain", "The URL names a brain that does not exist, or that is not yours.")
        return {**answer, "items": visible}

    def forget(self, call: Call) -> None:
        self._kept.pop(call.caller.subject, None)

    async def _first(self, call: Call) -> str:
        brains = await self._brains(call)
        if not brains:
            raise GatewayError("no_brain", "There is no brain yet. Create one with memory_create_brain.")
        first = brains[0]
        if len(brains) > 1:
            call.brain_note = f"brain: {first.get('slug')} (the first of {len(brains)}; pass `brain` to choose another)"
        return names.checked_id(str(first.get("id") or first.get("slug")), "brain")

    async def _are_one(self, call: Call, one: str, other: str) -> bool:
        return any(_is(b, one) and _is(b, other) for b in await self._brains(call))

    async def _brains(self, call: Call) -> list[JsonObject]:
        kept = self._kept.get(call.caller.subject)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        brains: list[JsonObject] = (await self.listing(call))["items"]
        if len(self._kept) >= _KEPT_CALLERS:
            self._kept.clear()
        self._kept[call.caller.subject] = (self._clock() + _KEPT_SECONDS, brains)
        return brains


def _items(answer: JsonObject) -> list[JsonObject]:
    items = answer.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise GatewayError("upstream_error", "The platform's brain list is not a list.")
    return items


def _is(brain: JsonObject, ref: str) -> bool:
    return ref in (brain.get("id"), brain.get("slug"))
