"""A myth on which nothing is wrong, for tests that make one mistake in it."""

SOUND_MYTH = """\
+++
id      = "np-sum-flattens"
kind    = "myth"
family  = "myths"
sources = ["std"]
+++
# A sum over an axis is a number

## The claim

`a.sum(axis=0)` is a number.

## The program

```python
import numpy as np

print("claim: ()  seen:", np.ones((2, 3)).sum(axis=0).shape)
```

```text
claim: ()  seen: (3,)
```

## What happens

One number is left for each column.

## When it would be true

For a vector.

## Lesson

Look at the shape.

## References

- NumPy, the documentation of `ndarray.sum`.
"""

PROGRAM = """\
import numpy as np

print("claim: ()  seen:", np.ones((2, 3)).sum(axis=0).shape)
"""

OUTPUT = "claim: ()  seen: (3,)\n"


def myth_with(*replacements: tuple[str, str]) -> str:
    """The sound myth with things replaced, and the certainty that they were there."""
    text = SOUND_MYTH
    for old, new in replacements:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return text


def myth_that(program: str, says: str = OUTPUT) -> str:
    """A myth with this program, of whose output it says this."""
    return myth_with((PROGRAM, f"{program}\n"), (f"```text\n{OUTPUT}", f"```text\n{says}"))
