"""Two versions of a function, run on the arguments of every call."""

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.grade.reasons import reason_of, side_by_side
from harness.grade.suite import CallProperty, Reason
from harness.runs.comparison import CHANGED, COMPARE, Comparer
from harness.runs.facts import facts_of
from harness.runs.heap import Heap

OPS = """
import logging
import numpy as np
import random

log = logging.getLogger("pytest")
log.addHandler(logging.StreamHandler())


def mul(a, b):
    def vjp(g):
        return g * b, g * a
    return a * b, vjp


class Tensor:
    def __init__(self, data):
        self.data, self.grad = np.array(data, float), None

    def square(self):
        out = Tensor(self.data ** 2)

        def _backward():
            self.grad = (0 if self.grad is None else self.grad) + 2 * self.data * out.grad

        out._backward = _backward
        return out


def ordered(nodes):
    found = list(nodes)
    return found


def shrink(g, shape):
    return g.reshape(shape)


def scale(a, b):
    def vjp(g):
        return shrink(g * b, a.shape), g * a
    return b * a, vjp


def whole(a):
    def vjp(g):
        return (np.broadcast_to(g, a.shape),)
    return a.sum(), vjp


def negative(a):
    def vjp(g):
        return (-g,)
    return -a, vjp


class Node:
    requires_grad = grad = None

    def __init__(self, op, *operands):
        self.operands, (self.data, self.rule) = operands, op(*[one.data for one in operands])
        self.requires_grad = any(one.requires_grad for one in operands)

    def walk(self, g):
        return apply_rule(self, g)


def apply_rule(node, g):
    pairs = zip(node.operands, node.rule(g))
    return [found for operand, found in pairs if operand.requires_grad]


class Leaf:
    def __init__(self, data, requires_grad):
        self.data, self.requires_grad, self.grad = np.array(data), requires_grad, None


class Product:
    def __init__(self, a, b):
        self.grad = np.ones(2)

        def _backward():
            a.grad = self.grad * b.data
            b.grad = self.grad * a.data

        self._backward = _backward


def biased(x, bias=None, steps=None):
    y = x * 2
    if bias is not None:
        y = y + bias
    return y


def halved(x, most=None):
    while most is not None and x > most:
        x = x / 2
    return x


class Layer:
    def forward(self, x):
        self.x = x
        return x * 3

    def backward(self, grad):
        self.dw = grad * self.x
        return grad * 3


def noisy(x):
    return x + random.random()


def unsteady(x, numbers):
    return x * next(numbers)


def total(values):
    values.append(0.0)
    return sum(values)


class Opaque:
    @property
    def __dict__(self):
        raise ValueError


def opaque(values):
    values.append(1.0)
    return Opaque()


def accumulate(total, g):
    return total + 1 * g


def gained(a, gain):
    def vjp(g):
        return g * gain
    return a * gain, vjp


class Scalar:
    def __init__(self, data):
        self.data, self.grad = data, 0.0

    def __mul__(self, other):
        out = Scalar(self.data * other.data)

        def _backward():
            self.grad += out.grad * other.data
            other.grad += out.grad * self.data

        out._backward = _backward
        return out
"""


@pytest.fixture(autouse=True)
def _no_builtins_are_left() -> Iterator[None]:
    yield
    for name in (COMPARE, CHANGED):
        if hasattr(builtins, name):
            delattr(builtins, name)


class Changed:
    """A module of which one line is changed, and the comparison of its calls."""

    def __init__(self, before: str, after: str) -> None:
        assert OPS.count(before) == 1
        code = side_by_side("ops.py", OPS, OPS.replace(before, after), "ops.py")
        assert code is not None
        self.comparer = Comparer()
        self.comparer.install()
        names: dict[str, Any] = {"__name__": "ops"}
        exec(code, names)  # noqa: S102  it is the text above
        self.names = names

    def __getattr__(self, name: str) -> Any:
        return self.names[name]

    @property
    def reason(self) -> Reason:
        return reason_of(self.comparer.result, ["test_a", "test_b"])


def test_the_changed_version_gives_the_result() -> None:
    ops = Changed("return a * b, vjp", "return a + b, vjp")
    assert ops.mul(2.0, 5.0)[0] == 7.0
    assert ops.mul.__code__.co_varnames[:2] == ("a", "b")


