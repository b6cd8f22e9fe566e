"""Both ways to run the suite give it the engine as `lib`."""

import pytest
import small


@pytest.fixture
def lib():
    return small
