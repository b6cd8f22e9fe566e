"""Sentences that list several names."""

import pytest

from harness.core.message import some


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "a"), (2, "a; b"), (3, "a; b and 1 more")]
)
def test_of_many_names_the_others_are_counted(count: int, text: str) -> None:
    assert some(["a", "b", "c"][:count], 2, "; ") == text
