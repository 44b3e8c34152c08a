"""Plays a browser and its user, who logs in as ada and allows what is asked.

Clients that open a browser start it as a program (`BROWSER`): python -m tests.peers.browser ADDRESS
"""

import sys
from urllib.parse import urlsplit

import httpx

from tests.gateway.http.auth.login.house import Person


def browse(address: str) -> str:
    """Open the address, log in and allow it. Returns where the browser is sent then."""
    there = urlsplit(address)
    person = Person(f"{there.scheme}://{there.netloc}")
    page = person.send("GET", f"{there.path}?{there.query}")
    done = person.fill(person.enter(page), decision="allow")
    assert done.status_code == 303, done.text
    return str(done.headers["location"])


def browse_to_the_end(address: str) -> None:
    """The same, and then go where the browser is sent. The client there may begin to listen a little later."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False, timeout=60) as http:
        http.get(browse(address)).raise_for_status()


if __name__ == "__main__":
    browse_to_the_end(sys.argv[1])
