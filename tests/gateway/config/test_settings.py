"""Settings: what the environment may say, and what is said back when it cannot work."""

from dataclasses import asdict
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices, ValidationError

from gateway.app import gateway
from gateway.config.settings import BadSetting, Settings, load
from gateway.upstream.deadlines import Deadlines

URL_RULE = "must be a plain http:// or https:// URL, for example https://platform.example."
BRAIN_RULE = (
    "is not an id or slug: a brain must be 1 to 128 letters, digits or any of . : - _ and begin with a letter or digit."
)
NETWORK_RULE = "must be networks, for example 10.1.0.0/16,fd12:3456::/32."
WORD_RULE = "must be one word of ASCII characters, as it goes into an Authorization header."


def loaded(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], **overrides: Any) -> Settings:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return load(**overrides)


def complaint(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], **overrides: Any) -> str:
    with pytest.raises(BadSetting) as caught:
        loaded(monkeypatch, environment, **overrides)
    return str(caught.value)


def test_with_nothing_set_it_is_an_embedded_brain_on_loopback() -> None:
    settings = load()
    assert settings.upstream_url is None
    assert settings.upstream_token is None
    assert settings.default_brain is None
    assert settings.token is None
    assert settings.ingest_roots is None
    assert (settings.host, settings.port, settings.is_loopback) == ("127.0.0.1", 8787, True)
    assert (settings.log_level, settings.log_format) == ("info", "auto")
    assert settings.allowed_hosts == settings.allowed_origins == ()
    assert settings.max_body == 32 * 1024 * 1024
    assert (settings.dialect, settings.fetch, settings.fetch_allow) == ("auto", "on", ())
    assert settings.data_dir.name == "brains-gateway"


