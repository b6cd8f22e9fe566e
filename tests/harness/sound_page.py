"""A page on which nothing is wrong, for tests that make one mistake in it."""

from pathlib import Path

SOUND = """\
+++
id     = "log-slope-one"
kind   = "break"
family = "op-formula"
level  = 3
sources = ["std"]
no_invariant = "Those who test it write their own."

[expect]
log-of-powers = "silent-corruption"
log-of-ones   = "disguised-correct"

[diagnostics]
caught_by = ["gradcheck"]
missed_by = ["crash", "shape"]
+++
# Hand the cotangent of log on as it came

## Hypothesis

The correct gradient of `log(x)` at 4 is 0.25. What is it here?

## The break

```diff
@@ log @@
-$g / a
+$g
```

## Probes

```python
def log_of_powers(a=[0.5, 2.0, 4.0]):
    "The logarithm of powers of two."
    return a.log()


def log_of_ones(a=[1.0, 1.0, 1.0]):
    "The logarithm where its slope is 1."
    return a.log()
```

## What happens

Every entry is 1.

## Diagnostic

The gradient times `a` is 1.

## Lesson

Ones are a bad test.

## References

- [Derivatives](https://en.wikipedia.org/wiki/Derivative).
"""


VARIANT = SOUND.replace('kind   = "break"', 'kind   = "variant"').replace(
    'no_invariant = "Those who test it write their own."\n', ""
)
"""The same patch as a variant."""


def write_page(folder: Path, text: str = SOUND, name: str = "log-slope-one.md") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def sound_with(old: str, new: str) -> str:
    """The sound page with one thing replaced, and the certainty that it was there."""
    assert SOUND.count(old) >= 1
    return SOUND.replace(old, new, 1)