def test_the_first_wrong_call_is_named_with_its_test() -> None:
    ops = Changed("return g * b, g * a", "return g * b, g * b")
    with ops.comparer.during(0):
        ops.mul(np.full(2, 3.0), np.full(2, 3.0))[1](np.ones(2))
    with ops.comparer.during(1):
        ops.mul(np.full(2, 3.0), np.full(2, 3.0))[1](np.ones(2))
        ops.mul(np.full(2, 3.0), np.full(2, 4.0))[1](np.ones(2))
    assert (ops.reason.kind, ops.reason.test, ops.reason.call) == ("assertion", "test_b", 2)


def test_right_numbers_in_every_call_are_due_to_the_inputs() -> None:
    ops = Changed("return g * b, g * a", "return g * b, a + 0 * g")
    for b in (2.0, 3.0):
        ops.mul(np.array([1.0, -2.0]), np.full(2, b))[1](np.ones(2))
    reason = ops.reason
    assert (reason.kind, reason.calls) == ("inputs", 2)
    assert ("ones", "g") in [(one.kind, one.argument) for one in reason.common]
    assert "values" in reason.reveals


def test_a_difference_of_rounding_is_not_wrong() -> None:
    ops = Changed("return g * b, g * a", "return b * g, (g * a * 3) / 3")
    ops.mul(np.array([0.1, -0.2]), np.array([0.7, 0.3, 0.1])[:2])[1](np.array([0.3, -0.9]))
    assert ops.reason.calls == 1
    assert ops.reason.kind != "assertion"


IN_PLACE = ("    return total + 1 * g\n", "    total += g\n    return total\n")


def accumulated(totals: dict[str, Any]) -> Reason:
    """Add to a total in place, and return the reason."""
    ops = Changed(*IN_PLACE)
    totals["x"] = ops.accumulate(totals["x"], np.ones(2))
    assert totals["x"].tolist() == [2.0, 3.0]
    return ops.reason


def test_an_update_in_place_is_right_where_nothing_else_holds_the_array() -> None:
    assert accumulated({"x": np.array([1.0, 2.0])}).kind != "assertion"


@pytest.mark.parametrize("hold", [list, lambda array: lambda: array], ids=["a list", "a function"])
def test_an_update_in_place_is_wrong_where_the_array_is_held_twice(hold: Any) -> None:
    totals = {"x": np.array([1.0, 2.0])}
    holder = [totals["x"]] if hold is list else hold(totals["x"])
    assert accumulated(totals).kind == "assertion"
    del holder


def test_equal_operands_hide_which_of_them_is_used() -> None:
    ops = Changed("return g * b, g * a", "return g * b, g * b")
    ops.mul(np.array([2.0, -3.0]), np.array([2.0, -3.0]))[1](np.ones(2))
    assert ops.reason.common[0] == CallProperty("equal-arrays", "a, b")


def named(reason: Reason, kind: str) -> list[str]:
    """Return the arguments that have a property in all calls."""
    return [one.argument for one in reason.common if one.kind == kind]


ONES = [1, 1.0, np.float64(1), np.array(1.0)]
"""A cotangent without axes that is 1."""


@pytest.mark.parametrize("one", ONES, ids=repr)
@pytest.mark.parametrize(("after", "arguments"), [("gain", ["g"]), ("gain * g", [])])
def test_a_cotangent_that_is_1_is_named_if_another_one_shows_the_bug(
    one: Any, after: str, arguments: list[str]
) -> None:
    ops = Changed("return g * gain", f"return {after}")
    ops.gained(np.array([2.0, -3.0]), 4.0)[1](one)
    assert named(ops.reason, "scale-1") == arguments


@pytest.mark.parametrize(("after", "arguments"), [("g", ["gain"]), ("gain * g", [])])
def test_a_factor_of_1_is_named_if_another_one_shows_the_bug(
    after: str, arguments: list[str]
) -> None:
    ops = Changed("return g * gain", f"return {after}")
    ops.gained(np.array([2.0, -3.0]), 1.0)[1](np.array([2.0, -3.0]))
    assert named(ops.reason, "scale-1") == arguments


@pytest.mark.parametrize("one", [1, 1.0])
@pytest.mark.parametrize(
    ("before", "after", "argument"),
    [
        ("+= out.grad * other.data", "+= other.data", "out.grad"),
        ("+= out.grad * other.data", "+= out.grad", "other.data"),
    ],
)
def test_attributes_of_nodes_that_are_1_are_named(
    one: float, before: str, after: str, argument: str
) -> None:
    ops = Changed(before, after)
    a, b = ops.Scalar(3.0), ops.Scalar(1.0 if argument == "other.data" else 2.0)
    out = a * b
    out.grad = one if argument == "out.grad" else 5.0
    out._backward()
    assert named(ops.reason, "scale-1") == [argument]
    assert (a.grad, out.grad) == ((2.0, one) if argument == "out.grad" else (5.0, 5.0))


