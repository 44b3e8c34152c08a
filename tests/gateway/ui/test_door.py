"""Who sees what on the page: the same callers, scopes and private notes as at the tools, and no page of others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from gateway.app.audit_log import AuditFile
from gateway.app.page import has_page
from gateway.config.settings import load
from gateway.operations import audit
from gateway.ui.session import Seal, Session
from tests.gateway.http.auth.tokens import kept
from tests.gateway.ui.browsing import Browser, call
from tests.served import Served, serving

NOTES = "/ui/brains/main/notes"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@pytest.fixture(scope="module")
def open_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving(data, data) as served:
        call(served, "memory_remember", content="Mine.", title="Mine", path="memory/global/mine.md")
        yield served


@pytest.fixture
def browser(open_gateway: Served) -> Browser:
    return Browser(open_gateway)


@pytest.mark.parametrize(
    ("settings", "there"),
    [
        ({}, True),
        ({"ui": "off"}, False),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "ui": "on"}, True),
        ({"public_url": "https://brains.example"}, False),
        ({"public_url": "http://127.0.0.1:9"}, True),
        ({"allowed_hosts": ("brains.example",)}, False),
    ],
)
def test_the_page_is_there_on_loopback_unless_the_operator_says_otherwise(settings: Any, there: bool) -> None:
    assert has_page(load(**settings)) == there


def test_without_the_page_there_is_nothing_at_its_address(tmp_path: Path) -> None:
    with serving(tmp_path, None, ui="off") as served:
        for path in ("/", "/ui/login", "/ui/static/page.css", NOTES):
            answer = httpx.get(served.url + path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/", NOTES, "/ui/nothing", "/ui/static/page.js", "/ui/calls", "/ui/status"])
def test_every_answer_lets_nothing_of_others_run(browser: Browser, path: str) -> None:
    answer = browser.http.get(browser.served.url + path)
    assert answer.headers["content-security-policy"] == CSP
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    is_static = path.startswith("/ui/static/")
    assert answer.headers["cache-control"] == ("public, max-age=31536000, immutable" if is_static else "no-store")
    if not is_static:
        assert "<script>" not in answer.text
        assert "style=" not in answer.text
        assert " on" not in {part[:3] for part in answer.text.split("<")}


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 191 }}{% raw %}",
    "</textarea></title><svg onload=alert(1)>",
]


@pytest.mark.parametrize("words", HOSTILE)
def test_what_a_note_says_is_never_more_than_text(open_gateway: Served, words: str) -> None:
    path = "memory/global/hostile.md"
    links = "[a](javascript:alert(1)) [b](data:text/html,x) [c](//evil.example) [d](https://good.example) ![e](x.png)"
    text = f"{words}\n\n{words} {links}\n\n<{words}>"
    browser = Browser(open_gateway)
    call(open_gateway, "memory_remember", content=text, title=words, tags=[words], path=path)
    pages = [browser.open(f"/ui/brains/main/{view}") for view in ("notes", "notes?q=alert", f"note?path={path}")]
    pages.append(browser.open(f"/ui/brains/main/edit?path={path}"))
    browser.send("/edit", text=browser.form("/edit")[1]["text"] + "\nMore.")
    pages.append(browser.page)
    pages.append(browser.follow("/difference?"))
    browser.open("/ui/brains/main/ask")
    pages.append(browser.send("/ask", question=words))
    browser.open(f"/ui/brains/main/note?path={path}")
    pages.append(browser.send("/remove"))
    for page in pages:
        for raw in ("<script>alert", "<img src", "<svg", 'javascript:alert(1)"', "1337"):
            assert raw not in page
        assert 'href="javascript' not in page
        assert 'href="data' not in page
        assert 'href="//' not in page
        assert "<img " not in page.replace('<img class="mark"', "")
    assert 'href="https://good.example" rel="noopener noreferrer nofollow"' in pages[2]


def test_markdown_that_would_take_long_is_shown_as_it_is(open_gateway: Served) -> None:
    path = "memory/global/long.md"
    call(open_gateway, "memory_remember", content="[" * 20_000, title="Long", path=path)
    assert "[" * 20_000 in Browser(open_gateway).open(f"/ui/brains/main/note?path={path}")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": ""},
        {"host": "evil.example"},
    ],
)
def test_forms_of_other_pages_change_nothing(browser: Browser, headers: dict[str, str]) -> None:
    browser.open("/ui/brains/main/note?path=memory/global/mine.md")
    browser.send("/remove", headers)
    assert browser.status in {403, 421}
    assert "Mine." in browser.open("/ui/brains/main/note?path=memory/global/mine.md")


def test_a_form_without_the_word_of_its_session_changes_nothing(browser: Browser) -> None:
    browser.open("/ui/brains/main/note?path=memory/global/mine.md")
    stranger = Browser(browser.served)
    stranger.open("/ui/brains/main/note?path=memory/global/mine.md")
    for proof in ("", "x", "é", stranger.form("/remove")[1]["proof"]):
        browser.open("/ui/brains/main/note?path=memory/global/mine.md")
        browser.send("/remove", proof=proof)
        assert browser.status == 403
        assert "too old" in browser.text
    answer = browser.http.get(browser.served.url + "/ui/brains/main/remove?path=memory/global/mine.md")
    assert answer.status_code in {404, 405}


def test_other_pages_may_send_people_here_but_not_look(browser: Browser) -> None:
    browser.open(NOTES, **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert browser.status == 200
    browser.open(NOTES, **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"})
    assert browser.status == 403


def test_a_name_that_somebody_gave_this_machine_opens_nothing(browser: Browser) -> None:
    answer = httpx.get(browser.served.url + NOTES, headers={"host": "rebound.example:8787"})
    assert answer.status_code == 421
    assert "Mine" not in answer.text


def test_a_gateway_that_only_reads_shows_and_changes_nothing(tmp_path: Path) -> None:
    path = "memory/global/a.md"
    with serving(tmp_path, None) as served:
        call(served, "memory_remember", content="A.", title="A", path=path)
        browser = Browser(served)
        browser.open(f"/ui/brains/main/note?path={path}")
        _, fields = browser.form("/remove")
    with serving(tmp_path, None, read_only=True) as served:
        browser = Browser(served)
        assert "read-only" in browser.open(f"/ui/brains/main/note?path={path}")
        assert "/edit" not in browser.page
        browser.open("/ui/brains/main/ask")
        proof = browser.form("/ask")[1]["proof"]
        for action in ("remove", "undo", "edit"):
            browser.post(f"/ui/brains/main/{action}", {**fields, "proof": proof, "text": "B."})
            assert browser.status == 403
            assert "read-only" in browser.text
        assert browser.open(f"/ui/brains/main/edit?path={path}")
        assert browser.status == 403


@pytest.fixture
def house(tmp_path: Path) -> Iterator[tuple[Served, dict[str, str]]]:
    """A gateway for several people, each with a token."""
    file = tmp_path / "tokens.json"
    people: dict[str, dict[str, Any]] = {
        "ann": {"scope": "brains:write", "projects": ("orion",)},
        "ben": {"scope": "brains:write", "projects": ("nebula",)},
        "eve": {"scope": "brains:read"},
    }
    tokens = {name: kept(file, subject=name, **fields) for name, fields in people.items()}
    with serving(tmp_path, None, auth="tokens") as served:
        yield served, tokens


def log_in(served: Served, token: str) -> Browser:
    browser = Browser(served)
    browser.open("/")
    assert browser.at.endswith("/ui/login")
    browser.send("/ui/login", token=token)
    return browser


def test_why_the_page_refuses_somebody_is_one_line_in_each_log(
    house: tuple[Served, dict[str, str]], tmp_path: Path
) -> None:
    served, tokens = house
    file = tmp_path / "audit.jsonl"
    audit.set_up(AuditFile(file).write)
    try:
        with capture_logs() as logs:
            log_in(served, "wrong")
            browser = log_in(served, tokens["eve"])
            browser.open("/ui/brains/main/ask")
            _, fields = browser.form("/ask")
            browser.post("/ui/brains/main/remove", {**fields, "path": "memory/global/a.md"})
            browser.post("/ui/brains/main/remove", {**fields, "proof": "old", "path": "memory/global/a.md"})
            browser.open("/ui/brains/main/note?path=memory/global/secret-plan.md")
    finally:
        audit.set_up(None)
    told = [line for line in logs if line["event"] == "http.refused"]
    assert {line["address"] for line in told} == {"127.0.0.1"}
    assert all(line["request_id"] for line in told)
    needs = "This needs the scope brains:write, which your token does not have. Use one with brains:read brains:write."
    old = "This form is too old. Go back, load the page again, and repeat it."
    assert [(line["status"], line.get("caller"), line["reason"]) for line in told] == [
        (401, None, "unknown token"),
        (403, "a test", needs),
        (403, "a test", old),
        (404, "a test", "not_found"),
    ]
    kept_lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(line["caller"], line["outcome"]) for line in kept_lines if line["audit"] == "refused"] == [
        ("nobody", "unknown token"),
        ("a test", "insufficient_scope"),
        ("a test", old),
    ]


def test_a_token_is_asked_for_once_and_kept_in_a_cookie_that_only_we_can_open(
    house: tuple[Served, dict[str, str]],
) -> None:
    served, tokens = house
    with capture_logs() as logs:
        browser = log_in(served, tokens["ann"])
        assert browser.at == f"{served.url}/"
        assert "main" in browser.open("/")
        (cookie,) = browser.http.cookies.jar
        assert tokens["ann"] not in str(cookie.value)
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite") == "Strict"
        browser.send("/ui/logout")
        assert browser.at.endswith("/ui/login")
        assert browser.open(NOTES)
        assert browser.at.endswith("/ui/login")
    assert tokens["ann"] not in str(logs)


def test_a_token_that_is_wrong_or_revoked_lets_nobody_in(house: tuple[Served, dict[str, str]]) -> None:
    served, tokens = house
    browser = log_in(served, "bg_wrong")
    assert browser.status == 401
    assert "not valid here" in browser.text
    browser = log_in(served, tokens["ann"])
    (served.data_dir / "tokens.json").write_text('{"version": 1, "tokens": []}')
    browser.open(NOTES)
    assert browser.at.endswith("/ui/login")


def test_tokens_cannot_be_tried_without_end(house: tuple[Served, dict[str, str]]) -> None:
    served, tokens = house
    browser = log_in(served, "bg_wrong")
    statuses = []
    for _ in range(10):
        browser.send("/ui/login", token="bg_wrong")
        statuses.append(browser.status)
    assert statuses[0] == 401
    assert statuses[-1] == 429
    browser.send("/ui/login", token=tokens["ann"])
    assert browser.status == 429


@pytest.mark.parametrize("scope", ["orion", "private"])
def test_what_is_private_to_somebody_else_is_not_there(house: tuple[Served, dict[str, str]], scope: str) -> None:
    served, tokens = house
    stored = call(
        served,
        "memory_remember",
        tokens["ann"],
        "/team/mcp/main",
        content="The secret of ann.",
        scope=scope,
        type="decision",
    )
    assert '"isError":true' not in stored.text
    ann, ben = log_in(served, tokens["ann"]), log_in(served, tokens["ben"])
    ann.open(NOTES)
    (link,) = set(ann.links("/note?path="))
    assert "The secret of ann." in ann.open(link)
    for view in (NOTES, f"{NOTES}?q=secret", link, link.replace("/note?", "/difference?version=x&")):
        assert "secret of ann" not in ben.open(view)
    assert "no note" in ben.open(link) or ben.status == 404
    # The tree of a surface has rules of its own, and the page keeps to them.
    ann.open(link)
    assert "/edit" not in ann.page
    ann.open(link.replace("/note?", "/edit?"))
    assert ann.status in {400, 403}
    # Calls are everybody's own.
    assert "memory_remember" in ann.open("/ui/calls")
    assert "memory_remember" not in ben.open("/ui/calls")
    # What is the operator's is nobody else's.
    assert str(served.data_dir) not in ben.open("/ui/status")
    assert "stdio" not in ben.open("/ui/connect")


def test_whoever_may_only_read_changes_nothing(house: tuple[Served, dict[str, str]]) -> None:
    served, tokens = house
    path = "memory/global/ours.md"
    call(served, "memory_remember", tokens["ann"], "/mcp/main", content="Ours.", title="Ours", path=path)
    ann, eve = log_in(served, tokens["ann"]), log_in(served, tokens["eve"])
    assert "Ours." in eve.open(f"/ui/brains/main/note?path={path}")
    assert "/remove" not in eve.page
    proof = eve.form("/ui/logout")[1]["proof"]
    for action in ("remove", "undo", "edit"):
        eve.post(f"/ui/brains/main/{action}", {"proof": proof, "path": path, "text": "Hers."})
        assert eve.status == 403
        assert "brains:write" in eve.text
    ann.open(f"/ui/brains/main/note?path={path}")
    ann.send("/remove")
    # What somebody took back is for those who may change it.
    eve.open(f"/ui/brains/main/note?path={path}")
    assert eve.status == 404
    assert "Undo" in ann.page


def test_one_token_is_the_same_door(tmp_path: Path) -> None:
    with serving(tmp_path, None, token="correct-horse-battery") as served:
        browser = log_in(served, "correct-horse-battery")
        assert browser.at == f"{served.url}/"
        assert str(tmp_path) in browser.open("/ui/status")


def test_behind_https_the_cookie_is_for_https_alone(tmp_path: Path) -> None:
    settings: Any = {"public_url": "https://brains.example", "token": "correct-horse-battery", "ui": "on"}
    with serving(tmp_path, None, **settings) as served:
        headers = {"host": "brains.example"}
        answer = httpx.get(f"{served.url}/ui/login", headers=headers)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-brains=")
        assert cookie.endswith("; Secure")
        held = Browser(served, page=answer.text).form("/ui/login")[1]
        sent = {**headers, "cookie": cookie.partition(";")[0]}
        form = {**held, "token": "correct-horse-battery"}
        for origin, status in (("http://brains.example", 403), ("https://brains.example", 303)):
            got = httpx.post(f"{served.url}/ui/login", data=form, headers={**sent, "origin": origin})
            assert got.status_code == status


def test_a_seal_opens_what_it_closed_and_nothing_else() -> None:
    now = 1_000_000.0
    seal = Seal([b"a" * 32, b"b" * 32], clock=lambda: now)
    session = Session("token")
    sealed = seal.close(session)
    assert seal.open(sealed) == session
    # Keys are changed one after the other.
    assert Seal([b"c" * 32, b"a" * 32], clock=lambda: now).open(sealed) == session
    assert Seal([b"c" * 32], clock=lambda: now).open(sealed) is None
    assert seal.open(sealed[:-1] + ("A" if sealed[-1] != "A" else "B")) is None
    assert seal.open("") is None
    now += 7 * 24 * 3600 + 1
    assert seal.open(sealed) is None