def test_every_variable_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = loaded(
        monkeypatch,
        {
            "BRAINS_UPSTREAM_URL": "https://platform.example/api/",
            "BRAINS_UPSTREAM_TOKEN": "up",
            "BRAINS_DIALECT": "Daemon",
            "BRAINS_DATA_DIR": str(tmp_path),
            "BRAINS_EMBED_URL": "http://127.0.0.1:11434/v1",
            "BRAINS_QUOTA_NOTES": "10",
            "BRAINS_QUOTA_BYTES": "2048",
            "BRAINS_EMBED_MODEL": "nomic-embed-text",
            "BRAINS_EMBED_KEY": "ek",
            "BRAINS_SURFACES": "KV, memory,",
            "BRAINS_SURFACE": "Kv",
            "BRAINS_ACTOR": "ann@example.org",
            "BRAINS_PROJECT": "apollo",
            "BRAINS_READ_ONLY": "true",
            "BRAINS_WRITE_SCOPE": "Global",
            "BRAINS_RECALL_NOTES": "7",
            "BRAINS_CONTEXT_ENTRIES": "3",
            "BRAINS_BEING_MODEL": "any-model",
            "BRAINS_FULL_TEXT": "Off",
            "BRAINS_DIRECT": "Off",
            "BRAINS_TOOL_PREFIX": "{surface}_",
            "BRAINS_DEFAULT_BRAIN": "main",
            "BRAINS_HOST": "::1",
            "BRAINS_PORT": "9000",
            "BRAINS_TOKEN": "in",
            "BRAINS_REDIS_URL": "redis://127.0.0.1",
            "BRAINS_METRICS_TOKEN": "op",
            "BRAINS_METRICS_PORT": "9464",
            "BRAINS_INGEST_ROOTS": f"{tmp_path}:/",
            "BRAINS_MAX_BODY": "2048",
            "BRAINS_ALLOWED_HOSTS": "a.example, b.example,",
            "BRAINS_ALLOWED_ORIGINS": "https://a.example",
            "BRAINS_FETCH": "Off",
            "BRAINS_FETCH_ALLOW": "10.1.0.0/16, fd12:3456::/32,192.168.7.9,",
            "BRAINS_CONNECT_SECONDS": "0.5",
            "BRAINS_READ_SECONDS": "1",
            "BRAINS_INGEST_SECONDS": "2",
            "BRAINS_STAGE_SECONDS": "3",
            "BRAINS_FIRST_EVENT_SECONDS": "4",
            "BRAINS_IDLE_SECONDS": "5.5",
            "BRAINS_ASK_SECONDS": "86400",
            "BRAINS_LOG_LEVEL": "WARNING",
            "BRAINS_BACKUP_DIR": "/b",
            "BRAINS_BACKUP_KEEP": "30",
            "BRAINS_EXTRA_TOOLS": "ON",
            "BRAINS_UI": "OFF",
            "BRAINS_LOG_FORMAT": "JSON",
            "BRAINS_LOG_CALLERS": "Hash",
            "BRAINS_AUDIT_LOG": "/a",
            "BRAINS_AUTH": "JWT",
            "BRAINS_TOKENS_FILE": "/t",
            "BRAINS_USERS_FILE": "/u",
            "BRAINS_LOGIN_KEYS_FILE": "/l",
            "BRAINS_AUTH_ISSUER": "https://issuer.example/",
            "BRAINS_AUTH_AUDIENCE": "https://a.example/mcp",
            "BRAINS_AUTH_SHARED_AUDIENCE": "true",
            "BRAINS_AUTH_JWKS_URL": "https://issuer.example/jwks",
            "BRAINS_PUBLIC_URL": "https://a.example/",
            "BRAINS_LOGIN_SCOPE": "Admin",
            "BRAINS_ORG_CLAIM": "org",
            "BRAINS_BRAIN_CLAIM": "brain",
            "BRAINS_PROJECTS_CLAIM": "groups",
            "BRAINS_SINGLE_TENANT": "1",
            "BRAINS_UPSTREAM_AUTH": "Internal",
            "BRAINS_UPSTREAM_AUDIENCE": "platform",
            "BRAINS_UPSTREAM_PLAIN": "yes",
            "BRAINS_SIGNING_KEYS_FILE": "/s",
            "BRAINS_INTERNAL_KEY_FILE": "/i",
            "BRAINS_STATE_KEYS_FILE": "/k",
            "BRAINS_CALLS_PER_SECOND": "0.5",
            "BRAINS_CALLS_AT_ONCE": "3",
            "BRAINS_ASKS_AT_ONCE": "1",
            "BRAINS_FETCHES_PER_MINUTE": "2",
            "BRAINS_STORED_PER_MINUTE": "4096",
            "BRAINS_MAX_BODIES": "8192",
            "BRAINS_LLM_URL": "http://127.0.0.1:11434/v1",
            "BRAINS_LLM_MODEL": "qwen3:4b",
            "BRAINS_LLM_KEY": "hush",
        },
    )
    assert settings.upstream_token is not None
    assert settings.token is not None
    assert settings.upstream_token.get_secret_value() == "up"
    assert settings.token.get_secret_value() == "in"
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "redis://127.0.0.1"
    assert settings.metrics_token is not None
    assert settings.metrics_token.get_secret_value() == "op"
    assert settings.embed_key is not None
    assert settings.embed_key.get_secret_value() == "ek"
    assert settings.llm_key is not None
    assert settings.llm_key.get_secret_value() == "hush"
    assert settings.model_dump(
        exclude={"upstream_token", "token", "metrics_token", "redis_url", "embed_key", "llm_key"}
    ) == {
        "upstream_url": "https://platform.example/api",
        "dialect": "daemon",
        "data_dir": tmp_path,
        "backup_dir": Path("/b"),
        "backup_keep": 30,
        "extra_tools": "on",
        "ui": "off",
        "embed_url": "http://127.0.0.1:11434/v1",
        "quota_notes": 10,
        "quota_bytes": 2048,
        "embed_model": "nomic-embed-text",
        "surfaces": ("memory", "kv"),
        "surface": "kv",
        "actor": "ann@example.org",
        "project": "apollo",
        "read_only": True,
        "write_scope": "global",
        "recall_notes": 7,
        "context_entries": 3,
        "being_model": "any-model",
        "full_text": "off",
        "direct": "off",
        "tool_prefix": "{surface}_",
        "metrics_port": 9464,
        "default_brain": "main",
        "host": "::1",
        "port": 9000,
        "ingest_roots": (tmp_path, Path("/")),
        "max_body": 2048,
        "allowed_hosts": ("a.example", "b.example"),
        "allowed_origins": ("https://a.example",),
        "fetch": "off",
        "fetch_allow": (IPv4Network("10.1.0.0/16"), IPv6Network("fd12:3456::/32"), IPv4Network("192.168.7.9/32")),
        "connect_seconds": 0.5,
        "read_seconds": 1.0,
        "ingest_seconds": 2.0,
        "stage_seconds": 3.0,
        "first_event_seconds": 4.0,
        "idle_seconds": 5.5,
        "ask_seconds": 86_400.0,
        "log_level": "warning",
        "log_format": "json",
        "log_callers": "hash",
        "audit_log": Path("/a"),
        "auth": "jwt",
        "tokens_file": Path("/t"),
        "users_file": Path("/u"),
        "login_keys_file": Path("/l"),
        "auth_issuer": "https://issuer.example/",
        "auth_audience": "https://a.example/mcp",
        "auth_shared_audience": True,
        "auth_jwks_url": "https://issuer.example/jwks",
        "public_url": "https://a.example",
        "login_scope": "admin",
        "org_claim": "org",
        "brain_claim": "brain",
        "projects_claim": "groups",
        "single_tenant": True,
        "upstream_auth": "internal",
        "upstream_audience": "platform",
        "upstream_plain": True,
        "signing_keys_file": Path("/s"),
        "internal_key_file": Path("/i"),
        "state_keys_file": Path("/k"),
        "calls_per_second": 0.5,
        "calls_at_once": 3,
        "asks_at_once": 1,
        "fetches_per_minute": 2,
        "stored_per_minute": 4096,
        "max_bodies": 8192,
        "llm_url": "http://127.0.0.1:11434/v1",
        "llm_model": "qwen3:4b",
    }


