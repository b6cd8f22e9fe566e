"""A measurement: what a diagnostic computes by running the engine under test again.

It is made in the child process and named by its function; its form says what a result looks like,
since a child may send anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from harness.core.run import CREATED, Array, Measured


class Quantity(msgspec.Struct, frozen=True):
    """Arrays or numbers that a measurement returns."""

    key: str
    """In it, `{leaf}` stands for the name of any leaf, `{number}` for digits, `{text}` for any."""
    shape: str = "leaf"
    """`leaf`, the shape of the leaf in the key; `any`; or lengths separated by spaces, in which a
    word stands for the same length wherever the measurement uses it. Empty for a single number."""
    kinds: str = "f"
    """The kinds of dtypes, as in `numpy.dtype.kind`."""
    required: bool = True
    """Whether there must be one, or one for each leaf."""


class MeasurementForm(msgspec.Struct, frozen=True):
    """What a measurement returns if it does not fail; anything else was forged."""

    values: tuple[Quantity, ...] = ()
    numbers: tuple[Quantity, ...] = ()
    """Only the keys of these matter."""
    may_be_empty: bool = False
    """Whether an empty result is valid, where the measurement does not apply."""
    judges: bool = False
    """Whether an alarm is a valid result."""

    def fits(self, measured: Measured, leaves: Mapping[str, Array]) -> bool:
        """Whether this is a result for a run with these leaves."""
        if measured.alarm is not None and not self.judges:
            return False
        if measured.failure or measured.problem or measured.alarm is not None:
            return not (measured.values or measured.numbers)
        if self.may_be_empty and not (measured.values or measured.numbers):
            return True
        lengths: dict[str, int] = {}
        return (
            _has_required(self.values, measured.values.keys(), leaves)
            and _has_required(self.numbers, measured.numbers.keys(), leaves)
            and all(_names(self.numbers, key, leaves) for key in measured.numbers)
            and all(
                any(
                    _is_shaped(quantity, array, leaves[leaf].shape if leaf else None, lengths)
                    for quantity, leaf in _names(self.values, key, leaves)
                )
                for key, array in measured.values.items()
            )
        )


UNMEASURED = MeasurementForm()
"""The form of a measurement that only fails, or says why it measured nothing."""


class Measurement(msgspec.Struct, frozen=True):
    """What to measure in the child, by name: it runs the engine under test again."""

    name: str
    """The key of its result in `Run.measured`."""
    function: str
    """`module:function`, which takes the trial and its run and returns a `Measured`."""
    kinds: tuple[str, ...] = ("gradient",)
    """The kinds of probes that it applies to."""
    form: MeasurementForm = UNMEASURED
    """What it returns."""
    text: str = ""
    """The Python text that defines the function, if it is not one of ours: see
    `harness.runs.job`."""

    @property
    def path(self) -> str:
        """The name of that text in tracebacks."""
        return f"diagnostics/{self.name}"


# ----- Does a result fit? -----


def _has_required(
    quantities: Iterable[Quantity], keys: Collection[str], leaves: Iterable[str]
) -> bool:
    required = [quantity.key for quantity in quantities if quantity.required]
    # The leaves that a probe creates are measured if it can be run with other values of them.
    named = [leaf for leaf in leaves if not CREATED.fullmatch(leaf)] if leaves else [""]
    return all(key.replace("{leaf}", leaf) in keys for key in required for leaf in named)


def _names(
    quantities: Iterable[Quantity], key: str, leaves: Iterable[str]
) -> list[tuple[Quantity, str | None]]:
    """Return the quantities that the key names, each with the leaf in the key."""
    patterns = {
        "leaf": f"(?P<leaf>{'|'.join(map(re.escape, leaves)) or '(?!)'})",
        "number": "[0-9]{1,9}",
        "text": ".+",
    }
    found = []
    for quantity in quantities:
        parts = re.split(r"\{(leaf|number|text)\}", quantity.key)
        pattern = "".join(patterns[p] if i % 2 else re.escape(p) for i, p in enumerate(parts))
        if match := re.fullmatch(pattern, key):
            found.append((quantity, match.groupdict().get("leaf")))
    return found


def _is_shaped(
    quantity: Quantity, array: Array, leaf: tuple[int, ...] | None, lengths: dict[str, int]
) -> bool:
    if array.dtype[1] not in quantity.kinds:
        return False
    if quantity.shape == "any":
        return True
    if quantity.shape == "leaf":
        return array.shape == leaf
    words = quantity.shape.split()
    return len(words) == len(array.shape) and all(
        size == (int(word) if word.isdigit() else lengths.setdefault(word, size))
        for word, size in zip(words, array.shape, strict=True)
    )
