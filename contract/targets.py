"""The target of a run: where it is, which dialect it speaks, and the brains that the run makes there."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx

from contract.case import Dialect, Request
from contract.exchange import Answer, NoAnswer, NoConnection, exchanged
from contract.outcome import NoBrain, Unchecked
from contract.words import shown

SETUP_SECONDS: Final = 15.0


@dataclass
class HttpTarget:
    """A platform behind a URL."""

    url: str
    client: httpx.AsyncClient
    token: str | None = None
    page: str | None = None
    seconds: float = 30.0
    dialect: Dialect = "platform"
    brains: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def told(self) -> str:
        return f"{self.url} speaks the {self.dialect} dialect"

    @property
    def leftovers(self) -> list[str]:
        """What the run leaves behind, in sentences."""
        return [f"Brains that could not be deleted: {', '.join(self.left)}"] if self.left else []

    def facts(self) -> dict[str, str]:
        return {"target": self.url, "dialect": self.dialect}

    async def send(self, request: Request, began: asyncio.Event | None = None) -> Answer:
        """Raises: NoAnswer."""
        return await exchanged(self.client, request, self.token, self.seconds, began)

    async def recognise(self) -> None:
        """Find the dialect by how brains are listed; where there are none, by how they are made.

        Raises: NoBrain, Unchecked.
        """
        listed = await self._first_answer()
        if listed.status in (401, 403):
            raise Unchecked(f"{self.url} wants another token: GET /v1/brains answered {listed.told()}")
        if listed.status != 200 or not isinstance(listed.json(), dict):
            raise Unchecked(
                f"{self.url} is no platform: GET /v1/brains should list brains, and answered {listed.told()}"
            )
        items = listed.json().get("items")
        known = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        if any("brainId" in item and "id" not in item for item in known):
            self.dialect = "daemon"
        elif not known:
            # A platform refuses this body before it makes anything; so does a daemon, which asks for another field.
            asked = await self._setup(Request(method="POST", path="/v1/brains", json={}))
            if "brainid" in asked.text.lower():
                self.dialect = "daemon"

    async def make_brain(self, purpose: str) -> str:
        """A new brain, deleted at the end of the run.

        Raises: NoBrain.
        """
        slug = f"contract-{purpose}-{self.run}"
        body = (
            {"brainId": slug, "description": "A run of the contract"}
            if self.dialect == "daemon"
            else {"name": f"Contract {purpose} {self.run}", "slug": slug, "visibility": "private"}
        )
        answer = await self._setup(Request(method="POST", path="/v1/brains", json=body))
        brain = self.remember(answer) if answer.status in (200, 201) else None
        if brain is None:
            raise NoBrain(f"no brain could be made: POST /v1/brains {shown(body)} answered {answer.told()}")
        return brain

    def remember(self, answer: Answer) -> str | None:
        """The id in the answer to a creation, which is deleted at the end of the run."""
        made = answer.json()
        brain = made.get("brainId" if self.dialect == "daemon" else "id") if isinstance(made, dict) else None
        if not isinstance(brain, str) or not brain:
            return None
        self.brains.append(brain)
        return brain

    async def clean_up(self) -> None:
        """Delete the brains of the run; those that stay are named in `left`."""
        await asyncio.gather(*(self._delete(brain) for brain in self.brains))
        self.left.sort()

    async def _delete(self, brain: str) -> None:
        request = Request(
            method="DELETE", path=f"/v1/brains/{quote(brain, safe='')}", headers={"x-confirm-delete": "yes"}
        )
        try:
            gone = (await self.send(request)).status in (200, 202, 204, 404)
        except NoAnswer:
            gone = False
        if not gone:
            self.left.append(brain)

    async def _first_answer(self) -> Answer:
        request = Request(method="GET", path="/v1/brains")
        try:
            return await exchanged(self.client, request, self.token, min(self.seconds, SETUP_SECONDS))
        except NoConnection as error:
            raise Unchecked(f"nobody is at {self.url}: {error}") from error
        except NoAnswer as error:
            raise Unchecked(f"{self.url} is no platform: GET /v1/brains: {error}") from error

    async def _setup(self, request: Request) -> Answer:
        try:
            return await exchanged(self.client, request, self.token, min(self.seconds, SETUP_SECONDS))
        except NoAnswer as error:
            raise NoBrain(f"{request.method} {request.path}: {error}") from error


def client_for(url: str, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Nothing of the machine's own proxies and nothing of one case reaches another."""
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
    settings: dict[str, Any] = {"base_url": url, "timeout": None, "trust_env": False, "follow_redirects": False}
    return httpx.AsyncClient(**settings, limits=limits, transport=transport)
