"""Findings are grouped by what their probes share and the others do not."""

from pathlib import Path

import pytest

from harness.core.run import TraceStep
from harness.doctor.roots import (
    Feature,
    Root,
    Use,
    extended,
    features_of,
    find_roots,
    ochiai,
    place_of,
)
from harness.engines.engine import Dialect, Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.pages.probe import read_probes
from harness.report.doctor import words_of
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE

PROBES = CATALOGUE.shared_probes


@pytest.fixture(scope="module")
def features() -> dict[str, frozenset[Feature]]:
    """The features of some probes, from minigrad's own walks."""
    names = ("add-new-axis", "add-stretched-axis", "reused-leaf", "matmul-vector", "train-mlp")
    probes = [PROBES[name] for name in names]
    walks: dict[str, list[TraceStep]] = {name: [] for name in names}
    gradients = [probe for probe in probes if probe.kind == "gradient"]
    inside = Baseline(open_cache(), ()).inside(find_engine(), gradients)
    walks |= {name: run.trace for (name, _), run in inside.items()}
    return {probe.name: features_of(probe, walks[probe.name]) for probe in probes}


def test_features_are_read_from_the_recorded_walk(
    features: dict[str, frozenset[Feature]],
) -> None:
    assert features["add-new-axis"] >= {Feature("add", Use.CREATED), Feature("", Use.CREATED)}
    assert Feature("add", Use.STRETCHED) in features["add-stretched-axis"]
    assert Feature("add", Use.STRETCHED) not in features["add-new-axis"]
    assert features["reused-leaf"] >= {Feature("mul"), Feature("add"), Feature("", Use.LEAF_TWICE)}
    assert Feature("matmul", "2 1") in features["matmul-vector"]


def test_a_probe_of_steps_has_the_ops_that_its_text_names(
    features: dict[str, frozenset[Feature]],
) -> None:
    assert Feature("matmul") in features["train-mlp"]
    assert not {each for each in features["train-mlp"] if not each.op}


def test_an_op_that_minigrad_computes_with_others_is_the_only_feature() -> None:
    probe = PROBES["tensor-power"]
    inside = Baseline(open_cache(), ()).inside(find_engine(), [probe])
    walk = inside["tensor-power", "weighted"].trace
    assert {step.op for step in walk} >= {"log", "mul", "exp"}
    assert features_of(probe, walk) == {Feature("pow")}
    assert probe.is_arithmetic
    assert not PROBES["log"].is_arithmetic


def test_a_probe_of_steps_has_no_features_of_the_others_in_its_file() -> None:
    text = """
def _helper(x):
    return x.tanh()

def one(lib):
    'doc'
    yield {"loss": _helper(lib.tensor(np.zeros(3))) * 2}

def other(lib):
    'doc'
    yield {"loss": lib.tensor(1.0).exp() + 2}
"""
    one, other = read_probes(text, "probes.py")
    assert {each.op for each in features_of(one, ())} == {"tanh", "tensor", "mul"}
    assert {each.op for each in features_of(other, ())} == {"tensor", "exp", "add"}


ADD, MUL = Feature("add"), Feature("mul")
ADD_NEW, MUL_NEW, ANY_NEW = (Feature(op, Use.CREATED) for op in ("add", "mul", ""))
ADD_ONE, MUL_ONE, ANY_ONE = (Feature(op, Use.STRETCHED) for op in ("add", "mul", ""))
TWICE = Feature("", Use.LEAF_TWICE)
SHARED = {
    "add": {ADD},
    "mul": {MUL},
    "cube": {MUL},
    "product": {MUL},
    "add-new": {ADD, ADD_NEW, ANY_NEW},
    "mul-new": {MUL, MUL_NEW, ANY_NEW},
    "add-one": {ADD, ADD_ONE, ANY_ONE},
    "mul-one": {MUL, MUL_ONE, ANY_ONE},
    "square": {MUL, TWICE},
    "sum-and-product": {ADD, MUL, TWICE},
}
SIZES = {name: len(each) + 1 for name, each in SHARED.items()}


