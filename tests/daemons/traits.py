"""How the daemons differ: one switch per habit, and the three daemons as sets of switches."""

from dataclasses import dataclass, field, replace
from typing import Literal

KIB, MIB = 1024, 1024 * 1024
Tense = Literal["ms", "us", "ns"]


@dataclass(frozen=True)
class Caps:
    """Bytes a body may have, by kind of route; a test lowers them with `replace`."""

    single: int = 2 * MIB  # PUT and append
    batch: int = 8 * MIB  # all contents of a batch, decoded
    batch_ops: int = 1024
    query: int = 256 * KIB  # search, ask, remember
    small: int = 64 * KIB  # recall, rename, consolidate, ingest/url, create
    messages: int = 1 * MIB  # extract, reflect
    ingest: int = 8 * MIB
    request: int | None = None  # any body at all, judged by its Content-Length


@dataclass(frozen=True)
class Traits:
    """The habits of one daemon; the defaults are those of T, the TypeScript daemon."""

    name: str = "T"
    """What the daemon is called in test names; nothing looks at it."""

    # Routing.
    unknown_route: str | None = None
    """The text/plain body of a 404 for an unknown path; None answers problem+json "no route for ..."."""
    wrong_method: Literal["missing", "allow", "allow_first"] = "missing"
    """A known path with another method: as unknown, or 405 with a complete Allow, or with the first route's alone."""
    head_of_get: bool = False
    """HEAD answers wherever GET does."""
    redirects_slash: bool = False
    """A known path with a slash at its end is redirected (307)."""
    encoded_slash: bool = True
    """`%2F` may be part of a brain's name."""
    version: str | None = None
    """What GET /version says; None when there is no such route."""

    # Refusals.
    exact_bearer: bool = True
    """The header must be "Bearer <token>" to the letter; otherwise the scheme is read in any case."""
    bad_request_title: str = "Bad Request"
    """The `title` of a 400."""
    confirmation_title: str = "Confirmation Required"
    """The `title` of the 428 for a deletion that was not confirmed."""
    json_oversize: int = 413
    """The status for a JSON body that is too large; G says 400. PUT, append and batch always say 413."""
    caps: Caps = field(default_factory=Caps)
    """How many bytes a body may have."""
    ingest_cap_of_json: bool = False
    """The cap of ingest/file counts the JSON body, not the decoded bytes."""

    # Brains.
    created: str | None = None
    """A `created` in every brain record."""
    brain_conflict: str = "brain manager: already exists: {brain}"
    """The `detail` of the 409 for a brain that exists."""
    checks_brain_ids: bool = False
    """A name like `../evil` is refused; otherwise it is taken."""

    # Documents.
    missing_document: str = "brain: not found: {path}"
    """The `detail` of the 404 for a document."""
    mtime: Tense = "ms"
    """How a time is written: milliseconds and Z, microseconds and +00:00, nanoseconds and Z."""
    lists_directories: bool = False
    """A recursive listing has directories too."""
    leaks_index: bool = False
    """The search index is a file of the brain: listed and readable as `.search.db`."""
    unknown_op: int = 500
    """The status for a batch with an unknown op."""
    requires_ops: bool = False
    """A batch without `ops` is refused."""
    lenient_base64: bool = True
    """What is no base64 is skipped, so nonsense writes an empty file."""
    batch_delete_missing: int = 404
    """The status for a batch that deletes what is not there."""
    batch_atomic: bool = True
    """A batch that fails leaves nothing behind; otherwise the ops before the failure stay, and the reason is lost."""
    batch_appends_race: bool = False
    """Overlapping batches that append to one file lose lines, and the third at once fails with 400."""
    puts_collide: bool = False
    """Of overlapping PUTs to one path the later ones fail with 500."""
    put_collisions: int = 0
    """So many of the first PUTs to a path that exists fail with 500, as if another were under way."""
    write_seconds: float = 0.0
    """How long a PUT or a batch is under way; what overlaps is decided by this."""

    # Search.
    indexed: tuple[str, ...] = ("",)
    """Path prefixes search can find; only .md files ever."""
    indexes_underscore: bool = True
    """Files whose names begin with `_` are found."""
    null_lists: bool = False
    """An empty list is null: chunks, memories, Errors."""
    chunk_keys: Literal["present", "all", "nonzero"] = "present"
    """T leaves out unknown keys, Y has every key, G leaves out zero values."""
    bare_ask_chunks: bool = False
    """The chunks of ask have the seven basic keys alone."""
    snake_trace: bool = False
    """The trace of a search is in snake_case."""
    strict_ints: bool = False
    """A topK that is no whole number is refused; otherwise it is cut or ignored."""
    scope_leaks: bool = False
    """The scopes agent and all answer with files outside memory/ instead of nothing."""
    scope_of_matter: bool = True
    """`scope` in a note's front matter outranks its path: T's own reflections count as global."""
    project_filter_leaks: bool = True
    """The filter project lets through whatever is in no project at all."""
    scans_plainly: bool = True
    """When the index has nothing, files are scanned for the query as one string, and tags are not looked at."""
    drops_equal_bodies: bool = False
    """Of hits whose bodies are equal, without front matter, capitals and space, only the first is shown."""
    recall: Literal["scored", "picked"] = "scored"
    """T scores by text; Y and G let the LLM pick, so nothing comes without a useful one."""

    # Ask.
    sse_ids: bool = True
    """Every frame has an `id:`, from 1."""
    default_mode: str = "auto"
    """The `mode` of the retrieve frame when none was asked for."""
    llm_stand_in: str | None = None
    """Without an LLM: an error frame (None), or this answer of a stand-in."""
    failed_llm_is_ok: bool = True
    """After an error frame: citations and `done{ok:true}`; otherwise `done{ok:false}` at once."""
    no_cache: str = "no-cache"
    """The Cache-Control of event streams."""

    # Ingest.
    pascal_replies: bool = False
    """Ingest answers in PascalCase."""
    slug_of: Literal["path", "title"] = "path"
    """The stored name comes from the path given, or from the title, the first heading or the first line."""
    slug_length: int | None = None
    """So many characters a stored name has at most."""
    page_name: Literal["url", "text"] = "url"
    """A page is named by its URL, or by its heading or first line, so that two pages may have one name."""
    converts: bool = False
    """PDF and HTML become text, and unknown binaries are refused; otherwise raw bytes are stored."""
    empty_ingest: int = 400
    """The status for an ingest of nothing."""
    blocks_private: bool = False
    """ingest/url refuses private addresses; otherwise it fetches them."""
    block_seconds: float = 0.0
    """While an ingest runs so long, every other request waits, /healthz too."""

    # Memory stages.
    tolerates_roles: bool = False
    """A message may have any role."""
    rule_extracts: bool = True
    """Plain preference sentences give memories even without an LLM."""
    extract_snake: bool = False
    """Memories have `index_entry`."""
    extract_extra: bool = False
    """Memories carry more keys than T's."""
    non_json_extract: int = 200
    """The status of extract when the LLM answers no JSON."""
    reflects_unknown: bool = True
    """Without usable LLM output the result has outcome "unknown"; otherwise it is null."""
    reflect_snake: bool = False
    """The result of reflect is in snake_case."""
    reflect_writes: bool = True
    """The result has `path` and `openQuestions`, and the file `reflections/<session>.md` is written."""
    bad_slug: Literal["accepted", "refused"] = "accepted"
    """`../../evil` as a slug of remember: written where it leads, or 500."""
    consolidates: Literal["ops", "camel", "pascal"] = "ops"
    """The shape of the report; T also marks old notes as stale."""
    index_of: Literal["tree", "folders"] = "tree"
    """What `MEMORY.md` tells of after a consolidation: all notes below memory/global/, or the notes that are directly
    in it; in the second case each project has such a file too. It is a hit like any other note."""


