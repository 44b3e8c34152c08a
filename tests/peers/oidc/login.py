"""Logging in as a client does: find the provider, register, send somebody there by browser, fetch tokens."""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.peers.oidc.provider import Provider

REDIRECT_URI = "http://127.0.0.1:9/callback"
ROBOT = ("robot", "robot-secret")


def challenge_of(response: httpx.Response) -> dict[str, str]:
    """The one Bearer challenge of a refusal."""
    (header,) = response.headers.get_list("www-authenticate")
    scheme, _, words = header.partition(" ")
    assert scheme == "Bearer"
    return dict(re.findall(r'(\w+)="([^"]*)"', words))


def document(url: str) -> dict[str, Any]:
    return dict(httpx.get(url, trust_env=False).raise_for_status().json())


@dataclass
class Browser:
    """Somebody's browser, with its cookies, and a client that is registered where the metadata say."""

    provider: dict[str, Any]
    """The provider's metadata, as it published them."""
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)
    client_id: str = ""

    def sent(self, method: str, url: str | httpx.URL, **what: Any) -> httpx.Response:
        with httpx.Client(cookies=self.cookies, trust_env=False) as http:
            answer = http.request(method, url, **what)
            self.cookies = http.cookies
        return answer

    def register(self) -> None:
        wanted = {
            "client_name": "tests",
            "redirect_uris": [REDIRECT_URI],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        answer = self.sent("POST", self.provider["registration_endpoint"], json=wanted)
        self.client_id = answer.raise_for_status().json()["client_id"]

    def login(self, scope: str, resource: str | None, person: str = "ada", **more: str) -> dict[str, Any]:
        """The tokens that somebody gets for the resource."""
        if not self.client_id:
            self.register()
        verifier = secrets.token_urlsafe(48)
        state = secrets.token_urlsafe(8)
        aims = {} if resource is None else {"resource": resource}
        asked = {"scope": scope, "state": state, "login_hint": person, **pkce(verifier), **aims, **more}
        told = self.followed(asked)
        assert told["state"] == state
        assert told["iss"] == self.provider["issuer"]
        given = {"grant_type": "authorization_code", "code": told["code"], "redirect_uri": REDIRECT_URI}
        return self.tokens(**given, code_verifier=verifier, **aims)

    def followed(self, asked: dict[str, str]) -> dict[str, str]:
        """What the provider sends back to the client by way of the browser."""
        fixed = {"response_type": "code", "client_id": self.client_id, "redirect_uri": REDIRECT_URI}
        answer = self.sent("GET", self.provider["authorization_endpoint"], params=fixed | asked)
        while answer.is_redirect and not answer.headers["location"].startswith(REDIRECT_URI):
            answer = self.sent("GET", answer.url.join(answer.headers["location"]))
        assert answer.is_redirect, answer.text
        return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}

    def tokens(self, **given: str) -> dict[str, Any]:
        answer = self.sent("POST", self.provider["token_endpoint"], data={"client_id": self.client_id, **given})
        assert answer.is_success, answer.text
        return dict(answer.json())


def pkce(verifier: str) -> dict[str, str]:
    digest = hashlib.sha256(verifier.encode()).digest()
    return {
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }


def browser_at(provider: Provider) -> Browser:
    return Browser(document(f"{provider.url}/.well-known/openid-configuration"))


def robot_token(provider: Provider, scope: str, resource: str, **headers: str) -> str:
    """An access token of a client that is nobody's, by its own secret."""
    asked = {"grant_type": "client_credentials", "scope": scope, "resource": resource}
    answer = httpx.post(f"{provider.url}/token", data=asked, auth=ROBOT, headers=headers, trust_env=False)
    return str(answer.raise_for_status().json()["access_token"])
