"""Probes: what their text says about the numbers in it."""

import pytest

from harness.pages.probe import Probe, read_probes


def probe_with(body: str) -> Probe:
    return read_probes(f"def p(a=(3,)):\n    'np.inf'\n    {body}\n", "probes.py")[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a + 2.5", False),
        ("return abs(a)", False),
        ("b = a + 1; return b * a", False),
        ("return a + np.ones(3)", True),
        ("b = lib.tensor([1.0]); return a * b", True),
    ],
)
def test_a_probe_brings_numbers_with_a_name_that_is_not_its_own(body: str, expected: bool) -> None:
    assert probe_with(body).brings_numbers is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a / 0.0", False),
        ("return a + np.info", False),
        ("return a + np.nan", True),
        ("return a + inf", True),
        ("return a + float('-INF')", True),
    ],
)
def test_a_probe_brings_what_is_not_finite_if_it_writes_it(body: str, expected: bool) -> None:
    assert probe_with(body).brings_non_finite is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a * 3.0 + 2", {1, 2, 3}),  # and one use of `a`
        ("b = a + a; return b + a", {2, 3}),  # two of `b`, three of `a`
        ("return a.sum(-4)", {1, 4}),
        ("return a.reshape('7')", {1}),
        (f"return a * {10**400} * 1e999", {1}),
    ],
)
def test_the_numbers_of_a_probe_are_those_in_its_text_and_of_its_uses(
    body: str, expected: set[float]
) -> None:
    assert probe_with(body).numbers == expected
