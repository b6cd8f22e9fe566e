"""Two recorded walks of one probe as steps to look at: first the values, then the gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.answer_key.divergence import Parting, first_pass, parting
from harness.answer_key.walks import WalkGraph, forward_order, match_walks
from harness.core.message import Message, joined, message
from harness.core.run import Array, TraceStep
from harness.experiment.description import leaf_names


@dataclass(frozen=True)
class Walk:
    """The first backward walk of a run."""

    steps: tuple[TraceStep, ...]
    """In the order of the walk: the output first."""
    names: Mapping[int, str]
    """The names of the leaves, by index."""

    @cached_property
    def by_index(self) -> dict[int, TraceStep]:
        """The nodes in the order of the forward pass. Raises CycleError as `forward_order` does."""
        return forward_order(self.steps)

    @cached_property
    def operands(self) -> dict[int, tuple[int | None, ...]]:
        """The operands of each node; None for a constant, which has no gradient."""
        known = self.by_index
        return {
            index: tuple(parent if parent in known else None for parent in step.parents)
            for index, step in known.items()
        }

    def label(self, index: int) -> str:
        """Return what a node is called: the name of a leaf, or an op."""
        return self.by_index[index].op or self.names.get(index, "leaf")

    def passed(self, number: int) -> list[tuple[int, int, Array]]:
        """Return what the node at this place of the walk passed on.

        Each item is the number of an operand, the index of its node, and the cotangent.
        """
        step = self.steps[number]
        pairs = zip(self.operands[step.index], step.handed, strict=False)
        return [
            (operand, parent, array)
            for operand, (parent, array) in enumerate(pairs)
            if parent is not None and array
        ]

    def told(self, number: int) -> Message:
        """Return in words what happens at this place of the walk."""
        step, passed = self.steps[number], self.passed(number)
        node = self.label(step.index)
        received = message("{node} received {shape}", node=node, shape=step.cotangent.shape)
        if not passed:
            return received
        parts = [
            message("{shape} to {name}", name=self.label(parent), shape=array.shape)
            for _, parent, array in passed
        ]
        return message("{received}, and passed on {parts}", received=received, parts=joined(parts))


@dataclass(frozen=True)
class Scene:
    """A probe on the unbroken and on the broken engine."""

    clean: Walk
    broken: Walk
    parting: Parting | None
    """Where the two walks first differ; None if they are equal."""

    @property
    def forward(self) -> int:
        """The number of steps of the forward pass: a node each."""
        return max(len(self.clean.by_index), len(self.broken.by_index))

    @property
    def backward(self) -> int:
        """The number of steps of the backward pass: a visit each."""
        return max(len(self.clean.steps), len(self.broken.steps))


def make_scene(
    clean: Sequence[TraceStep], broken: Sequence[TraceStep], leaves: Mapping[str, Array]
) -> Scene:
    """Return the scene of two recorded walks, of which the first passes are shown.

    A node that both have is called by the same name and index in both.
    """
    correct, actual = _walk(first_pass(clean), leaves), first_pass(broken)
    if actual and correct.steps:
        graph = WalkGraph({step.index: step for step in correct.steps}, correct.names)
        actual = tuple(match_walks(actual, graph).renumbered())
    return Scene(correct, _walk(actual, leaves, correct.names), parting(broken, clean))


def _walk(
    steps: tuple[TraceStep, ...],
    leaves: Mapping[str, Array],
    known: Mapping[int, str] | None = None,
) -> Walk:
    known = known or {}
    others = [step for step in steps if step.index not in known]
    free = {name: leaf for name, leaf in leaves.items() if name not in known.values()}
    return Walk(steps, {**leaf_names(others, free), **known})
