"""A browser with somebody before it, who logs in as ada and allows what is asked.

As a program, it is what a client that opens a browser starts (`BROWSER`): python -m tests.peers.browser ADDRESS
"""

import sys
from urllib.parse import urlsplit

import httpx

from tests.gateway.http.auth.login.house import Person


def browse(address: str) -> str:
    """Open the address, log in, allow it; where the browser is sent then."""
    there = urlsplit(address)
    person = Person(f"{there.scheme}://{there.netloc}")
    page = person.send("GET", f"{there.path}?{there.query}")
    done = person.fill(person.enter(page), decision="allow")
    assert done.status_code == 303, done.text
    return str(done.headers["location"])


def browse_to_the_end(address: str) -> None:
    """And go where the browser is sent, which is to the client that waits for it, or will once it has said where."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False, timeout=60) as http:
        http.get(browse(address)).raise_for_status()


if __name__ == "__main__":
    browse_to_the_end(sys.argv[1])
