"""A trace: what every node received and passed on in a backward walk, to compare two walks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from minigrad.types import Array, Cotangents


@dataclass(frozen=True, eq=False)
class Step:
    """One node of the walk. The arrays are copies, so later code does not change them."""

    index: int
    """Its position in the topological order: smaller for parents than for their children."""
    op: str
    """The name of its op; empty for a leaf."""
    parents: tuple[int | None, ...]
    """Their indices; None for an operand that requires no gradient and is not walked."""
    value: Array
    cotangent: Array
    """The complete cotangent, after the node's hooks."""
    handed: Cotangents
    """The cotangents that its rule returned, one per parent; empty for a leaf."""


tracing: ContextVar[list[Step] | None] = ContextVar("tracing", default=None)
"""The list for recorded steps; None except inside `trace`."""


@contextmanager
def trace() -> Iterator[list[Step]]:
    """Record the steps of each `backward()` inside, in the order of the walk: outputs first.

    `with trace() as steps:` affects only this thread. A walk that fails leaves the steps up to the
    node that failed. Indices start anew with each walk.
    """
    steps: list[Step] = []
    token = tracing.set(steps)
    try:
        yield steps
    finally:
        tracing.reset(token)