def test_a_name_that_begins_like_a_cotangent_is_another_argument() -> None:
    ops = Changed("return g * gain", "return g * abs(gain)")
    ops.gained(np.array([2.0, -3.0]), np.array([4.0, 5.0]))[1](np.array([2.0, -3.0]))
    assert named(ops.reason, "one-sign") == ["gain"]


def test_a_number_without_axes_has_another_shape() -> None:
    assert ("equal-shapes", "") in facts_of({"a": np.ones(2), "b": np.ones(2)})
    assert ("equal-shapes", "") not in facts_of({"a": np.ones(2), "b": np.array(2.0)})
    assert ("equal-shapes", "") in facts_of({"a": np.array(3.0), "b": np.array(2.0)})
    assert ("equal-shapes", "") not in facts_of({"a": np.float64(3.0), "b": 2.0})


@pytest.mark.parametrize(("needed", "kind"), [(False, "inputs"), (True, "assertion")])
def test_a_wrong_cotangent_of_a_constant_is_named(needed: bool, kind: str) -> None:
    ops = Changed("shrink(g * b, a.shape), g * a", "shrink(g * b, a.shape), g * a * 2")
    a, b = ops.Leaf([1.0, -2.0], True), ops.Leaf([3.0, 4.0], needed)
    ops.Node(ops.scale, a, b).walk(np.array([1.0, -1.0]))
    assert ops.reason.kind == kind
    assert [one.kind for one in ops.reason.common[:1]] == ([] if needed else ["no-gradient"])


def product(ops: Changed, leaf: Any) -> Any:
    return ops.Node(ops.mul, leaf, ops.Leaf(np.array([5.0, 7.0]), False))


@pytest.mark.parametrize(
    ("operand", "kind"),
    [
        (lambda _, leaf: leaf, "assertion"),
        (lambda ops, leaf: ops.Node(ops.negative, leaf), "assertion"),
        (product, "inputs"),
        (lambda ops, leaf: ops.Node(ops.negative, product(ops, leaf)), "inputs"),
    ],
    ids=["leaf", "negative leaf", "product", "negative product"],
)
def test_a_shape_is_wrong_unless_the_next_rules_broadcast_it(operand: Any, kind: str) -> None:
    ops = Changed("return (np.broadcast_to(g, a.shape),)", "return (g,)")
    ops.Node(ops.whole, operand(ops, ops.Leaf([2.0, 3.0], True))).walk(np.array(2.0))
    assert reason_of(ops.comparer.result, ["", ""], is_bug=True).kind == kind
    assert ops.comparer.result.calls == 1


def test_a_shape_is_right_if_a_gradient_is_added_to_one_of_the_right_shape() -> None:
    ops = Changed("return (np.broadcast_to(g, a.shape),)", "return (g,)")
    leaf = ops.Leaf([2.0, 3.0], True)
    leaf.grad = np.zeros(2)
    ops.Node(ops.whole, leaf).walk(np.array(2.0))
    assert ops.reason.kind != "assertion"


def test_a_number_that_is_wrong_before_it_is_broadcast_is_wrong() -> None:
    ops = Changed("return (np.broadcast_to(g, a.shape),)", "return (2 * g,)")
    ops.Node(ops.whole, product(ops, ops.Leaf([2.0, 3.0], True))).walk(np.array(2.0))
    assert ops.reason.kind == "assertion"


def test_an_equivalent_change_has_the_same_numbers() -> None:
    ops = Changed("return g * b, g * a", "return b * g, a * g")
    ops.mul(np.array([0.1, -0.2, 4.0]), np.array(0.7))[1](np.array([[0.3, -0.9, 1.0]]))
    assert ops.reason.kind == "same"


def test_a_rule_that_the_changed_function_returns_is_compared_with_the_clean_one() -> None:
    rule = "    def vjp(g):\n        return g * b, g * a\n"
    ops = Changed(f"{rule}    return a * b", f"    b = b + 1\n{rule}    return a * b - a")
    value, vjp = ops.mul(2.0, 5.0)
    assert value == 10.0
    assert ops.reason.kind != "assertion"
    assert vjp(1.0) == (6.0, 2.0)
    assert (ops.reason.kind, ops.reason.call) == ("assertion", 2)


