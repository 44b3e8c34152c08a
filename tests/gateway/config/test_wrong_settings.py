"""The mistakes that people make most: each stops the start with one sentence that says what to change."""

from pathlib import Path

import pytest

from tests.commands import run_here

LONG = "0123456789abcdef"
OPEN = {"BRAINS_HOST": "0.0.0.0", "BRAINS_TOKEN": LONG}
NAMED = {"BRAINS_PUBLIC_URL": "https://me.example"}
UPSTREAM = {"BRAINS_UPSTREAM_URL": "https://platform.example"}

# What is set; how the one sentence begins; what it says to do.
WRONG: dict[str, tuple[dict[str, str], str, str]] = {
    "a port that is a word": ({"BRAINS_PORT": "http"}, "BRAINS_PORT", "a whole number"),
    "a port that is none": ({"BRAINS_PORT": "70000"}, "BRAINS_PORT", "at most 65535"),
    "a level that is none": ({"BRAINS_LOG_LEVEL": "verbose"}, "BRAINS_LOG_LEVEL", "one of 'debug'"),
    "a format that is none": ({"BRAINS_LOG_FORMAT": "logfmt"}, "BRAINS_LOG_FORMAT", "one of 'auto'"),
    "a dialect that is none": ({"BRAINS_DIALECT": "rest"}, "BRAINS_DIALECT", "one of 'auto'"),
    "a surface that is none": ({"BRAINS_SURFACES": "memory,vr"}, "BRAINS_SURFACES", "some of memory, kv"),
    "a way in that is none": ({"BRAINS_AUTH": "oauth"}, "BRAINS_AUTH", "one of 'none', 'tokens', 'jwt' or 'password'"),
    "a yes that is none": ({"BRAINS_READ_ONLY": "please"}, "BRAINS_READ_ONLY", "true or false"),
    "a number of seconds below zero": ({"BRAINS_READ_SECONDS": "-1"}, "BRAINS_READ_SECONDS", "more than 0"),
    "a size with a unit": ({"BRAINS_MAX_BODY": "32MB"}, "BRAINS_MAX_BODY", "a whole number"),
    "a platform without its scheme": (
        {"BRAINS_UPSTREAM_URL": "platform.example"},
        "BRAINS_UPSTREAM_URL",
        "http:// or https://",
    ),
    "a platform by plain http": (
        {"BRAINS_UPSTREAM_URL": "http://platform.example"},
        "BRAINS_UPSTREAM_URL",
        "BRAINS_UPSTREAM_PLAIN=true",
    ),
    "a token for no platform": ({"BRAINS_UPSTREAM_TOKEN": LONG}, "BRAINS_UPSTREAM_TOKEN", "set the URL too"),
    "a token of two words": ({"BRAINS_TOKEN": "Bearer x"}, "BRAINS_TOKEN", "one word"),
    "a host with its scheme": ({"BRAINS_ALLOWED_HOSTS": "https://a.example"}, "BRAINS_ALLOWED_HOSTS", "host names"),
    "an address with its port": ({"BRAINS_HOST": "127.0.0.1:9000"}, "BRAINS_HOST", "an address of this machine alone"),
    "an origin without its scheme": ({"BRAINS_ALLOWED_ORIGINS": "a.example"}, "BRAINS_ALLOWED_ORIGINS", "scheme"),
    "a directory that is not there": ({"BRAINS_INGEST_ROOTS": "/no/such"}, "BRAINS_INGEST_ROOTS", "not a directory"),
    "everybody may call": ({"BRAINS_HOST": "0.0.0.0"}, "BRAINS_HOST", "set BRAINS_AUTH or BRAINS_TOKEN"),
    "a token of three letters": ({**OPEN, **NAMED, "BRAINS_TOKEN": "abc"}, "BRAINS_TOKEN", "openssl rand -hex 32"),
    "a public address by no name": (OPEN, "BRAINS_HOST", "set BRAINS_PUBLIC_URL, or BRAINS_ALLOWED_HOSTS"),
    "access tokens of nobody": ({"BRAINS_AUTH": "jwt", **NAMED}, "BRAINS_AUTH", "set BRAINS_AUTH_ISSUER"),
    "one token for many tenants": (
        {"BRAINS_AUTH": "tokens", "BRAINS_TOKENS_FILE": "{tokens}", **UPSTREAM},
        "BRAINS_AUTH",
        "set BRAINS_UPSTREAM_AUTH=internal",
    ),
    "a secret file that is not there": ({"BRAINS_TOKEN_FILE": "/no/such"}, "BRAINS_TOKEN_FILE", "cannot be read"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_set_wrongly_is_told_in_one_sentence_and_does_not_start(tmp_path: Path, name: str) -> None:
    wrong, variable, remedy = WRONG[name]
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"tokens": []}')
    settings = {key: value.format(tokens=tokens) for key, value in wrong.items()}
    done = run_here("serve", BRAINS_DATA_DIR=str(tmp_path / "data"), **settings)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"brains-gateway: {variable}")
    assert remedy in line
    assert line.endswith(".")
    assert ". " not in line
    assert not (tmp_path / "data").exists()
