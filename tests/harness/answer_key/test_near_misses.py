"""Near misses: what each sentence says is true of one case, and one detail away it is false."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.answer_key.divergence import first_divergence
from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.outcome import IS_ROUNDING, judge
from harness.answer_key.stage import UPDATE, cancelled_by, infection_of, stage_of
from harness.answer_key.tolerances import CONDITIONING, TIMES
from harness.answer_key.walks import visits
from harness.core.rounding import agree, largest, rounding_of
from harness.core.run import Digest, Measured, NumericArray, Run, TraceStep, pack
from harness.core.vocabulary import LOSSES
from harness.engines.engine import find_engine
from harness.experiment.patching import prepare
from harness.experiment.statements import End, quotable
from harness.runs.recorder import Recorder
from tests.examples import examples
from tests.harness.bundled import CATALOGUE

Plant = Callable[[NumericArray], NumericArray]

# ----- The fingerprint -----


ONE_RULE: dict[str, Plant] = {
    "all NaN": lambda x: x * np.nan,
    "all infinite": lambda x: x * np.inf,
    "the sign is flipped": np.negative,
    "3 times the correct one": lambda x: 3 * x,
    "-1/2 times the correct one": lambda x: x / -2,
    "the correct one plus 0.25": lambda x: x + x.dtype.type(0.25),
    "2 in every entry": lambda x: np.full_like(x, 2),
    "the correct one transposed": np.transpose,
    "the correct one reversed along axis 0": lambda x: x[::-1],
    "the correct one reversed along axes 0 and 1": np.flip,
    "the correct one shifted by 1 along axis 0": lambda x: np.roll(x, 1, 0),
    "the correct one shifted by -1 along axis 1, and filled with zeros": lambda x: np.hstack(
        [x[:, 1:], 0 * x[:, :1]]
    ),
    "the correct one shifted by 1 along axis 0, and its end repeated": lambda x: np.vstack(
        [x[:1], x[:-1]]
    ),
    "row 1 of the correct one, repeated": lambda x: np.broadcast_to(x[1], x.shape),
    "rows 1, 0, 3 and 2 of the correct one, in this order": lambda x: x[[1, 0, 3, 2]],
    "the sum of the correct one over axis 1, repeated along it": lambda x: np.broadcast_to(
        x.sum(1, keepdims=True), x.shape
    ),
    "the mean of the correct one over axis 0, repeated along it": lambda x: np.broadcast_to(
        x.mean(0), x.shape
    ),
    "rows 0, 1, 2 and 3 of the correct one times 2, 1, 3 and 1": lambda x: (
        x * np.array([[2], [1], [3], [1]], x.dtype)
    ),
    "the same numbers, with an extra axis of length 1": lambda x: x[None],
    "the same numbers in the same order, in another shape": np.ravel,
    "the correct one, repeated along axis 0": lambda x: np.stack([x, x]),
    "not summed over axis 0: its sum is the correct one": lambda x: np.stack([3 * x, -2 * x]),
    "not averaged over axis 0: its mean is the correct one": lambda x: np.stack([3 * x, -1 * x]),
    "its first slice along axis 0 is the correct one": lambda x: np.stack([x, x * x]),
    "the correct one, summed over axis 1": lambda x: x.sum(1),
    "the correct one, averaged over axis 0": lambda x: x.mean(0),
    "the last slice of the correct one along axis 0": lambda x: x[-1],
}
"""Each sentence, and how an array becomes one of which it is true, up to rounding."""


def normal(seed: int, dtype: str) -> NumericArray:
    return np.random.default_rng(seed).standard_normal((4, 4)).astype(dtype)


def off(array: NumericArray, entry: int, by: float) -> NumericArray:
    """The array with one entry off by so many times the rounding, or not finite any more."""
    changed = array.copy()
    entry %= array.size
    if np.isfinite(changed.flat[entry]):
        changed.flat[entry] += by * rounding_of(array, np.zeros((4, 4))) * max(largest(array), 1)
    else:
        changed.flat[entry] = by
    return changed


@pytest.mark.parametrize("sentence", ONE_RULE)
@examples(40)
@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["f4", "f8"]),
    entry=st.integers(0, 15),
    by=st.sampled_from([20.0, -1e3, 1e5]),
)
def test_a_fingerprint_with_one_entry_off_is_another(
    sentence: str, seed: int, dtype: str, entry: int, by: float
) -> None:
    correct = normal(seed, dtype)
    broken = np.asarray(ONE_RULE[sentence](correct))
    noise = 0.1 * rounding_of(broken, correct) * min(largest(broken), largest(correct))
    noisy = broken + np.random.default_rng(seed).uniform(-noise, noise, broken.shape).astype(dtype)
    assert str(fingerprint(broken, correct)) == sentence
    assert str(fingerprint(noisy, correct)) == sentence
    assert str(fingerprint(off(broken, entry, by), correct)) != sentence


# ----- The numbers inside, in a small engine -----

Op = tuple[Callable[..., NumericArray], Callable[..., tuple[NumericArray, ...]]]
"""What an op computes from its operands, and what its rule passes on, given a cotangent."""

OPS: dict[str, Op] = {
    "double": (lambda a: a + a, lambda g, _: (2 * g,)),
    "add": (lambda a, b: a + b, lambda g, *_: (g, g)),
    "sub": (lambda a, b: a - b, lambda g, *_: (g, -g)),
    "mul": (lambda a, b: a * b, lambda g, a, b: (g * b, g * a)),
    "square": (lambda a: a * a, lambda g, a: (2 * g * a,)),
}

Program = Sequence[tuple[str, *tuple[int, ...]]]
"""Ops with the indices of their operands, after two leaves."""


@dataclass(frozen=True)
class Ran:
    """One run of a program: its walk, its trail, its output and gradients."""

    walk: list[TraceStep]
    trail: dict[str, Digest]
    results: list[NumericArray]


def run(ops: Mapping[str, Op], program: Program, *leaves: NumericArray) -> Ran:
    """Run a program forward and backward; the forward passes of its ops are recorded."""
    recorder, values = Recorder(), list(leaves)
    for op, *operands in program:
        with recorder.call(op, {"operands": [values[i] for i in operands]}):
            values.append(recorder.value(None, ops[op][0](*(values[i] for i in operands))))
    cotangents = [np.zeros_like(value) for value in values]
    cotangents[-1] = np.linspace(1, 2, values[-1].size)
    walk, visited = [], {len(values) - 1}
    for index in reversed(range(len(values))):
        if index not in visited:
            continue
        op, *operands = program[index - len(leaves)] if index >= len(leaves) else ("",)
        given = [values[i] for i in operands]
        handed = ops[op][1](cotangents[index], *given) if op else ()
        visited.update(operands)
        for parent, part in zip(operands, handed, strict=True):
            cotangents[parent] = cotangents[parent] + part
        arrays = pack(values[index]), pack(cotangents[index])
        walk.append(TraceStep(index, op, tuple(operands), *arrays, tuple(map(pack, handed))))
    trail = recorder.trail | visits(walk)
    return Ran(walk, trail, [values[-1], *cotangents[: len(leaves)]])


def explained(broken: Ran, clean: Ran) -> str:
    """The sentence on a run whose results are right; else that one of them is wrong."""
    if not all(map(agree, broken.results, clean.results)):
        return "a result is wrong"
    walks = broken.walk, clean.walk
    infection = infection_of(broken.trail, clean.trail, walks)
    return str(stage_of("disguised-correct", infection, ())[1])


Leaves = tuple[NumericArray, NumericArray]


class Side(NamedTuple):
    """A broken engine, the leaves it is run on, and another program for it, if there is one."""

    fault: dict[str, Op]
    leaves: Callable[[NumericArray, NumericArray], Leaves] = lambda x, y: (x, y)
    program: Program = ()


def but(array: NumericArray, entry: float) -> NumericArray:
    """The array with another first entry."""
    return np.concatenate([[entry], array[1:]])


def off_by(op: str, relative: float) -> dict[str, Op]:
    """The op with a result whose first entry is off."""
    forward, rule = OPS[op]

    def wrong(*operands: NumericArray) -> NumericArray:
        result = forward(*operands)
        return but(result, result[0] + relative * np.abs(result).max())

    return {op: (wrong, rule)}


def with_rule(op: str, rule: Callable[..., tuple[NumericArray, ...]]) -> dict[str, Op]:
    return {op: (OPS[op][0], rule)}


CUBED = with_rule("square", lambda g, a: (g * a * a,))
TRIPLED = with_rule("double", lambda g, _: (3 * g,))
SWAPPED = with_rule("mul", lambda g, a, b: (g * a, g * b))
NEGATED: dict[str, Op] = {"double": (lambda a: -a - a, lambda g, _: (-2 * g,))}
ONE_TRIPLED = with_rule("double", lambda g, _: (np.where(g > 0, 3 * g, 2 * g),))

HIDDEN = "hidden here: on this input all numbers are right"
ANOTHER_WAY = "computed another way, same result"
INSIDE = "wrong inside (double), but cancelled by "

CASES: list[tuple[str, Program, Side, Side]] = [
    (
        HIDDEN,  # the slope of a square is its value at 2 and at 0
        [("square", 0), ("mul", 2, 1)],
        Side(CUBED, lambda x, y: (but(0 * x + 2, 0.0), y)),
        Side(CUBED, lambda x, y: (but(0 * x + 2, 1e-6), y)),
    ),
    (
        HIDDEN,  # equal operands
        [("mul", 0, 1)],
        Side(SWAPPED, lambda x, _: (x, x)),
        Side(SWAPPED, lambda x, _: (x, but(x, x[0] + 1e-6))),
    ),
    (HIDDEN, [("add", 0, 1)], Side(off_by("add", 1e-15)), Side(off_by("add", 1e-11))),
    (
        HIDDEN,  # the terms of a sum of zero
        [("sub", 0, 0), ("mul", 2, 1)],
        Side({}),
        Side(with_rule("sub", lambda g, *_: (2 * g, -2 * g))),
    ),
    (
        ANOTHER_WAY,
        [("double", 0), ("mul", 2, 1)],
        Side({}, program=[("add", 0, 0), ("mul", 2, 1)]),
        Side(off_by("add", 1e-9), program=[("add", 0, 0), ("mul", 2, 1)]),
    ),
    (
        ANOTHER_WAY,  # nodes that cancel, and some that do not
        [("mul", 0, 1)],
        Side({}, program=[("sub", 0, 1), ("add", 2, 1), ("mul", 3, 1)]),
        Side({}, program=[("sub", 0, 1), ("add", 2, 0), ("mul", 3, 1)]),
    ),
    (
        ANOTHER_WAY,  # swapped terms, and a term that is no longer there
        [("add", 0, 1), ("square", 2)],
        Side({}, program=[("add", 1, 0), ("square", 2)]),
        Side({}, program=[("add", 1, 1), ("square", 2)]),
    ),
    (
        ANOTHER_WAY,  # a sum in another order
        [("double", 0), ("add", 2, 1)],
        Side({}, program=[("add", 0, 1), ("add", 2, 0)]),
        Side({}, program=[("sub", 0, 1), ("add", 2, 0)]),
    ),
    (
        "wrong inside (what `sub` receives), but cancelled by `square` and the backward of `sub`",
        [("sub", 0, 1), ("square", 2)],
        Side({}, program=[("sub", 1, 0), ("square", 2)]),
        Side({}, program=[("sub", 1, 0), ("double", 2)]),
    ),
    (
        INSIDE + "`square` and the backward of `double`",
        [("double", 0), ("square", 2), ("mul", 3, 1)],
        Side(NEGATED),
        Side({"double": (lambda a: but(-a - a, 9.0), NEGATED["double"][1])}),
    ),
    (
        INSIDE + "the backward of `square`",
        [("square", 0), ("double", 2), ("add", 3, 1)],
        Side(TRIPLED, lambda x, y: (0 * x, y)),
        Side(TRIPLED, lambda x, y: (but(0 * x, 1e-6), y)),
    ),
    (
        INSIDE + "the sum of the gradients of a leaf",
        [("double", 0), ("double", 0), ("sub", 2, 3), ("add", 4, 1)],
        Side(TRIPLED),
        Side(ONE_TRIPLED),
    ),
    (
        "wrong inside (double), but no result is wrong",  # nothing uses it
        [("double", 0), ("mul", 0, 1)],
        Side(off_by("double", 1e-9)),
        Side(off_by("double", 1e-15)),
    ),
    (
        "wrong inside (double), but no result is wrong",
        [("double", 0), ("mul", 0, 1)],
        Side(off_by("double", 1.0)),
        Side(off_by("double", 1.0), program=[("double", 0), ("mul", 2, 1)]),
    ),
]
"""What is said of a run, the program of the clean engine, and a side of which it is true and one of
which it is not."""


@pytest.mark.parametrize(("sentence", "program", "true", "near"), CASES)
@examples(50)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_a_stage_is_said_of_the_numbers_and_of_none_that_is_near(
    sentence: str, program: Program, true: Side, near: Side, seed: int, length: int
) -> None:
    leaves = np.random.default_rng(seed).uniform(0.5, 2, (2, length))
    sentences = []
    for side in (true, near):
        given = side.leaves(*leaves)
        broken = run(OPS | side.fault, side.program or program, *given)
        sentences.append(explained(broken, run(OPS, program, *given)))
    assert sentences[0] == sentence
    assert sentences[1] != sentence


# ----- The numbers of a call -----

SHAPES = st.sampled_from([(2,), (3,), (40,), (2, 2), (10, 10), (1, 7), (7, 1), (3, 4, 5)])


def values_of(one: object, other: object) -> str:
    """What two runs show in which a function returns these."""

    def trail(value: object) -> dict[str, Digest]:
        recorder = Recorder()
        with recorder.call("f", {}):
            recorder.value(None, value)
        return recorder.trail

    return infection_of(trail(one), trail(other)).values


SAME: dict[str, Plant] = {
    "as it is": lambda x: x,
    "rounding": lambda x: np.nextafter(x, x.dtype.type(9)),
    "a list": lambda x: x.tolist(),
    "a leading axis": lambda x: x[None],
    "broadcast": lambda x: np.stack([x, x]),
    "another dtype": lambda x: x.astype("f8"),
}


@examples(100)
@given(
    seed=st.integers(0, 10**6),
    shape=SHAPES,
    dtype=st.sampled_from(["f4", "f8"]),
    form=st.sampled_from(sorted(SAME)),
    entry=st.integers(0, 10**6),
)
def test_one_wrong_number_in_a_call_is_seen(
    seed: int, shape: tuple[int, ...], dtype: str, form: str, entry: int
) -> None:
    array = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    wrong = array.copy()
    wrong.flat[entry % array.size] += 20 * rounding_of(array) * largest(array)
    assert values_of(SAME[form](array), array) == "right"
    assert values_of(SAME[form](wrong), array) == "wrong"


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 6))
def test_the_same_numbers_in_other_places_are_wrong(seed: int, rows: int, columns: int) -> None:
    array = np.random.default_rng(seed).standard_normal((rows, columns))
    assert values_of(array[::-1], array) == "wrong"
    assert values_of(array.T, array) == "wrong"
    assert values_of(array[:1], array[:1].T) == "wrong"
    row = np.broadcast_to(array[0, :1], (columns, columns)) + np.arange(columns)
    assert values_of(row.T, row) == "wrong"


# ----- Several backward passes -----


@examples(20)
@given(st.integers(0, 10**6))
def test_an_update_cancels_a_gradient_only_if_there_is_one(seed: int) -> None:
    x, y, updated = np.random.default_rng(seed).uniform(0.5, 2, (3, 4))
    program: Program = [("double", 0), ("mul", 2, 1)]
    first, same, second = (run(OPS, program, leaf, y).walk for leaf in (x, x.copy(), updated))
    wrong, again = (run(OPS | TRIPLED, program, leaf, y).walk for leaf in (x, updated))
    third = run(OPS | TRIPLED, program, but(updated, 9.0), y).walk
    places = [str(UPDATE)]

    def cancelled(broken: list[TraceStep], clean: list[TraceStep]) -> list[str]:
        return [str(place) for place in cancelled_by((broken, clean))]

    assert cancelled([*wrong, *second], [*first, *second]) == places
    assert cancelled([*wrong, *again], [*first, *second]) == places
    assert cancelled([*first, *again], [*first, *second]) == []  # nothing comes after it
    assert cancelled([*wrong, *same], [*first, *same]) == []  # the leaf keeps its value
    assert cancelled([*wrong, *third], [*first, *second]) == []  # the value is wrong
    assert cancelled([*first, *second], [*first, *second]) == []


# ----- The first divergence -----

CHAIN: Program = [("mul", 0, 1), ("double", 2), ("sub", 3, 0)]

DIVERGENCES: list[tuple[str, dict[str, Op]]] = [
    ("the forward pass of `double` gave the value", off_by("double", 1e-9)),
    ("the forward pass of `mul` gave", off_by("mul", 1e-9) | off_by("double", 1.0)),
    (
        "`double` passed operand 0 (`mul`) the gradient",
        with_rule("double", lambda g, _: (but(2 * g, 2.001),)),
    ),
    (
        "`mul` passed operand 1 (y) the gradient",
        with_rule("mul", lambda g, a, b: (g * b, but(g * a, 9.0))),
    ),
    ("`sub` passed operand 1 (x) the gradient", with_rule("sub", lambda g, *_: (g, g))),
    ("None", {}),
    ("None", off_by("double", 1e-15)),
    ("None", with_rule("mul", lambda g, a, b: (b * g * (1 + 1e-15), a * g))),
]


@pytest.mark.parametrize(("start", "fault"), DIVERGENCES)
@examples(50)
@given(st.integers(0, 10**6))
def test_a_divergence_is_at_the_first_wrong_number(
    start: str, fault: dict[str, Op], seed: int
) -> None:
    leaves = np.random.default_rng(seed).uniform(0.5, 2, (2, 4))
    walks = [run(ops, CHAIN, *leaves).walk for ops in (OPS | fault, OPS)]
    divergence = first_divergence(walks[0], walks[1], {0: "x", 1: "y"})
    assert str(divergence and divergence.sentence).startswith(start)


# ----- A result within the conditioning -----


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["f4", "f8"]),
    moves=st.sampled_from([0.0, 1e-3]),
    error=st.sampled_from([0.0, 0.1, 20.0, 0.5e-3 * TIMES, 2e-3 * TIMES]),
)
def test_nothing_but_rounding_is_called_rounding(
    seed: int, dtype: str, moves: float, error: float
) -> None:
    gradient = np.random.default_rng(seed).uniform(1, 2, 4).astype(dtype)
    tolerance = rounding_of(gradient) * largest(gradient)
    size = error * tolerance if error in (0.1, 20.0) else error
    moved = {CONDITIONING.name: Measured(numbers={"a.grad": moves} if moves else {})}
    key = Run("p", "uniform", gradients={"a": pack(gradient)}, reached=[0], measured=moved)
    wrong = but(gradient, gradient[0] + size).astype(dtype)
    judgement = judge(Run("p", "uniform", gradients={"a": pack(wrong)}, reached=[0]), key)
    is_wrong = size > TIMES * moves + 2 * tolerance
    assert (judgement.outcome == "silent-corruption") == is_wrong
    assert (judgement.evidence == IS_ROUNDING) == (not is_wrong and size > 2 * tolerance)


# ----- What is quoted -----


@examples(30)
@given(st.data())
def test_the_runs_that_do_not_end_as_explained_are_counted(data: st.DataObject) -> None:
    page = CATALOGUE.page("skip-unbroadcast")
    experiment = prepare(page, CATALOGUE, find_engine())
    stated: list[End] = [
        (probe, loss, outcome)
        for probe in page.expect[None]
        for loss in LOSSES
        if (outcome := page.expected(None, probe, loss))
    ]
    other = st.lists(st.integers(0, len(stated) - 1), max_size=3, unique=True)
    unlike = data.draw(other)
    ends: list[End] = [
        (probe, loss, "not-reached" if outcome == "crash" else "crash")
        if number in unlike
        else (probe, loss, outcome)
        for number, (probe, loss, outcome) in enumerate(stated)
    ]
    quoted = quotable(experiment, [*ends, ("mine", "uniform", "crash")])
    assert quoted["unexplained"] == ((len(unlike), len(stated)) if unlike else None)
    assert bool(quoted["why"]) == (not unlike)
