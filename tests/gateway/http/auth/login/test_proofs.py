"""Programs that sign their requests for tokens: let in if they do, and nobody else with what was issued for them."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.gateway.http.auth.login.house import Clock, Person, house
from tests.served import listening
from tests.web import web_on

ID = "https://notebook.example/oauth/client.json"
KEYS = "https://notebook.example/oauth/keys.json"
BACK = "https://notebook.example/back"
TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MINE: dict[str, Key] = {
    "RS256": RSAKey.generate_key(2048, {"kid": "r"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "e"}),
    "Ed25519": OKPKey.generate_key("Ed25519", {"kid": "o"}),
}
STRANGE = ECKey.generate_key("P-256", {"kid": "e"})


class Notebook:
    """The server of a program, with its document and its keys."""

    def __init__(self) -> None:
        self.keys: Response = published(*MINE.values())
        self.document: dict[str, Any] = {
            "client_id": ID,
            "client_name": "The Notebook",
            "redirect_uris": [BACK],
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
            "jwks_uri": KEYS,
        }
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            for _ in range(2):
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
            return
        path = Request(scope).url.path
        self.asked.append(path)
        answers: dict[str, ASGIApp] = {"/oauth/keys.json": self.keys, "/elsewhere.json": published(*MINE.values())}
        answer = answers.get(path, Response(json.dumps(self.document)))
        await answer(scope, receive, send)


def published(*keys: Key) -> Response:
    said = {"keys": [key.as_dict(private=False) for key in keys]}
    return Response(json.dumps(said), media_type="application/jwk-set+json")


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@contextmanager
def reached(data: Path, notebook: Notebook, **settings: Any) -> Iterator[Person]:
    with listening(notebook) as pages, web_on(pages), house(data, **{"ticks": Clock(), **settings}) as url:
        yield Person(url, client_id=ID, redirect_uri=BACK)


def proof(
    ada: Person, now: float, alg: str = "ES256", key: Key | None = None, header: Any = (), **claims: Any
) -> dict[str, str]:
    """What a program sends beside its code. A claim that is None is left out."""
    by = key or MINE[alg]
    said = {"iss": ID, "sub": ID, "aud": ada.issuer, "iat": int(now), "exp": int(now) + 60, "jti": secrets.token_hex(8)}
    kept = {name: value for name, value in {**said, **claims}.items() if value is not None}
    written = {"alg": alg, "kid": by.get("kid"), **dict(header)}
    return {
        "client_assertion_type": TYPE,
        "client_assertion": jws.serialize_compact(written, json.dumps(kept), by, algorithms=[alg]),
    }


@pytest.mark.parametrize("alg", MINE)
@pytest.mark.parametrize("where", ["at its address", "in the document"])
def test_a_program_that_signs_is_let_in(data: Path, notebook: Notebook, clock: Clock, alg: str, where: str) -> None:
    if where == "in the document":
        del notebook.document["jwks_uri"]
        notebook.document["jwks"] = json.loads(bytes(notebook.keys.body))
    with reached(data, notebook, clock=clock) as ada:
        first = ada.redeem(ada.code(), **proof(ada, clock.now, alg, aud=f"{ada.issuer}/token"))
        assert first.status_code == 200, first.text
        second = ada.refresh(first.json()["refresh_token"], **proof(ada, clock.now, alg, aud=[ada.issuer]))
        assert second.status_code == 200, second.text
        assert ada.status(second.json()["access_token"]) == 200
    assert notebook.asked.count("/oauth/keys.json") == (where == "at its address")


def bad_proofs(ada: Person, now: float) -> dict[str, dict[str, str]]:
    public = OctKey.import_key(json.dumps(MINE["RS256"].as_dict(private=False)).encode())
    good = proof(ada, now)
    head, said, signature = good["client_assertion"].split(".")
    return {
        "none": {},
        "without its type": {"client_assertion": good["client_assertion"]},
        "of another type": {**good, "client_assertion_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
        "by another key": proof(ada, now, key=STRANGE),
        "by a key that nobody has": proof(ada, now, key=ECKey.generate_key("P-256", {"kid": "x"})),
        "by what everybody can read": proof(ada, now, "HS256", public, {"kid": "r"}),
        "by nobody": {**good, "client_assertion": f"eyJhbGciOiJub25lIn0.{said}."},
        "changed": {**good, "client_assertion": f"{head}.{said[:-4]}AAAA.{signature}"},
        "of another program": proof(ada, now, iss="https://other.example/c.json", sub="https://other.example/c.json"),
        "for another program": proof(ada, now, sub="https://other.example/c.json"),
        "for another server": proof(ada, now, aud="https://other.example"),
        "for two servers": proof(ada, now, aud=[ada.issuer, "https://other.example"]),
        "for nobody": proof(ada, now, aud=None),
        "expired": proof(ada, now, iat=int(now) - 600, exp=int(now) - 61),
        "good for ever": proof(ada, now, exp=None),
        "good for too long": proof(ada, now, exp=int(now) + 7200),
        "of tomorrow": proof(ada, now, nbf=int(now) + 600),
        "too long": {**good, "client_assertion": good["client_assertion"] + "A" * 9000},
    }


def test_nobody_else_gets_tokens_for_its_code_or_its_refresh_token(
    data: Path, notebook: Notebook, clock: Clock
) -> None:
    with reached(data, notebook, clock=clock) as ada:
        tokens = ada.redeem(ada.code(), **proof(ada, clock.now)).json()
        code = ada.code()
        for what, sent in bad_proofs(ada, clock.now).items():
            for refused in (ada.redeem(code, **sent), ada.refresh(tokens["refresh_token"], **sent)):
                assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client"), what
                assert "client_assertion that it has signed" in refused.json()["error_description"]
        # All this has cost the program nothing.
        assert ada.redeem(code, **proof(ada, clock.now)).status_code == 200
        assert ada.refresh(tokens["refresh_token"], **proof(ada, clock.now)).status_code == 200


@pytest.mark.parametrize("alg", MINE)
def test_what_it_has_signed_is_good_once_at_whichever_replica(
    data: Path, notebook: Notebook, clock: Clock, alg: str
) -> None:
    public_url = "https://brains.example"
    with (
        reached(data, notebook, clock=clock, public_url=public_url) as ada,
        reached(data, notebook, clock=clock, public_url=public_url) as again,
    ):
        ada.issuer = again.issuer = public_url
        again.verifier = ada.verifier
        first, second = ada.code(), ada.code()
        signed = proof(ada, clock.now, alg)
        assert ada.redeem(first, **signed).status_code == 200
        # Somebody who has seen it has a code, too; they may change what is not signed.
        clock.go_on(30)
        for other in (ada, again):
            assert other.redeem(second, **signed).json()["error"] == "invalid_client"
        assert again.redeem(second, **proof(again, clock.now, alg)).status_code == 200


def test_its_assertion_says_which_program_it_is(data: Path, notebook: Notebook, clock: Clock) -> None:
    """Some clients send no `client_id` beside it."""
    with reached(data, notebook, clock=clock) as ada:
        code = ada.code()
        for sent in (
            {"client_assertion": "x"},
            {},
            proof(ada, clock.now, sub=None),
            proof(ada, clock.now, sub=["a", "list"]),
        ):
            told = ada.redeem(code, client_id=None, **sent)
            assert (told.status_code, told.json()["error"]) == (400, "invalid_request"), sent
        other = proof(ada, clock.now, sub="https://other.example/c.json")
        assert ada.redeem(code, client_id=None, **other).json()["error"] == "invalid_grant"
        assert ada.redeem(code, client_id=None, **proof(ada, clock.now)).status_code == 200


def test_a_program_may_change_its_keys(data: Path, notebook: Notebook, clock: Clock) -> None:
    ticks = Clock()
    with reached(data, notebook, clock=clock, ticks=ticks) as ada:
        tokens = ada.redeem(ada.code(), **proof(ada, clock.now)).json()
        later = ECKey.generate_key("P-256", {"kid": "later"})
        notebook.keys = published(later)
        ticks.go_on(6)
        assert ada.refresh(tokens["refresh_token"], **proof(ada, clock.now, key=later)).status_code == 200


@pytest.mark.parametrize(
    "down",
    [
        Response(status_code=500),
        Response("<html>"),
        RedirectResponse("https://notebook.example/elsewhere.json"),
        Response("x" * 70_000),
    ],
    ids=["an error", "no keys", "elsewhere", "too large"],
)
def test_while_its_keys_cannot_be_fetched_it_is_told_to_come_again(
    data: Path, notebook: Notebook, clock: Clock, down: Response
) -> None:
    with reached(data, notebook, clock=clock) as ada:
        keys, notebook.keys = notebook.keys, down
        code = ada.code()
        for _ in range(2):
            told = ada.redeem(code, **proof(ada, clock.now))
            assert (told.status_code, told.json()["error"]) == (503, "temporarily_unavailable")
            assert int(told.headers["retry-after"]) > 0
        notebook.keys = keys
        assert ada.redeem(code, **proof(ada, clock.now)).status_code == 200


def test_invented_keys_do_not_cause_a_request_each(data: Path, notebook: Notebook, clock: Clock) -> None:
    ticks = Clock()
    with reached(data, notebook, clock=clock, ticks=ticks) as ada:
        tokens = ada.redeem(ada.code(), **proof(ada, clock.now)).json()
        asked = notebook.asked.count("/oauth/keys.json")
        ticks.go_on(6)
        for n in range(5):
            invented = proof(ada, clock.now, header={"kid": f"n{n}"})
            assert ada.refresh(tokens["refresh_token"], **invented).status_code == 401
        assert notebook.asked.count("/oauth/keys.json") == asked + 1


@pytest.mark.parametrize(
    "more",
    [
        {"jwks_uri": None},
        {"jwks_uri": "http://notebook.example/keys.json"},
        {"jwks_uri": "https://169.254.169.254:80@x/keys.json"},
        {"jwks": {"keys": []}},
        {"jwks": {}},
        {"jwks": {"keys": [OctKey.generate_key(256).as_dict(private=True)]}},
    ],
)
def test_a_program_without_keys_is_public_only_if_it_says_so(
    data: Path, notebook: Notebook, more: dict[str, Any]
) -> None:
    notebook.document |= more
    with reached(data, notebook) as ada:
        assert ada.redeem(ada.code()).status_code == 200
    del notebook.document["token_endpoint_auth_methods_supported"]
    with reached(data, notebook) as ada:
        answer = ada.begin()
        assert (answer.status_code, "keys that it publishes" in answer.text) == (400, True)


def test_a_program_that_begins_to_sign_keeps_the_logins_it_has(data: Path, notebook: Notebook, clock: Clock) -> None:
    notebook.document["token_endpoint_auth_method"] = "none"
    ticks = Clock()
    with reached(data, notebook, clock=clock, ticks=ticks) as ada:
        before = ada.log_in()
        notebook.document["token_endpoint_auth_method"] = "private_key_jwt"
        ticks.go_on(301)
        assert ada.refresh(before["refresh_token"]).status_code == 200
        assert ada.redeem(ada.code()).status_code == 401


def test_the_metadata_say_so_only_where_documents_can_be_fetched(data: Path, notebook: Notebook) -> None:
    for fetch, methods in (("on", ["none", "private_key_jwt"]), ("off", ["none"])):
        with reached(data, notebook, fetch=fetch) as ada:
            said = httpx.get(f"{ada.url}/.well-known/oauth-authorization-server", trust_env=False).json()
        assert said["token_endpoint_auth_methods_supported"] == methods
        algorithms = said.get("token_endpoint_auth_signing_alg_values_supported", [])
        assert ("ES256" in algorithms, "HS256" in algorithms, "none" in algorithms) == (fetch == "on", False, False)


def test_who_registers_cannot_sign_and_is_told_how_to(ada: Person) -> None:
    answer = ada.register(token_endpoint_auth_method="private_key_jwt", jwks_uri=KEYS)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")
    assert "client id metadata document" in answer.json()["error_description"]
