"""What all tests of the contract share."""

import pytest

from tests.contract.platform.specification import Specification


@pytest.fixture(scope="session")
def specification() -> Specification:
    return Specification()
