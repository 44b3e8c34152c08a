"""Combinations of settings that are not safe: `serve` refuses to start with them, one sentence each."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.config.kinds import is_loopback_host
from gateway.config.settings import BadSetting, Settings

# 64 bits, if they are hexadecimal digits, which is more than can be guessed over a network.
_LEAST_TOKEN: Final = 16


def check_serving(settings: Settings) -> None:
    """Check that callers over HTTP are told apart as well as the platform needs.

    Raises:
        BadSetting: the first thing that is not safe, and what to do.
    """
    for sentence in (*_inbound(settings), *_outbound(settings), *_keys(settings), *_roots(settings)):
        raise BadSetting(sentence)
    check_platform(settings)


def check_local(settings: Settings) -> None:
    """Check that the platform can be called for the person who started us.

    Raises:
        BadSetting: the first thing that is not safe, and what to do.
    """
    if settings.upstream_auth == "passthrough":
        raise BadSetting("BRAINS_UPSTREAM_AUTH is passthrough, and only over HTTP do callers bring a token to pass on.")
    outbound = _outbound(settings.model_copy(update={"auth": None}))
    for sentence in (*outbound, *_redis(settings), *_keys(settings), *_roots(settings)):
        raise BadSetting(sentence)
    check_platform(settings)


def check_platform(settings: Settings) -> None:
    """Check that nobody else can read requests to the platform."""
    url = settings.upstream_url
    if url is not None and not _is_safe(url) and not settings.upstream_plain:
        raise BadSetting(
            f"BRAINS_UPSTREAM_URL is {url}: anybody on the way could read what is sent there; "
            "use https://, or set BRAINS_UPSTREAM_PLAIN=true if that network is yours alone."
        )


def ignored(settings: Settings) -> list[str]:
    """The settings that have no effect, because they are for the embedded brain and a platform is set."""
    embedded = {
        "BRAINS_EMBED_URL": settings.embed_url,
        "BRAINS_LLM_URL": settings.llm_url,
        "BRAINS_QUOTA_NOTES": settings.quota_notes,
        "BRAINS_QUOTA_BYTES": settings.quota_bytes,
    }
    return [name for name, value in embedded.items() if value is not None and settings.upstream_url is not None]


def is_too_wide(root: Path) -> bool:
    """Whether it is the whole machine, or contains the home directory and the secrets in it."""
    real = root.resolve()
    try:
        holds_home = Path.home().resolve().is_relative_to(real)
    except RuntimeError:
        holds_home = False
    return real == Path(real.anchor) or holds_home


def _roots(settings: Settings) -> Iterator[str]:
    for root in settings.ingest_roots or ():
        if is_too_wide(root):
            yield (
                f"BRAINS_INGEST_ROOTS names {root}, which holds keys and passwords too: "
                "name a directory below your home directory, or one elsewhere."
            )


def _inbound(settings: Settings) -> Iterator[str]:
    if settings.auth is not None and settings.token is not None:
        yield f"BRAINS_AUTH is {settings.auth} and BRAINS_TOKEN is set: unset one of them."
    if not settings.is_loopback and settings.auth in {None, "none"} and settings.token is None:
        yield (
            f"BRAINS_HOST is {settings.host}, which others can reach, and callers need no token: "
            "set BRAINS_AUTH or BRAINS_TOKEN, or listen on 127.0.0.1."
        )
    public = urlsplit(settings.public_url or "").hostname
    if public and not is_loopback_host(public) and settings.auth in {None, "none"} and settings.token is None:
        yield (
            f"BRAINS_PUBLIC_URL is {settings.public_url}, which others can reach, and callers need no token: "
            "set BRAINS_AUTH or BRAINS_TOKEN."
        )
    yield from _beyond_loopback(settings)
    yield from _redis(settings)
    if settings.auth == "tokens":
        from gateway.config.token_file import parse as parsed_tokens

        yield from _readable(
            settings.tokens_path,
            "BRAINS_TOKENS_FILE",
            parsed_tokens,
            "Make a token with: brains-gateway token create",
            secret=False,
        )
    if settings.auth == "jwt":
        yield from _provider(settings)
    if settings.auth == "password":
        yield from _login(settings)


def _beyond_loopback(settings: Settings) -> Iterator[str]:
    """The demands on an operator who lets others in."""
    public = urlsplit(settings.public_url or "").hostname
    is_public = not settings.is_loopback or (public is not None and not is_loopback_host(public))
    for name, token in (("BRAINS_TOKEN", settings.token), ("BRAINS_METRICS_TOKEN", settings.metrics_token)):
        if is_public and token is not None and len(token.get_secret_value()) < _LEAST_TOKEN:
            yield (
                f"{name} has fewer than {_LEAST_TOKEN} characters, and others can reach this gateway: "
                "make a longer one with openssl rand -hex 32."
            )
    if not settings.is_loopback and public is None and not settings.allowed_hosts:
        yield (
            f"BRAINS_HOST is {settings.host}, which others can reach, and calls by a name would be refused: "
            "set BRAINS_PUBLIC_URL, or BRAINS_ALLOWED_HOSTS to the names and addresses that callers use."
        )


def _redis(settings: Settings) -> Iterator[str]:
    if settings.redis_url is None:
        return
    url = settings.redis_url.get_secret_value()
    if not _is_redis_url(url):
        yield "BRAINS_REDIS_URL must be an address such as redis://127.0.0.1:6379/0."
    elif find_spec("redis") is None:
        yield "BRAINS_REDIS_URL is set, and what speaks to Redis is not here: pip install 'brains-gateway[redis]'."
    elif not _has_known_options(url):
        yield "BRAINS_REDIS_URL has an option behind its ? that is not known, or that makes no sense: take it out."


def _is_redis_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path)
    # Its library reads what is no number as 0, which may be the database of somebody else.
    database = parts.path.removeprefix("/")
    return parts.scheme in {"redis", "rediss"} and bool(host) and (not database or database.isdecimal())


def _has_known_options(url: str) -> bool:
    from redis.asyncio import ConnectionPool
    from redis.exceptions import RedisError

    try:
        # Options that it does not know fail with the first connection, which is made but not opened here.
        pool: Any = ConnectionPool.from_url(url)
        pool.make_connection()
    except (TypeError, ValueError, OSError, RedisError):
        return False
    return True


def _keys(settings: Settings) -> Iterator[str]:
    """Settings that are read whenever they are set, whatever the others are."""
    # Here and below, modules that read a file are imported only if it is set, because over stdio a client waits.
    if settings.state_keys_file is not None:
        from gateway.config.reread_file import state_keys

        yield from _readable(
            settings.state_keys_file, "BRAINS_STATE_KEYS_FILE", state_keys, "Put 64 hex digits in it, one key a line"
        )
    if settings.signing_keys_file is not None:
        from gateway.config.signing_keys import parse as parsed_keys

        yield from _readable(
            settings.signing_keys_file,
            "BRAINS_SIGNING_KEYS_FILE",
            parsed_keys,
            "Make one with: brains-gateway key create",
        )


def _provider(settings: Settings) -> Iterator[str]:
    if settings.auth_issuer is None:
        yield "BRAINS_AUTH is jwt: set BRAINS_AUTH_ISSUER to the OAuth provider whose access tokens are accepted."
        return
    if settings.public_url is None:
        yield "BRAINS_AUTH is jwt: set BRAINS_PUBLIC_URL to the address callers use, so that clients find the provider."
        return
    if settings.auth_issuer.rstrip("/") == settings.public_url:
        yield "BRAINS_AUTH_ISSUER is this gateway itself: name the provider that issues access tokens."
    for name, url in (
        ("BRAINS_AUTH_ISSUER", settings.auth_issuer),
        ("BRAINS_AUTH_JWKS_URL", settings.auth_jwks_url),
        ("BRAINS_PUBLIC_URL", settings.public_url),
    ):
        if url is not None and not _is_safe(url):
            yield f"{name} must begin with https://, unless it is on this machine."
    if not urlsplit(settings.audience).scheme:
        yield "BRAINS_AUTH_AUDIENCE must be a URI, for example https://brains.example/mcp."


def _login(settings: Settings) -> Iterator[str]:
    if settings.public_url is None:
        yield "BRAINS_AUTH is password: set BRAINS_PUBLIC_URL to the address callers use, where they log in."
        return
    if not _is_safe(settings.public_url):
        yield "BRAINS_AUTH is password: BRAINS_PUBLIC_URL must begin with https://, unless it is on this machine."
    if urlsplit(settings.public_url).path:
        yield "BRAINS_AUTH is password: BRAINS_PUBLIC_URL must have no path, because clients look for the login at /."
    if settings.auth_audience is not None:
        yield "BRAINS_AUTH is password: unset BRAINS_AUTH_AUDIENCE, because logins are for this gateway alone."
    from gateway.config.reread_file import state_keys
    from gateway.config.user_file import parse_some

    remedy = "Add somebody with: brains-gateway user add"
    yield from _readable(settings.users_path, "BRAINS_USERS_FILE", parse_some, remedy)
    if settings.login_keys_file is not None or settings.login_keys_path.exists():
        remedy = "Put 64 hex digits in it, one key a line"
        yield from _readable(settings.login_keys_path, "BRAINS_LOGIN_KEYS_FILE", state_keys, remedy)


def _outbound(settings: Settings) -> Iterator[str]:
    if settings.upstream_url is None:
        if settings.upstream_auth != "static":
            yield f"BRAINS_UPSTREAM_AUTH is {settings.upstream_auth} and there is no BRAINS_UPSTREAM_URL: set it."
        return
    if settings.internal_key_file is not None and settings.upstream_auth != "internal":
        yield "BRAINS_INTERNAL_KEY_FILE is set, and only BRAINS_UPSTREAM_AUTH=internal sends what is in it."
    if settings.dialect == "memoai":
        yield from _memoai(settings)
    match settings.upstream_auth:
        case "static" if settings.is_shared:
            yield (
                f"BRAINS_AUTH is {settings.auth} and the platform would see one token for all callers: "
                "set BRAINS_UPSTREAM_AUTH=internal, or BRAINS_SINGLE_TENANT=true if they may share everything."
            )
        case "passthrough":
            yield from _passthrough(settings)
        case "internal":
            yield from _internal(settings)


def _memoai(settings: Settings) -> Iterator[str]:
    if settings.upstream_auth != "internal":
        yield (
            "BRAINS_DIALECT is memoai, and a MemoAI core takes no tokens but those that this gateway signs: "
            "set BRAINS_UPSTREAM_AUTH=internal."
        )
    elif settings.internal_key_file is None:
        yield (
            "BRAINS_DIALECT is memoai, and a MemoAI core wants a shared secret as X-Internal-Key: "
            "set BRAINS_INTERNAL_KEY_FILE."
        )


def _passthrough(settings: Settings) -> Iterator[str]:
    if settings.auth in {"tokens", "password"} or settings.token is not None:
        yield "BRAINS_UPSTREAM_AUTH is passthrough: tokens of this gateway mean nothing to the platform. Use jwt."
    elif settings.auth == "jwt" and settings.upstream_audience != settings.audience:
        yield (
            "BRAINS_UPSTREAM_AUTH is passthrough, but access tokens for this gateway are not for the platform: "
            "set BRAINS_UPSTREAM_AUDIENCE to the same audience, or BRAINS_UPSTREAM_AUTH=internal."
        )


def _internal(settings: Settings) -> Iterator[str]:
    for name, value in (
        ("BRAINS_SIGNING_KEYS_FILE", settings.signing_keys_file),
        ("BRAINS_UPSTREAM_AUDIENCE", settings.upstream_audience),
        ("BRAINS_PUBLIC_URL", settings.public_url),
    ):
        if value is None:
            yield f"BRAINS_UPSTREAM_AUTH is internal: set {name} too."
            return
    if settings.internal_key_file is not None:
        from gateway.config.reread_file import header_word

        yield from _readable(settings.internal_key_file, "BRAINS_INTERNAL_KEY_FILE", header_word, "Put one word in it")


def _readable(
    path: Path, variable: str, parse: Callable[[bytes], Any], remedy: str, *, secret: bool = True
) -> Iterator[str]:
    try:
        parse(path.read_bytes())
        if path.stat().st_mode & (0o007 if secret else 0o002):
            yield f"{variable} names {path}, which everybody on this machine has access to: chmod 600 it."
    except OSError:
        yield f"{variable} names {path}, which cannot be read. {remedy}."
    except ValueError:
        yield f"{variable} names {path}, which does not hold what it should. {remedy}."


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback_host(parts.hostname or "")