def test_the_names_agents_already_have_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(monkeypatch, {"JB_ENDPOINT": "http://h", "JB_TOKEN": "t", "JB_BRAIN": "b"})
    assert settings.upstream_token is not None
    found = (settings.upstream_url, settings.upstream_token.get_secret_value(), settings.default_brain)
    assert found == ("http://h", "t", "b")


@pytest.mark.parametrize(
    ("environment", "field", "winner"),
    [
        ({"BRAINS_UPSTREAM_URL": "http://ours", "JB_ENDPOINT": "http://theirs"}, "upstream_url", "http://ours"),
        ({"JBMCP_DEFAULT_BRAIN": "a", "JB_BRAIN": "b", "BRAINS_DEFAULT_BRAIN": "c"}, "default_brain", "a"),
        ({"JB_BRAIN": "b", "BRAINS_DEFAULT_BRAIN": "c"}, "default_brain", "b"),
        ({"JBMCP_DEFAULT_BRAIN": "", "BRAINS_DEFAULT_BRAIN": "c"}, "default_brain", "c"),
    ],
)
def test_of_several_names_the_first_that_is_set_wins(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], field: str, winner: str
) -> None:
    assert getattr(loaded(monkeypatch, environment), field) == winner


def test_a_flag_wins_over_the_environment_and_no_flag_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(monkeypatch, {"BRAINS_PORT": "9000", "BRAINS_HOST": "::1"}, port=9001, host=None)
    assert (settings.port, settings.host) == (9001, "::1")


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["UPSTREAM_URL", "UPSTREAM_TOKEN", "TOKEN", "PORT", "DATA_DIR", "INGEST_ROOTS", "LOG_LEVEL"]
    assert loaded(monkeypatch, {f"BRAINS_{name}": "" for name in names}) == load()


