"""Who is calling, and what is known of one call so far."""

import hashlib
import json
import random
import time
from dataclasses import dataclass, field
from typing import Final

from gateway.operations import scopes
from gateway.operations.errors import GatewayError
from gateway.operations.table import Op


@dataclass(frozen=True, slots=True)
class Principal:
    """Who was let in, according to the token. Without a token it is the local user."""

    issuer: str = ""
    subject: str = "local"
    client: str = ""
    org: str | None = None
    projects: tuple[str, ...] = ()
    """The projects of the token. A header may choose among them."""
    scopes: frozenset[str] = scopes.ALL
    brain: str | None = None
    """The one brain the token is bound to."""
    brain_in_path: bool = False
    """Whether every call must name its brain in the URL."""
    email: str | None = field(default=None, repr=False, compare=False)
    """Their email address, for a platform that is told who calls."""
    known_as: str = field(default="local", repr=False, compare=False)
    """The operator's name for them: that of their API token, or the provider's name. For logs alone."""
    token: str | None = field(default=None, repr=False, compare=False)
    """The token itself, kept only if it is passed on."""
    partition: str = field(init=False, repr=False, compare=False)
    """One name for issuer, subject, client and organization. Sessions, limits and the like belong to it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition", self._name())

    def _name(self) -> str:
        if not self.issuer and not self.client and self.org is None:
            return self.subject
        whole = json.dumps([self.issuer, self.subject, self.client, self.org], ensure_ascii=False)
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    @property
    def person(self) -> str:
        """Who it is, whatever client they use."""
        return f"{self.issuer}\0{self.subject}"


LOCAL = Principal()
# A caller whom no layer of HTTP has checked or recognised: they may do nothing.
NOBODY = Principal(subject="nobody", scopes=frozenset(), known_as="nobody")


# Ids tell requests apart and are not secret. Secure random numbers would take a system call for each.
_IDS: Final = random.Random()


def make_request_id() -> str:
    return f"{_IDS.getrandbits(64):016x}"


@dataclass(slots=True)
class HttpAnswer:
    """What the layers of HTTP tell each other about one request: who calls, and if it is refused, why."""

    request_id: str = field(default_factory=make_request_id)
    address: str | None = None
    """The address of the peer, if it is known."""
    principal: Principal | None = None
    """Who was let in."""
    refusal: GatewayError | None = None
    """A refusal of a tool that needs another HTTP status."""
    reason: str | None = None
    """Why it was refused, for the operator."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal of a call, and the brain its URL or header names."""

    partition: str = "local"
    """The partition of the principal. Sessions, limits and the like belong to it."""
    ceiling: str | None = None
    """A brain fixed by the URL or the token: no argument may name another."""
    in_url: str | None = None
    """The brain that the URL names, also where the token is bound to one."""
    preferred: str | None = None
    """A brain named by the `X-Brain` header: an argument wins over it."""
    principal: Principal = LOCAL
    project: str | None = None
    """A project of the principal's, chosen by the `X-Project` header or the only one there is."""
    llm_key: str | None = field(default=None, repr=False, compare=False)
    """A key for the platform's language model that the caller lends, for this call and the work that it sets off."""
    http: HttpAnswer | None = field(default=None, repr=False, compare=False)


@dataclass(slots=True)
class Call:
    """One tool call. The layers below note here which brain and which route served it."""

    caller: Caller = field(default_factory=Caller)
    request_id: str = field(default_factory=make_request_id)
    scope: str = scopes.ADMIN
    """The scope that the tool needs, and the most that it uses on the platform."""
    surface: str | None = None
    tool: str | None = None
    """The tool that was called, or the name of a command."""
    brain: str | None = None
    """The brain, as it was named or as the platform lists it."""
    brain_id: str | None = None
    """Its id, once the platform has listed it: for logs, where a brain should go by one name."""
    brain_note: str | None = None
    """Said to the caller when the brain was a guess: the first of several."""
    routes: dict[Op, str] = field(default_factory=dict)
    """The route of each operation that was sent, the last one last. Only the pipeline writes it."""
    served_by: Op | None = None
    """The operation that names the step by which it was served."""
    began: float | None = field(default_factory=time.monotonic)
    """When its time began; None for work that no caller waits for."""
    longest: float = 0.0
    """Seconds that the longest of its operations may take, which is also the limit of the whole call."""

    @property
    def route(self) -> str | None:
        """The route that served the call, for receipts and the log.

        A step that finds its write already made takes no route of its own. Then it is the last route that was taken,
        unless that was only a look at the list of brains.
        """
        if self.served_by in self.routes:
            return self.routes[self.served_by]
        tried = [name for op, name in self.routes.items() if op is not Op.LIST_BRAINS] or [*self.routes.values()]
        return tried[-1] if tried else None

    def note_route(self, op: Op, name: str) -> None:
        self.routes.pop(op, None)
        self.routes[op] = name