# The TypeScript daemon, `memory serve` of the npm package @jeffs-brain/memory.
T = Traits()

_TREES = ("memory/global/", "memory/project/", "wiki/", "raw/documents/", "raw/lme/", "raw/.sources/")

# The Python daemon of the same project.
Y = replace(
    T,
    name="Y",
    unknown_route="Not Found",
    wrong_method="allow_first",
    head_of_get=True,
    redirects_slash=True,
    encoded_slash=False,
    version="0.0.1",
    bad_request_title="Validation Error",
    confirmation_title="Precondition Required",
    caps=Caps(request=16 * MIB),
    ingest_cap_of_json=True,
    missing_document="not found: {path}",
    mtime="us",
    lists_directories=True,
    unknown_op=400,
    requires_ops=True,
    lenient_base64=False,
    batch_delete_missing=200,
    batch_atomic=False,
    indexed=_TREES,
    indexes_underscore=False,
    chunk_keys="all",
    bare_ask_chunks=True,
    snake_trace=True,
    scope_leaks=True,
    scope_of_matter=False,
    project_filter_leaks=False,
    scans_plainly=False,
    recall="picked",
    sse_ids=False,
    default_mode="",
    llm_stand_in="ok",
    failed_llm_is_ok=False,
    no_cache="no-store",
    slug_of="title",
    slug_length=60,
    page_name="text",
    converts=True,
    tolerates_roles=True,
    rule_extracts=False,
    extract_extra=True,
    reflects_unknown=False,
    reflect_writes=False,
    bad_slug="refused",
    consolidates="camel",
    index_of="folders",
)

# The Go daemon of the same project.
G = replace(
    Y,
    name="G",
    unknown_route="404 page not found",
    wrong_method="allow",
    redirects_slash=False,
    version=None,
    exact_bearer=False,
    bad_request_title="Bad Request",
    confirmation_title="Confirmation Required",
    caps=Caps(),
    json_oversize=400,
    created="0001-01-01T00:00:00Z",
    brain_conflict="brain: concurrent modification: {brain}",
    checks_brain_ids=True,
    missing_document="pt: read {path}: brain: not found",
    mtime="ns",
    leaks_index=True,
    requires_ops=False,
    batch_delete_missing=404,
    batch_atomic=True,
    batch_appends_race=True,
    puts_collide=True,
    write_seconds=0.005,
    null_lists=True,
    chunk_keys="nonzero",
    bare_ask_chunks=False,
    snake_trace=False,
    strict_ints=True,
    scope_leaks=False,
    drops_equal_bodies=True,
    pascal_replies=True,
    empty_ingest=500,
    blocks_private=True,
    tolerates_roles=False,
    extract_snake=True,
    extract_extra=False,
    non_json_extract=500,
    reflect_snake=True,
    bad_slug="accepted",
    consolidates="pascal",
)