@pytest.mark.parametrize(
    ("given_url", "root"),
    [
        ("http://h", "http://h"),
        ("https://h/", "https://h"),
        ("https://h/v1", "https://h"),
        ("https://h/v1/", "https://h"),
        ("https://h:8443/api/v1//", "https://h:8443/api"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://münchen.example", "http://münchen.example"),
        ("HTTP://h", "HTTP://h"),
    ],
)
def test_a_url_is_kept_as_the_root_above_v1(monkeypatch: pytest.MonkeyPatch, given_url: str, root: str) -> None:
    assert loaded(monkeypatch, {"BRAINS_UPSTREAM_URL": given_url}).upstream_url == root


@pytest.mark.parametrize(
    "url",
    [
        "platform.example",
        "ftp://h",
        "http://",
        "http:///v1",
        "http://user@h",
        "http://user:pw@h",
        "http://@h",
        "http://h?x=1",
        "http://h/?",
        "http://h#",
        "http://h:99999",
        "http://h:abc",
        "http://[::1",
        "http://a..b",
        f"http://{'a' * 64}.example",
        " http://h",
        "http://h ",
        "http://ho st",
        "http://h\\x",
        "http://h\nx",
    ],
    ids=ascii,
)
def test_a_url_no_request_could_be_built_on_is_refused_at_start(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    assert complaint(monkeypatch, {"BRAINS_UPSTREAM_URL": url}) == f"BRAINS_UPSTREAM_URL {URL_RULE}"


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"JB_ENDPOINT": "nonsense"}, f"JB_ENDPOINT {URL_RULE}"),
        ({"JBMCP_DEFAULT_BRAIN": "../x"}, f"JBMCP_DEFAULT_BRAIN {BRAIN_RULE}"),
        ({"JB_BRAIN": "../x"}, f"JB_BRAIN {BRAIN_RULE}"),
        ({"BRAINS_DEFAULT_BRAIN": "../x"}, f"BRAINS_DEFAULT_BRAIN {BRAIN_RULE}"),
        (
            {"BRAINS_PROJECT": "global"},
            "BRAINS_PROJECT must be a project's name: global is a scope that is no project.",
        ),
        (
            {"MEMOAI_PROJECT": "Private"},
            "MEMOAI_PROJECT must be a project's name: Private is a scope that is no project.",
        ),
        ({"BRAINS_TOKEN": "two words"}, f"BRAINS_TOKEN {WORD_RULE}"),
        ({"BRAINS_TOKEN": "größe"}, f"BRAINS_TOKEN {WORD_RULE}"),
        ({"BRAINS_UPSTREAM_URL": "http://h", "JB_TOKEN": "line\n"}, f"JB_TOKEN {WORD_RULE}"),
        (
            {"BRAINS_PORT": "abc"},
            "BRAINS_PORT must be a whole number.",
        ),
        ({"BRAINS_PORT": "0"}, "BRAINS_PORT must be at least 1."),
        ({"BRAINS_PORT": "65536"}, "BRAINS_PORT must be at most 65535."),
        ({"BRAINS_MAX_BODY": "1"}, "BRAINS_MAX_BODY must be at least 1024."),
        (
            {"BRAINS_LOG_LEVEL": "loud"},
            "BRAINS_LOG_LEVEL must be one of 'debug', 'info', 'warning' or 'error'.",
        ),
        (
            {"BRAINS_LOG_FORMAT": "xml"},
            "BRAINS_LOG_FORMAT must be one of 'auto', 'text' or 'json'.",
        ),
        ({"BRAINS_FETCH": "true"}, "BRAINS_FETCH must be one of 'on' or 'off'."),
        ({"BRAINS_FULL_TEXT": "no"}, "BRAINS_FULL_TEXT must be one of 'on' or 'off'."),
        *[
            (
                {"BRAINS_TOOL_PREFIX": bad},
                "BRAINS_TOOL_PREFIX must be at most 16 of a-z, 0-9 and _, the first a letter; {surface} in it is the "
                "name of the surface.",
            )
            for bad in ("Brain_", "1_", "_x", "a-b", "a.b", "a" * 17, "{surface}_is_longer_", "{surfaces}_", "{}", "ä")
        ],
        *[
            ({"BRAINS_FETCH_ALLOW": bad}, f"BRAINS_FETCH_ALLOW {NETWORK_RULE}")
            for bad in ("intranet", "10.0.0.0/33", "10.0.0.0/8 fd00::/8", "10.0.0.0/8;fd00::/8", "10.*", "{ge}", "8")
        ],
        *[
            (
                {"BRAINS_FETCH_ALLOW": f"10.0.0.0/8,{never}"},
                f"BRAINS_FETCH_ALLOW names {never}, which is never fetched from.",
            )
            for never in ("127.0.0.0/8", "169.254.169.254", "224.0.0.0/4", "::1", "fe80::/10", "::ffff:10.0.0.0/104")
        ],
        ({"BRAINS_INGEST_ROOTS": "/:/no/such"}, "BRAINS_INGEST_ROOTS names /no/such, which is not a directory."),
        ({"BRAINS_INGEST_ROOTS": "/no/{such}"}, "BRAINS_INGEST_ROOTS names /no/{such}, which is not a directory."),
        *[
            (
                {"BRAINS_LLM_URL": bad, "BRAINS_LLM_MODEL": "m"},
                "BRAINS_LLM_URL must be a plain http:// or https:// URL, for example http://127.0.0.1:11434/v1.",
            )
            for bad in ("ollama", "http://", "http://h/?key=1", "file:///model", "http://u:p@h/v1")
        ],
        (
            {"BRAINS_LLM_URL": "http://h"},
            "BRAINS_LLM_URL is set but BRAINS_LLM_MODEL is not: name the model that is to be used there.",
        ),
        *[
            (
                {f"BRAINS_LLM_{word}": "x"},
                f"BRAINS_LLM_{word} is set but BRAINS_LLM_URL is not: set the address of the model too, or unset "
                f"BRAINS_LLM_{word}.",
            )
            for word in ("MODEL", "KEY")
        ],
        (
            {"BRAINS_LLM_URL": "http://h", "BRAINS_LLM_MODEL": "m", "BRAINS_LLM_KEY": "two words"},
            f"BRAINS_LLM_KEY {WORD_RULE}",
        ),
        (
            {"BRAINS_EMBED_MODEL": "nomic-embed-text"},
            "BRAINS_EMBED_MODEL is set but BRAINS_EMBED_URL is not: set the address of the model too, or unset "
            "BRAINS_EMBED_MODEL.",
        ),
        (
            {"BRAINS_EMBED_KEY": "hunter2"},
            "BRAINS_EMBED_KEY is set but BRAINS_EMBED_URL is not: set the address of the model too, or unset "
            "BRAINS_EMBED_KEY.",
        ),
        (
            {"BRAINS_EMBED_URL": "http://127.0.0.1:11434"},
            "BRAINS_EMBED_URL is set but BRAINS_EMBED_MODEL is not: name the model that is to be used there.",
        ),
        (
            {"BRAINS_EMBED_URL": "ftp://example", "BRAINS_EMBED_MODEL": "small"},
            "BRAINS_EMBED_URL must be a plain http:// or https:// URL, for example http://127.0.0.1:11434/v1.",
        ),
        (
            {"JB_TOKEN": "hunter2"},
            "BRAINS_UPSTREAM_TOKEN (or JB_TOKEN) is set but BRAINS_UPSTREAM_URL is not: "
            "set the URL too, or unset the token to use the embedded brain.",
        ),
    ],
)
def test_a_bad_setting_is_one_sentence_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], sentence: str
) -> None:
    assert complaint(monkeypatch, environment) == sentence


