"""Callers with a JWT: a provider's keys in a process of its own, and a token that is good for the whole run."""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from joserfc import jwt
from joserfc.jwk import ECKey

from bench.processes import running

_ISSUER = "https://login.bench.example"
_PUBLIC_URL = "https://tools.bench.example"
_HOURS = 12


@dataclass(frozen=True, slots=True)
class Login:
    """What a server must know to check callers, and the token of one of them."""

    token: str
    public_key: str
    jwks_url: str
    issuer: str = _ISSUER
    audience: str = f"{_PUBLIC_URL}/mcp"

    def gateway_settings(self) -> dict[str, str]:
        """Callers may share everything: what is measured is the check of their tokens."""
        return {
            "BRAINS_AUTH": "jwt",
            "BRAINS_AUTH_ISSUER": self.issuer,
            "BRAINS_AUTH_JWKS_URL": self.jwks_url,
            "BRAINS_PUBLIC_URL": _PUBLIC_URL,
            "BRAINS_SINGLE_TENANT": "true",
            "BRAINS_CALLS_PER_SECOND": "1000000",
            "BRAINS_CALLS_AT_ONCE": "10000",
        }

    def bare_settings(self) -> dict[str, str]:
        return {"BENCH_KEY": self.public_key, "BENCH_ISSUER": self.issuer, "BENCH_AUDIENCE": self.audience}


@contextmanager
def login(workdir: Path) -> Iterator[Login]:
    key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}, auto_kid=True)
    keys = workdir / "jwks.json"
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}), encoding="utf-8")
    now = int(time.time())
    claims = {"iss": _ISSUER, "aud": f"{_PUBLIC_URL}/mcp", "sub": "ann", "client_id": "bench", "scope": "brains:read"}
    header = {"alg": "ES256", "kid": key.kid, "typ": "at+jwt"}
    token = jwt.encode(header, {**claims, "iat": now, "exp": now + _HOURS * 3600, "jti": "1"}, key)
    with running("provider", ["bench.login", str(keys)], workdir) as provider:
        public = key.as_pem(private=False).decode()
        yield Login(token, public, f"http://127.0.0.1:{provider.port}/jwks")


async def _serve(keys: bytes, port: int) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(keys)}\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline():
            writer.write(f"{head}connection: close\r\n\r\n".encode() + keys)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("keys", type=Path)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.keys.read_bytes(), arguments.port))


if __name__ == "__main__":
    _main()
