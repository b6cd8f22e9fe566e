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


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("def p(a=(3,), b=(4, 3)):\n    'Doc.'\n    return a + b", "(3,) + (4, 3)"),
        ("def p(a=(3,), b=[1.0, 2.0, 3.0]):\n    'Doc.'\n    return a * b.exp()", "(3,) * b.exp()"),
        ("def p(a=(3,)):\n    'Doc.'\n    return a * a", "a * a"),
        ("def p(a=(3, 5)):\n    'Doc.'\n    return a.mean(1, a=2)", "(3, 5).mean(1, a=2)"),
        ("def p(a=(3,)):\n    'Doc.'\n    b = a + 1\n    return b", ""),
    ],
)
def test_the_formula_of_a_probe_is_its_only_expression(text: str, formula: str) -> None:
    (probe,) = read_probes(text, "p.py")
    assert probe.formula == formula


def test_the_code_of_a_probe_is_its_own_function() -> None:
    one = "def one(a=(3,)):\n    'Doc.'\n    return a"
    two = "def two(a=(3,)):\n    'Doc.'\n    return _twice(a)"
    helper = "def _twice(a):\n    return 2 * a"
    probes = read_probes(f"{one}\n\n\n{helper}\n\n\n{two}\n", "p.py")
    assert [probe.code for probe in probes] == [one, two]
