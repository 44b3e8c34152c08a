"""Programs that are known by a document at their id: fetched with care, kept for a while, held to what it says."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.auth.login.throttle import Places, TooMany
from tests.gateway.http.auth.login.house import Clock, Person, answer_of, house, patient
from tests.served import listening
from tests.web import web_on

ID = "https://notebook.example/oauth/client.json"
REDIRECTS = ["http://localhost/callback", "https://notebook.example/back"]
GOOD: dict[str, Any] = {
    "client_id": ID,
    "client_name": "The Notebook",
    "redirect_uris": REDIRECTS,
    "token_endpoint_auth_method": "none",
}


class Web:
    """A server with one document."""

    def __init__(self) -> None:
        self.answer: ASGIApp = said(GOOD)
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            for _ in range(2):
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
            return
        self.asked.append(Request(scope).url.path)
        await self.answer(scope, receive, send)


def said(document: Any, **headers: str) -> Response:
    return Response(json.dumps(document), media_type="application/json", headers=headers)


@pytest.fixture
def web() -> Web:
    return Web()


@contextmanager
def reached(data: Path, web: Web, **settings: Any) -> Iterator[Person]:
    with listening(web) as pages, web_on(pages), house(data, **{"ticks": patient(), **settings}) as url:
        yield Person(url, client_id=ID, redirect_uri=REDIRECTS[1])


def test_a_program_needs_no_registration_if_its_id_is_its_document(data: Path, web: Web) -> None:
    with reached(data, web) as ada:
        page = ada.begin()
        assert "<b>The Notebook</b> wants to use the memory at" in page.text
        assert "It is of <b>notebook.example</b>." in page.text
        tokens = ada.log_in()
        assert ada.status(tokens["access_token"]) == 200
        assert ada.refresh(tokens["refresh_token"]).status_code == 200
        ada.redirect_uri = "http://localhost:51234/callback"
        assert ada.redeem(ada.code()).status_code == 200
        assert ada.begin(redirect_uri="https://evil.example/").status_code == 400
    assert set(web.asked) == {"/oauth/client.json"}


def test_a_document_is_kept_for_five_minutes(data: Path, web: Web, clock: Clock) -> None:
    with reached(data, web, ticks=clock) as ada:
        for _ in range(3):
            assert ada.begin().status_code == 200
        assert len(web.asked) == 1
        clock.go_on(301)
        web.answer = said({**GOOD, "redirect_uris": ["https://notebook.example/other"]})
        assert ada.begin().status_code == 400
        assert len(web.asked) == 2


BAD: dict[str, Response] = {
    "of another program": said({**GOOD, "client_id": "https://other.example/client.json"}),
    "that names no program": said({name: value for name, value in GOOD.items() if name != "client_id"}),
    "with a secret": said({**GOOD, "token_endpoint_auth_method": "client_secret_post"}),
    "without an address": said({**GOOD, "redirect_uris": []}),
    "with an unsafe address": said({**GOOD, "redirect_uris": ["http://notebook.example/back"]}),
    "with a dangerous address": said({**GOOD, "redirect_uris": ["javascript:alert(1)"]}),
    "that is a list": said([GOOD]),
    "that is no JSON": Response("<html>", media_type="text/html"),
    "that is too large": said({**GOOD, "more": "x" * 20_000}),
    "that is elsewhere": RedirectResponse("https://notebook.example/other.json"),
    "that is not there": Response(status_code=404),
    "for machines alone": said({**GOOD, "grant_types": ["client_credentials"]}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_document_is_not_good_enough(data: Path, web: Web, kind: str) -> None:
    web.answer = BAD[kind]
    with reached(data, web) as ada:
        answer = ada.begin()
        assert (answer.status_code, "location" in answer.headers) == (400, False)


@pytest.mark.parametrize(
    "client_id",
    [
        "http://notebook.example/client.json",
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/client.json",
        "https://notebook.example",
        "https://notebook.example/",
        "https://notebook.example:8443/client.json",
        "https://ada@notebook.example/client.json",
        "https://notebook.example/../client.json",
        "https://notebook.example/client.json#x",
        "https://notebook.example/client.json?x",
        "https://NOTEBOOK.example/client.json",
        "file:///etc/passwd",
        "dyn.",
        "x" * 5000,
    ],
)
def test_an_id_that_may_lead_elsewhere_is_not_fetched(data: Path, web: Web, client_id: str) -> None:
    with reached(data, web) as ada:
        ada.client_id = client_id
        assert ada.begin().status_code == 400
    assert web.asked == []


def test_how_many_documents_are_fetched_for_one_address_is_limited(data: Path, web: Web, clock: Clock) -> None:
    with reached(data, web, ticks=clock) as ada:
        told = []
        for n in range(13):
            ada.client_id = f"https://notebook.example/{n}.json"
            told.append(ada.begin().status_code)
        assert told == [400] * 10 + [429] * 3
        assert len(web.asked) == 10


def test_documents_that_are_slow_keep_two_places_of_their_address_busy_and_no_more(data: Path, web: Web) -> None:
    asked, go_on = Semaphore(0), Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        asked.release()
        await asyncio.to_thread(go_on.wait, 60)
        await said(GOOD)(scope, receive, send)

    web.answer = slow
    with reached(data, web) as ada, ThreadPoolExecutor() as pool:
        others = [Person(ada.url, client_id=f"https://notebook.example/{n}.json") for n in range(2)]
        waiting = [pool.submit(other.begin) for other in others]
        try:
            assert [asked.acquire(timeout=60) for _ in waiting] == [True, True]
            assert ada.begin().status_code == 429
        finally:
            go_on.set()
        # They are of another program; that of the third is what is said.
        assert [one.result().status_code for one in waiting] == [400, 400]
        assert ada.begin().status_code == 200


def test_whoever_has_their_places_leaves_the_others_to_others() -> None:
    places = Places(5, 2)
    with ExitStack() as stack:
        for address in ("a", "a", "b", "c"):
            stack.enter_context(places.held(address))
        with pytest.raises(TooMany):
            stack.enter_context(places.held("a"))
        stack.enter_context(places.held("d"))
        with pytest.raises(TooMany):
            stack.enter_context(places.held("e"))
    with places.held("a"), places.held("a"):
        assert dict(places._held) == {"a": 2}


def test_where_nothing_may_be_fetched_programs_register(data: Path, web: Web) -> None:
    with reached(data, web, fetch="off") as ada:
        assert (
            ada.send("GET", "/.well-known/oauth-authorization-server").json()["client_id_metadata_document_supported"]
            is False
        )
        assert ada.begin().status_code == 400
        ada.register()
        assert "code" in answer_of(ada.fill(ada.enter(ada.begin()), decision="allow"))
    assert web.asked == []
