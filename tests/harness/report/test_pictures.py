"""Pictures in plain characters: readable without colour, in ASCII, and in a narrow window."""

import math
from io import BytesIO, TextIOWrapper
from typing import Any

import numpy as np
import pytest

from harness.core.report import Comparison, Numbers
from harness.core.run import Run, pack
from harness.experiment.description import LONGEST_AXIS, MOST_STEPS, _losses, _small
from harness.report.full import show_runs
from harness.report.pictures import curves, heat_map
from harness.report.terminal import Screen
from tests.harness.report.test_terminal import probe
from tests.harness.reports import run_of


def numbers(values: Any) -> Numbers:
    array = np.asarray(values, float)
    return Numbers(array.shape, array.ravel().tolist())


def console(encoding: str = "utf-8") -> Screen:
    return Screen(file=TextIOWrapper(BytesIO(), encoding), width=80, record=True)


def drawn(expected: Any, actual: Any, *, width: int = 60, encoding: str = "utf-8") -> list[str]:
    arrays = Comparison(numbers(actual), numbers(expected))
    return heat_map(console(encoding), arrays, width).plain.splitlines()


def test_arrays_of_equal_shape_are_side_by_side_and_what_differs_is_marked() -> None:
    assert drawn([[4, -2], [0, 1]], [[4, 2], [0, 3]]) == [
        "expected (2, 2)    broken (2, 2)    x: differs",
        "+█ -▓              +█ +▓            . x",
        " · +▒               · +█            . x",
        "█ is 4",
    ]


def test_arrays_of_unequal_shape_are_drawn_with_their_shapes() -> None:
    assert drawn([1, 2], [[1, 2], [1, 2], [0, 0]]) == [
        "expected (2,)    broken (3, 2)",
        "+▓ +█            +▓ +█",
        "                 +▓ +█",
        "                  ·  ·",
        "█ is 2",
    ]


def test_in_a_narrow_window_the_panels_are_below_each_other() -> None:
    lines = drawn([1, 2], [2, 1], width=20)
    assert lines == [
        *("expected (2,)", "+▓ +█", "broken (2,)", "+█ +▓", "x: differs", "x x", "█ is 2")
    ]
    assert max(map(len, drawn(np.eye(8), -np.eye(8), width=46))) <= 46


def test_numbers_that_are_not_finite_are_written() -> None:
    lines = drawn([1.0, 2.0, math.inf], [math.nan, -math.inf, math.inf])
    assert lines[1].split() == ["+▓", "+█", "+inf", "nan", "-inf", "+inf", "x", "x", "."]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_the_characters_gets_ascii(encoding: str) -> None:
    assert drawn([4, -2], [0, 1], encoding=encoding)[1].split() == [
        *("+#", "-*", ".", "++", "x", "x")
    ]
    losses = Comparison(numbers([4, 3, 2]), numbers([4, 1, 0]))
    assert curves(console(encoding), losses, 60).plain.isascii()


def test_losses_are_two_lines_with_one_scale() -> None:
    losses = Comparison(numbers([8, 6, 4]), numbers([8, 2, 0]))
    assert curves(console(), losses, 60).plain.splitlines() == [
        "correct  █▃▁  8 to 0",
        "broken   █▇▅  8 to 4",
    ]
    long = Comparison(numbers(range(64)), numbers(range(64)))
    assert max(map(len, curves(console(), long, 46).plain.splitlines())) <= 46
    assert "?" in curves(console(), Comparison(numbers([1, math.nan]), numbers([1, 0])), 60).plain


def test_only_arrays_that_fit_are_drawn() -> None:
    def fits(*shapes: tuple[int, ...], dtype: str = "float64") -> bool:
        actual, expected = (pack(np.zeros(shape, dtype)) for shape in shapes)
        return _small((actual, expected)) is not None

    most = LONGEST_AXIS
    assert fits((most, most), (most,))
    assert not fits((most + 1,), (1,))
    assert not fits((2, 2, 2), (2, 2, 2))
    assert not fits((0,), (2,))
    assert not fits((), ())
    assert not fits((2,), (2,), dtype="complex128")


def test_the_losses_of_a_long_run_are_thinned_out_and_keep_their_ends() -> None:
    def log(*losses: float) -> Run:
        return Run("p", None, log=[{"w": pack(0.0)}, *({"loss": pack(loss)} for loss in losses)])

    drawn = _losses(log(*range(200)), log(*range(0, 400, 2)))
    assert drawn is not None
    assert drawn.actual.shape == (MOST_STEPS,)
    assert (drawn.actual.values[0], drawn.actual.values[-1]) == (0, 199)
    assert drawn.expected.values == [2 * loss for loss in drawn.actual.values]
    assert _losses(log(1.0), log(1.0)) is None
    assert _losses(Run("p", None), log(1.0, 2.0)) is None


def test_the_whole_report_has_the_picture_below_the_words() -> None:
    arrays = Comparison(numbers([2.0, 1.0]), numbers([1.0, 2.0]))
    run = run_of("p", None, "silent-corruption", array=arrays, caught_by=["shape"])
    screen = console()
    show_runs(screen, [run], [probe("p")])
    text = screen.export_text()
    places = [text.index(words) for words in ("what p showed", "expected (2,)", "caught by")]
    assert places == sorted(places)
