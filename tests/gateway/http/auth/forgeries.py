"""Tokens that must let nobody in, and tokens that must: each made of a good one by a single change."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.gateway.http.auth.forging import (
    DAY,
    HEADER,
    Make,
    as_der,
    at,
    bent,
    by_secret,
    claim,
    each,
    head,
    padded,
    public_jwk,
    public_pem,
    raw_claims,
    raw_header,
    resigned,
    signed_as,
    spelled,
    unsigned,
)
from tests.gateway.http.auth.provider import AUDIENCE, PUBLIC_URL, ec, ed, encoded, public, rsa, signed

SHAPES: Final[dict[str, Make]] = {
    "one word": lambda _p, _n: "x",
    "two parts": lambda _p, _n: "a.b",
    "three parts of nothing": lambda _p, _n: "..",
    "three parts of noise": lambda _p, _n: "a.b.c",
    "four parts": spelled(lambda parts: ".".join([*parts, "x"])),
    "five parts, as if encrypted": spelled(lambda parts: ".".join([*parts, "x", "y"])),
    "a trailing dot": spelled(lambda parts: ".".join(parts) + "."),
    "a leading dot": spelled(lambda parts: "." + ".".join(parts)),
    "no signature": spelled(lambda parts: f"{parts[0]}.{parts[1]}."),
    "no claims": spelled(lambda parts: f"{parts[0]}..{parts[2]}"),
    "padded header": padded(0),
    "padded claims": padded(1),
    "padded signature": padded(2),
    "padding alone": spelled(lambda parts: ".".join(parts) + "===="),
    "other last letter in the header": bent(0),
    "other last letter in the claims": bent(1),
    "other last letter in the signature": bent(2),
    "a letter of plain base64": spelled(lambda parts: f"{parts[0]}.{parts[1]}.+{parts[2][1:]}"),
    "percent-encoded dots": spelled(lambda parts: "%2E".join(parts)),
    "JSON serialization": spelled(
        lambda parts: json.dumps(
            {"protected": parts[0], "payload": parts[1], "signature": parts[2]}, separators=(",", ":")
        )
    ),
    "header is no JSON": raw_header(b"alg=ES256"),
    "header is a list": raw_header(b'["ES256"]'),
    "header is a word": raw_header(b'"ES256"'),
    "header is null": raw_header(b"null"),
    "header is not UTF-8": raw_header(b'{"alg": "ES256", "kid": "\xff"}'),
    "header names the algorithm twice": raw_header(b'{"alg": "none", "alg": "ES256", "kid": "e"}'),
    "header names the key twice": raw_header(b'{"alg": "ES256", "kid": "x", "kid": "e"}'),
    "header nested deeply": raw_header(b'{"alg": ' + b"[" * 3000 + b"]" * 3000 + b"}"),
    "header with a long number": raw_header(b'{"alg": "ES256", "kid": ' + b"9" * 5000 + b"}"),
    "header of 8 KiB": head(x5t="x" * 6000),
    "claims are no JSON": raw_claims(b"iss=x"),
    "claims are empty": raw_claims(b"{}"),
    "claims are a list": raw_claims(b"[]"),
    "claims are a number": raw_claims(b"1"),
    "claims are null": raw_claims(b"null"),
    "claims are not UTF-8": raw_claims(b'{"sub": "\xff"}'),
    "claims with a long number": raw_claims(b'{"exp": ' + b"9" * 5000 + b"}"),
}

ALGORITHMS: Final[dict[str, Make]] = {
    **{f"alg {word} unsigned": unsigned(word) for word in ("none", "None", "NONE", "nOnE", "")},
    **{f"alg {word} with a signature": unsigned(word, "AAAA") for word in ("none", "None", "NONE", "nOnE", "")},
    **{f"alg is {odd!r}": unsigned(odd, "AAAA") for odd in (None, 1, True, ["ES256"], {"ES256": 1})},
    "alg is missing": head(alg=...),
    "alg in lower case": head(alg="es256"),
    "alg with a space": head(alg="ES256 "),
    "alg nobody knows": head(alg="XS256"),
    "alg RS1": head(alg="RS1"),
    **{
        f"HS{bits} by the public key as {kind}": by_secret(bits, "r", make)
        for bits in (256, 384, 512)
        for kind, make in {
            "PEM": public_pem,
            "JWK": public_jwk,
            "PEM without its end": lambda: public_pem().rstrip(),
        }.items()
    },
    "HS256 by the name of the key": by_secret(256, "r", lambda: b"r"),
    "HS256 by nothing": by_secret(256, "r", lambda: b""),
    "HS256 by the published modulus": by_secret(256, "r", lambda: public(rsa(), None)["n"].encode()),
    "HS256 without a kid": by_secret(256, None, public_pem),
    "PS256 said, RS256 signed": signed_as("PS256", "r", rsa, "RS256"),
    "RS256 said, PS256 signed": signed_as("RS256", "r", rsa, "PS256"),
    "RS256 said, RS512 signed": signed_as("RS256", "r", rsa, "RS512"),
    "PS256 by a key for RS256": signed_as("PS256", "only-rs256", lambda: rsa(1)),
    "RS512 by a key for RS256": signed_as("RS512", "only-rs256", lambda: rsa(1)),
    "RS256 by the kid of an EC key": signed_as("RS256", "e", rsa),
    "ES256 by the kid of an RSA key": signed_as("ES256", "r", ec),
    "ES256 by the kid of an Ed25519 key": signed_as("ES256", "o", ec),
    "Ed25519 by the kid of an EC key": signed_as("Ed25519", "e", ed),
    "ES384 by a P-256 key": head(alg="ES384"),
    "ES256 by a P-384 key": signed_as("ES256", "e", lambda: ec(1, "P-384"), "ES384"),
    "ES256K": signed_as("ES256K", "k", lambda: ec(0, "secp256k1")),
}

KIDS: Final[dict[str, Make]] = {
    **each(head, "kid", 7, True, [], ["e"], {}, "", " e", "E", "e\x00", "../e", "' or 1=1"),
    "kid of another key of the provider": head(kid="twin"),
    "no kid, and two RSA keys": signed_as("RS256", None, rsa),
    "no kid, another's key": signed_as("Ed25519", None, lambda: ed(9)),
    "kid of an oct key": by_secret(256, "shared", lambda: b"published-for-all-to-see-and-sign"),
    "kid of a key for encryption": signed_as("RS256", "enc", lambda: rsa(2)),
    "twins, by neither": signed_as("ES256", "twin", lambda: ec(9)),
    "another's key by our kid": signed_as("ES256", "e", lambda: ec(9)),
    "another's RSA key by our kid": signed_as("RS256", "r", lambda: rsa(9)),
    "another's key in the header": lambda provider, now: signed(
        {**HEADER, "jwk": public(ec(9), None)}, provider.claims(now), ec(9), "ES256"
    ),
    "another's key in the header, by its own kid": lambda provider, now: signed(
        {**HEADER, "kid": "mine", "jwk": public(ec(9), "mine")}, provider.claims(now), ec(9), "ES256"
    ),
    "another's key by jku": lambda provider, now: signed(
        {**HEADER, "kid": "mine", "jku": provider.url + "/elsewhere"}, provider.claims(now), ec(9), "ES256"
    ),
    "another's key by x5u": lambda provider, now: signed(
        {**HEADER, "kid": "mine", "x5u": provider.url + "/elsewhere"}, provider.claims(now), ec(9), "ES256"
    ),
    "another's certificate": lambda provider, now: signed(
        {**HEADER, "kid": "mine", "x5c": ["MIIB"]}, provider.claims(now), ec(9), "ES256"
    ),
}

SIGNATURES: Final[dict[str, Make]] = {
    "cut by a byte": resigned(lambda raw: raw[:-1]),
    "longer by a byte": resigned(lambda raw: raw + b"\0"),
    "all zero": resigned(lambda raw: bytes(len(raw))),
    "r and s exchanged": resigned(lambda raw: raw[32:] + raw[:32]),
    "as DER": resigned(as_der),
    "one bit flipped": resigned(lambda raw: bytes([raw[0] ^ 1]) + raw[1:]),
    "of other claims": lambda provider, now: ".".join(
        [*provider.token(now, sub="eve").split(".")[:2], provider.token(now).split(".")[2]]
    ),
    "of another header": lambda provider, now: ".".join(
        [provider.token(now, {"typ": "JWT"}).split(".")[0], *provider.token(now).split(".")[1:]]
    ),
}

HEADERS: Final[dict[str, Make]] = {
    "crit names exp": head(crit=["exp"]),
    "crit is empty": head(crit=[]),
    "crit is null": head(crit=None),
    "crit names what nobody knows": head(crit=["urn:x"], **{"urn:x": 1}),
    "crit and b64": head(crit=["b64"], b64=False),
    "b64 alone": head(b64=False),
    **each(
        head,
        "typ",
        "dpop+jwt",
        "txntoken+jwt",
        "brains-gw+jwt",
        "application/brains-gw+jwt",
        "id+jwt",
        "secevent+jwt",
        "logout+jwt",
        "token-introspection+jwt",
        "oauth-authz-req+jwt",
        "client-authentication+jwt",
        "kb+jwt",
        "JWE",
        "JOSE",
        "at+jwt ",
        "at+jwt; x=1",
        "application/application/at+jwt",
        "",
        None,
        1,
        ["at+jwt"],
    ),
}

_ODD_TIMES: Final[tuple[Any, ...]] = (
    "1999999999",
    "",
    True,
    False,
    [],
    {},
    float("nan"),
    float("inf"),
    float("-inf"),
    -1,
    1e11,
    10**400,
)

TIMES: Final[dict[str, Make]] = {
    **each(claim, "exp", *_ODD_TIMES),
    **each(claim, "nbf", *_ODD_TIMES),
    **each(claim, "iat", *_ODD_TIMES),
    "no exp": claim(exp=...),
    "exp is null": claim(exp=None),
    "expired an hour ago": at(iat=-7200, exp=-3600),
    "expired by more than the skew": at(iat=-600, exp=-61),
    "expired by the skew": at(iat=-600, exp=-60),
    "not before in an hour": at(nbf=3600),
    "not before beyond the skew": at(nbf=62),
    "issued in an hour": at(iat=3600, exp=4000),
    "issued beyond the skew": at(iat=62),
    "valid for more than a day": at(iat=0, exp=DAY + 1),
    "valid for a year": at(iat=0, exp=365 * DAY),
    "valid for more than a day, issued long ago": at(iat=-DAY, exp=60),
    "valid for more than a day, not said since when": lambda provider, now: provider.token(
        now, iat=..., exp=now + DAY + 1
    ),
}

WHO: Final[dict[str, Make]] = {
    **each(
        claim,
        "sub",
        ...,
        None,
        "",
        7,
        True,
        [],
        ["ada"],
        {"id": "ada"},
        "a\nb",
        "a\0b",
        "\x1b[31m",
        "\u202eada",
        "\ud800",
    ),
    "sub of 513 letters": claim(sub="x" * 513),
    "sub of 9,000 letters": claim(sub="x" * 9000),
    **each(claim, "iss", ..., None, "", 7, [], "https://evil.example"),
    "iss with a slash more": lambda provider, now: provider.token(now, iss=provider.issuer + "/"),
    "iss in upper case": lambda provider, now: provider.token(now, iss=provider.issuer.upper()),
    "iss goes on": lambda provider, now: provider.token(now, iss=provider.issuer + ".evil.example"),
    "iss in a list": lambda provider, now: provider.token(now, iss=[provider.issuer]),
    "iss is the gateway": claim(iss=PUBLIC_URL),
    **{f"{name} of an ID token": claim(**{name: "x"}) for name in ("nonce", "at_hash", "c_hash", "s_hash")},
    "nonce is null": claim(nonce=None),
    **each(claim, "cnf", {"jkt": "x"}, {"x5t#S256": "x"}, {"jwk": {}}, {}, None, "x"),
    **each(claim, "org_id", ["a", "b"], [], ["a", "a"], 7, {}, "", [["a"]], [7], "a\nb", "x" * 513, False),
}

AUDIENCES: Final[dict[str, Make]] = each(
    claim,
    "aud",
    ...,
    None,
    "",
    7,
    True,
    {},
    {AUDIENCE: 1},
    [],
    [""],
    [[AUDIENCE]],
    [AUDIENCE, AUDIENCE],
    [AUDIENCE, "https://other.example"],
    ["https://other.example", AUDIENCE],
    ["https://other.example"],
    "https://other.example/mcp",
    PUBLIC_URL,
    AUDIENCE + "/",
    AUDIENCE + "/main",
    AUDIENCE + "?x",
    AUDIENCE + "#x",
    AUDIENCE + " ",
    f"{AUDIENCE} https://other.example",
    AUDIENCE[:-1],
    AUDIENCE + "s",
    AUDIENCE.upper(),
    AUDIENCE.replace("mcp", "MCP"),
    AUDIENCE.replace("https", "http"),
    AUDIENCE.replace(".example", ".example:443"),
    AUDIENCE.replace("brains", "brains.evil"),
    "*",
)

GROUPS: Final[Mapping[str, tuple[str, Mapping[str, Make]]]] = {
    "shape": ("not a JWT|spelling|header|algorithm|no such key|signature|issuer|kid", SHAPES),
    "algorithm": ("not a JWT|algorithm|no such key|signature", ALGORITHMS),
    "key": ("kid|no such key|signature|algorithm", KIDS),
    "signature": ("signature", SIGNATURES),
    "header": ("header|typ|signature", HEADERS),
    "time": ("a time that is none|expired|valid for too long|not valid yet", TIMES),
    "who": ("no subject|issuer|ID token|bound to a key|organization", WHO),
    "audience": ("audience", AUDIENCES),
}
"""By what they have in common; with what may be the reason, so that none is refused for a slip of ours."""

REFUSED: Final[Mapping[str, tuple[str, Make]]] = {
    f"{group}: {name}": (reason, make) for group, (reason, cases) in GROUPS.items() for name, make in cases.items()
}

ACCEPTED: Final[dict[str, Make]] = {
    "as it should be": claim(),
    "RS256": signed_as("RS256", "r", rsa),
    "RS512": signed_as("RS512", "r", rsa),
    "PS256": signed_as("PS256", "r", rsa),
    "RS256 by a key for it": signed_as("RS256", "only-rs256", lambda: rsa(1)),
    "ES384": signed_as("ES384", "e384", lambda: ec(0, "P-384")),
    "ES512": signed_as("ES512", "e521", lambda: ec(0, "P-521")),
    "Ed25519": signed_as("Ed25519", "o", ed),
    "Ed25519 without a kid, the only key of its kind": signed_as("Ed25519", None, ed),
    "the first of twins": signed_as("ES256", "twin", lambda: ec(1)),
    "the second of twins": signed_as("ES256", "twin", lambda: ec(2)),
    **{
        f"typ {typ}": head(typ=typ)
        for typ in (..., "JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "application/jwt")
    },
    "another's jku, never asked": lambda provider, now: provider.token(now, {"jku": provider.url + "/elsewhere"}),
    "aud in a list of its own": claim(aud=[AUDIENCE]),
    "expired within the skew": at(iat=-600, exp=-58),
    "not before within the skew": at(nbf=58),
    "issued within the skew": at(iat=58),
    "valid for a day": at(iat=0, exp=DAY),
    "times with fractions": at(iat=-0.5, exp=600.25, nbf=-1.5),
    "no iat": claim(iat=...),
    "sub of 512 letters": claim(sub="x" * 512),
    "sub with letters of the world": claim(sub="Zoë 日本"),
    "an organization": claim(org_id="acme"),
    "one organization in a list": claim(org_id=["acme"]),
    "a claim nobody knows": claim(colour="blue", act={"sub": "x"}),
    "8 KiB": claim(filler="x" * 6000),
}


def more_keys() -> list[dict[str, Any]]:
    """Those that the cases need a provider to publish, besides its own."""
    return [
        public(rsa(1), "only-rs256", alg="RS256"),
        public(rsa(2), "enc") | {"use": "enc"},
        public(ec(1), "twin"),
        public(ec(2), "twin"),
        public(ec(0, "P-384"), "e384"),
        public(ec(0, "P-521"), "e521"),
        public(ec(0, "secp256k1"), "k"),
        {"kty": "oct", "kid": "shared", "use": "sig", "k": encoded(b"published-for-all-to-see-and-sign")},
    ]
