"""An exercise on which nothing is wrong, for tests that make one mistake in it."""

SOUND_EXERCISE = '''\
+++
id      = "equal-factors"
kind    = "exercise"
family  = "exercises"
level   = 1
sources = ["std"]
breaks  = ["mul-swapped-operands"]
kills   = ["mul-ignore-upstream"]
+++
# Two equal factors

## The suite

```python
import numpy as np


def _slope(lib, x):
    leaf = lib.tensor(x, requires_grad=True)
    (leaf * leaf).mean().backward()
    return leaf.grad


def test_square(lib):
    assert np.allclose(_slope(lib, [3.0]), [6.0])


def test_mean_square(lib):
    assert np.allclose(_slope(lib, [1.0, -2.0]), [1.0, -2.0])
```

## The break

It multiplies by [its own value](mul-swapped-operands.md).

## Your task

Kill it.

## Hints

1. Take two leaves.

## Answer

```python
def two_leaves(a=[2.0, -1.0], b=[5.0, 3.0]):
    """A product of two leaves."""
    return a * b
```

The factors differ.

## Lesson

Different things have different values.

## References

- None but the suite.
'''

SUITE_END = "    assert np.allclose(_slope(lib, [1.0, -2.0]), [1.0, -2.0])\n"
"""The last line of the suite."""

ANSWER = '''def two_leaves(a=[2.0, -1.0], b=[5.0, 3.0]):
    """A product of two leaves."""
    return a * b
'''

PRODUCT = """
def leaf(lib, x):
    return lib.tensor(x, requires_grad=True)


def test_product(lib):
    a, b = leaf(lib, 2.0), leaf(lib, 5.0)
    (a * b).backward()
    assert a.grad == 5.0
"""
"""A test file with one test, of a product, which takes the engine as `lib`."""


def exercise_with(*replacements: tuple[str, str]) -> str:
    """The sound exercise with things replaced, and the certainty that they were there."""
    text = SOUND_EXERCISE
    for old, new in replacements:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return text


def with_test(body: str) -> str:
    """The sound exercise with one test more."""
    return exercise_with((SUITE_END, f"{SUITE_END}\n\ndef test_more(lib):\n{body}\n"))


def with_answer(probe: str) -> str:
    """The sound exercise with another answer."""
    return exercise_with((ANSWER, probe))