def test_a_bad_flag_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaint(monkeypatch, {}, upstream_url="nonsense") == f"BRAINS_UPSTREAM_URL {URL_RULE}"
    assert complaint(monkeypatch, {}, port=0) == "BRAINS_PORT must be at least 1."


@pytest.mark.parametrize("name", ["BRAINS_TOKEN", "BRAINS_UPSTREAM_TOKEN", "JB_TOKEN", "BRAINS_LLM_KEY"])
def test_a_secret_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    others = {"BRAINS_UPSTREAM_URL": "http://h", "BRAINS_LLM_URL": "http://h", "BRAINS_LLM_MODEL": "m"}
    settings = loaded(monkeypatch, {name: "hunter2", **others})
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert "hunter2" not in complaint(monkeypatch, {name: "hunter2 is two words"})


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    environment = {"HOME": str(tmp_path), "BRAINS_INGEST_ROOTS": "~/notes:~", "BRAINS_DATA_DIR": "~/data"}
    settings = loaded(monkeypatch, environment)
    assert settings.ingest_roots == (tmp_path / "notes", tmp_path)
    assert settings.data_dir == tmp_path / "data"


def test_a_relative_data_directory_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert loaded(monkeypatch, {"BRAINS_DATA_DIR": "data/../brain"}).data_dir == tmp_path / "brain"


def test_roots_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(monkeypatch, {"BRAINS_INGEST_ROOTS": ":"}).ingest_roots == ()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("example.com", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("127.1", False),
    ],
)
def test_only_what_cannot_be_reached_from_elsewhere_is_loopback(host: str, loopback: bool) -> None:
    assert load(host=host).is_loopback is loopback


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load().port = 1


def test_every_setting_is_described_and_has_a_variable_of_ours() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        if isinstance(field.validation_alias, AliasChoices):
            assert f"BRAINS_{name.upper()}" in field.validation_alias.choices


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"BRAINS_ALLOWED_HOSTS": "http://a"}, "BRAINS_ALLOWED_HOSTS must be host names alone"),
        ({"BRAINS_ALLOWED_ORIGINS": "app.example"}, "BRAINS_ALLOWED_ORIGINS must be origins with their scheme"),
    ],
)
def test_hosts_are_names_and_origins_have_a_scheme(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], sentence: str
) -> None:
    assert complaint(monkeypatch, environment).startswith(sentence)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "86401", "soon"])
@pytest.mark.parametrize("name", sorted(name for name in Settings.model_fields if name.endswith("_seconds")))
def test_seconds_are_a_number_that_somebody_would_wait_for(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    sentence = complaint(monkeypatch, {f"BRAINS_{name.upper()}": value})
    assert sentence.startswith(f"BRAINS_{name.upper()} must be ")
    assert "Input" not in sentence


def test_the_deadlines_are_those_of_the_settings() -> None:
    """Each its own, and by default those that the client has by itself."""
    names = [name for name in Settings.model_fields if name.endswith("_seconds")]
    chosen = {name: float(n) for n, name in enumerate(names, start=1)}
    found = gateway.deadlines_of(load(**chosen))
    assert {f"{name}_seconds": seconds for name, seconds in asdict(found).items() if name != "probe"} == chosen
    assert gateway.deadlines_of(load(upstream_url="http://127.0.0.1:1")) == Deadlines()
