"""Which program asks: by the document at its client id, or by what it said when it registered.

Both are what a program says about itself. It can use only the addresses that it named, and people are shown them.
"""

import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gateway.http.auth.keys import usable_keys
from gateway.http.auth.login.keyring import Broken, Keyring
from gateway.http.auth.login.proofs import METHOD, ClientKeys, Fetch
from gateway.http.auth.login.redirects import check_redirect, is_registered
from gateway.operations.errors import GatewayError

DYNAMIC: Final = "dyn."
# Registered programs keep their client id; some for as long as they are installed.
_REGISTERED_SECONDS: Final = 10 * 365 * 24 * 3600
_DOCUMENT_BYTES: Final = 16 * 1024
_KEPT, _KEPT_SECONDS, _FAILED_SECONDS = 256, 300.0, 30.0
_CLIENT_ID_LENGTH: Final = 2048
# A program that says nothing has no secret: everybody can read its document.
_PUBLIC: Final = frozenset({None, "none"})


class BadClient(Exception):
    """A program that is not known or not valid, in a sentence for the person at the browser."""


_Redirect = Annotated[str, AfterValidator(check_redirect)]


class Said(BaseModel):
    """What a program says about itself, as far as we need it (RFC 7591)."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    redirect_uris: list[_Redirect] = Field(min_length=1, max_length=20)
    client_name: str = Field("", max_length=200)
    grant_types: list[str] = ["authorization_code"]
    response_types: list[str] = ["code"]
    token_endpoint_auth_method: str | None = None
    token_endpoint_auth_methods_supported: list[str] = []
    """Some programs name several methods in their documents; the one above is what they prefer."""
    jwks: dict[str, Any] | None = None
    jwks_uri: str | None = None

    @property
    def is_for_codes(self) -> bool:
        return "authorization_code" in self.grant_types and "code" in self.response_types

    @property
    def may_be_public(self) -> bool:
        methods = {self.token_endpoint_auth_method, *self.token_endpoint_auth_methods_supported}
        return bool(methods & _PUBLIC)


@dataclass(frozen=True, slots=True)
class Client:
    """One program."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    keys: ClientKeys | None = None
    """With these it signs its requests for tokens; None for a public program, which has none."""

    @property
    def host(self) -> str | None:
        """The host that the program belongs to, if its id says so: only the host's owner can publish that document."""
        return None if self.id.startswith(DYNAMIC) else urlsplit(self.id).netloc

    def may_redirect_to(self, uri: str) -> bool:
        return is_registered(uri, self.redirect_uris)


def short_id(client_id: str) -> str:
    """The id for logs and tokens, because the id of a registered program is long."""
    is_long = client_id.startswith(DYNAMIC)
    return f"dynamic:{hashlib.sha256(client_id.encode()).hexdigest()[:24]}" if is_long else client_id


class Clients:
    """Finds programs by their ids. Nothing is stored when one registers: what it said is sealed in its id."""

    def __init__(self, keyring: Keyring, fetch: Fetch | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._keyring, self._fetch, self._clock = keyring, fetch, clock
        self._known: OrderedDict[str, tuple[float, Client | str]] = OrderedDict()

    @property
    def has_documents(self) -> bool:
        return self._fetch is not None

    def register(self, body: bytes) -> tuple[Client, Said]:
        """Raises: BadClient, with what is wrong for a developer."""
        said = _parse(body)
        if len(said.redirect_uris) > 5:
            raise BadClient("redirect_uris: at most five.")
        if said.token_endpoint_auth_method == METHOD:
            raise BadClient(f"token_endpoint_auth_method: for {METHOD}, use a client id metadata document.")
        sealed = self._keyring.seal(
            "client", {"uris": said.redirect_uris, "name": _shown(said.client_name)}, _REGISTERED_SECONDS
        )
        if len(DYNAMIC + sealed) > _CLIENT_ID_LENGTH:
            raise BadClient("redirect_uris are too long.")
        return Client(DYNAMIC + sealed, _shown(said.client_name), tuple(said.redirect_uris)), said

    def is_fetched(self, client_id: str) -> bool:
        """Whether its document has to be fetched now."""
        kept = self._known.get(client_id)
        return not client_id.startswith(DYNAMIC) and (kept is None or kept[0] <= self._clock())

    async def find(self, client_id: str) -> Client:
        """Raises: BadClient."""
        if client_id.startswith(DYNAMIC):
            return self._registered(client_id)
        if self._fetch is None:
            raise BadClient("This program is not registered here.")
        if self.is_fetched(client_id):
            self._keep(client_id, await self._document(client_id))
        found = self._known[client_id][1]
        if isinstance(found, str):
            raise BadClient(found)
        return found

    def _registered(self, client_id: str) -> Client:
        try:
            said = self._keyring.open("client", client_id.removeprefix(DYNAMIC))
        except Broken:
            raise BadClient("This program is not registered here any more. Let it register again.") from None
        return Client(client_id, str(said["name"]), tuple(said["uris"]))

    def _keep(self, client_id: str, found: Client | str) -> None:
        seconds = _FAILED_SECONDS if isinstance(found, str) else _KEPT_SECONDS
        self._known[client_id] = (self._clock() + seconds, found)
        self._known.move_to_end(client_id)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)

    async def _document(self, client_id: str) -> Client | str:
        """The program that its document describes, or why it is not valid."""
        assert self._fetch is not None
        if not is_document_url(client_id):
            return "The id of this program is not one that this gateway knows or can look up."
        try:
            url, body = await self._fetch(client_id)
        except GatewayError:
            return "What this program says of itself could not be fetched from its id."
        if url != client_id or len(body) > _DOCUMENT_BYTES:
            return "What this program says of itself is not at its id."
        try:
            said, entry = _parse(body), json.loads(body)
        except BadClient:
            return "What this program says of itself cannot be understood."
        if entry.get("client_id") != client_id:
            return "What this program says of itself is about another program."
        keys = self._keys_of(said, self._fetch) if said.token_endpoint_auth_method == METHOD else None
        if keys is None and not said.may_be_public:
            return "This program can log in neither without a secret nor with keys that it publishes."
        return Client(client_id, _shown(said.client_name), tuple(said.redirect_uris), keys)

    def _keys_of(self, said: Said, fetch: Fetch) -> ClientKeys | None:
        """The keys that a document has or names; None if it does neither."""
        if said.jwks is not None:
            try:
                keys = usable_keys(said.jwks)
            except ValueError:
                return None
            return ClientKeys(keys, None, fetch, self._clock) if keys else None
        if said.jwks_uri is None or not is_document_url(said.jwks_uri):
            return None
        return ClientKeys((), said.jwks_uri, fetch, self._clock)


def is_document_url(client_id: str) -> bool:
    """An https URL with a path, in its one plain spelling."""
    try:
        parts = urlsplit(client_id)
    except ValueError:
        return False
    dots = {".", ".."} & set(parts.path.split("/"))
    is_plain = re.fullmatch(r"https://[a-z0-9.-]+/[!-~]+", client_id) is not None and len(client_id) <= 512
    return is_plain and not dots and not any(c in client_id for c in "@#?\\%<>\"'`{}|^")


def _parse(body: bytes) -> Said:
    try:
        said = Said.model_validate_json(body)
    except ValidationError as error:
        first: Any = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise BadClient(f"{place}: {first['msg']}.") from None
    if not said.is_for_codes:
        raise BadClient("grant_types and response_types: only authorization_code and code are served here.")
    return said


def _shown(name: str) -> str:
    """A name as it is shown: one line, without characters that reverse the direction of text."""
    plain = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(plain.split())[:80]
