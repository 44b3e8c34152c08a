"""Where settings come from: which place wins, what files may hold, and what is said of names that are none."""

import json
from pathlib import Path

import pytest

from gateway.config.settings import BadSetting, Settings, load
from gateway.config.sources import is_secret, known_variables, origins, warnings
from tests.commands import run_here

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "brains.toml"
    path.touch(mode=0o600)
    monkeypatch.setenv("BRAINS_CONFIG", str(path))
    return path


def complaint() -> str:
    with pytest.raises(BadSetting) as caught:
        load()
    said = str(caught.value)
    assert SECRET not in said
    return said


def test_a_toml_file_says_what_neither_a_flag_nor_the_environment_says(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('port = 9001\nhost = "::1"\nmax_body = 2048\nsingle_tenant = true\nread_seconds = 1.5\n')
    monkeypatch.setenv("BRAINS_HOST", "127.0.0.2")
    settings = load(port=9003)
    found = (settings.port, settings.host, settings.max_body, settings.single_tenant, settings.read_seconds)
    assert found == (9003, "127.0.0.2", 2048, True, 1.5)


def test_a_name_that_agents_already_have_wins_over_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('default_brain = "filed"\n')
    assert load().default_brain == "filed"
    monkeypatch.setenv("JB_BRAIN", "named")
    assert load().default_brain == "named"


def test_lists_of_the_file_are_checked_as_variables_are(config: Path, tmp_path: Path) -> None:
    config.write_text(f'allowed_hosts = ["a.example", "b.example"]\ningest_roots = ["{tmp_path}", "/"]\n')
    assert load().allowed_hosts == ("a.example", "b.example")
    assert load().ingest_roots == (tmp_path, Path("/"))
    config.write_text('fetch_allow = ["10.0.0.0/8", "127.0.0.0/8"]\n')
    assert complaint() == f"fetch_allow in {config} names 127.0.0.0/8, which is never fetched from."


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("port = 'abc'", "port in {file} must be a whole number."),
        ("auht = 'tokens'", "auht in {file} is not a setting: did you mean auth?"),
        ("BRAINS_PORT = 1", "BRAINS_PORT in {file} is not a setting: did you mean port?"),
        ("xyzzy = 1", "xyzzy in {file} is not a setting."),
        ("[limits]\ncalls = 1", "limits in {file} is not a setting."),
        ("port = {a = 1}", "port in {file} must be a text, a number, true or false, or a list of texts."),
        ("port = ", "BRAINS_CONFIG names {file}, which is not TOML: Invalid value (at end of document)."),
    ],
)
def test_what_is_wrong_in_the_file_is_one_sentence_that_names_it(config: Path, body: str, said: str) -> None:
    config.write_text(body)
    assert complaint() == said.format(file=config)


def test_a_file_that_is_not_there_or_that_others_may_write_to_is_refused(config: Path) -> None:
    config.chmod(0o602)
    assert complaint() == (f"BRAINS_CONFIG names {config}, which everybody on this machine can write to: chmod 644 it.")
    config.unlink()
    assert complaint() == f"BRAINS_CONFIG names {config}, which cannot be read: No such file or directory."


def test_a_secret_in_the_file_is_for_nobody_else_to_read(config: Path) -> None:
    config.write_text(f'token = "{SECRET}"')
    assert load().token is not None
    config.chmod(0o644)
    assert complaint() == f"{config} has the secret token in it and can be read by everybody here: chmod 600 it."


def test_every_secret_may_be_in_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(f"{SECRET}\n")
    secrets = [name for name, field in Settings.model_fields.items() if is_secret(field)]
    assert {"token", "upstream_token", "llm_key", "embed_key"} <= set(secrets)
    for name in secrets:
        monkeypatch.setenv(f"BRAINS_{name.upper()}_FILE", str(file))
    for name in ("EMBED", "LLM"):
        monkeypatch.setenv(f"BRAINS_{name}_URL", "http://127.0.0.1:9")
        monkeypatch.setenv(f"BRAINS_{name}_MODEL", "m")
    monkeypatch.setenv("BRAINS_UPSTREAM_URL", "http://127.0.0.1:9")
    settings = load()
    assert {getattr(settings, name).get_secret_value() for name in secrets} == {SECRET}
    assert warnings(Settings.model_fields) == []
    file.chmod(0o644)
    assert f"BRAINS_TOKEN_FILE names {file}, which everybody on this machine can read: chmod 600 it." in (
        warnings(Settings.model_fields)
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "BRAINS_TOKEN_FILE names {file}, which cannot be read: No such file or directory."),
        ("\n", "BRAINS_TOKEN_FILE names {file}, which is empty: put one word in it."),
        (
            f"{SECRET} {SECRET}",
            "BRAINS_TOKEN_FILE must be one word of ASCII characters, as it goes into an Authorization header.",
        ),
    ],
)
def test_a_file_with_no_secret_in_it_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str | None, said: str
) -> None:
    file = tmp_path / "secret"
    monkeypatch.setenv("BRAINS_TOKEN_FILE", str(file))
    if body is not None:
        file.write_text(body)
    assert complaint() == said.format(file=file)


