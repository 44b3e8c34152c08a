"""Everything the process reads from its environment, once, at start."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from gateway.config.brain_settings import BrainSettings, also
from gateway.config.kinds import (
    Address,
    BrainRef,
    Directories,
    HeaderWord,
    HomePath,
    HostNames,
    Names,
    Networks,
    Origins,
    Project,
    Seconds,
    ToolPrefix,
    Url,
    is_loopback_host,
)
from gateway.config.sentence import sentence
from gateway.config.sources import Origin, origins
from gateway.surfaces.catalog import SURFACES


class BadSetting(Exception):
    """A setting that cannot work, in one sentence that names it and says what to do."""


class Settings(BrainSettings):
    """One frozen object; only the composition root sees it."""

    surfaces: Names = Field(
        tuple(SURFACES), description="Vocabularies that are served over HTTP, comma-separated: all of them, or some."
    )
    surface: str | None = Field(
        None,
        description="The vocabulary at `/mcp`, and over stdio; each is also served below its own name. Unset: "
        "`memory`, or the first of those that are served.",
    )
    default_brain: BrainRef | None = Field(
        None,
        validation_alias=also("JBMCP_DEFAULT_BRAIN", "JB_BRAIN", "BRAINS_DEFAULT_BRAIN"),
        description="Brain used when a call names none. Unset: the first one listed.",
    )
    actor: str = Field(
        "local",
        min_length=1,
        max_length=256,
        description="Who calls where callers are not told apart: owner of the private notes, author of the others.",
    )
    project: Project | None = Field(
        None,
        validation_alias=also("BRAINS_PROJECT", "MEMOAI_PROJECT"),
        description="Project of calls that name none, where there is one tenant.",
    )
    read_only: bool = Field(
        False, description="Whether brains are only read. Tools that write are not listed, and refuse to be called."
    )
    write_scope: Literal["ask", "project", "global"] = Field(
        "ask",
        description="Where `team` stores an entry that names no scope: it asks, or the project, or for all. The note "
        "`_policy.md` of a brain overrides this.",
    )
    recall_notes: Annotated[int, Field(ge=1, le=10_000)] = Field(
        500,
        description="How many notes, newest first, one call reads at most: of each scope for `team`, and for a list or "
        "a search by tags in `kv`.",
    )
    context_entries: Annotated[int, Field(ge=1, le=1000)] = Field(
        20, description="Entries of each type in the digest of `memory_load_context`."
    )
    full_text: Literal["on", "off"] = Field(
        "on",
        description="Whether a result has a second text, with what the short text leaves out. Some models are shown "
        "only texts.",
    )
    extra_tools: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether `memory` has four more tools, to list, read, update and forget notes. `auto`: with the "
        "embedded brain.",
    )
    tool_prefix: ToolPrefix = Field(
        "",
        description="Prefix of all tool names, for clients that join the tools of several servers. `{surface}` in it "
        "stands for the name of the surface, as in `{surface}_`.",
    )
    being_model: str = Field("claude-sonnet-4-6", description="Language model that `get_context` recommends.")
    host: Address = Field("127.0.0.1", description="Address `serve` listens on.")
    port: int = Field(8787, ge=1, le=65535, description="Port `serve` listens on.")
    ui: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether people have a page at `/`, behind the same door as the tools. `auto`: on loopback only.",
    )
    token: HeaderWord | None = Field(
        None,
        description="One bearer token for all callers over HTTP. Beyond loopback this or `BRAINS_AUTH` is needed.",
    )
    metrics_token: HeaderWord | None = Field(
        None,
        description="Bearer token of the operator, for `/metrics` and the details of `/readyz`. Where nobody but this "
        "machine is served, none is needed for those.",
    )
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        None, description="Port of 127.0.0.1 on which `serve` shows `/metrics`, without a token. Unset: none."
    )
    auth: Literal["none", "tokens", "jwt", "password"] | None = Field(
        None,
        description="Who may call over HTTP: `none` (loopback only), `tokens` (those of `brains-gateway token`), `jwt` "
        "(access tokens of an OAuth provider), `password` (whoever logs in here: `brains-gateway user`). Unset: "
        "`none`, or the one `BRAINS_TOKEN`.",
    )
    tokens_file: HomePath | None = Field(
        None, description="Where `brains-gateway token` keeps tokens. Unset: `tokens.json` in the data directory."
    )
    users_file: HomePath | None = Field(
        None, description="Where `brains-gateway user` keeps users. Unset: `users.json` in the data directory."
    )
    login_keys_file: HomePath | None = Field(
        None,
        description="Keys of logins, as in `BRAINS_STATE_KEYS_FILE`. Unset: `login-keys`, made in the data directory.",
    )
    auth_issuer: Url | None = Field(None, description="Issuer of the OAuth provider, for `jwt`.")
    auth_audience: str | None = Field(
        None, description="What access tokens must be for. Unset: `BRAINS_PUBLIC_URL` with `/mcp`."
    )
    auth_shared_audience: bool = Field(
        False, description="Whether access tokens that are for others besides us are accepted."
    )
    auth_jwks_url: Url | None = Field(
        None, description="Where the provider's keys are. Unset: found from the issuer's metadata."
    )
    public_url: Url | None = Field(None, description="Root of this gateway for callers, `https://brains.example`.")
    login_scope: Literal["read", "write", "admin"] = Field(
        "write", description="What clients are told to ask for when they log in; more is asked for when it is needed."
    )
    org_claim: str = Field("org_id", description="Claim of an access token that names the organization.")
    brain_claim: str | None = Field(
        None,
        description="Claim that names the one brain an access token is for. Unset: none is read, and tokens are for "
        "every brain of their caller.",
    )
    projects_claim: str = Field("projects", description="Claim that lists the projects a caller may choose.")
    single_tenant: bool = Field(
        False, description="Whether all who are let in are one tenant, and share `BRAINS_UPSTREAM_TOKEN`."
    )
    upstream_auth: Literal["static", "passthrough", "internal"] = Field(
        "static",
        description="What the platform is shown: `static` (`BRAINS_UPSTREAM_TOKEN`), `passthrough` (the caller's own "
        "token), `internal` (a token signed for each request).",
    )
    upstream_audience: str | None = Field(
        None,
        description="What tokens for the platform are for: for `internal`, and `passthrough` with `jwt`.",
    )
    upstream_plain: bool = Field(
        False, description="Whether a platform that is not on this machine may be called by plain http://."
    )
    signing_keys_file: HomePath | None = Field(None, description="Keys made by `brains-gateway key`, for `internal`.")
    internal_key_file: HomePath | None = Field(
        None, description="A file with one word that is sent as `X-Internal-Key`, for `internal`."
    )
    state_keys_file: HomePath | None = Field(
        None,
        description="Keys of 64 hex digits, one a line, the first in use, for all replicas. Unset: made at start.",
    )
    calls_per_second: Annotated[float, Field(gt=0, le=1e6)] = Field(
        50,
        description="Requests a second of one caller. This and the next four hold where callers are told apart.",
    )
    calls_at_once: Annotated[int, Field(ge=1, le=100_000)] = Field(100, description="Calls under way for one caller.")
    asks_at_once: Annotated[int, Field(ge=1, le=10_000)] = Field(8, description="Answers under way for one caller.")
    fetches_per_minute: Annotated[int, Field(ge=1, le=100_000)] = Field(
        20, description="Pages ingested by one caller in a minute; two at once."
    )
    stored_per_minute: Annotated[int, Field(ge=1024)] = Field(
        256 * 1024 * 1024, description="Bytes that one caller may store in a minute."
    )
    redis_url: HeaderWord | None = Field(
        None,
        description="Redis or Valkey, where the limits of a caller are counted for all workers and replicas together, "
        "and where these take turns to write to a session: `redis://host:6379/0`, or `rediss://` over a network that "
        "is not yours alone. Unset: limits hold for the workers of one gateway together, or on Windows for each "
        "worker, and nobody takes turns. Needs `pip install brains-gateway[redis]`.",
    )
    direct: Literal["on", "off"] = Field(
        "on", description="Whether tool calls over HTTP are answered past FastMCP, which is faster and looks the same."
    )
    max_bodies: Annotated[int, Field(ge=1024)] = Field(
        256 * 1024 * 1024, description="Bytes of request bodies in memory at once, half of them for one caller."
    )
    ingest_roots: Directories | None = Field(
        None,
        description="Directories `memory_ingest_file` may read, separated as in PATH. "
        "Unset: over stdio the working directory, unless that is `/` or holds the home directory; over HTTP none, and "
        "the tool is not offered.",
    )
    max_body: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest request body over HTTP, in bytes. The longest memory, of five million characters, takes "
        "20 MB in UTF-8, and 30 MB if each is escaped as `\\u00e9`; only one of mostly escaped emoji takes more.",
    )
    allowed_hosts: HostNames = Field((), description="Host names callers may use besides loopback, comma-separated.")
    allowed_origins: Origins = Field((), description="Origins of web pages that may call, comma-separated.")
    fetch: Literal["on", "off"] = Field(
        "on",
        description="Whether the gateway may fetch pages itself: where a platform cannot ingest by URL, or might "
        "overwrite one page with another, as daemons do; and for the embedded brain.",
    )
    fetch_allow: Networks = Field(
        (),
        description="Networks of yours that pages may be fetched from although they are not public, comma-separated "
        "(`10.1.0.0/16`). Loopback, link-local, multicast and cloud metadata stay closed, and ports but 80 and 443.",
    )
    connect_seconds: Seconds = Field(5, description="Seconds to wait for a connection to the platform.")
    read_seconds: Seconds = Field(30, description="Seconds for a search, a look or a plain write, repeats included.")
    ingest_seconds: Seconds = Field(300, description="Seconds for ingesting a file or a page.")
    stage_seconds: Seconds = Field(300, description="Seconds for extracting, reflecting and consolidating.")
    first_event_seconds: Seconds = Field(120, description="Seconds until an answer must begin.")
    idle_seconds: Seconds = Field(120, description="Seconds an answer may pause; comments in its stream do not count.")
    ask_seconds: Seconds = Field(600, description="Seconds for a whole answer.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["auto", "text", "json"] = Field(
        "auto", description="`auto` is text on a terminal and JSON otherwise."
    )
    log_callers: Literal["name", "hash"] = Field(
        "name",
        description="What callers are called in both logs: the name of their API token or the `sub` of their access "
        "token, or the first 16 hex digits of its SHA-256.",
    )
    audit_log: HomePath | None = Field(
        None,
        description="A file that gets a line of JSON for every write, deletion, export, login and refused access. "
        "Unset: none is kept.",
    )

    @field_validator(
        *("fetch", "log_level", "log_format", "log_callers", "auth", "upstream_auth", "login_scope"),
        *("surface", "write_scope", "full_text", "direct", "extra_tools", "ui"),
        mode="before",
    )
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("surfaces")
    @classmethod
    def _are_surfaces(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        named = tuple(name.lower() for name in value)
        if not named or not set(named) <= set(SURFACES):
            raise ValueError(f"must be some of {', '.join(SURFACES)}, comma-separated")
        return tuple(name for name in SURFACES if name in named)

    @field_validator("surface")
    @classmethod
    def _is_surface(cls, value: str | None) -> str | None:
        if value is not None and value not in SURFACES:
            raise ValueError(f"must be one of {', '.join(SURFACES)}")
        return value

    @field_validator("public_url")
    @classmethod
    def _without_slash(cls, value: str | None) -> str | None:
        return None if value is None else value.rstrip("/")

    @model_validator(mode="after")
    def _surface_is_served(self) -> Self:
        if self.surface is not None and self.surface not in self.surfaces:
            raise ValueError(f"BRAINS_SURFACE is {self.surface}, which BRAINS_SURFACES leaves out: name it there too.")
        return self

    @property
    def first_surface(self) -> str:
        return self.surface or self.surfaces[0]

    @property
    def has_extra_tools(self) -> bool:
        return self.extra_tools == "on" or (self.extra_tools == "auto" and self.upstream_url is None)

    @property
    def is_loopback(self) -> bool:
        return is_loopback_host(self.host)

    @property
    def is_for_this_machine(self) -> bool:
        """Whether the gateway serves only this machine, so that every caller may see the details."""
        is_open = self.auth in {None, "none"} and self.token is None and self.upstream_auth != "passthrough"
        return self.is_loopback and is_open and not self.public_url and not self.allowed_hosts

    @property
    def tokens_path(self) -> Path:
        return self.tokens_file or self.data_dir / "tokens.json"

    @property
    def users_path(self) -> Path:
        return self.users_file or self.data_dir / "users.json"

    @property
    def login_keys_path(self) -> Path:
        return self.login_keys_file or self.data_dir / "login-keys"

    @property
    def audience(self) -> str:
        return self.auth_audience or f"{self.public_url}/mcp"

    @property
    def tells_callers_apart(self) -> bool:
        """Whether a token says who calls, and not only that the caller may."""
        return self.auth in {"tokens", "jwt", "password"} or self.upstream_auth == "passthrough"

    @property
    def is_shared(self) -> bool:
        """Whether callers are different people, none of whom may learn of another."""
        return self.tells_callers_apart and not self.single_tenant


def load(**overrides: Any) -> Settings:
    """Settings from flags, the environment, files of secrets and the TOML file. The first one that has a setting wins.

    Raises:
        BadSetting: one sentence, for a person at a terminal.
    """
    flags = {name: value for name, value in overrides.items() if value is not None}
    found: dict[str, Origin] = {}
    try:
        found = origins(Settings.model_fields, flags)
        # The environment is read by the library, which knows the names that a setting has besides.
        files: dict[str, Any] = {name: said.value for name, said in found.items() if said.kind in {"file", "config"}}
        return Settings(**files, **flags)
    except ValidationError as error:
        raise BadSetting(sentence(error, Settings.model_fields, found)) from None
    except ValueError as error:
        raise BadSetting(str(error)) from None
