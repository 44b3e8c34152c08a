"""Passwords, hashed so that a thief of the file cannot try many: each try takes 32 MiB and half a second."""

import base64
import hashlib
import hmac
import secrets
import unicodedata
from typing import Final

LEAST: Final = 12
MOST: Final = 256
# As strong as the first choice of OWASP with a quarter of its memory, because several may be checked at once.
_COST: Final = (2**15, 8, 3)
_MEMORY: Final = 64 * 1024 * 1024
_SALT_BYTES, _HASH_BYTES = 16, 32
# The most that a file may ask of us.
_MOST_COST: Final = (2**17, 8, 4)


# Checked for a user who does not exist, so that it takes the same time. No password is known to have this hash.
DECOY: Final = f"scrypt$32768$8$3${'A' * 22}==${'A' * 43}="


def hash_password(password: str, cost: tuple[int, int, int] = _COST) -> str:
    salt = secrets.token_bytes(_SALT_BYTES)
    n, r, p = cost
    return f"scrypt${n}${r}${p}${_text(salt)}${_text(_derive(password, salt, n, r, p))}"


def is_password(password: str, hashed: str) -> bool:
    """Whether it is the password that was hashed. Takes too long for an event loop."""
    n, r, p, salt, derived = _parts(hashed)
    return hmac.compare_digest(_derive(password, salt, n, r, p), derived)


def check_hash(hashed: str) -> str:
    """Check that it is a hash of ours, with a cost that we accept. Raises ValueError."""
    _parts(hashed)
    return hashed


def _parts(hashed: str) -> tuple[int, int, int, bytes, bytes]:
    kind, *cost, salt, derived = hashed.split("$")
    n, r, p = map(int, cost)
    if kind != "scrypt" or not all(1 <= is_ <= most for is_, most in zip((n, r, p), _MOST_COST, strict=True)):
        raise ValueError("not a hash of a password")
    return n, r, p, base64.b64decode(salt, validate=True), base64.b64decode(derived, validate=True)


def _derive(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    # The same letters may be typed in several ways.
    typed = unicodedata.normalize("NFKC", password).encode("utf-8", "replace")
    return hashlib.scrypt(typed, salt=salt, n=n, r=r, p=p, maxmem=_MEMORY + 128 * n * r, dklen=_HASH_BYTES)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
