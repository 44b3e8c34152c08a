"""The pages that people see in their browser: who asks for what, a password, yes or no. They have no script."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from starlette.responses import HTMLResponse

from gateway.config.user_file import User
from gateway.http.auth.login.grants import Asked
from gateway.http.auth.login.redirects import form_target_of, is_on_this_machine, target_of
from gateway.operations import scopes

_STYLE: Final = (
    # The colours are those of the other pages (gateway/ui/static/page.css), light or dark as the browser wishes.
    ":root{--paper:#fbfaf7;--sheet:#fff;--ink:#22262a;--line:#5d656c;--accent:#20665a;--on-accent:#fff;--bad:#a3291f;"
    "color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181a;--sheet:#1c2023;--ink:#e6e8e8;--line:#a0a9ae;"
    "--accent:#7cc7b5;--on-accent:#10201c;--bad:#f29a90}}"
    "body{font:16px/1.6 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--paper);overflow-wrap:anywhere}"
    "main{max-width:30em;margin:3em auto;padding:0 1em}h1{font-size:1.6em;line-height:1.25}a{color:var(--accent)}"
    "dt{font-weight:600;margin-top:.6em}dd{margin:0}ul{margin:0;padding-left:1.2em}"
    "label{display:block;margin-top:.8em;font-weight:600}"
    "input,button{font:inherit;color:inherit;background:var(--sheet);border:1px solid var(--line);border-radius:8px}"
    "input{display:block;width:100%;box-sizing:border-box;padding:.45em .7em}"
    "button{padding:.5em 1.4em;margin:1.4em .6em 0 0;cursor:pointer}"
    ".yes{color:var(--on-accent);background:var(--accent);border-color:var(--accent);font-weight:600}"
    ":focus-visible{outline:3px solid var(--accent);outline-offset:2px}.wrong{color:var(--bad)}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_MAY: Final[Mapping[str, str]] = {
    scopes.READ: "read and search notes",
    scopes.WRITE: "write, change and take away notes",
    scopes.ADMIN: "reorganise whole brains",
}


@dataclass(frozen=True, slots=True)
class Form:
    """What a page sends back to us."""

    sealed: str
    """The sealed state of the page. Only we can make it, and it is valid in this browser alone."""
    redirect_uri: str


def security_headers(redirect_uri: str | None = None) -> dict[str, str]:
    """No script may run, nobody may frame the page, and the form goes to us and, by our redirect, to the program."""
    targets = "'none'" if redirect_uri is None else f"'self' {form_target_of(redirect_uri)}"
    return {
        "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        f"form-action {targets}; frame-ancestors 'none'",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        # With no referrer at all, browsers would not say either that the form is from this page.
        "referrer-policy": "same-origin",
        "cache-control": "no-store",
    }


def password_page(gateway: str, asked: Asked, form: Form, wrong: str = "", status: int = 200) -> HTMLResponse:
    """The page that says which program asks, and where a user logs in."""
    return _page(
        "Log in",
        [
            *_who_asks(gateway, asked),
            f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else "",
            '<form method="post" action="/authorize">',
            _hidden("request", form.sealed),
            '<label>User name<input name="user" autocomplete="username" autocapitalize="none" required></label>',
            '<label>Password<input name="password" type="password" autocomplete="current-password" required></label>',
            '<button class="yes" name="decision" value="log-in">Log in</button>',
            '<button name="decision" value="deny" formnovalidate>Cancel</button>',
            "</form>",
        ],
        status,
        security_headers(form.redirect_uri),
    )


def consent_page(gateway: str, asked: Asked, user: User, form: Form) -> HTMLResponse:
    """The page that says which program asks for which of this user's rights."""
    granted = asked.granted_to(user)
    may = "".join(f"<li>{escape(_MAY[scope])} ({escape(scope)})</li>" for scope in scopes.including(granted))
    brain = "every brain that you may use" if user.brain is None else f"the brain {user.brain}"
    return _page(
        "Allow this?",
        [
            *_who_asks(gateway, asked),
            "<dl>",
            f"<dt>It would act as</dt><dd>{escape(user.name)}</dd>",
            f"<dt>It could, until you or your operator end it</dt><dd><ul>{may}</ul></dd>",
            f"<dt>In</dt><dd>{escape(brain)}</dd>",
            "</dl>",
            '<form method="post" action="/authorize">',
            _hidden("consent", form.sealed),
            '<button class="yes" name="decision" value="allow">Allow</button>',
            '<button name="decision" value="deny">Deny</button>',
            "</form>",
        ],
        200,
        security_headers(form.redirect_uri),
    )


def refusal_page(sentence: str, status: int = 400, tell: str | None = None) -> HTMLResponse:
    """A page that says why the login fails. `tell` is a link by which the person may tell the program."""
    said = [f"<p>{escape(sentence)}</p>", "<p>Nothing was allowed. You can close this page.</p>"]
    if tell is not None:
        link = f'<a href="{escape(tell)}" rel="noreferrer">Tell {escape(target_of(tell))}</a>'
        said.append(f"<p>The program that sent you here may want to know. {link}</p>")
    return _page("This does not work", said, status, security_headers())


def _who_asks(gateway: str, asked: Asked) -> Sequence[str]:
    named = escape(asked.name or "A program without a name")
    is_url = asked.client.startswith("https://")
    whose = f"It is of <b>{escape(_host_of(asked.client))}</b>." if is_url else "This name is what it says of itself."
    if is_on_this_machine(asked.redirect_uri):
        back = "a program on the computer that this browser runs on"
    else:
        back = f"<b>{escape(target_of(asked.redirect_uri))}</b>"
    return [
        f"<p><b>{named}</b> wants to use the memory at <b>{escape(gateway)}</b>. {whose}</p>",
        f"<p>After this, your browser is sent to {back}. Go on only if you have just begun this there.</p>",
    ]


def _host_of(client_id: str) -> str:
    return client_id.removeprefix("https://").partition("/")[0]


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def _page(title: str, body: Sequence[str], status: int, headers: Mapping[str, str]) -> HTMLResponse:
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
    )
    return HTMLResponse(head + "\n".join(filter(None, body)) + "</main></body></html>", status, dict(headers))
