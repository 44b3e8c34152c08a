"""What is not safe does not start: exit code 2, and one sentence that names the variable and says what to do."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.applications import Starlette

from gateway.cli import key, main
from gateway.config.reread_file import replace_file
from tests.canaries.world import Recording
from tests.served import listening

SECRET = "hunter2-hunter2"
HOSTED = {
    "BRAINS_AUTH": "jwt",
    "BRAINS_AUTH_ISSUER": "https://login.example",
    "BRAINS_PUBLIC_URL": "https://me.example",
}
LONG = f"{SECRET}-{SECRET}"
NAMED = {"BRAINS_PUBLIC_URL": "https://me.example"}
UPSTREAM = {"BRAINS_UPSTREAM_URL": "https://platform.example"}
INTERNAL = {
    **UPSTREAM,
    "BRAINS_UPSTREAM_AUTH": "internal",
    "BRAINS_UPSTREAM_AUDIENCE": "https://platform.example",
    "BRAINS_PUBLIC_URL": "http://127.0.0.1:8787",
    "BRAINS_SIGNING_KEYS_FILE": "{keys}",
}
PASSTHROUGH = {**UPSTREAM, "BRAINS_UPSTREAM_AUTH": "passthrough"}
TOKENS = {"BRAINS_AUTH": "tokens", "BRAINS_TOKENS_FILE": "{tokens}"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files that are as they should be, and some that are not, by the names that the settings below have for them."""
    made = tmp_path_factory.mktemp("gates")
    keys, tokens, word, state = made / "keys.json", made / "tokens.json", made / "word", made / "state"
    key.create_keys(keys, "ES256")
    replace_file(tokens, b'{"tokens": []}')
    replace_file(word, f"{SECRET}\n".encode())
    replace_file(state, b"ab" * 32 + b"\n")
    bodies = {"damaged": b"hunter2-hunter2 {", "empty": b"", "two words": f"{SECRET} {SECRET}".encode()}
    for name, body in bodies.items():
        replace_file(made / name, body)
    for name, path in (("open keys", keys), ("open word", word), ("open state", state)):
        replace_file(made / name, path.read_bytes())
        (made / name).chmod(0o604)
    found = {name: str(made / name) for name in (*bodies, "open keys", "open word", "open state")}
    named = {"keys": keys, "tokens": tokens, "word": word, "state": state, "missing": made / "missing"}
    return found | {name: str(path) for name, path in named.items()}


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else has: whoever gets so far as to want it is past the gates."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound.getsockname()[1]


@dataclass
class Command:
    """`brains-gateway`, run in this process: what it says and how it ends."""

    files: dict[str, str]
    port: int
    patch: pytest.MonkeyPatch
    captured: pytest.CaptureFixture[str]
    data: Path

    def run(self, *arguments: str, **settings: str) -> tuple[int, str]:
        self.patch.setenv("BRAINS_DATA_DIR", str(self.data))
        for name, value in settings.items():
            self.patch.setenv(name, value.format_map(self.files))
        with pytest.raises(SystemExit) as ended:
            main.main([*arguments])
        said = self.captured.readouterr()
        assert said.out == ""
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.err

    def serve(self, **settings: str) -> tuple[int, str]:
        return self.run("serve", "--port", str(self.port), **settings)


