"""A browser without scripts: it keeps cookies, follows links and sends forms as browsers do."""

import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urljoin

import httpx

from tests.served import Served, raw_call

# A connection that is kept has to be closed by somebody.
UNKEPT = httpx.Limits(max_keepalive_connections=0)
FORM = re.compile(r'<form[^>]*method="post"[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
INPUT = re.compile(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"')
TEXTAREA = re.compile(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', re.DOTALL)
LINK = re.compile(r'href="([^"]+)"')


@dataclass
class Browser:
    """One tab. `page` is what it shows."""

    served: Served
    http: httpx.Client = field(default_factory=lambda: httpx.Client(follow_redirects=True, timeout=60, limits=UNKEPT))
    page: str = ""
    at: str = ""
    status: int = 0

    def open(self, path: str, **headers: str) -> str:
        return self._show(self.http.get(urljoin(self.served.url, path), headers={"sec-fetch-site": "none", **headers}))

    def _show(self, response: httpx.Response) -> str:
        self.page, self.at, self.status = response.text, str(response.url), response.status_code
        return self.page

    def form(self, action: str) -> tuple[str, dict[str, str]]:
        """The form of this page that is sent there, with what its fields hold."""
        for target, inside in FORM.findall(self.page):
            if action in target:
                fields = [*INPUT.findall(inside), *TEXTAREA.findall(inside)]
                return unescape(target), {name: unescape(value) for name, value in fields}
        raise AssertionError(f"there is no form for {action}")

    def send(self, action: str, headers: dict[str, str] | None = None, **fields: str) -> str:
        target, held = self.form(action)
        return self.post(target, {**held, **fields}, headers)

    def post(self, target: str, fields: dict[str, str], headers: dict[str, str] | None = None) -> str:
        own = {"origin": self.served.url, "sec-fetch-site": "same-origin", **(headers or {})}
        # In forms, browsers end lines with both signs.
        sent = {name: value.replace("\r\n", "\n").replace("\n", "\r\n") for name, value in fields.items()}
        return self._show(self.http.post(urljoin(self.served.url, target), data=sent, headers=own))

    def links(self, part: str) -> list[str]:
        return [unescape(link) for link in LINK.findall(self.page) if part in link]

    def follow(self, part: str) -> str:
        return self.open(self.links(part)[0])

    @property
    def text(self) -> str:
        """What is read of the page."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.page)).split())


def call(served: Served, tool: str, token: str | None = None, at: str = "/mcp", **arguments: Any) -> httpx.Response:
    """What an agent does meanwhile."""
    request = raw_call("modern", tool, arguments)
    if token is not None:
        request["headers"]["authorization"] = f"Bearer {token}"
    response = httpx.post(served.url + at, timeout=60, **request)
    assert response.status_code == 200, response.text
    return response
