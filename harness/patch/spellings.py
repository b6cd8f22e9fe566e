"""Names that differ between the reference engine and another: one name, or several spellings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.core.errors import UsageError

Names = Mapping[str, str | tuple[str, ...]]
"""Our name, and the engine's as its code writes it: `_sum_to_shape`, `utils.sum_to`, or several."""


def spellings(theirs: str | Iterable[str]) -> tuple[str, ...]:
    """A name's spellings, in order."""
    return (theirs,) if isinstance(theirs, str) else tuple(theirs)


def last_parts(theirs: str | Iterable[str]) -> tuple[str, ...]:
    """The last parts of the spellings without repeats, for places where only an identifier fits."""
    return tuple(dict.fromkeys(dotted.rpartition(".")[2] for dotted in spellings(theirs)))


def check_names(names: Names) -> None:
    """Raise UsageError unless every name is dotted and every entry has at least one."""
    for ours, theirs in names.items():
        if not spellings(theirs):
            raise UsageError(
                f"the engine has no name for `{ours}`", f"write one, or remove `{ours}`"
            )
        for dotted in spellings(theirs):
            if not all(part.isidentifier() for part in dotted.split(".")):
                raise UsageError(
                    f"the engine's name for `{ours}` is `{dotted}`, which is not a dotted name",
                    "write it as in the engine's code, `_sum_to_shape` or `utils.sum_to`",
                )
