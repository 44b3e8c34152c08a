"""The ways in which the suite meets the gateway: each serves until the block ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.app.http_app import app_of
from gateway.config.settings import load
from tests.gateway.http.auth.provider import PUBLIC_URL, providing
from tests.peers.conformance.fixtures import FixtureGateway
from tests.peers.conformance.proxy import adding
from tests.served import listening, serving


@contextmanager
def production(folder: Path) -> Iterator[str]:
    """Every surface as it is; where the gateway is."""
    with serving(folder, None) as served:
        yield served.url


@contextmanager
def fixtures(folder: Path, **settings: Any) -> Iterator[str]:
    """The application as it is, with the suite's own surface; where that is."""
    made = load(data_dir=folder, surfaces=("memory",), **settings)
    with listening(app_of(FixtureGateway(made, roots=None), made)) as url:
        yield f"{url}/mcp"


@contextmanager
def behind_auth(folder: Path) -> Iterator[tuple[str, str]]:
    """The same behind an OAuth provider: where a proxy adds a token, and where nobody does."""
    with providing() as provider:
        door = {"auth": "jwt", "auth_issuer": provider.issuer, "public_url": PUBLIC_URL, "calls_per_second": 1e6}
        with fixtures(folder, **door) as guarded, listening(adding(provider.token, guarded)) as proxy:
            yield f"{proxy}/mcp", guarded
