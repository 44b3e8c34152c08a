"""The embedded brain: the reference platform on a loopback port, started when it is first needed."""

import secrets
import threading
from pathlib import Path

import uvicorn

from contract.platform.app import create_app
from contract.platform.convert import Converted, Parsed
from contract.platform.ingest import Fetch as PlatformFetch
from contract.platform.ingest import FetchRefused
from contract.platform.ingest import Page as PlatformPage
from contract.platform.meaning import offline
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.remote import RemoteEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.models import ModelEndpoint
from contract.platform.quota import Quota
from contract.platform.refusal import Refused, invalid
from contract.platform.store import Store, StoreUnavailable
from gateway.app.database_file import DailyBackups
from gateway.app.startup import CannotStart, listening_socket
from gateway.config.brain_settings import SMALL
from gateway.config.settings import Settings
from gateway.ingest.child_reader import Reason, Unreadable, read_in_child
from gateway.ingest.web_page import Fetch, Page, charset_of, read_text
from gateway.operations.errors import GatewayError
from gateway.upstream.credentials import Endpoint


class EmbeddedBrain:
    """Runs in a thread of its own, so that neither its searches nor its commits hold up the gateway's loop."""

    def __init__(
        self,
        data_dir: Path,
        fetch: Fetch | None,
        embedder: Embedder | None = None,
        *,
        sentences: Embedder | None = None,
        llm: ModelEndpoint | None = None,
        backups: tuple[Path, int] | None = None,
        read_only: bool = False,
        quota: Quota | None = None,
    ) -> None:
        """`backups` is the directory for daily backups, and how many it keeps."""
        token = secrets.token_urlsafe(32)
        self._store = open_store(data_dir, embedder, quota, sentences=sentences)
        listening = listening_socket("127.0.0.1", 0)
        self._server = platform_server(self._store, token, fetch, llm, read_only=read_only)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="embedded-brain", daemon=True
        )
        self.endpoint = Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}", token)
        self._backups = None if backups is None else DailyBackups(data_dir, *backups)
        # The socket listens already: requests wait for the server instead of being refused.
        self._thread.start()

    def stop(self) -> None:
        if self._backups is not None:
            self._backups.stop()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._store.close()


def embedded_brain(settings: Settings, fetch: Fetch | None) -> EmbeddedBrain:
    """The embedded brain as the settings say, with its models and its backups.

    Raises: CannotStart.
    """
    return EmbeddedBrain(
        settings.data_dir,
        fetch,
        embedder_of(settings),
        sentences=sentences_of(settings),
        llm=language_model(settings),
        backups=None if settings.backup_dir is None else (settings.backup_dir, settings.backup_keep),
        read_only=settings.read_only,
        quota=quota_of(settings),
    )


def quota_of(settings: Settings) -> Quota | None:
    """How much a brain may hold, if there is a limit."""
    if settings.quota_notes is None and settings.quota_bytes is None:
        return None
    return Quota(settings.quota_notes, settings.quota_bytes)


def embedder_of(settings: Settings) -> Embedder | None:
    """The embedder of the embedded brain: the service that is set, or the small model if it is installed."""
    if settings.embed_url is None or settings.embed_model is None:
        return OfflineEmbedder() if offline.is_installed() else None
    key = settings.embed_key.get_secret_value() if settings.embed_key else None
    return RemoteEmbedder(ModelEndpoint(settings.embed_url, settings.embed_model, key))


def sentences_of(settings: Settings) -> Embedder | None:
    """The sentence model, unless a service takes its place or the settings leave it out."""
    return SentenceEmbedder() if settings.embed_url is None and settings.embed_model != SMALL else None


def open_store(
    data_dir: Path,
    embedder: Embedder | None = None,
    quota: Quota | None = None,
    *,
    sentences: Embedder | None = None,
) -> Store:
    """The store in a directory. Without an embedder it is not for searching.

    Raises:
        CannotStart: it cannot be made or written to; one sentence with its fix.
    """
    try:
        return Store.open(data_dir, embedder, quota, sentences=sentences)
    except StoreUnavailable as error:
        told = str(error)
        other = "" if "BRAINS_DATA_DIR" in told or "restore" in told else " Choose another with BRAINS_DATA_DIR."
        raise CannotStart(f"{told}{other}") from None


def language_model(settings: Settings) -> ModelEndpoint | None:
    """The model that answers, if one is set."""
    if settings.llm_url is None or settings.llm_model is None:
        return None
    key = settings.llm_key
    return ModelEndpoint(settings.llm_url, settings.llm_model, key.get_secret_value() if key else None)


def platform_server(
    store: Store,
    token: str | None,
    fetch: Fetch | None,
    llm: ModelEndpoint | None = None,
    *,
    read_only: bool = False,
) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            create_app(
                store,
                token=token,
                fetch=None if fetch is None else _as_platform_fetch(fetch),
                convert=convert_in_child,
                llm=llm,
                read_only=read_only,
            ),
            log_config=None,
            access_log=False,
            lifespan="off",
            # Longer than any client of ours keeps an idle connection, so that the client closes it first.
            timeout_keep_alive=60,
            timeout_graceful_shutdown=10,
        )
    )


async def convert_in_child(kind: Parsed, body: bytes, charset: str | None) -> Converted:
    """Reads documents that need a parser for the platform, as pages are read: in a process with limits.

    Raises: Refused.
    """
    charset = charset_of(Page("", "text/html", body, charset)) if kind == "html" else "utf-8"
    try:
        reading = await read_in_child(kind, body, charset=charset)
    except Unreadable as error:
        raise _refusal(kind, error.reason) from None
    if not reading.text.strip():
        raise invalid(f"the {kind.upper()} holds no text" + ("; scanned pages cannot be read" if kind == "pdf" else ""))
    return Converted(f"{reading.text}\n", reading.title, reading.truncated)


def _refusal(kind: Parsed, reason: Reason) -> Refused:
    match reason:
        case "broken":
            return invalid(f"the file is not valid {kind.upper()}, or nested too deeply")
        case "encrypted":
            return invalid("the PDF is encrypted; remove its password first")
        case "limits":
            advice = "send it in smaller parts, or as plain text"
            return Refused("payload_too_large", f"the file takes too long, or too much memory, to read: {advice}")
        case "busy":
            return Refused("rate_limited", "too many files are being read at the moment; try again")


def _as_platform_fetch(fetch: Fetch) -> PlatformFetch:
    """The gateway's safe fetch in the platform's terms; pages arrive there as readable text."""

    async def fetch_for_platform(url: str) -> PlatformPage:
        try:
            page = await fetch(url)
            return await _as_platform_page(page)
        except GatewayError as error:
            raise FetchRefused("fetch_blocked" if error.code == "fetch_blocked" else "fetch_failed") from None

    return fetch_for_platform


async def _as_platform_page(page: Page) -> PlatformPage:
    if page.content_type == "application/pdf":
        return PlatformPage(page.url, page.content_type, page.body)
    media_type = "text/markdown" if "html" in page.content_type else page.content_type
    return PlatformPage(page.url, media_type, (await read_text(page)).encode())
