"""Names that an engine gives to what we call otherwise: one, or several spellings of one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.core.errors import UsageError

Names = Mapping[str, str | tuple[str, ...]]
"""Our name, and theirs as their code writes it: `_sum_to_shape`, `utils.sum_to`, or several."""


def spellings(theirs: str | Iterable[str]) -> tuple[str, ...]:
    """A name's spellings, in their order."""
    return (theirs,) if isinstance(theirs, str) else tuple(theirs)


def last_parts(theirs: str | Iterable[str]) -> tuple[str, ...]:
    """What stands where only an identifier fits: the last part of each, once."""
    return tuple(dict.fromkeys(each.rpartition(".")[2] for each in spellings(theirs)))


def check_names(names: Names) -> None:
    """Raise UsageError for what is no dotted name, or no name at all."""
    for ours, theirs in names.items():
        if not spellings(theirs):
            raise UsageError(
                f"the engine has no name for `{ours}`", f"write one, or leave `{ours}` out"
            )
        for each in spellings(theirs):
            if not all(part.isidentifier() for part in each.split(".")):
                raise UsageError(
                    f"the engine's name for `{ours}` is `{each}`, which is not a dotted name",
                    "write it as their code does, `_sum_to_shape` or `utils.sum_to`",
                )
