"""The keys that the gateway signs with: made and rotated by the command, published without their private halves."""

import json
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from gateway.cli.key import create_keys, rotate_keys
from gateway.config import signing_keys
from gateway.config.reread_file import replace_file
from gateway.config.signing_keys import ALGORITHMS, Algorithm, SigningKey, SigningKeys, begin, parse, rotate, serialize
from gateway.operations import scopes
from tests.canaries.hosted import Hosted, hosted, internal
from tests.canaries.world import ToolCall
from tests.commands import run_here
from tests.served import OPERATOR

pytestmark = pytest.mark.not_quick

SEARCH = ToolCall("memory_search", scopes.READ, {"query": "otters"})
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
# Whatever a private key may be called in a JWK.
PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}


def key(path: Path | None, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_here("key", *arguments, **({} if path is None else {"BRAINS_SIGNING_KEYS_FILE": str(path)}))


def private_parts(path: Path) -> list[str]:
    return [entry["d"] for entry in json.loads(path.read_bytes())["keys"]]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.sampled(2)
def test_the_command_makes_rotates_and_lists_keys_and_shows_no_secret(tmp_path: Path, algorithm: str) -> None:
    path = tmp_path / "secrets" / "keys.json"
    spoken = [key(path, "create", "--algorithm", algorithm)]
    first, second = json.loads(path.read_bytes())["keys"]
    assert [first["status"], second["status"]] == ["active", "next"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    spoken.append(key(path, "rotate", "--algorithm", algorithm))
    now = json.loads(path.read_bytes())["keys"]
    assert [(entry["kid"], entry["status"]) for entry in now[::2]] == [
        (second["kid"], "active"),
        (first["kid"], "retired"),
    ]
    assert now[1]["status"] == "next"
    assert now[1]["kid"] not in {first["kid"], second["kid"]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["keys.json"], "nothing is left beside it"

    listed = key(path, "list")
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert rows[0] == ["KEY", "ALGORITHM", "STATUS", "SINCE"]
    assert [row[:3] for row in rows[1:]] == [[entry["kid"], algorithm, entry["status"]] for entry in now]
    for done in [*spoken, listed]:
        assert done.returncode == 0
        assert not any(secret in done.stdout + done.stderr for secret in private_parts(path))


def test_a_file_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create_keys(path, "ES256")
    before = path.read_bytes()
    done = key(path, "create")
    assert done.returncode == 2
    assert done.stderr == (
        f"brains-gateway: {path} is there already: brains-gateway key rotate makes the next key the one in use.\n"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("verb", ["rotate", "list"])
@pytest.mark.parametrize(
    ("body", "said"),
    [(None, "cannot be read or written: No such file"), (b"{}", "The file does not hold what it should")],
    ids=["missing", "damaged"],
)
def test_a_file_that_cannot_be_used_is_one_sentence_and_is_left_alone(
    tmp_path: Path, verb: str, body: bytes | None, said: str
) -> None:
    path = tmp_path / "keys.json"
    if body is not None:
        path.write_bytes(body)
    done = key(path, verb)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert (path.read_bytes() if path.exists() else None) == body


def test_the_file_must_be_named_by_its_setting() -> None:
    done = key(None, "list")
    assert done.returncode == 2
    assert done.stderr == "brains-gateway: Set BRAINS_SIGNING_KEYS_FILE to where the keys are to be.\n"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_published_has_no_private_part_and_what_is_kept_has(tmp_path: Path, algorithm: Algorithm) -> None:
    path = tmp_path / "keys.json"
    create_keys(path, algorithm)
    rotate_keys(path, algorithm)
    published: list[dict[str, Any]] = SigningKeys(path).published()["keys"]
    assert len(published) == 3
    for entry, kept in zip(published, json.loads(path.read_bytes())["keys"], strict=True):
        assert PRIVATE & entry.keys() == set()
        assert (entry["kid"], entry["use"], entry["alg"]) == (kept["kid"], "sig", algorithm)
        assert kept["d"] not in json.dumps(published)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_of_a_key_nothing_is_published_but_the_key(tmp_path: Path, algorithm: Algorithm) -> None:
    path = tmp_path / "keys.json"
    keys = [{**each.entry(), "note": "backup of d is in the safe"} for each in begin(algorithm)]
    path.write_bytes(json.dumps({"keys": keys}).encode())
    allowed = {"kty", "crv", "x", "y", "kid", "use", "alg"}
    assert [set(entry) - allowed for entry in SigningKeys(path).published()["keys"]] == [set(), set()]


@pytest.mark.parametrize("after", ALGORITHMS)
@pytest.mark.parametrize("before", ALGORITHMS)
def test_tokens_of_the_key_before_are_verified_with_what_is_published_after(
    tmp_path: Path, before: Algorithm, after: Algorithm
) -> None:
    path = tmp_path / "keys.json"
    create_keys(path, before)
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        agent, tokens = gateway.person("ada"), []
        for _ in range(3):
            agent.good(SEARCH)
            tokens.append(str(gateway.seen[-1].bearer))
            rotate_keys(path, after)
        published = gateway.published()
    kids = [jwt.decode(token, published, algorithms=list(ALGORITHMS)).header["kid"] for token in tokens]
    assert len(set(kids)) == 3, "each rotation puts another key to use"


def test_a_platform_that_read_the_keys_before_a_rotation_knows_the_one_after(tmp_path: Path) -> None:
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        known, agent = gateway.published(), gateway.person("ada")
        rotate_keys(tmp_path / "keys.json", "Ed25519")
        agent.good(SEARCH)
        claims = jwt.decode(str(gateway.seen[-1].bearer), known, algorithms=["ES256"]).claims
        assert claims["sub"] == "ada"


def ready(gateway: Hosted) -> tuple[int, list[str]]:
    answer = gateway.http.get(gateway.url + "/readyz", headers=OPERATOR)
    return answer.status_code, answer.json()["problems"]


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half of it": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "no key in use": lambda path: path.write_bytes(path.read_bytes().replace(b'"active"', b'"next"')),
    "gone": lambda path: path.unlink(),
    "a directory": replace_by_directory,
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_file_that_breaks_while_we_run_leaves_the_keys_there_were_and_is_told(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = tmp_path / "keys.json"
    with hosted(tmp_path, jwt=True, **internal(tmp_path)) as gateway:
        agent, before, body = gateway.person("ada"), gateway.published().as_dict(), path.read_bytes()
        assert ready(gateway) == (200, [])
        damage(path)
        agent.good(SEARCH)
        assert gateway.claims(gateway.seen[-1])["sub"] == "ada"
        assert gateway.published().as_dict() == before
        assert ready(gateway) == (503, ["the file of signing keys cannot be read"])
        if path.is_dir():
            path.rmdir()
        replace_file(path, body)
        assert ready(gateway) == (200, [])


def test_the_published_keys_are_there_only_where_they_are_used(tmp_path: Path) -> None:
    with hosted(tmp_path, "daemon", token="one") as gateway:
        assert gateway.http.get(gateway.url + "/.well-known/jwks.json").status_code == 404
    with hosted(tmp_path, "daemon", jwt=True, **internal(tmp_path)) as gateway:
        answer = gateway.http.get(gateway.url + "/.well-known/jwks.json")
        assert answer.headers["cache-control"] == "public, max-age=300"
        assert answer.json()["keys"]


def statuses(keys: "list[SigningKey] | Any") -> list[str]:
    return [each.status for each in keys]


def test_keys_go_from_next_to_active_to_retired_and_then_away() -> None:
    one = begin("ES256", NOON)
    two = rotate(one, "ES256", NOON + HOUR)
    three = rotate(two, "Ed25519", NOON + HOUR * 1.5)
    four = rotate(three, "ES256", NOON + HOUR * 2.25)
    assert [statuses(keys) for keys in (one, two, three, four)] == [
        ["active", "next"],
        ["active", "next", "retired"],
        ["active", "next", "retired", "retired"],
        ["active", "next", "retired", "retired"],
    ]
    assert two[0].kid == one[1].kid
    assert three[1].algorithm == "Ed25519"
    assert [each.kid for each in four] == [three[1].kid, four[1].kid, three[0].kid, three[2].kid]
    assert one[0].kid not in {each.kid for each in four}, "retired for more than an hour"


def test_without_a_next_key_a_rotation_makes_one_to_sign_with() -> None:
    (only, _) = begin("ES256", NOON)
    keys = rotate([only], "ES256", NOON)
    assert statuses(keys) == ["active", "next", "retired"]
    assert keys[2].kid == only.kid


@pytest.mark.parametrize("since", ["", "yesterday", "2026-11-16T11:59:00"], ids=["none", "nonsense", "no zone"])
def test_a_retired_key_that_does_not_say_since_when_goes_with_the_next_rotation(since: str) -> None:
    active, following = begin("ES256", NOON)
    odd = SigningKey(begin("ES256", NOON)[0].key, "retired", since)
    assert odd.kid not in {each.kid for each in rotate([active, following, odd], "ES256", NOON)}


def entry_of(made: Any, **more: Any) -> dict[str, Any]:
    return {**made.as_dict(private=True), "kid": "k", "status": "active", **more}


EC = ECKey.generate_key("P-256")
NOT_KEYS: dict[str, bytes] = {
    name: body if isinstance(body, bytes) else json.dumps(body).encode()
    for name, body in {
        "nothing": b"",
        "not json": b"keys",
        "not utf-8": b"\xff\xfe",
        "a list": [],
        "a word": "keys",
        "a number": 1,
        "no list of keys": {"keys": None},
        "no keys": {"keys": []},
        "a key that is a word": {"keys": ["k"]},
        "a key that is a number": {"keys": [1]},
        "a key that is nothing": {"keys": [None]},
        "public alone": {"keys": [{**EC.as_dict(private=False), "kid": "k", "status": "active"}]},
        "another curve": {"keys": [entry_of(ECKey.generate_key("P-384"))]},
        "another curve of Edwards": {"keys": [entry_of(OKPKey.generate_key("Ed448"))]},
        "a key for encryption": {"keys": [entry_of(OKPKey.generate_key("X25519"))]},
        "RSA": {"keys": [entry_of(RSAKey.generate_key(2048))]},
        "a shared secret": {"keys": [entry_of(OctKey.generate_key(256))]},
        "no kid": {"keys": [entry_of(EC, kid=None)]},
        "an empty kid": {"keys": [entry_of(EC, kid="")]},
        "no status": {"keys": [entry_of(EC, status=None)]},
        "another status": {"keys": [entry_of(EC, status="Active")]},
        "a status that is a list": {"keys": [entry_of(EC, status=["active"])]},
        "two in use": {"keys": [entry_of(EC), entry_of(EC, kid="l")]},
        "a curve that is a list": {"keys": [entry_of(EC, crv=["P-256"])]},
        "a number out of range": {"keys": [entry_of(EC, d="_" * 43)]},
        "a number that is none": {"keys": [entry_of(EC, d=1)]},
        "a point off the curve": {"keys": [entry_of(EC, x=EC.as_dict()["y"])]},
        "of no kind": {"keys": [entry_of(EC, kty=None)]},
        "pairs for a key": {"keys": [[*map(list, entry_of(EC).items())]]},
        "deep": b"[" * 100_000,
    }.items()
}


@pytest.mark.parametrize("name", NOT_KEYS)
def test_what_is_no_file_of_keys_is_told_as_that(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the kind is what matters: whoever reads it has words of their own
        parse(NOT_KEYS[name])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_written_is_read_again_as_it_was(algorithm: Algorithm) -> None:
    keys = rotate(begin(algorithm, NOON), algorithm, NOON)
    again = parse(serialize(keys))
    assert [(each.kid, each.status, each.since, each.algorithm) for each in again] == [
        (each.kid, each.status, each.since, algorithm) for each in keys
    ]
    assert [each.key["d"] for each in again] == [each.key["d"] for each in keys]


def test_a_key_is_named_after_itself() -> None:
    for each in begin("ES256"):
        assert each.kid == each.key.thumbprint()


def test_a_token_of_another_key_with_the_same_name_is_not_verified(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys.json", "ES256")
    keys = SigningKeys(tmp_path / "keys.json")
    forged = ECKey.generate_key("P-256", {"kid": keys.active().kid})
    token = jwt.encode({"alg": "ES256", "kid": forged.kid}, {"sub": "ada"}, forged)
    with pytest.raises(JoseError):
        jwt.decode(token, KeySet.import_key_set(dict(keys.published())), algorithms=["ES256"])  # type: ignore[arg-type]  # a JWK set is one


def test_the_retired_are_kept_for_longer_than_anybody_keeps_a_token_or_the_list() -> None:
    assert timedelta(seconds=60 + 300 + 60) < signing_keys._RETIRED_FOR
