"""Pictures in plain characters: readable without colour, in ASCII, and in a narrow window."""

import math
from io import BytesIO, TextIOWrapper
from typing import Any

import numpy as np
import pytest

from harness.core.report import DrawnComparison, DrawnNumbers, Graph, GraphNode
from harness.core.run import Run, pack
from harness.experiment.description import LONGEST_AXIS, MOST_STEPS, _small, compare_losses
from harness.report.full import show_runs
from harness.report.pictures import curves, graph_list, heat_map
from harness.report.terminal import Screen
from tests.harness.command import harness
from tests.harness.report.test_full import probe
from tests.harness.reports import run_of


def numbers(values: Any) -> DrawnNumbers:
    array = np.asarray(values, float)
    return DrawnNumbers(array.shape, array.ravel().tolist())


def console(encoding: str = "utf-8") -> Screen:
    return Screen(file=TextIOWrapper(BytesIO(), encoding), width=80, record=True)


def drawn(expected: Any, actual: Any, *, width: int = 60, encoding: str = "utf-8") -> list[str]:
    arrays = _small((pack(np.asarray(actual, float)), pack(np.asarray(expected, float))))
    assert arrays is not None
    return heat_map(console(encoding), arrays, width).plain.splitlines()


def test_arrays_of_equal_shape_are_side_by_side_and_what_differs_is_marked() -> None:
    assert drawn([[4, -2], [0, 1]], [[4, 2], [0, 3]]) == [
        "expected (2, 2)    broken (2, 2)    x: differs",
        "+█ -▓              +█ +▓            . x",
        " · +▒               · +█            . x",
        "█ is 4",
    ]


def test_an_entry_that_is_wrong_is_marked_however_small_it_is() -> None:
    assert drawn([1e6, 1], [1e6, 2])[1].endswith(". x")
    assert drawn([1e6, 1], [1e6, 1 + 1e-14])[1].endswith(". .")


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


def series(expected: Any, actual: Any, *, width: int = 60, encoding: str = "utf-8") -> list[str]:
    names = "correct", "broken"
    return curves(console(encoding), expected, actual, names, width).plain.splitlines()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_the_characters_gets_ascii(encoding: str) -> None:
    assert drawn([4, -2], [0, 1], encoding=encoding)[1].split() == [
        *("+#", "-*", ".", "++", "x", "x")
    ]
    assert "".join(series([4, 1, 0], [4, 3, 2], encoding=encoding)).isascii()


def test_losses_are_two_lines_with_one_scale() -> None:
    assert series([8, 2, 0], [8, 6, 4]) == ["correct  █▃▁  8 to 0", "broken   █▇▅  8 to 4"]
    assert max(map(len, series(range(64), range(64), width=46))) <= 46
    assert "?" in series([1, 0], [1, math.nan])[1]


def test_losses_of_many_sizes_have_a_logarithmic_scale_and_may_end_at_different_steps() -> None:
    assert series([100, 1], [100, 10, 1, 0.1]) == [
        *("correct  █▃  100 to 1", "broken   █▆▃▁  100 to 0.1", "logarithmic scale")
    ]
    wild = series([100, 1, 1, math.inf], [100, -math.inf, math.nan, 1])
    assert [line.split()[1] for line in wild[:2]] == ["█▁▁?", "█??▁"]


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


def test_thecompare_losses_of_a_long_run_are_thinned_out_and_keep_their_ends() -> None:
    def log(*losses: float) -> Run:
        return Run("p", None, log=[{"w": pack(0.0)}, *({"loss": pack(loss)} for loss in losses)])

    drawn = compare_losses(log(*range(200)), log(*range(0, 400, 2)))
    assert drawn is not None
    assert drawn.actual.shape == (MOST_STEPS,)
    assert (drawn.actual.values[0], drawn.actual.values[-1]) == (0, 199)
    assert drawn.expected.values == [2 * loss for loss in drawn.actual.values]
    ended = compare_losses(log(*range(10)), log(*range(200)))
    assert ended is not None
    assert ended.actual.values == [0, 3, 6, 9]
    assert (ended.expected.shape, ended.expected.values[-1]) == ((MOST_STEPS,), 199)
    cut = compare_losses(log(*range(11)), log(*range(200)))
    assert cut is not None
    assert cut.actual.values[-2:] == [9, 10]
    assert compare_losses(log(1.0), log(1.0)) is None
    assert compare_losses(Run("p", None), log(1.0, 2.0)) is None