def test_what_a_closure_adds_to_a_gradient_is_compared_and_undone() -> None:
    ops = Changed("+ 2 * self.data * out.grad", "+ 3 * self.data * out.grad")
    x = ops.Tensor([1.0, -2.0])
    y = x.square()
    y.grad = np.ones(2)
    y._backward()
    assert x.grad.tolist() == [3.0, -6.0]  # of the changed version alone
    assert ops.reason.kind == "assertion"


def test_a_closure_of_an_op_whose_value_is_changed_has_its_gradient() -> None:
    ops = Changed("out = Tensor(self.data ** 2)", "out = Tensor(self.data * self.data + 0)")
    x = ops.Tensor([1.0, -2.0])
    y = x.square()
    y.grad = np.ones(2)
    y._backward()
    assert x.grad.tolist() == [2.0, -4.0]
    assert ops.reason.calls == 2


def test_what_forward_saves_is_compared_where_backward_uses_it() -> None:
    ops = Changed("self.x = x\n        return x * 3", "self.x = abs(x)\n        return x * 3")
    layer = ops.Layer()
    for x in (2.0, -2.0):
        layer.forward(np.array([x]))
        layer.backward(np.array([1.0]))
    assert layer.dw == 2.0
    assert (ops.reason.kind, ops.reason.call) == ("assertion", 2)


def test_random_numbers_are_drawn_again() -> None:
    ops = Changed("return x + random.random()", "return random.random() + x")
    ops.noisy(np.array([1.0, -1.0]))
    assert ops.reason.kind == "same"