@pytest.fixture
def command(
    files: dict[str, str],
    taken: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Command:
    return Command(files, taken, monkeypatch, capsys, tmp_path / "data")


def is_refused(code: int, said: str, variable: str, remedy: str) -> None:
    assert code == 2
    assert said.startswith("brains-gateway: ")
    assert said.endswith(".\n")
    assert said.count("\n") == 1
    assert variable in said
    assert remedy in said
    assert SECRET not in said


def is_past_the_gates(code: int, said: str) -> None:
    assert (code, "in use" in said, said.count("\n")) == (1, True, 1), said


# What is set; the variable that the sentence must name; what it says to do.
UNSAFE: dict[str, tuple[dict[str, str], str, str]] = {
    "all interfaces, nobody is asked": ({"BRAINS_HOST": "0.0.0.0"}, "BRAINS_HOST", "set BRAINS_AUTH or BRAINS_TOKEN"),
    "all interfaces of IPv6": ({"BRAINS_HOST": "::"}, "BRAINS_HOST", "or listen on 127.0.0.1"),
    "an address of the network": ({"BRAINS_HOST": "192.168.1.2"}, "BRAINS_HOST", "or listen on 127.0.0.1"),
    "a name": ({"BRAINS_HOST": "me.example"}, "BRAINS_HOST", "or listen on 127.0.0.1"),
    "a name that begins as loopback does": ({"BRAINS_HOST": "127.0.0.1.example"}, "BRAINS_HOST", "set BRAINS_AUTH"),
    "all interfaces and explicitly nobody": (
        {"BRAINS_HOST": "0.0.0.0", "BRAINS_AUTH": "none"},
        "BRAINS_HOST",
        "set BRAINS_AUTH or BRAINS_TOKEN",
    ),
    "all interfaces and an empty token": (
        {"BRAINS_HOST": "0.0.0.0", "BRAINS_TOKEN": ""},
        "BRAINS_HOST",
        "BRAINS_TOKEN",
    ),
    "all interfaces, judged by the platform alone": (
        {"BRAINS_HOST": "0.0.0.0", **PASSTHROUGH},
        "BRAINS_HOST",
        "set BRAINS_AUTH or BRAINS_TOKEN",
    ),
    "a token that is soon guessed": (
        {"BRAINS_HOST": "0.0.0.0", "BRAINS_TOKEN": SECRET, **NAMED},
        "BRAINS_TOKEN has fewer than 16 characters",
        "make a longer one with openssl rand -hex 32",
    ),
    "a token that is soon guessed, behind a proxy": (
        {"BRAINS_TOKEN": SECRET, **NAMED},
        "BRAINS_TOKEN has fewer than 16 characters",
        "make a longer one",
    ),
    "a token of the operator that is soon guessed": (
        {**HOSTED, "BRAINS_METRICS_TOKEN": SECRET},
        "BRAINS_METRICS_TOKEN has fewer than 16 characters",
        "make a longer one",
    ),
    "all interfaces by no name": (
        {"BRAINS_HOST": "0.0.0.0", "BRAINS_TOKEN": LONG},
        "BRAINS_HOST",
        "set BRAINS_PUBLIC_URL, or BRAINS_ALLOWED_HOSTS",
    ),
    "all interfaces by no name, with tokens": (
        {"BRAINS_HOST": "::", **TOKENS},
        "BRAINS_HOST",
        "set BRAINS_PUBLIC_URL, or BRAINS_ALLOWED_HOSTS",
    ),
    "a Redis by another scheme": (
        {**TOKENS, "BRAINS_REDIS_URL": f"http://:{SECRET}@127.0.0.1"},
        "BRAINS_REDIS_URL",
        "an address such as redis://127.0.0.1:6379/0",
    ),
    "a Redis by a port that is none": (
        {**TOKENS, "BRAINS_REDIS_URL": f"redis://:{SECRET}@127.0.0.1:99999/0"},
        "BRAINS_REDIS_URL",
        "an address such as redis://127.0.0.1:6379/0",
    ),
    "a database of Redis by a name": (
        {**TOKENS, "BRAINS_REDIS_URL": f"redis://:{SECRET}@127.0.0.1:6379/limits"},
        "BRAINS_REDIS_URL",
        "an address such as redis://127.0.0.1:6379/0",
    ),
    "an option that Redis does not know": (
        {**TOKENS, "BRAINS_REDIS_URL": f"redis://:{SECRET}@127.0.0.1:6379/0?timeuot=1"},
        "BRAINS_REDIS_URL",
        "take it out",
    ),
    "two ways in": ({**TOKENS, "BRAINS_TOKEN": SECRET}, "BRAINS_AUTH", "unset one of them"),
    "nobody is asked for a token that is set": (
        {"BRAINS_AUTH": "none", "BRAINS_TOKEN": SECRET},
        "BRAINS_TOKEN",
        "unset one of them",
    ),
    "tokens without their file": (
        {"BRAINS_AUTH": "tokens", "BRAINS_TOKENS_FILE": "{missing}"},
        "BRAINS_TOKENS_FILE",
        "brains-gateway token create",
    ),
    "tokens with a damaged file": (
        {"BRAINS_AUTH": "tokens", "BRAINS_TOKENS_FILE": "{damaged}"},
        "BRAINS_TOKENS_FILE",
        "brains-gateway token create",
    ),
    "tokens in the data directory, where there are none": (
        {"BRAINS_AUTH": "tokens"},
        "BRAINS_TOKENS_FILE",
        "brains-gateway token create",
    ),
    "no issuer": ({**HOSTED, "BRAINS_AUTH_ISSUER": ""}, "BRAINS_AUTH_ISSUER", "set BRAINS_AUTH_ISSUER"),
    "no public address": ({**HOSTED, "BRAINS_PUBLIC_URL": ""}, "BRAINS_PUBLIC_URL", "set BRAINS_PUBLIC_URL"),
    "itself the issuer": (
        {**HOSTED, "BRAINS_AUTH_ISSUER": "https://me.example/"},
        "BRAINS_AUTH_ISSUER",
        "name the provider",
    ),
    "an issuer by plain http": (
        {**HOSTED, "BRAINS_AUTH_ISSUER": "http://login.example"},
        "BRAINS_AUTH_ISSUER",
        "https",
    ),
    "keys by plain http": (
        {**HOSTED, "BRAINS_AUTH_JWKS_URL": "http://login.example/keys"},
        "BRAINS_AUTH_JWKS_URL",
        "must begin with https://",
    ),
    "a public address by plain http": (
        {**HOSTED, "BRAINS_PUBLIC_URL": "http://me.example"},
        "BRAINS_PUBLIC_URL",
        "must begin with https://",
    ),
    "an audience that is a word": (
        {**HOSTED, "BRAINS_AUTH_AUDIENCE": "gateway"},
        "BRAINS_AUTH_AUDIENCE",
        "must be a URI",
    ),
    "state keys that are not there": (
        {"BRAINS_STATE_KEYS_FILE": "{missing}"},
        "BRAINS_STATE_KEYS_FILE",
        "64 hex digits",
    ),
    "state keys that are none": ({"BRAINS_STATE_KEYS_FILE": "{damaged}"}, "BRAINS_STATE_KEYS_FILE", "64 hex digits"),
    "state keys for all to read": ({"BRAINS_STATE_KEYS_FILE": "{open state}"}, "BRAINS_STATE_KEYS_FILE", "chmod 600"),
    "signed for the embedded brain": (
        {**INTERNAL, "BRAINS_UPSTREAM_URL": ""},
        "BRAINS_UPSTREAM_AUTH",
        "no BRAINS_UPSTREAM_URL: set it",
    ),
    "a public address and no token": (
        {"BRAINS_PUBLIC_URL": "https://me.example"},
        "BRAINS_PUBLIC_URL",
        "set BRAINS_AUTH or BRAINS_TOKEN",
    ),
    "a shared secret that nobody sends": (
        {**UPSTREAM, "BRAINS_INTERNAL_KEY_FILE": "{keys}"},
        "BRAINS_INTERNAL_KEY_FILE",
        "BRAINS_UPSTREAM_AUTH=internal",
    ),
    "passed through to the embedded brain": (
        {"BRAINS_UPSTREAM_AUTH": "passthrough"},
        "BRAINS_UPSTREAM_AUTH",
        "no BRAINS_UPSTREAM_URL: set it",
    ),
    "one token for many with tokens": (
        {**TOKENS, **UPSTREAM, "BRAINS_UPSTREAM_TOKEN": SECRET},
        "BRAINS_AUTH",
        "set BRAINS_UPSTREAM_AUTH=internal, or BRAINS_SINGLE_TENANT=true",
    ),
    "one token for many with access tokens": (
        {**HOSTED, **UPSTREAM, "BRAINS_UPSTREAM_TOKEN": SECRET},
        "BRAINS_AUTH",
        "set BRAINS_UPSTREAM_AUTH=internal, or BRAINS_SINGLE_TENANT=true",
    ),
    "no token at all for many": ({**HOSTED, **UPSTREAM}, "BRAINS_AUTH", "set BRAINS_UPSTREAM_AUTH=internal"),
    "tokens of ours passed through": ({**TOKENS, **PASSTHROUGH}, "BRAINS_UPSTREAM_AUTH", "Use jwt"),
    "the one token passed through": ({"BRAINS_TOKEN": SECRET, **PASSTHROUGH}, "BRAINS_UPSTREAM_AUTH", "Use jwt"),
    "access tokens passed on that are for us alone": (
        {**HOSTED, **PASSTHROUGH},
        "BRAINS_UPSTREAM_AUTH",
        "set BRAINS_UPSTREAM_AUDIENCE to the same audience",
    ),
    "access tokens passed on to another audience": (
        {**HOSTED, **PASSTHROUGH, "BRAINS_UPSTREAM_AUDIENCE": "https://me.example/mcp/"},
        "BRAINS_UPSTREAM_AUTH",
        "or BRAINS_UPSTREAM_AUTH=internal",
    ),
    "signed with no keys": (
        {**INTERNAL, "BRAINS_SIGNING_KEYS_FILE": ""},
        "BRAINS_UPSTREAM_AUTH",
        "BRAINS_SIGNING_KEYS_FILE",
    ),
    "signed for nobody": (
        {**INTERNAL, "BRAINS_UPSTREAM_AUDIENCE": ""},
        "BRAINS_UPSTREAM_AUTH",
        "BRAINS_UPSTREAM_AUDIENCE",
    ),
    "signed by nobody": ({**INTERNAL, "BRAINS_PUBLIC_URL": ""}, "BRAINS_UPSTREAM_AUTH", "set BRAINS_PUBLIC_URL too"),
    "signing keys that are not there": (
        {**INTERNAL, "BRAINS_SIGNING_KEYS_FILE": "{missing}"},
        "BRAINS_SIGNING_KEYS_FILE",
        "brains-gateway key create",
    ),
    "signing keys that are none": (
        {**INTERNAL, "BRAINS_SIGNING_KEYS_FILE": "{damaged}"},
        "BRAINS_SIGNING_KEYS_FILE",
        "brains-gateway key create",
    ),
    "signing keys for all to read": (
        {**INTERNAL, "BRAINS_SIGNING_KEYS_FILE": "{open keys}"},
        "BRAINS_SIGNING_KEYS_FILE",
        "chmod 600",
    ),
    "signing keys that nobody uses and are not there": (
        {"BRAINS_SIGNING_KEYS_FILE": "{missing}"},
        "BRAINS_SIGNING_KEYS_FILE",
        "brains-gateway key create",
    ),
    "signing keys that nobody uses, for all to read": (
        {**UPSTREAM, "BRAINS_SIGNING_KEYS_FILE": "{open keys}"},
        "BRAINS_SIGNING_KEYS_FILE",
        "chmod 600",
    ),
    "a shared secret that is not there": (
        {**INTERNAL, "BRAINS_INTERNAL_KEY_FILE": "{missing}"},
        "BRAINS_INTERNAL_KEY_FILE",
        "Put one word in it",
    ),
    "a shared secret of two words": (
        {**INTERNAL, "BRAINS_INTERNAL_KEY_FILE": "{two words}"},
        "BRAINS_INTERNAL_KEY_FILE",
        "Put one word in it",
    ),
    "an empty shared secret": (
        {**INTERNAL, "BRAINS_INTERNAL_KEY_FILE": "{empty}"},
        "BRAINS_INTERNAL_KEY_FILE",
        "Put one word in it",
    ),
    "a shared secret for all to read": (
        {**INTERNAL, "BRAINS_INTERNAL_KEY_FILE": "{open word}"},
        "BRAINS_INTERNAL_KEY_FILE",
        "chmod 600",
    ),
    "a platform by plain http": (
        {"BRAINS_UPSTREAM_URL": "http://platform.example", "BRAINS_UPSTREAM_TOKEN": SECRET},
        "BRAINS_UPSTREAM_URL",
        "use https://, or set BRAINS_UPSTREAM_PLAIN=true",
    ),
    "a platform by plain http for many": (
        {**INTERNAL, **HOSTED, "BRAINS_UPSTREAM_URL": "http://platform.example"},
        "BRAINS_UPSTREAM_URL",
        "BRAINS_UPSTREAM_PLAIN=true",
    ),
    "a platform whose name begins as loopback does": (
        {"BRAINS_UPSTREAM_URL": "http://127.0.0.1.example"},
        "BRAINS_UPSTREAM_URL",
        "BRAINS_UPSTREAM_PLAIN=true",
    ),
    "a platform at a word for yes that is none": (
        {"BRAINS_UPSTREAM_URL": "http://platform.example", "BRAINS_UPSTREAM_PLAIN": "maybe"},
        "BRAINS_UPSTREAM_PLAIN",
        "must be true or false",
    ),
    "a password in the address of the platform": (
        {"BRAINS_UPSTREAM_URL": f"https://me:{SECRET}@platform.example"},
        "BRAINS_UPSTREAM_URL",
        "must be a plain http:// or https:// URL",
    ),
    "a password in the address of the provider": (
        {**HOSTED, "BRAINS_AUTH_ISSUER": f"https://me:{SECRET}@login.example"},
        "BRAINS_AUTH_ISSUER",
        "must be a plain http:// or https:// URL",
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_not_safe_does_not_start_and_says_why(command: Command, name: str) -> None:
    settings, variable, remedy = UNSAFE[name]
    is_refused(*command.serve(**settings), variable, remedy)


# Patterns that would stand for everybody.
OPEN: dict[str, tuple[dict[str, str], str]] = {
    "any host name": ({"BRAINS_ALLOWED_HOSTS": "*"}, "BRAINS_ALLOWED_HOSTS"),
    "any host name, in other words": ({"BRAINS_ALLOWED_HOSTS": "[!:]*"}, "BRAINS_ALLOWED_HOSTS"),
    "any origin": ({"BRAINS_ALLOWED_ORIGINS": "*://*"}, "BRAINS_ALLOWED_ORIGINS"),
}


@pytest.mark.parametrize("name", OPEN)
def test_the_guard_of_hosts_and_origins_cannot_be_turned_off(command: Command, name: str) -> None:
    settings, variable = OPEN[name]
    is_refused(*command.serve(**settings), variable, "")


def test_a_file_of_tokens_that_everybody_can_write_to_does_not_start(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"tokens": []}', encoding="utf-8")
    path.chmod(0o666)
    is_refused(*command.serve(BRAINS_AUTH="tokens", BRAINS_TOKENS_FILE=str(path)), "BRAINS_TOKENS_FILE", "chmod")


SAFE: dict[str, dict[str, str]] = {
    "nothing set": {},
    "nobody is asked, on loopback": {"BRAINS_AUTH": "none"},
    "loopback by name": {"BRAINS_HOST": "localhost"},
    "one token on all interfaces": {"BRAINS_HOST": "0.0.0.0", "BRAINS_TOKEN": LONG, **NAMED},
    "one token on all interfaces, by address": {
        "BRAINS_HOST": "0.0.0.0",
        "BRAINS_TOKEN": LONG,
        "BRAINS_ALLOWED_HOSTS": "192.168.1.2",
    },
    "a short token on loopback": {"BRAINS_TOKEN": "abc"},
    "tokens on all interfaces": {"BRAINS_HOST": "0.0.0.0", **TOKENS, **NAMED},
    "tokens, and the embedded brain for all": TOKENS,
    "tokens, and a Redis with an option": {
        **TOKENS,
        "BRAINS_REDIS_URL": "rediss://cache.example?health_check_interval=9",
    },
    "tokens, and a Redis by a socket": {**TOKENS, "BRAINS_REDIS_URL": "unix:///run/redis.sock?db=1"},
    "tokens, and limits for all": {**TOKENS, "BRAINS_REDIS_URL": f"redis://:{SECRET}@127.0.0.1:6379/0"},
    "access tokens on all interfaces": {"BRAINS_HOST": "0.0.0.0", **HOSTED},
    "an issuer on this machine": {**HOSTED, "BRAINS_AUTH_ISSUER": "http://127.0.0.1:9"},
    "a public address on this machine": {**HOSTED, "BRAINS_PUBLIC_URL": "http://localhost:8787"},
    "an audience of another kind": {**HOSTED, "BRAINS_AUTH_AUDIENCE": "urn:brains:gateway"},
    "state keys": {"BRAINS_STATE_KEYS_FILE": "{state}"},
    "one user, one token": {**UPSTREAM, "BRAINS_UPSTREAM_TOKEN": SECRET},
    "one token in, one token out": {**UPSTREAM, "BRAINS_UPSTREAM_TOKEN": SECRET, "BRAINS_TOKEN": SECRET},
    "one tenant with tokens": {**TOKENS, **UPSTREAM, "BRAINS_SINGLE_TENANT": "true"},
    "one tenant with access tokens": {**HOSTED, **UPSTREAM, "BRAINS_SINGLE_TENANT": "true"},
    "signed for many with access tokens": {**INTERNAL, **HOSTED, "BRAINS_INTERNAL_KEY_FILE": "{word}"},
    "signed for many with tokens": {**INTERNAL, **TOKENS},
    "signed for the one user": INTERNAL,
    "passed through on loopback": PASSTHROUGH,
    "passed through where the audience is one": {
        **HOSTED,
        **PASSTHROUGH,
        "BRAINS_UPSTREAM_AUDIENCE": "https://me.example/mcp",
    },
    "a platform on this machine": {"BRAINS_UPSTREAM_URL": "http://127.0.0.1:9"},
    "a platform on this machine by name": {"BRAINS_UPSTREAM_URL": "http://localhost:9"},
    "a platform on this machine by IPv6": {"BRAINS_UPSTREAM_URL": "http://[::1]:9"},
    "a network of one's own": {"BRAINS_UPSTREAM_URL": "http://platform.example", "BRAINS_UPSTREAM_PLAIN": "true"},
    "a network of one's own, for many": {
        **INTERNAL,
        **HOSTED,
        "BRAINS_UPSTREAM_URL": "http://platform.example",
        "BRAINS_UPSTREAM_PLAIN": "true",
    },
}


@pytest.mark.parametrize("name", SAFE)
def test_what_is_safe_gets_past_the_gates(command: Command, name: str) -> None:
    is_past_the_gates(*command.serve(**SAFE[name]))


def test_the_gates_are_before_the_workers_too(command: Command) -> None:
    ended = command.run("serve", "--port", str(command.port), "--workers", "2", **TOKENS, **UPSTREAM)
    is_refused(*ended, "BRAINS_AUTH", "BRAINS_SINGLE_TENANT=true")


def test_a_flag_does_not_get_round_the_gates(command: Command) -> None:
    ended = command.run("serve", "--host", "0.0.0.0", "--port", str(command.port), BRAINS_HOST="127.0.0.1")
    is_refused(*ended, "BRAINS_HOST", "set BRAINS_AUTH")


def test_stdio_refuses_a_platform_by_plain_http(command: Command) -> None:
    settings, variable, remedy = UNSAFE["a platform by plain http"]
    is_refused(*command.run("stdio", **settings), variable, remedy)


@pytest.mark.parametrize(
    "name",
    ["signing keys that nobody uses and are not there", "state keys that are not there", "state keys that are none"],
)
def test_stdio_refuses_keys_that_cannot_be_read(command: Command, name: str) -> None:
    settings, variable, remedy = UNSAFE[name]
    is_refused(*command.run("stdio", **settings), variable, remedy)


def process(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        env={**clean, "PYTHONPATH": os.getcwd(), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_as_a_process_of_its_own_it_says_and_does_the_same(tmp_path: Path) -> None:
    done = process("serve", BRAINS_HOST="0.0.0.0", BRAINS_DATA_DIR=str(tmp_path / "data"))
    is_refused(done.returncode, done.stderr, "BRAINS_HOST", "set BRAINS_AUTH or BRAINS_TOKEN")
    assert done.stdout == ""
    assert not (tmp_path / "data").exists(), "nothing is made before the gates"


@pytest.mark.slow
def test_doctor_sends_no_token_over_a_network_that_others_read() -> None:
    # Every address of this machine, which is not loopback by its name: nothing leaves the machine.
    platform = Recording(Starlette())
    with listening(platform) as url:
        elsewhere = url.replace("127.0.0.1", "0.0.0.0")
        done = process("doctor", BRAINS_UPSTREAM_URL=elsewhere, BRAINS_UPSTREAM_TOKEN=SECRET)
    assert platform.seen == []
    is_refused(done.returncode, done.stderr, "BRAINS_UPSTREAM_URL", "BRAINS_UPSTREAM_PLAIN=true")


@pytest.mark.parametrize("arguments", [("stdio",), ("doctor",)], ids=" ".join)
@pytest.mark.parametrize("file", ["", "{missing}"], ids=["unset", "missing"])
@pytest.mark.slow
def test_what_cannot_be_signed_is_one_sentence_for_the_other_commands_too(
    files: dict[str, str], arguments: tuple[str, ...], file: str
) -> None:
    settings = {**INTERNAL, "BRAINS_UPSTREAM_URL": "http://127.0.0.1:9", "BRAINS_SIGNING_KEYS_FILE": file}
    done = process(*arguments, **{name: value.format_map(files) for name, value in settings.items()})
    is_refused(done.returncode, done.stderr, "BRAINS_SIGNING_KEYS_FILE", "")