MEAN = [
    GraphNode(1, "a", (3, 5), []),
    GraphNode(2, "mean", (3, 1), [(1, "a")]),
    GraphNode(3, "add", (3, 5), [(1, "a"), (2, "mean"), None]),
]


def test_a_graph_is_a_line_for_each_node_and_the_wrong_edge_is_marked() -> None:
    graph = Graph(MEAN, size=3, node=3, operand=1, in_backward=True)
    assert graph_list(console(), graph, 66).plain.splitlines() == [
        "  1 a     (3, 5)",
        "  2 mean  (3, 1)  <- 1 a",
        "  3 add   (3, 5)  <- 1 a, ✗ 2 mean, a constant",
        "✗ the gradient that 3 add passes to 2 mean is wrong",
    ]
    assert graph_list(console(), graph, -4).plain
    ascii_lines = graph_list(console("ascii"), graph, 30).plain.splitlines()
    assert ascii_lines[2:] == [
        *("  3 add   (3, 5)  <- 1 a,", "      ! 2 mean, a constant"),
        *("! the gradient that 3 add", "  passes to 2 mean is wrong"),
    ]


def test_a_wrong_node_is_marked_itself() -> None:
    value = Graph(MEAN, size=3, node=2, operand=None, in_backward=False)
    lines = graph_list(console(), value, 66).plain.splitlines()
    assert lines[1] == "✗ 2 mean  (3, 1)  <- 1 a"
    assert lines[-1] == "✗ the values first differ at 2 mean"
    leaf = Graph([GraphNode(1, "", (2,), [])], size=1, node=1, operand=None, in_backward=True)
    assert graph_list(console(), leaf, 66).plain.splitlines() == [
        *("✗ 1 leaf  (2,)", "✗ the backward passes first differ at 1 leaf")
    ]


def test_what_is_left_out_of_a_large_graph_is_shown() -> None:
    nodes = [GraphNode(n, "exp", (2,), [(n - 1, "exp")]) for n in (9, 10, 12)]
    graph = Graph(nodes, size=30, node=10, operand=0, in_backward=True)
    assert graph_list(console(), graph, 66).plain.splitlines() == [
        "3 of 30 nodes",
        "  ...",
        "   9 exp  (2,)  <- 8 exp",
        "  10 exp  (2,)  <- ✗ 9 exp",
        "  ...",
        "  12 exp  (2,)  <- 11 exp",
        "  ...",
        "✗ the gradient that 10 exp passes to 9 exp is wrong",
    ]


@pytest.mark.usefixtures("without_oracles")
@pytest.mark.parametrize(
    ("page", "probe", "lines"),
    [
        (
            "skip-unbroadcast",
            "add-inside",
            ["3 add (3, 5) <- 1 a, ✗ 2 mean", "gradient that 3 add passes to 2 mean is wrong"],
        ),
        (
            "attn-no-scale",
            "attend-two-heads",
            ["8 of 26 nodes", "✗ 15 softmax (2, 2, 3, 3) <- 14 div"],
        ),
        (
            "matmul-no-transpose",
            "two-layers",
            ["failed before it finished", "backward passes first differ at 6 matmul"],
        ),
    ],
)
def test_the_whole_report_draws_the_graph(page: str, probe: str, lines: list[str]) -> None:
    for columns in ("80", "60"):
        shown = harness("break", page, "--probe", probe, "--full", COLUMNS=columns).stdout
        words = " ".join(shown.split())
        assert [line for line in lines if line not in words] == []
        after_the_diff = shown.partition(f"\n{probe}\n")[2]
        assert max(map(len, after_the_diff.splitlines())) <= int(columns)


@pytest.mark.usefixtures("without_oracles")
def test_the_graph_is_drawn_in_spanish() -> None:
    shown = harness("break", "skip-unbroadcast", "--probe", "add-inside", "--full", "--lang", "es")
    assert "✗ el gradiente que 3 add pasa a 2 mean es incorrecto" in shown.stdout
    assert "grafo  " in shown.stdout


def test_the_whole_report_has_the_picture_below_the_words() -> None:
    arrays = DrawnComparison(numbers([2.0, 1.0]), numbers([1.0, 2.0]))
    run = run_of("p", None, "silent-corruption", array=arrays, caught_by=["shape"])
    screen = console()
    show_runs(screen, [run], [probe("p")])
    text = screen.export_text()
    places = [text.index(words) for words in ("what p showed", "expected (2,)", "caught by")]
    assert places == sorted(places)
