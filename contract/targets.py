"""The target of a run: where it is, which dialect it speaks, and the brains that the run makes there."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx

from contract.case import Dialect, Request
from contract.causes import fault_of, silence_of
from contract.exchange import Answer, NoAnswer, NoConnection, exchanged
from contract.names import own_name
from contract.outcome import Blocked, Cause, Failed, Failure, Unchecked
from contract.words import some

SETUP_SECONDS: Final = 15.0
CREATE: Final = "POST /v1/brains"
# The names that a brain may have in a path.
NAMES: Final = ("id", "slug", "brainId")


@dataclass
class HttpTarget:
    """A platform behind a URL. With `brain`, the run uses that brain and makes none."""

    url: str
    client: httpx.AsyncClient
    token: str | None = None
    page: str | None = None
    seconds: float = 30.0
    brain: str | None = None
    dialect: Dialect = "platform"
    brains: list[str] = field(default_factory=list)
    there_before: set[str] | None = field(default_factory=set)
    brains_before: set[str] = field(default_factory=set)
    spared: set[str] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    is_listed: bool = True
    capabilities: dict[str, str] = field(default_factory=dict)
    server: str = ""
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def _setup_seconds(self) -> float:
        return min(self.seconds, SETUP_SECONDS)

    @property
    def told(self) -> str:
        return f"{self.url} speaks the {self.dialect} dialect"

    @property
    def leftovers(self) -> list[str]:
        """What the run leaves behind, in sentences."""
        spared = [
            f"Not deleted, because it was there before the run: {brain}. {CREATE} answered with it."
            for brain in sorted(self.spared)
        ]
        left = [one for one in self.left if one not in self.spared]
        if not self.is_listed:
            return [
                f"Left behind: what the run wrote to your brain {self.brain}, because its documents cannot be listed. "
                f"Their names have {own_name(self.run, '')} in them."
            ]
        if not left:
            made = "" if self.brain else f" The run made {some(len(self.brains), 'brain', 'brains')}, and deleted all."
            return [f"Left behind: nothing.{made}", *spared]
        number = some(len(left), *(("document", "documents") if self.brain else ("brain", "brains")))
        what = f"{number} in your brain" if self.brain else f"{number} that could not be deleted"
        named = f"{', '.join(left[:5])}{' …' if len(left) > 5 else ''}"
        return [f"Left behind: {what}: {named}. `contract clean` tries again.", *spared]

    def facts(self) -> dict[str, Any]:
        return {"target": self.url, "dialect": self.dialect, "server": {"name": self.server} if self.server else {}}

    async def send(self, request: Request, began: asyncio.Event | None = None) -> Answer:
        """Raises: NoAnswer."""
        return await exchanged(self.client, request, self.token, self.seconds, began)

    async def recognise(self) -> None:
        """Find the dialect by how brains are listed or, if there are none, by how they are made.

        Raises: Blocked, Unchecked.
        """
        listed = await self._first_answer()
        if listed.status in (401, 403):
            raise Unchecked(f"{self.url} wants another token: GET /v1/brains answered {listed.told()}")
        if listed.status != 200 or not isinstance(listed.json(), dict):
            raise Unchecked(
                f"{self.url} is no platform: GET /v1/brains should list brains, and answered {listed.told()}"
            )
        self.server = listed.headers.get("server", "")
        known = brains_in(listed)
        self.brains_before = {str(item[key]) for item in known for key in NAMES if item.get(key)}
        if any("brainId" in item and "id" not in item for item in known):
            self.dialect = "daemon"
        elif not known:
            # A platform refuses this body before it makes anything; so does a daemon, which asks for another field.
            asked = await self._setup(Request(method="POST", path="/v1/brains", json={}))
            if "brainid" in asked.text.lower():
                self.dialect = "daemon"

    async def is_alive(self) -> bool:
        """Whether the platform answers anything at all."""
        try:
            await exchanged(self.client, Request(method="GET", path="/v1/brains"), self.token, self._setup_seconds)
        except NoAnswer:
            return False
        return True

    async def make_brain(self, purpose: str) -> str:
        """A new brain, deleted at the end of the run.

        Raises: Blocked.
        """
        if self.brain is not None:
            raise Blocked(Cause(f"it needs a brain of its own, and --brain {self.brain} says to make none", False))
        slug = own_name(self.run, purpose)
        body = (
            {"brainId": slug, "description": "A run of the contract"}
            if self.dialect == "daemon"
            else {"name": f"Contract {self.run} {purpose}", "slug": slug, "visibility": "private"}
        )
        answer = await self._setup(Request(method="POST", path="/v1/brains", json=body))
        try:
            brain = self.remember(answer) if answer.status in (200, 201) else None
        except Failed as error:
            raise Blocked(fault_of(CREATE, f"it answered {error.failure.seen}")) from error
        if brain is None:
            raise Blocked(fault_of(CREATE, answer.told()))
        return brain

    def remember(self, answer: Answer) -> str | None:
        """The id in the answer to a creation, which is deleted at the end of the run.

        Raises: Failed: it is a brain that was there before. It may be somebody's: it is neither used nor deleted.
        """
        made = answer.json()
        brain = made.get("brainId" if self.dialect == "daemon" else "id") if isinstance(made, dict) else None
        if not isinstance(brain, str) or not brain:
            return None
        if any(str(made.get(key) or "") in self.brains_before for key in NAMES):
            self.spared.add(brain)
            seen = f"the brain {brain}, which was there before the run: {answer.told()}"
            raise Failed(Failure(CREATE, "a new brain", seen, CREATE, seen))
        self.brains.append(brain)
        return brain

    async def clean_up(self) -> None:
        """Delete the brains of the run, or its documents in a brain that was given; what stays is named in `left`."""
        if self.brain is not None:
            there = await self.paths(self.brain)
            if there is None or self.there_before is None:
                self.is_listed = False
                return
            new = [path for path in there if path not in self.there_before]
            self.left += await self.delete_documents(self.brain, new, own_name(self.run, ""))
        await asyncio.gather(*(self.delete(brain) for brain in self.brains))
        self.left += self.spared
        self.left.sort()

    async def delete(self, brain: str) -> bool:
        request = Request(
            method="DELETE", path=f"/v1/brains/{quote(brain, safe='')}", headers={"x-confirm-delete": "yes"}
        )
        try:
            gone = (await self.send(request)).status in (200, 202, 204, 404)
        except NoAnswer:
            gone = False
        if not gone:
            self.left.append(brain)
        return gone

    async def paths(self, brain: str) -> list[str] | None:
        """The paths of all documents of a brain; None where the platform cannot list them."""
        query = {"recursive": "true", "include_generated": "true"}
        request = Request(method="GET", path=f"/v1/brains/{quote(brain, safe='')}/documents", query=query)
        try:
            answer = await self.send(request)
        except NoAnswer:
            return None
        body = answer.json() if answer.status == 200 else None
        items = body.get("items") if isinstance(body, dict) else None
        if not isinstance(items, list):
            return None
        return [str(one.get("path")) for one in items if isinstance(one, dict) and not one.get("is_dir")]

    async def delete_documents(self, brain: str, paths: list[str], ours: str) -> list[str]:
        """Delete documents with names of ours. Returns paths that stay: they have other names or cannot be deleted."""
        stay = []
        for path in paths:
            request = Request(
                method="DELETE", path=f"/v1/brains/{quote(brain, safe='')}/documents", query={"path": path}
            )
            try:
                gone = ours in path and (await self.send(request)).status in (200, 202, 204, 404)
            except NoAnswer:
                gone = False
            if not gone:
                stay.append(path)
        return stay

    async def all_brains(self) -> list[str]:
        """The name of every brain: its slug if it has one, else its id.

        Raises: NoAnswer.
        """
        key = "brainId" if self.dialect == "daemon" else "slug"
        listed = brains_in(await self.send(Request(method="GET", path="/v1/brains")))
        return [str(item.get(key) or item.get("id")) for item in listed]

    async def _first_answer(self) -> Answer:
        request = Request(method="GET", path="/v1/brains")
        try:
            return await exchanged(self.client, request, self.token, self._setup_seconds)
        except NoConnection as error:
            raise Unchecked(f"nobody is at {self.url}: {error}") from error
        except NoAnswer as error:
            raise Unchecked(f"{self.url} is no platform: GET /v1/brains: {error}") from error

    async def _setup(self, request: Request) -> Answer:
        try:
            return await exchanged(self.client, request, self.token, self._setup_seconds)
        except NoAnswer as error:
            subject = f"{request.method} {request.path}"
            raise Blocked(silence_of(str(error)) if error.dead else fault_of(subject, str(error))) from error


def brains_in(listed: Answer) -> list[dict[str, Any]]:
    body = listed.json()
    items = body.get("items") if isinstance(body, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def client_for(url: str, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that uses no proxies of the machine, and passes nothing from one case to another."""
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
    settings: dict[str, Any] = {"base_url": url, "timeout": None, "trust_env": False, "follow_redirects": False}
    return httpx.AsyncClient(**settings, limits=limits, transport=transport)
