"""What of a platform's own words is fit for a caller: prose, and no address or secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.platform_words import MESSAGE_LENGTH, clean_message

TOKEN, KEY = "zqUpstreamToken", "sk-zqModelKey"
GAP = "[…]"


@pytest.mark.parametrize(
    "said",
    [
        "The model stopped answering.",
        "Maximum context length is 8,192 tokens; you asked for 12000 (0.5 over).",
        "Rate limit reached for gpt-4o: try again in 20 s.",
        "The provider's answer wasn't JSON!",
        "length? no: 100% full",
        "モデルが応答しません。",
        "Das Modell antwortet nicht – später noch einmal versuchen.",
        "RateLimitError: token limit exceeded",
        "The model is overloaded. Try again in 30 seconds.",
        "rate limit reached for gpt-4o: 3 of 3 requests",
        "context length exceeded: 8192 tokens",
        "You asked for 9000 tokens (4000 in the messages, 5000 in the answer). Please ask for less.",
        "Limit of tokens per min (TPM): Limit 30000, Used 29000.",
        "The token is invalid. Check your key, then try again: 2 attempts left.",
        "Check your key. Try again.",
        "Try later (the token limit is 5 Million).",
        "claude-3-5-sonnet is at capacity: HTTP 529, SERVICE UNAVAILABLE",
    ],
)
def test_prose_passes_as_it_is(said: str) -> None:
    assert clean_message(said) == said


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("see https://platform.example/v1?token=abc for more", f"see {GAP} for more"),
        ("cannot reach db.internal:5432", f"cannot reach {GAP}"),
        ("connect 10.0.0.5:8080 refused", f"connect {GAP} refused"),
        ("connect [fe80::1%eth0]:80 refused", f"connect {GAP} refused"),
        ("no such file /srv/brains/key.pem", f"no such file {GAP}"),
        (r"no such file C:\\keys\\key.pem", f"no such file {GAP}"),
        ("ask ops@platform.example", f"ask {GAP}"),
        ("invalid key sk-proj-A1b2C3d4", f"invalid key {GAP}"),
        ("Authorization: Bearer abcdef was refused", f"Authorization: {GAP} was refused"),
        ("password: swordfish", f"password: {GAP}"),
        ("password = swordfish", f"password = {GAP}"),
        ("password=swordfish", GAP),
        ("the password Swordfish is wrong", f"the password {GAP} is wrong"),
        ("the token hunter2 is wrong", f"the token {GAP} is wrong"),
        ("eyJhbGciOi.eyJzdWIi.c2ln is expired", f"{GAP} is expired"),
        ("id 123e4567-e89b-12d3-a456-426614174000", f"id {GAP}"),
        ("card 4111111111111111 declined", f"card {GAP} declined"),
        ("a b1c2d3e4 f5a6b7c8 z", f"a {GAP} z"),
        ("x" * 25, None),
        ("AKIAIOSFODNN7EXAMPLE", None),
    ],
)
def test_what_may_be_an_address_or_a_secret_is_taken_out(said: str, shown: str | None) -> None:
    assert clean_message(said) == (None if shown == GAP else shown)


SECRET = ("swordfish", "QWERTYuiop", "hunter", "correct", "horse", "letmein", "abcdefghij", "Swordfish", "1234")


@pytest.mark.parametrize(
    "said",
    [
        "client_secret: QWERTYuiopASDFgh",
        "DB_PASSWORD: correcthorse",
        '{"db_password": "hunter"}',
        '{"db_password" : {"hunter"}}',
        "api_key: swordfish rejected",
        "access-token: swordfish",
        "accessToken: swordfish",
        "auth.token: swordfish",
        "x-internal-key: letmeinplease",
        "tokens: abcdefghij",
        "passwords: hunter",
        "passwords: hunter, swordfish",
        "Wrong API key provided: swordfish",
        "(the password: swordfish)",
        "password1: hunter",
        "token #2: swordfish",
        "password -> swordfish",
        "password→ swordfish",
        "password => swordfish",
        "password = * swordfish",
        "password: * swordfish",
        "password:* swordfish",
        "password: correct horse battery",
        "password:correct horse battery",
        "password=correct horse battery",
        "Password (admin): swordfish",
        "Password (of the admin): swordfish",
        "Password(admin): swordfish",
        "the password is: swordfish",
        "the password is Swordfish",
        "authorization: Digest swordfish",
        "authorization Digest swordfish",
        "authorization: Bearer: swordfish",
        "signature: swordfish",
        "pw: swordfish",
        "pin: 1234",
    ],
)
def test_what_is_announced_as_a_secret_is_taken_out(said: str) -> None:
    shown = clean_message(f"Refused. {said}")
    assert shown is not None
    assert shown.startswith("Refused. ")
    assert not [word for word in SECRET if word in shown]


@pytest.mark.parametrize("end", [",", ";", "."])
def test_a_secret_ends_where_a_part_of_a_sentence_ends(end: str) -> None:
    assert clean_message(f"password: correct horse{end} Try again") == f"password: {GAP} Try again"


@pytest.mark.parametrize(
    "said", ["A1B-2C3-D4E-5F6-G7H-8J9", "A1B-2C3", "4111-1111-1111-1111", "AKIAIOSFODNNEXAMPLE", "QWERT-YUIOP-ASDFG"]
)
def test_what_is_too_much_of_digits_or_capitals_is_taken_out(said: str) -> None:
    assert clean_message(f"refused {said} today") == f"refused {GAP} today"


@pytest.mark.parametrize(
    "said",
    [
        f"refused {TOKEN}",
        f"refused Bearer {TOKEN}",
        f"refused:{TOKEN}.",
        f"refused before{TOKEN}after",
        f"refused {TOKEN[:5]}\u200b{TOKEN[5:]}",
        f"refused {''.join(chr(ord(c) + 0xFEE0) for c in TOKEN)}",
        f"refused '{KEY}'",
        "refused " + "word " * 236 + TOKEN,
        "refused " + "b1c2d3e4 " * 131 + TOKEN,
    ],
)
def test_a_credential_that_the_platform_was_shown_is_never_repeated(said: str) -> None:
    shown = clean_message(said, [TOKEN, KEY])
    assert shown is not None
    assert shown.startswith("refused")
    assert "zq" not in shown


def test_half_a_credential_at_the_end_of_what_is_looked_at_is_not_shown() -> None:
    for length in range(1100, 1210):
        shown = clean_message("b1c2d3e4 " * (length // 9) + "x " * 4 + " " * (length % 9) + TOKEN + " end", [TOKEN])
        assert "zq" not in (shown or "")


@pytest.mark.parametrize(
    "said", [None, 7, True, ["model failed"], {"a": 1}, "", "  \n", "\x00\x1b[", "🐎", "…", "\u3164"]
)
def test_what_says_nothing_is_nothing(said: object) -> None:
    assert clean_message(said) is None


def test_it_is_one_line_without_controls_and_not_long() -> None:
    said = "The\x1b[31m model\r\nfailed\u202e\u2028with\u200d \x00no\u2066 reason. " + "And so on. " * 100
    shown = clean_message(said)
    assert shown is not None
    assert shown.startswith(f"{GAP} model failed with no reason. And so on.")
    assert len(shown) == MESSAGE_LENGTH
    assert shown.endswith("…")
    assert all(c.isprintable() for c in shown)


@given(st.text(max_size=2000), st.sampled_from(["zqz9secret", "qqqqq"]))
def test_whatever_is_said_nothing_unseen_and_no_credential_comes_out(said: str, secret: str) -> None:
    shown = clean_message(f"{said}{secret} {said}", [secret])
    assert shown is None or (len(shown) <= MESSAGE_LENGTH and shown.isprintable() and secret not in shown)


@pytest.mark.parametrize("part", ["a", "-", "' ", "1.", "password: ", "\u0301", "\ufdfa", "[", "zq ", "Bearer "])
def test_a_long_message_costs_no_more_than_a_short_one(part: str) -> None:
    """Only its beginning is looked at."""
    long = part * 1_000_000
    assert clean_message(long, [TOKEN]) == clean_message(long[: 4 * MESSAGE_LENGTH + 1], [TOKEN])