def test_a_secret_that_is_said_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAINS_UPSTREAM_TOKEN_FILE", "/nowhere")
    monkeypatch.setenv("JB_TOKEN", SECRET)
    assert complaint() == "JB_TOKEN and BRAINS_UPSTREAM_TOKEN_FILE are both set: unset one of them."


TYPOS = {
    "BRAINS_AUHT": "BRAINS_AUTH",
    "BRAINS_TOKENS": "BRAINS_TOKEN",
    "BRAINS_UPSTREAM_ULR": "BRAINS_UPSTREAM_URL",
    "BRAINS_PUBLICURL": "BRAINS_PUBLIC_URL",
    "BRAINS_ALLOWED_HOST": "BRAINS_ALLOWED_HOSTS",
    "BRAINS_DATADIR": "BRAINS_DATA_DIR",
    "BRAINS_SINGLE_TENNANT": "BRAINS_SINGLE_TENANT",
    "BRAINS_CALL_PER_SECOND": "BRAINS_CALLS_PER_SECOND",
    "brains_read_olny": "BRAINS_READ_ONLY",
    "BRAINS_CONFIG_FILE": "BRAINS_CONFIG",
}


@pytest.mark.parametrize("typo", TYPOS)
def test_a_variable_that_is_none_is_named_with_the_nearest_one(typo: str) -> None:
    told = warnings(Settings.model_fields, {typo: "x", "BRAINS_PORT": "1", "BRAIN": "y", "PATH": "/"})
    assert told == [f"{typo} is not a setting and has no effect: did you mean {TYPOS[typo]}?"]


def test_a_variable_that_is_like_none_is_named_alone() -> None:
    told = warnings(Settings.model_fields, {"BRAINS_XYZZY": "x"})
    assert told == ["BRAINS_XYZZY is not a setting and has no effect."]


def test_no_variable_of_ours_is_warned_of() -> None:
    assert warnings(Settings.model_fields, dict.fromkeys(known_variables(Settings.model_fields), "")) == []


def test_who_says_what_a_setting_is_can_be_asked(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It may be set for all tests.
    monkeypatch.delenv("BRAINS_DIRECT", raising=False)
    config.write_text("port = 9001\n")
    file = tmp_path / "secret"
    file.write_text(SECRET)
    told = run_here("settings", "--json", BRAINS_TOKEN_FILE=str(file), BRAINS_HOST="::1", BRAINS_AUHT="jwt")
    assert (told.returncode, told.stderr) == (0, "")
    assert SECRET not in told.stdout
    said = json.loads(told.stdout)
    assert {name: row for name, row in said["settings"].items() if row["from"] != "default"} == {
        "BRAINS_PORT": {"value": 9001, "from": "config", "name": f"port in {config}"},
        "BRAINS_TOKEN": {"value": "(hidden)", "from": "file", "name": "BRAINS_TOKEN_FILE"},
        "BRAINS_HOST": {"value": "::1", "from": "environment", "name": "BRAINS_HOST"},
    }
    assert said["doubtful"][0].startswith("BRAINS_AUHT is not a setting")
    assert said["refusal"] is None
    assert set(said["settings"]) == {f"BRAINS_{name.upper()}" for name in Settings.model_fields}


def test_a_person_is_told_the_same_as_a_table_and_why_serve_would_not_start(tmp_path: Path) -> None:
    told = run_here("settings", BRAINS_HOST="0.0.0.0", BRAINS_DATA_DIR=str(tmp_path))
    lines = told.stdout.splitlines()
    assert lines[0].split() == ["Setting", "Value", "From"]
    assert ["BRAINS_HOST", "0.0.0.0", "environment", "BRAINS_HOST"] in [line.split() for line in lines]
    assert lines[-1].startswith("serve does not start with these: BRAINS_HOST is 0.0.0.0, which others can reach")


def test_an_audit_log_that_cannot_be_written_is_told_and_none_is_made(tmp_path: Path) -> None:
    def told(file: Path) -> str:
        return str(json.loads(run_here("settings", "--json", BRAINS_AUDIT_LOG=str(file)).stdout)["refusal"])

    assert told(tmp_path / "none" / "audit").endswith("(No such file or directory): name another file, or unset it.")
    assert told(tmp_path).endswith("(Is a directory): name another file, or unset it.")
    assert told(tmp_path / "audit") == "None"
    assert list(tmp_path.iterdir()) == []


def test_the_variable_of_the_supervisor_is_offered_to_nobody() -> None:
    assert warnings(Settings.model_fields, {"BRAINS_WORKERS": "4"}) == [
        "BRAINS_WORKERS is not a setting and has no effect."
    ]


def test_commands_that_change_files_tell_of_a_name_that_is_none(tmp_path: Path) -> None:
    told = run_here("token", "list", BRAINS_DATA_DIR=str(tmp_path), BRAINS_TOKENS_FLIE="x")
    assert "BRAINS_TOKENS_FLIE is not a setting and has no effect: did you mean BRAINS_TOKENS_FILE?" in told.stderr


def test_a_flag_is_a_source_too() -> None:
    assert origins(Settings.model_fields, ["port"])["port"].kind == "flag"