@pytest.mark.parametrize(
    ("wrong", "roots"),
    [
        (["sum-and-product", "cube", "square", "product", "mul", "mul-new"], [("`mul`", "cube")]),
        (["mul-new"], [("`mul` with a new axis", "mul-new")]),
        (["mul-new", "add-new"], [("broadcasting to a new axis", "add-new")]),
        (["mul-new", "add-new", "mul-one", "add-one"], [("broadcasting", "add-new")]),
        (
            ["mul-new", "add-new", "add-one"],
            [("broadcasting to a new axis", "add-new"), ("`add` with a stretched axis", "add-one")],
        ),
        (["add-new", "add-one"], [("`add`", "add-new")]),
        (["square", "sum-and-product"], [("a leaf that is used twice", "square")]),
        (
            ["mul-new", "square", "sum-and-product"],
            [("a leaf that is used twice", "square"), ("`mul` with a new axis", "mul-new")],
        ),
    ],
)
def test_findings_have_the_root_that_explains_them(
    wrong: list[str], roots: list[tuple[str, str]]
) -> None:
    right = SHARED.keys() - set(wrong)
    found = find_roots({name: SIZES[name] for name in wrong}, right, SHARED)
    assert [(root.feature and words_of(root.feature), root.probes[0]) for root in found] == roots
    assert sorted(name for root in found for name in root.probes) == sorted(wrong)


def test_a_finding_without_features_is_a_root_of_its_own() -> None:
    found = find_roots({"a": 1, "b": 2}, (), {"a": set(), "b": set()})
    assert [root.probes for root in found] == [("a",), ("b",)]
    assert [root.feature for root in found] == [None, None]


def test_a_root_that_explains_more_is_wider_and_starts_with_the_most_basic() -> None:
    root = extended(Root(ADD_NEW, ("add-new",)), {"add"}, SIZES)
    assert (root.feature, root.probes) == (ADD, ("add", "add-new"))
    assert extended(Root(ADD_NEW, ("add-new",)), {"add-new"}, SIZES).feature == ADD_NEW


def test_ochiai_is_one_only_for_all_failures_and_nothing_else() -> None:
    assert ochiai(3, 0, 3) == 1.0
    assert ochiai(0, 5, 3) == 0.0
    assert ochiai(3, 1, 3) < 1.0 > ochiai(2, 0, 3)


TEXT = """\
def fold(g): ...
class Tensor:
    def __add__(self): ...
    def __mul__(self):
        def _backward(): ...
    def backward(self): ...
    def __getitem__(self): ...
"""


def place(
    wrong: dict[str, list[str]], right: dict[str, list[str]], op: str = "", detail: str = ""
) -> str | None:
    engine = Engine("t", Dialect("t"), Path("/e"), {"t.py": TEXT})
    called = {
        name: frozenset(f"/e/t.py:{line}" for line in lines)
        for name, lines in {**wrong, **right}.items()
    }
    feature = Feature(op, detail) if op or detail else None
    found = place_of(Root(feature, tuple(wrong)), right, called, engine)
    return found and f"{found.scope}:{found.line}"


def test_the_place_is_the_function_that_findings_call_and_others_do_not() -> None:
    start, add, mul, rule = "6:backward", "3:__add__", "4:__mul__", "5:_backward"
    assert place({"m": [start, mul, rule]}, {"a": [start, add]}) == "Tensor.__mul__._backward:5"
    fold = "1:fold"
    both = {"m": [start, mul, fold], "a": [start, add, fold]}
    assert place(both, {"m2": [start, mul], "a2": [start, add]}) == "fold:1"
    assert place({"m": [start]}, {"a": [start]}) is None


def test_what_only_a_second_pass_shows_has_no_place() -> None:
    """Its cause is in functions that the first pass calls as well."""
    product, total = ["6:backward", "4:__mul__", "5:_backward"], ["6:backward", "3:__add__"]
    assert place({"m": product}, {"a": total}) is not None
    assert place({"m": product}, {"a": total}, detail=Use.SECOND_BACKWARD) is None


def test_a_function_with_the_name_of_the_op_is_the_place_even_if_all_call_it() -> None:
    lines = ["6:backward", "4:__mul__", "5:_backward"]
    assert place({"m": lines}, {"a": [*lines, "3:__add__"]}, "mul") == "Tensor.__mul__._backward:5"
    assert place({"m": lines}, {"a": lines}, "sub") is None
    index = [*lines, "7:__getitem__"]
    assert place({"m": index}, {"a": index}, "getitem") == "Tensor.__getitem__:7"
