"""The search for secrets finds them, and fails the test that wrote them."""

import pytest

from gateway.config.signing_keys import begin, serialize
from gateway.config.token_file import make_token
from tests.secrets_in_output import found_in

pytest_plugins = ["pytester"]

JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEgbG92ZWxhY2UifQ.c2ln"


@pytest.mark.parametrize(
    "secret",
    [
        make_token(),
        JWT,
        "Authorization: Bearer s3cret-word",
        "-----BEGIN EC PRIVATE KEY",
        serialize(begin("ES256")).decode(),
    ],
    ids=["token", "jwt", "bearer", "pem", "jwk"],
)
def test_what_looks_like_a_secret_is_found(secret: str) -> None:
    assert found_in(f"event=x {secret} y")
    assert not any(secret in shown for shown in found_in(secret))


@pytest.mark.parametrize("text", ["Bearer <token>", "a bearer of news", "bgt_short", "sha256=" + "a" * 64])
def test_what_does_not_is_left_alone(text: str) -> None:
    assert found_in(text) == []


def test_a_test_that_writes_one_fails(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.secrets_in_output import pytest_runtest_makereport")
    pytester.makepyfile(
        f"""
        import sys, pytest
        @pytest.fixture
        def loud_at_last():
            yield
            sys.stderr.write("{JWT}")
        def test_quiet(): print("nothing")
        def test_loud(): sys.stderr.write("{JWT}")
        def test_loud_in_the_end(loud_at_last): pass
        """
    )
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--show-capture=no")
    # Whoever is loud is so until the end.
    ran.assert_outcomes(passed=2, failed=1, errors=2)
