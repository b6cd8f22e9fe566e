"""`metamorphic`: relations between gradients that hold whatever their values.

- `broadcast`: a leaf that broadcasts to the output's shape can also be tiled to that shape; the
  gradient of the tiles, summed back, equals the leaf's.
- `rows`: if each row of the output depends on the same row of the leaves, the first row and the
  rest can be run separately; gradients of leaves shared by all rows add up, and the others are
  concatenated.
- `linear`: the gradient is linear in the cotangent, g(2 c - 3 d) = 2 g(c) - 3 g(d).
- `zero`: a cotangent of zeros gives a gradient of zeros.

The first two apply only to some probes. The forward pass decides, at the leaves and at other
values, so that a coincidence does not count; other probes are checked only for the last two. None
of the four detects a factor that is wrong everywhere. It costs six forward and backward passes,
three (and two forward passes) more for each leaf that broadcasts, and about eight for the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Message, message
from harness.core.rounding import agree, rounding
from harness.core.run import NUMERIC, Measured, NumericArray, Run, gradient_name, leaf_name, pack
from harness.core.vocabulary import Declined, Verdict
from harness.diagnostics.diagnostic import (
    ArrayPair,
    Diagnostic,
    Observation,
    Scale,
    compare_in,
)
from harness.diagnostics.differences import gradient_noise

if TYPE_CHECKING:
    from harness.runs.trial import Trial

LeafValues = Mapping[str, NumericArray]
Gradients = dict[str, NumericArray]
Relation = tuple[str, Gradients, Gradients]
"""Its name, the actual gradients and the expected ones."""

ACTUAL, EXPECTED = "actual", "expected"


def measure(trial: Trial, run: Run) -> Measured:
    """Both sides of each relation that applies, by `relation/leaf/side`."""
    engine = _EngineAtRun(trial, run)
    if not engine.is_repeatable():
        return Measured(problem="the same leaves give a different output the second time")
    noise = gradient_noise(trial, run)
    relations = [*_linear(engine), *_zero(engine), *_broadcast(engine), *_rows(engine)]
    return Measured(
        {
            f"{relation}/{name}/{side}": pack(array)
            for relation, actual, expected in relations
            for side, gradients in ((ACTUAL, actual), (EXPECTED, expected))
            for name, array in gradients.items()
        },
        noise,
    )


class _EngineAtRun:
    """The engine at one run's leaves and cotangent, with the run's gradients."""

    def __init__(self, trial: Trial, run: Run) -> None:
        assert run.output is not None
        assert run.cotangent is not None
        self.trial = trial
        self.values = run.values()
        self.output, self.cotangent = run.output.numpy(), run.cotangent.numpy()
        self.observed = self._filled(
            self.values, {name: g.numpy() for name, g in run.gradients.items() if g}
        )
        rng = np.random.default_rng(0)
        self.relative = rounding(Scale.of(run).terms, trial.precision(run))
        self.elsewhere = {name: _moved(value, rng) for name, value in self.values.items()}
        self.other_cotangent = rng.standard_normal(self.output.shape)

    def is_repeatable(self) -> bool:
        return self.close(self.trial.output(self.values), self.output)

    def gradients(self, values: LeafValues, cotangent: NumericArray) -> Gradients:
        return self._filled(values, self.trial.gradients(values, cotangent)[1])

    @staticmethod
    def _filled(values: LeafValues, gradients: Mapping[str, NumericArray | None]) -> Gradients:
        """Return the gradients, with zeros for missing ones."""
        by_name = {name: gradients.get(name) for name in values}
        return {n: np.zeros_like(values[n]) if g is None else g for n, g in by_name.items()}

    def can_forward(self, values: LeafValues) -> NumericArray | None:
        """Return the output for leaves of other shapes; None if the probe does not accept them."""
        try:
            return self.trial.output(values)
        except Exception:
            return None

    def close(self, one: NumericArray | None, other: NumericArray) -> bool:
        return one is not None and agree(one, other, self.relative)


def _moved(value: NumericArray, rng: np.random.Generator) -> NumericArray:
    """Return other numbers of similar size, so that a relation does not hold by coincidence."""
    if value.dtype.kind != "f":
        return value
    moved = value * rng.uniform(0.8, 1.2, value.shape) + rng.uniform(-0.1, 0.1, value.shape)
    return np.asarray(moved, value.dtype)


def _linear(engine: _EngineAtRun) -> Iterator[Relation]:
    c, d = engine.cotangent, engine.other_cotangent
    of_d, mixed = (engine.gradients(engine.values, cotangent) for cotangent in (d, 2 * c - 3 * d))
    if any(of_d[name].shape != g.shape for name, g in engine.observed.items()):
        return
    yield "linear", mixed, {name: 2 * g - 3 * of_d[name] for name, g in engine.observed.items()}


def _zero(engine: _EngineAtRun) -> Iterator[Relation]:
    nothing = engine.gradients(engine.values, np.zeros_like(engine.cotangent))
    # NaN where the gradient is not finite, as 0 times infinity is undefined.
    zeros = {name: np.where(np.isfinite(g), 0.0, np.nan) for name, g in engine.observed.items()}
    yield "zero", nothing, zeros


def _broadcast(engine: _EngineAtRun) -> Iterator[Relation]:
    shape = engine.output.shape
    for name, value in engine.values.items():
        if value.shape == shape or not _broadcasts(value.shape, shape):
            continue
        here, there = (
            {**values, name: np.broadcast_to(values[name], shape).copy()}
            for values in (engine.values, engine.elsewhere)
        )
        if engine.close(engine.can_forward(here), engine.output) and engine.close(
            engine.can_forward(there), engine.trial.output(engine.elsewhere)
        ):
            tiles = engine.gradients(here, engine.cotangent)[name]
            if tiles.shape == shape:
                yield (
                    "broadcast",
                    {name: engine.observed[name]},
                    {name: _sum_to(tiles, value.shape)},
                )


def _broadcasts(small: Sequence[int], large: Sequence[int]) -> bool:
    try:
        return np.broadcast_shapes(tuple(small), tuple(large)) == tuple(large)
    except ValueError:
        return False


def _sum_to(tiles: NumericArray, shape: tuple[int, ...]) -> NumericArray:
    """Return the sum over the axes along which `shape` was tiled."""
    created = tuple(range(tiles.ndim - len(shape)))
    stretched = tuple(
        i + len(created) for i, n in enumerate(shape) if n == 1 != tiles.shape[i + len(created)]
    )
    return np.asarray(tiles.sum(created + stretched, keepdims=True)).reshape(shape)


def _rows(engine: _EngineAtRun) -> Iterator[Relation]:
    """Yield the relation for the first leaves that can be split: one, or all with the rows."""
    if engine.output.ndim == 0 or len(engine.output) < 2:
        return
    long = [n for n, v in engine.values.items() if v.ndim and len(v) == len(engine.output)]
    for cut in [*([name] for name in long), long]:
        if cut and _is_by_rows(engine, cut):
            yield from _apart(engine, cut)
            return


_PARTS = slice(None, 1), slice(1, None)


def _is_by_rows(engine: _EngineAtRun, cut: Sequence[str]) -> bool:
    return all(
        engine.close(engine.can_forward(_take(values, cut, part)), output[part])
        for values, output in (
            (engine.values, engine.output),
            (engine.elsewhere, engine.trial.output(engine.elsewhere)),
        )
        for part in _PARTS
    )


def _take(values: LeafValues, cut: Sequence[str], part: slice) -> LeafValues:
    return {name: value[part] if name in cut else value for name, value in values.items()}


def _apart(engine: _EngineAtRun, cut: Sequence[str]) -> Iterator[Relation]:
    parts = [_take(engine.values, cut, part) for part in _PARTS]
    first, rest = (
        engine.gradients(values, engine.cotangent[part])
        for values, part in zip(parts, _PARTS, strict=True)
    )
    fit = [
        g[n].shape == values[n].shape
        for values, g in zip(parts, (first, rest), strict=True)
        for n in g
    ]
    if all(fit):  # otherwise they do not add up: `shape` detects it
        expected = {name: np.concatenate([first[name], rest[name]]) for name in cut}
        yield (
            "rows",
            engine.observed,
            {n: expected[n] if n in expected else first[n] + rest[n] for n in first},
        )


def check(observation: Observation) -> Verdict:
    """Alarm at the first relation that does not hold."""
    run = observation.run
    if not any(run.gradients.values()):
        return Declined(message("no leaf has a gradient"))
    measured = run.measured["metamorphic"]
    relations = [
        key.removesuffix(f"/{ACTUAL}") for key in measured.values if key.endswith(f"/{ACTUAL}")
    ]
    pairs = []
    for key in relations:
        relation, name = key.split("/")
        actual, expected = (measured.values[f"{key}/{side}"].numpy() for side in (ACTUAL, EXPECTED))
        pairs.append(ArrayPair(_name(relation, name), actual, expected, measured.numbers[name]))
    return compare_in(run, pairs, message("it must be"))


def _name(relation: str, leaf: str) -> Message:
    gradient = gradient_name(leaf)
    match relation:
        case "linear":
            return message("for the cotangent 2c - 3d, {gradient}", gradient=gradient)
        case "zero":
            return message("for a cotangent of zeros, {gradient}", gradient=gradient)
        case "broadcast":
            return message(
                "compared with the sum over tiles of {leaf}, {gradient}",
                leaf=leaf_name(leaf),
                gradient=gradient,
            )
        case _:
            return message(
                "compared with the first row and the rest run apart, {gradient}", gradient=gradient
            )


METAMORPHIC = Diagnostic(
    name="metamorphic",
    sees="a gradient that depends on how a sum is written: tiles, rows, multiples of the cotangent",
    blind="a gradient that is wrong by the same factor everywhere, or by the same rule",
    cost="22, and 5 to 20 more where tiles and rows apply",
    passes=lambda _: 32,
    check=check,
    measure=measure,
    form=MeasurementForm(
        tuple(
            Quantity(f"{relation}/{{leaf}}/{side}", "any", NUMERIC, required=False)
            for relation in ("linear", "zero", "broadcast", "rows")
            for side in (ACTUAL, EXPECTED)
        ),
        (Quantity("{leaf}"),),
    ),
)