@pytest.mark.parametrize("torch", [None, ModuleType("torch")])
def test_a_stand_in_for_pytorch_does_not_matter(
    torch: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    ops = Changed("return x + random.random()", "return random.random() + x")
    ops.noisy(np.array([1.0, -1.0]))
    assert ops.reason.kind == "same"


def test_code_that_no_call_runs() -> None:
    ops = Changed("        y = y + bias\n", "        y = y - bias\n")
    for x in (2.0, -3.0):
        ops.biased(np.array([x, 1.0]))
    assert [one.kind for one in ops.reason.common] == ["none", "not-run"]
    ops.biased(np.array([2.0, -1.0]), np.zeros(2))
    assert {one.kind for one in ops.reason.common}.isdisjoint({"none", "not-run"})


def test_what_cannot_be_repeated_is_not_measured() -> None:
    ops = Changed("return x * next(numbers)", "return 2 * x * next(numbers)")
    assert ops.unsteady(3.0, iter([5.0, 7.0])) == 30.0
    assert ops.reason.kind == "not-measured"


def test_what_a_call_has_written_is_undone_if_its_result_cannot_be_read() -> None:
    ops = Changed("values.append(1.0)", "values.append(2.0)")
    values: list[float] = []
    ops.opaque(values)
    assert values == [2.0]
    assert ops.reason.kind == "not-measured"


def test_an_array_of_objects_is_restored_in_any_layout() -> None:
    array = np.empty((2, 2), dtype=object)
    for place in range(4):
        array[divmod(place, 2)] = [float(place)]  # of equal lengths, as an array has rows
    kept, heap = array.copy(), Heap({"array": array.T})
    array[0, 1] = None
    heap.restore()
    assert all(one is other for one, other in zip(array.flat, kept.flat, strict=True))


def test_a_list_has_what_one_call_has_written() -> None:
    ops = Changed("values.append(0.0)", "values.insert(0, 0.0)")
    values = [1.0, 2.0]
    assert ops.total(values) == 3.0
    assert values == [0.0, 1.0, 2.0]
    assert ops.reason.kind == "assertion"


def test_a_version_that_raises_is_wrong() -> None:
    ops = Changed("return g * b, g * a", "raise ValueError(g)")
    with pytest.raises(ValueError, match="1"):
        ops.mul(2.0, 5.0)[1](1.0)
    assert ops.reason.kind == "assertion"


def test_code_outside_functions_cannot_be_compared() -> None:
    assert side_by_side("a.py", "X = 1\n", "X = 2\n", str(Path("a.py"))) is None


@pytest.mark.parametrize("a_needs", [False, True])
def test_a_wrong_cotangent_that_is_kept_counts(a_needs: bool) -> None:
    ops = Changed("return shrink(g * b, a.shape), g * a", "return shrink(g * b, a.shape), g * b")
    ops.Node(ops.scale, ops.Leaf([3.0, 5.0], a_needs), ops.Leaf([2.0, 7.0], True)).walk(np.ones(2))
    assert ops.reason.kind == "assertion"


def test_a_wrong_cotangent_of_a_constant_does_not_count() -> None:
    ops = Changed("return shrink(g * b, a.shape), g * a", "return shrink(g * b, a.shape), g * b")
    ops.Node(ops.scale, ops.Leaf([3.0, 5.0], True), ops.Leaf([2.0, 7.0], False)).walk(np.ones(2))
    assert (ops.reason.kind, ops.reason.calls) == ("inputs", 1)


@pytest.mark.parametrize(("b_needs", "kind"), [(False, "not-measured"), (True, "assertion")])
def test_a_function_that_computes_one_of_several_cotangents(b_needs: bool, kind: str) -> None:
    ops = Changed("return g.reshape(shape)", "return 2 * g.reshape(shape)")
    leaves = ops.Leaf([3.0, 5.0], True), ops.Leaf([2.0, 7.0], b_needs)
    ops.Node(ops.scale, *leaves).walk(np.ones(2))
    assert ops.reason.kind == kind


@pytest.mark.parametrize(("b_needs", "kind"), [(False, "inputs"), (True, "assertion")])
def test_a_gradient_written_into_a_constant_does_not_count(b_needs: bool, kind: str) -> None:
    ops = Changed("b.grad = self.grad * a.data", "b.grad = self.grad * b.data")
    leaves = ops.Leaf([3.0, 5.0], True), ops.Leaf([2.0, 7.0], b_needs)
    ops.Product(*leaves)._backward()
    assert ops.reason.kind == kind


def test_none_is_named_only_if_the_changed_code_depends_on_it() -> None:
    ops = Changed("y = y + bias", "y = y - bias")
    ops.biased(np.array([1.0, -2.0]))
    common = [(one.kind, one.argument) for one in ops.reason.common]
    assert ("none", "bias") in common
    assert ("none", "steps") not in common


def test_none_is_named_if_it_ends_a_loop_that_contains_the_changed_code() -> None:
    ops = Changed("x = x / 2", "x = x / 3")
    ops.halved(5.0)
    assert ("none", "most") in [(one.kind, one.argument) for one in ops.reason.common]


def test_cotangents_that_are_missing_are_wrong() -> None:
    ops = Changed("if operand.requires_grad]", "if not operand.requires_grad]")
    node = ops.Node(ops.scale, ops.Leaf([3.0, 5.0], True), ops.Leaf([2.0, 7.0], True))
    assert node.walk(np.ones(2)) == []
    assert ops.reason.kind == "assertion"


def test_another_order_of_the_same_objects_is_not_a_wrong_number() -> None:
    ops = Changed("found = list(nodes)", "found = list(nodes)[::-1]")
    ops.ordered((ops.Leaf([3.0], True), ops.Leaf([2.0], True)))
    assert ops.reason.kind == "not-measured"


# ----- JAX -----


def jax_arrays() -> tuple[Any, Any, Any]:
    """Return two operands and a cotangent of ones."""
    jax = pytest.importorskip("jax")
    return tuple(jax.numpy.array(v) for v in ([2.0, -3.0], [5.0, 0.5], [1.0, 1.0]))


def test_a_wrong_array_of_jax_is_wrong() -> None:
    a, b, g = jax_arrays()
    ops = Changed("return g * b, g * a", "return g * b, g * b")
    ops.mul(a, b)[1](g)
    assert ops.reason.kind == "assertion"


def test_arrays_of_jax_get_other_numbers() -> None:
    a, b, g = jax_arrays()
    ops = Changed("return g * b, g * a", "return g * b, a")
    ops.mul(a, b)[1](g)
    reason = ops.reason
    assert ("ones", "g") in [(one.kind, one.argument) for one in reason.common]
    assert "values" in reason.reveals


def test_a_call_that_jax_traces_is_not_measured() -> None:
    jax, (a, b, g) = pytest.importorskip("jax"), jax_arrays()
    ops = Changed("return g * b, g * a", "return g * b, g * b")
    jax.jit(lambda a, b, g: ops.mul(a, b)[1](g))(a, b, g)
    assert ops.reason.kind == "not-measured"
