"""The first divergence: real breaks of minigrad, and faults planted in its traces."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from msgspec.structs import replace

from harness.answer_key import divergence as answer_key
from harness.answer_key.stage import cancelled_by
from harness.answer_key.walks import forward_order, graph_of, match_walks
from harness.core.run import NumericArray, Run, TraceStep, pack
from harness.engines.engine import find_engine
from harness.experiment.baseline import job_for
from harness.pages.probe import read_probes
from harness.patch import apply_patch, parse_patch
from harness.runs.isolated import run_isolated
from harness.runs.protocol import JobStep, Recorded
from harness.sandbox.limits import Limits
from minigrad import Tensor, trace
from tests.examples import examples

# ----- Real breaks -----


@cache
def run(program: str, patch: str = "") -> Run:
    """One run on minigrad, in a child process, with its trace."""
    leaves, _, result = program.partition(": ")
    text = f"def probe({leaves}):\n    'A probe.'\n    {result.replace('; ', chr(10) + '    ')}\n"
    probes, engine = read_probes(text, "probes.py"), find_engine()
    if patch:
        engine = engine.patched(
            apply_patch(parse_patch(patch, path="p.md", line=1), engine.sources)
        )
    loss = probes[0].losses[-1]
    job = replace(job_for(engine, probes, Limits()), steps=(JobStep(0, loss),))
    (observed,) = run_isolated(job)
    (inside,) = run_isolated(replace(job, records=Recorded.INSIDE))
    return msgspec.structs.replace(observed, trace=inside.trace)


def first_divergence(
    broken: Sequence[TraceStep], correct: Sequence[TraceStep], names: Mapping[int, str]
) -> str | None:
    """The divergence in English."""
    outcome = answer_key.first_divergence(broken, correct, names)
    return None if outcome is None else str(outcome.sentence)


def divergence(program: str, patch: str) -> str | None:
    broken, correct = run(program, patch), run(program)
    assert correct.trace
    assert not correct.failure
    names = {
        step.index: name
        for step in correct.trace
        for name, value in correct.leaves.items()
        if not step.op and step.value == value
    }
    return first_divergence(broken.trace, correct.trace, names)


ADD = "a=(3,), b=(4, 3): return a + b"
INSIDE = "a=(3, 5): return a + a.mean(1, keepdim=True)"
MUL = "a=[2.0, 3.0], b=[5.0, 7.0]: return a * b"
REUSED = "x=[1.0, 2.0]: h = x.exp(); return h + h * h"
SKEWED = "x=[1.0, 2.0]: h = x.exp(); return h.tanh().sqrt() + h"
MEAN = "x=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]: return x.mean(1)"

UNBROADCAST = "@@ add @@\n-unbroadcast($grad, $shape)\n+$grad"
SWAPPED = """\
@@ mul.vjp @@
-return unbroadcast(g * b, a.shape), unbroadcast(g * a, b.shape)
+return unbroadcast(g * a, a.shape), unbroadcast(g * b, b.shape)"""
ACCUMULATE = "@@ accumulate @@\n-return cotangent if total is None else total + cotangent\n+"
IN_PLACE = """if total is None:
+    return cotangent
+total += cotangent
+return total"""
FLIPPED = "@@ exp.vjp @@\n-(g * value,)\n+(-g * value,)"
UNVISITED = "@@ topological_order @@\n-if node in visited:\n-    continue\n"


def test_a_missing_unbroadcast_is_the_rule_of_add() -> None:
    assert divergence(ADD, UNBROADCAST) == (
        "`add` passed operand 0 (a) a gradient of shape (4, 3), expected (3,) "
        "(not summed over axis 0: its sum is the correct one); what `add` received was right"
    )


def test_a_missing_unbroadcast_inside_the_graph_is_still_the_rule_of_add() -> None:
    """The gradient of the leaf has the right shape, and nothing explains its values."""
    gradient = run(INSIDE, UNBROADCAST).gradients["a"]
    assert gradient is not None
    assert gradient.shape == (3, 5)
    assert divergence(INSIDE, UNBROADCAST) == (
        "`add` passed operand 1 (`mean`) a gradient of shape (3, 5), expected (3, 1) "
        "(not summed over axis 1: its sum is the correct one); what `add` received was right"
    )


def test_swapped_operands_are_the_rule_of_mul() -> None:
    cotangent = run(MUL).cotangent
    assert cotangent is not None
    g = cotangent.numpy()
    actual, expected = ([float(f"{x:.4g}") for x in g * np.array(by)] for by in ([2, 3], [5, 7]))
    assert divergence(MUL, SWAPPED) == (
        f"`mul` passed operand 0 (a) the gradient {actual}, expected {expected}; "
        "what `mul` received was right"
    )


def test_four_numbers_are_all_shown_and_of_five_only_the_first_wrong_one() -> None:
    four, five = (divergence(f"a=({n},), b=({n},): return a * b", SWAPPED) for n in (4, 5))
    assert four is not None
    assert five is not None
    assert re.match(r"`mul` passed operand 0 \(a\) the gradient \[[^,]+(, [^,]+){3}\], exp", four)
    assert five.startswith("`mul` passed operand 0 (a) a gradient of shape (5,) with ")


def test_tanh_with_its_input_for_its_output_is_the_rule_of_tanh() -> None:
    program = "a=(5,), b=(5,): return (a * b).tanh() + a"
    sentence = divergence(program, "@@ tanh.vjp @@\n-value**2\n+a**2")
    assert sentence is not None
    assert sentence.startswith("`tanh` passed operand 0 (`mul`) a gradient of shape (5,) with ")
    assert sentence.endswith("; what `tanh` received was right")


@pytest.mark.parametrize(
    ("then", "counted"),
    [
        ("return cotangent", "only one of them counted"),  # both of `mul` are equal
        ("return cotangent if total is None else total", "only the first counted"),
        ("return cotangent if total is None else total - cotangent", "they do not add up to that"),
    ],
)
def test_a_wrong_sum_of_right_terms_is_the_accumulation(then: str, counted: str) -> None:
    sentence = divergence(REUSED, ACCUMULATE + then)
    assert sentence is not None
    assert sentence.startswith("`exp` received the gradient [")
    assert sentence.endswith(f"; its 3 incoming gradients were right, but {counted}")


@pytest.mark.parametrize(("seed", "nodes", "place"), [(6, 6, 4), (6, 2, 4), (3, 5, 6)])
def test_a_right_sum_of_another_dtype_was_converted(seed: int, nodes: int, place: int) -> None:
    """Terms that are zero or cancel out are not reported as missing."""
    walk = usual(seed, nodes)
    step = replace(walk[place], cotangent=pack(walk[place].cotangent.numpy().astype(np.float32)))
    sentence = first_divergence([*walk[:place], step, *walk[place + 1 :]], walk, {})
    assert sentence is not None
    assert sentence.endswith("gradients were right, but their sum was converted to another dtype")


@pytest.mark.parametrize("then", ["return cotangent", "return total or cotangent"])
def test_of_equal_terms_nobody_knows_which_counted(then: str) -> None:
    """It could also be their mean."""
    sentence = divergence("x=[1.0]: h = x.exp(); return h + h", ACCUMULATE + then)
    assert sentence is not None
    assert sentence.endswith("its 2 incoming gradients were right, but they do not add up to that")


def summed(total: float, *terms: float) -> str | None:
    """The divergence if a leaf receives `total` although it was passed these terms."""

    def walk(received: float) -> list[TraceStep]:
        products = [
            TraceStep(i, "mul", (0,), pack([1.0]), pack([1.0]), (pack([term]),))
            for i, term in enumerate(terms, 1)
        ]
        parents = tuple(range(1, len(terms) + 1))
        ones = tuple(pack([1.0]) for _ in terms)
        output = TraceStep(len(terms) + 1, "sum", parents, pack([1.0]), pack([1.0]), ones)
        leaf = TraceStep(0, "", (), pack([1.0]), pack([received]), ())
        return [output, *reversed(products), leaf]

    return first_divergence(walk(total), walk(sum(terms)), {0: "x"})


@pytest.mark.parametrize(
    ("total", "terms", "mistake"),
    [
        (3.0, (1.0, 3.0, 5.0, 16.0), "only one of them counted"),
        (8.0, (1.0, 3.0, 5.0, 16.0), "they do not add up to that"),
        (24.0, (1.0, 3.0, 5.0, 16.0), "one of them did not count"),
        # The mean, or the second: both fit.
        (2.0, (1.0, 2.0, 3.0), "they do not add up to that"),
        (4.0, (2.0, 2.0, 2.0), "they do not add up to that"),
        (0.0, (1.0, 2.0), "they do not add up to that"),
        # Of more than eight terms, the sums are too many to try.
        (254.0, tuple(2.0**i for i in range(8)), "one of them did not count"),
        (510.0, tuple(2.0**i for i in range(9)), "they do not add up to that"),
    ],
)
def test_a_wrong_sum_is_explained_if_only_one_explanation_fits(
    total: float, terms: tuple[float, ...], mistake: str
) -> None:
    sentence = summed(total, *terms)
    assert sentence is not None
    assert sentence.endswith(f"its {len(terms)} incoming gradients were right, but {mistake}")


def test_a_cotangent_that_somebody_else_added_to_was_changed_on_its_way() -> None:
    """`add` returns the same array for both operands; one is accumulated in place."""
    sentence = divergence("x=[1.0], y=[2.0]: return (x + y) + x", ACCUMULATE + IN_PLACE)
    assert sentence is not None
    assert sentence.startswith("the leaf y received the gradient [")
    assert sentence.endswith("; its only incoming gradient was right, but was changed on the way")


def test_a_wrong_mean_is_its_forward_pass_and_not_what_follows_from_it() -> None:
    patch = "@@ mean @@\n-a.sum(axes, keepdims=keepdims) / count\n+a.sum(axes, keepdims=keepdims)"
    assert divergence(MEAN.replace("(1)", "(1).exp()"), patch) == (
        "the forward pass of `mean` gave the value [6, 15], expected [2, 5] "
        "(3 times the correct one); its operands were right"
    )


def test_a_wrong_output_is_its_own_forward_pass() -> None:
    patch = "@@ mean @@\n-a.sum(axes, keepdims=keepdims) / count\n+a.sum(axes, keepdims=keepdims)"
    sentence = divergence(MEAN, patch)
    assert sentence is not None
    assert sentence.startswith("the forward pass of `mean` gave the value [6, 15]")


def test_an_op_that_occurs_again_is_named_by_its_place() -> None:
    sentence = divergence("x=[1.0]: return x.exp().exp()", FLIPPED)
    assert sentence is not None
    assert sentence.startswith(
        "`exp` (number 2 of 2 from the inputs) passed "
        "operand 0 (`exp` (number 1 of 2 from the inputs)) the gradient ["
    )


def test_what_is_handed_to_a_constant_goes_nowhere() -> None:
    patch = "@@ mul.vjp @@\n-unbroadcast(g * a, b.shape)\n+unbroadcast(g + a, b.shape)"
    assert divergence("a=[1.0, 2.0]: return a * 3.0", patch) is None


def test_a_rule_that_forgets_an_operand_is_named() -> None:
    patch = "@@ mul.vjp @@\n-return $a, $b\n+return ($a,)"
    assert run(MUL, patch).failure is not None
    assert divergence(MUL, patch) == (
        "`mul` passed operand 1 (b) no gradient, expected one of shape (2,); "
        "what `mul` received was right"
    )


def test_a_walk_from_the_inputs_ends_at_the_output() -> None:
    sentence = divergence(REUSED, "@@ walk @@\n-order.pop()\n+order.pop(0)")
    assert sentence == "the walk never visited `mul`, although `add` passed it a gradient"


def test_a_node_visited_before_its_children_is_named_with_the_child() -> None:
    assert divergence(SKEWED, UNVISITED) == (
        "`exp` was visited too early: before `tanh`, which had a gradient for it"
    )


def test_the_forward_order_puts_operands_first_and_omits_nodes_that_were_not_visited() -> None:
    def step(index: int, *parents: int | None) -> TraceStep:
        return TraceStep(index, "op", parents, pack([1.0]), pack([1.0]), ())

    walk = [step(1, 3, 9, None), step(0), step(3, 2), step(2)]
    assert list(forward_order(walk)) == [0, 2, 3, 1]


def test_a_wrong_start_is_not_blamed_on_the_first_rule() -> None:
    patch = "@@ first_cotangent @@\n-cotangent.astype(root.dtype)\n+cotangent / root.data.size"
    sentence = divergence(REUSED, patch)
    assert sentence is not None
    assert sentence.startswith("the walk starts from the gradient [")
    assert sentence.endswith("(1/2 times the correct one)")


def test_a_cotangent_that_the_first_node_passes_to_itself_is_not_the_start() -> None:
    one = pack([1.0])
    leaves = [TraceStep(i, "", (), one, one, ()) for i in (1, 0)]
    correct = [TraceStep(2, "mul", (0, 1), one, one, (one, one)), *leaves]
    broken = [TraceStep(2, "mul", (0, 2), one, pack([2.0]), (one, one)), leaves[1]]
    sentence = first_divergence(broken, correct, {})
    assert sentence is not None
    assert sentence.startswith("`mul` received the gradient [2], expected [1]")


def test_another_op_is_another_graph() -> None:
    patch = "@@ Methods.__sub__ @@\n-elementwise.sub\n+elementwise.add"
    program = "x=[1.0], y=[2.0]: return {}"
    assert divergence(program.format("(x - y).exp()"), patch) == (
        "operand 0 of `exp` has the value [3], expected [-1]; the graph is different: "
        "operand 0 of `exp` is the result of `add`, expected the result of `sub`"
    )
    assert divergence(program.format("x - y"), patch) == (
        "the output has the value [3], expected [-1]; the graph is different: "
        "the output is the result of `add`, expected the result of `sub`"
    )


def test_another_graph_with_the_same_numbers_is_not_blamed_for_a_wrong_one() -> None:
    """`x - y` is `x + (-y)`, and the rule of `exp` is wrong."""
    rewrite = "@@ Methods.__sub__ @@\n-self._apply($op, self, other)\n+self + -other"
    sentence = divergence("x=[1.0], y=[2.0]: return (x - y).exp()", f"{FLIPPED}\n{rewrite}")
    assert sentence is not None
    assert sentence.startswith("`exp` passed operand 0 (`sub`) the gradient [")
    assert "; the graph is different: operand 0 of `exp` is the result of `add`" in sentence


def test_what_a_node_of_another_kind_passed_on_is_not_called_right() -> None:
    walk = run("x=[1.0, 2.0], y=[3.0, 4.0]: return (x + y) * x").trace
    taken = next(step for step in walk if step.op == "add").parents[0]
    broken = [
        replace(step, op="plus", handed=tuple(map(made_wrong, step.handed)))
        if step.op == "add"
        else replace(step, cotangent=made_wrong(step.cotangent))
        if step.index == taken
        else step
        for step in walk
    ]
    sentence = first_divergence(broken, walk, {})
    assert sentence is not None
    assert re.fullmatch(
        r"the leaf of shape \(2,\) received [^;]*; the graph is different: operand 0 of `mul` is "
        r"the result of `plus`, expected the result of `add`",
        sentence,
    )


def test_an_operand_outside_of_the_walk_is_not_called_right() -> None:
    """The wrong constant goes unnoticed, since the walk contains only nodes with a gradient."""
    patch = "@@ Methods.__mul__ @@\n-self._apply($op, self, other)\n+self._apply($op, self, 4.0)"
    assert divergence("x=[1.0, 3.0]: return (x * 2.0).exp()", patch) == (
        "the forward pass of `mul` gave the value [4, 12], expected [2, 6] "
        "(2 times the correct one)"
    )


def test_an_operand_that_is_left_out_is_named() -> None:
    patch = "@@ topological_order @@\n-reversed(node.parents)\n+node.parents[:1]"
    assert divergence(MUL, patch) == (
        "the graph is different: operand 1 of `mul` is cut off from the walk, expected a leaf; "
        "no gradient reaches the leaf b"
    )
    sentence = divergence("x=[1.0, 2.0]: return x + x.exp()", patch)
    assert sentence is not None
    assert re.fullmatch(
        r"the leaf x received the gradient \[.*\], expected \[[^;]*\]; the graph is different: "
        r"operand 1 of `add` is cut off from the walk, expected the result of `exp`",
        sentence,
    )


def test_a_value_that_was_changed_after_its_use_is_not_blamed_on_its_op() -> None:
    patch = "@@ relu @@\n-np.maximum(a, 0)\n+np.maximum(a, 0, out=a)"
    sentence = divergence("x=[-1.0, 2.0]: return (-x).relu()", patch)
    assert sentence is not None
    assert sentence.startswith("`neg` ended with the value [1, 0], expected [1, -2]")
    assert sentence.endswith(", but `relu`, which was computed from it, is right")


def test_a_leaf_of_another_dtype_is_wrong_from_the_start() -> None:
    patch = "@@ Tensor.__init__ @@\n-np.array(data, dtype)\n+np.array(data, np.float32)"
    assert divergence(MUL, patch) == ("the leaf a has a value of dtype float32, expected float64")


def test_no_cotangent_is_not_a_cotangent_of_zeros() -> None:
    patch = "@@ exp.vjp @@\n-(g * value,)\n+(None,)"
    assert divergence(REUSED, patch) == (
        "`exp` passed operand 0 (x) no gradient, expected one of shape (2,); "
        "what `exp` received was right"
    )
    assert first_divergence(run(REUSED).trace, run(REUSED, patch).trace, {}) == (
        "`exp` passed operand 0 (a node that the correct walk never visits) "
        "a gradient of shape (2,), expected none; what `exp` received was right"
    )


def test_a_crash_leaves_what_was_wrong_before_it() -> None:
    in_place = ACCUMULATE + "total = np.zeros_like(node.data) if total is None else total\n"
    in_place += "+total += cotangent\n+return total"
    assert run(ADD, f"{UNBROADCAST}\n{in_place}").failure is not None
    sentence = divergence(ADD, f"{UNBROADCAST}\n{in_place}")
    assert sentence is not None
    assert sentence.startswith("`add` passed operand 0 (a) a gradient of shape (4, 3)")


def test_another_operand_is_another_graph() -> None:
    """In either direction: one node for two, and two nodes for one."""
    program = "x=[1.0], y=[1.0]: return x * y"
    patch = "@@ Methods.__mul__ @@\n-self._apply($op, self, other)\n+self._apply($op, self, self)"
    one = run(program, patch)
    sentence = "the graph is different: operand 1 of `mul` is a different node in the correct graph"
    sentence += "(; no gradient reaches the leaf of shape .*)?"
    for traces in (one.trace, run(program).trace), (run(program).trace, one.trace):
        divergence = first_divergence(*traces, {})
        assert divergence is not None
        assert re.fullmatch(rf"the leaf .* received the gradient [^;]*; {sentence}", divergence)


def test_of_several_backward_passes_the_first_that_parts_is_named() -> None:
    """They differ in size, so that the same index is another node in each."""
    program = """\
lib, x=[1.0, 2.0]: for step in range(3):
        (x.exp() if step == 1 else x * x * x).sum().backward()
        yield {'x': x}"""
    assert divergence(program, FLIPPED) == (
        "in backward pass 2: `exp` passed operand 0 (x) the gradient [-2.718, -7.389], "
        "expected [2.718, 7.389] (the sign is flipped); what `exp` received was right"
    )


# ----- The place of the first difference -----


@pytest.mark.parametrize(
    ("program", "patch", "op", "operand", "in_backward"),
    [
        (MUL, SWAPPED, "mul", 0, True),
        (INSIDE, UNBROADCAST, "add", 1, True),
        (REUSED, ACCUMULATE + "return cotangent", "exp", None, True),
        (REUSED, "@@ exp @@\n-np.exp(a)\n+2 * np.exp(a)", "exp", None, False),
    ],
)
def test_the_place_at_which_two_walks_part(
    program: str, patch: str, op: str, operand: int | None, in_backward: bool
) -> None:
    broken, correct = run(program, patch).trace, run(program).trace
    place = answer_key.parting(broken, correct)
    assert place is not None
    assert {step.index: step.op for step in correct}[place.node] == op
    assert (place.operand, place.in_backward) == (operand, in_backward)


def test_equal_walks_and_missing_ones_do_not_part() -> None:
    walk = run(REUSED).trace
    for pair in ((walk, walk), (walk, []), ([], walk)):
        assert answer_key.parting(*pair) is None


# ----- Planted faults -----


def traced(seed: int, nodes: int) -> list[TraceStep]:
    """The walk of a random program in which most results are used again."""
    rng = np.random.default_rng(seed)
    values = [Tensor(rng.standard_normal(3), requires_grad=True) for _ in range(2)]
    # Products grow, so that exp of anything would overflow now and then.
    unary: list[Callable[[Tensor], Tensor]] = [Tensor.tanh, Tensor.abs, Tensor.sigmoid]
    for _ in range(nodes):
        one, other = (values[i] for i in rng.integers(0, len(values), 2))
        values.append(
            [one + other, one * other, unary[rng.integers(3)](one).tanh()][rng.integers(3)]
        )
    output = values[-1] + values[-2]
    with trace() as steps:
        output.backward(rng.standard_normal(3))
    return packed(steps)


def packed(steps: Sequence[Any]) -> list[TraceStep]:
    return [
        TraceStep(
            step.index,
            step.op,
            step.parents,
            pack(step.value),
            pack(step.cotangent),
            tuple(None if array is None else pack(array) for array in step.handed),
        )
        for step in steps
    ]


WALKS = st.builds(traced, st.integers(0, 10**6), st.integers(1, 12))


def renumbered(steps: Sequence[TraceStep], numbers: Sequence[int]) -> list[TraceStep]:
    def new(index: int | None) -> int | None:
        return None if index is None else numbers[index]

    return [
        replace(step, index=numbers[step.index], parents=tuple(map(new, step.parents)))
        for step in steps
    ]


@given(WALKS, st.randoms(use_true_random=False))
def test_neither_the_numbers_nor_another_valid_order_is_a_divergence(walk, random) -> None:
    shuffled: list[TraceStep] = []
    rest = list(walk)
    while rest:
        waiting = {parent for step in rest for parent in step.parents}
        ready = [step for step in rest if step.index not in waiting]
        shuffled.append(random.choice(ready))
        rest.remove(shuffled[-1])
    numbers = list(range(100, 100 + len(walk) * 2))
    random.shuffle(numbers)
    assert first_divergence(renumbered(shuffled, numbers), walk, {}) is None


def made_wrong(array):
    return pack(array.numpy() * 1.5 + 1)


# ----- Claims, one by one -----


def usual(seed: int, nodes: int) -> list[TraceStep]:
    """The walk of a random program on ones, so that many contributions are equal or zero."""
    rng = np.random.default_rng(seed)
    values = [Tensor(np.array(v), requires_grad=True) for v in ([1.0, 1.0, 1.0], [0.0, 1.0, 2.0])]
    for _ in range(nodes):
        one, other = (values[i] for i in rng.integers(0, len(values), 2))
        values.append([one + other, one - other, one * other, one.abs()][rng.integers(4)])
    with trace() as steps:
        (values[-1] + values[-2]).backward(np.ones(3))
    return packed(steps)


ALL_WALKS = WALKS | st.builds(usual, st.integers(0, 10**6), st.integers(1, 8))

FAULTS: dict[str, Callable[[NumericArray], NumericArray]] = {
    "negated": np.negative,
    "scaled": lambda a: 3 * a,
    "nearly": lambda a: a * (1 + 1e-9),
    "rounding": lambda a: np.nextafter(a, np.inf),
    "zero": np.zeros_like,
    "nan": lambda a: a * np.nan,
    "reversed": lambda a: a[::-1],
    "float32": lambda a: a.astype(np.float32),
    "widened": lambda a: np.broadcast_to(a, (2, 3)),
}


def terms_of(index: int, walk: Sequence[TraceStep]) -> list[NumericArray]:
    """The cotangents passed to a node, in the order of the walk."""
    return [
        array.numpy()
        for step in walk
        for parent, array in zip(step.parents, step.handed, strict=False)
        if parent == index and array is not None
    ]


ACCUMULATIONS: dict[str, Callable[[list[NumericArray]], NumericArray]] = {
    "first": lambda terms: terms[0],
    "last": lambda terms: terms[-1],
    "all but one": lambda terms: np.sum(terms, axis=0) - terms[len(terms) // 2],
    "mean": lambda terms: np.mean(terms, axis=0),
    "twice": lambda terms: 2 * np.sum(terms, axis=0),
}


def equal(one: NumericArray, other: NumericArray) -> bool:
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and np.allclose(one, other, 1e-11, 1e-11, equal_nan=True)
    )


def node_of(name: str, walk: Sequence[TraceStep]) -> TraceStep:
    """The node that a sentence names."""
    if found := re.fullmatch(r"the leaf (\d+)|(\d+)", name):
        return next(step for step in walk if step.index == int(found[1] or found[2]))
    found = re.fullmatch(r"`(\w+)`(?: \(number (\d+) of (\d+) from the inputs\))?", name)
    assert found, name
    same = sorted((step for step in walk if step.op == found[1]), key=lambda step: step.index)
    assert len(same) == int(found[3] or 1)
    return same[int(found[2] or 1) - 1]


def check_claims(sentence: str, broken: list[TraceStep], correct: list[TraceStep]) -> None:
    """Assert, using only NumPy, that the sentence is true of two walks with the same numbering."""
    name = r"(the leaf \d+|\d+|`\w+`(?: \(number \d+ of \d+ from the inputs\))?)"
    by_index = {step.index: step for step in broken}

    def pair(which: str, part: str) -> tuple[NumericArray, NumericArray]:
        expected = node_of(which, correct)
        actual = by_index[expected.index]
        return getattr(actual, part).numpy(), getattr(expected, part).numpy()

    def matched(pattern: str) -> re.Match[str] | None:
        return re.match(pattern.replace("NODE", name), sentence)

    if found := matched(r"NODE passed operand (\d) \(NODE\) .*; what NODE received was right"):
        giver, operand, taker, again = found.groups()
        assert giver == again
        assert equal(*pair(giver, "cotangent"))
        expected = node_of(giver, correct)
        assert expected.parents[int(operand)] == node_of(taker, correct).index
        actual, right = by_index[expected.index].handed[int(operand)], expected.handed[int(operand)]
        assert (actual is None) != (right is None) or not equal(actual.numpy(), right.numpy())
    elif found := matched(r"NODE received [^;]*(; .*)?"):
        assert not equal(*pair(found[1], "cotangent"))
        index = node_of(found[1], correct).index
        terms, received = terms_of(index, broken), by_index[index].cotangent.numpy()
        assert all(map(equal, terms, terms_of(index, correct)))
        if not found[2]:  # the only term is right for its coarser dtype
            assert len(terms) == 1
            assert np.can_cast(terms[0].dtype, received.dtype)
            assert np.array_equal(terms[0], received)
        elif count := re.match(r"; its (\d+) incoming gradients were right, but (.*)", found[2]):
            assert int(count[1]) == len(terms)
            check_sum(count[2], received, terms)
        else:
            assert len(terms) == 1
    elif found := matched(r"the forward pass of NODE gave ([^;]*)(; its operands were right)?"):
        assert not equal(*pair(found[1], "value"))
        for parent in node_of(found[1], correct).parents if found[3] else ():
            assert equal(*pair(str(parent), "value"))
    elif found := matched(r"NODE ended with .*, but NODE, which was computed from it, is right"):
        assert not equal(*pair(found[1], "value"))
        assert equal(*pair(found[2], "value"))
        assert node_of(found[1], correct).index in node_of(found[2], correct).parents
    elif found := matched(r"NODE has "):
        assert not equal(*pair(found[1], "value"))
    else:
        assert sentence.startswith("the walk starts from ")
        assert not equal(broken[0].cotangent.numpy(), correct[0].cotangent.numpy())


def check_sum(claim: str, received: NumericArray, terms: list[NumericArray]) -> None:
    alone = [equal(received, term) for term in terms]
    without = [equal(received, np.sum(terms, axis=0) - term) for term in terms]
    if claim == "they do not add up to that":
        assert not equal(received, np.sum(terms, axis=0))
    elif claim == "their sum was converted to another dtype":
        total = np.sum(terms, axis=0)
        assert received.dtype != total.dtype
        assert np.allclose(received, total, 1e-6, 1e-6, equal_nan=True)
    elif claim == "one of them did not count":
        assert any(without)
    else:
        assert not equal(received, np.mean(terms, axis=0))
        assert not any(not np.any(term) for term in terms)
        position = {"only the first counted": 0, "only the last counted": len(terms) - 1}
        assert any(alone)
        if claim != "only one of them counted":
            assert np.flatnonzero(alone).tolist() == [position[claim]]


@examples(400)
@given(ALL_WALKS, st.data())
def test_every_claim_holds_of_the_numbers(walk: list[TraceStep], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(walk) - 1))
    step, names = walk[place], {one.index: str(one.index) for one in walk if not one.op}
    terms = terms_of(step.index, walk)
    part = data.draw(st.sampled_from(["value", "cotangent", "handed", "sum"]))
    fault = FAULTS[data.draw(st.sampled_from(sorted(FAULTS)))]
    if part == "sum":
        assume(len(terms) > 1)
        mistake = data.draw(st.sampled_from(sorted(ACCUMULATIONS)))
        changed = {"cotangent": pack(ACCUMULATIONS[mistake](terms))}
    elif part == "handed":
        assume(step.op)
        operand = data.draw(st.integers(0, len(step.handed) - 1))
        handed = [*step.handed]
        detached = data.draw(st.booleans())
        array = handed[operand]
        assume(array is not None)
        handed[operand] = None if detached or array is None else pack(fault(array.numpy()))
        changed = {"handed": tuple(handed)}
    else:
        changed = {part: pack(fault(getattr(step, part).numpy()))}
    broken = [*walk[:place], replace(step, **changed), *walk[place + 1 :]]
    same = all(
        equal(getattr(broken[place], name).numpy(), getattr(step, name).numpy())
        for name in ("value", "cotangent")
    ) and all(
        (one is None) == (other is None) and (one is None or equal(one.numpy(), other.numpy()))
        for one, other in zip(broken[place].handed, step.handed, strict=True)
    )
    sentence = first_divergence(broken, walk, names)
    assert sentence is None if same else sentence
    if sentence:
        check_claims(sentence, broken, walk)


# ----- Cancelled -----


def linear(*factors: float) -> list[TraceStep]:
    """The walk of a chain of products with constants; the last node is a sum of two of them."""
    x = Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    h = x * 2.0
    parts = [h * factor for factor in factors]
    with trace() as steps:
        (parts[0] + parts[1]).backward(np.array([1.0, -2.0, 0.5]))
    return packed(steps)


def is_cancelled(broken: list[TraceStep], correct: list[TraceStep]) -> bool:
    return bool(cancelled_by((broken, correct)))


def with_handed(walk: list[TraceStep], op: str, *faults: float) -> list[TraceStep]:
    """The walk in which nodes of an op passed on cotangents that are too large by these amounts."""
    left = list(faults)
    return [
        replace(step, handed=(pack(step.handed[0].numpy() + left.pop(0)), *step.handed[1:]))
        if step.op == op and left and step.handed[0] is not None
        else step
        for step in walk
    ]


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(1e-3, 10))
def test_errors_that_add_up_to_nothing_are_cancelled(one: float, other: float, by: float) -> None:
    walk = linear(one, other)
    assert is_cancelled(with_handed(walk, "mul", by, -by), walk)
    assert not is_cancelled(with_handed(walk, "mul", by, by), walk)  # the sum is wrong
    assert not is_cancelled(with_handed(walk, "mul", by), walk)
    assert not is_cancelled(walk, walk)
    assert not is_cancelled(with_handed(walk, "mul", 1e-15, -1e-15), walk)


@examples(200)
@given(ALL_WALKS, st.data())
def test_a_wrong_cotangent_that_an_op_received_and_made_nothing_of_is_cancelled(walk, data) -> None:
    place = data.draw(st.integers(1, len(walk) - 1).filter(lambda i: walk[i].op))
    step = walk[place]
    fault = data.draw(st.sampled_from(sorted(FAULTS.keys() - {"float32", "widened"})))
    broken = FAULTS[fault](step.cotangent.numpy())
    planted = [*walk[:place], replace(step, cotangent=pack(broken)), *walk[place + 1 :]]
    # Only if numbers are wrong, beyond rounding in numbers of that size.
    scale = max(np.abs(other.cotangent.numpy()).max() for other in walk)
    error = np.nanmax(np.abs(broken - step.cotangent.numpy()), initial=0.0)
    is_nan = np.isnan(broken).any()
    if is_nan or error > 1e-8 * scale:
        assert is_cancelled(planted, walk)
    if not is_nan and error <= 1e-14 * scale:
        assert not is_cancelled(planted, walk)


def test_a_value_or_a_shape_alone_is_not_cancelled() -> None:
    walk = linear(1.0, 2.0)
    for part in ("value", "cotangent"):
        widened = [
            replace(step, **{part: pack(getattr(step, part).numpy()[None])})
            if step.op == "mul"
            else step
            for step in walk
        ]
        assert not is_cancelled(widened, walk)
    unread = [replace(step, value=made_wrong(step.value)) if step.op else step for step in walk]
    assert not is_cancelled(unread, walk)


def test_in_another_graph_nothing_is_called_cancelled() -> None:
    walk, other = linear(1.0, 2.0), run(SKEWED).trace
    assert not is_cancelled(other, walk)
    assert not is_cancelled([], walk)
    assert not is_cancelled(walk, [])


@given(WALKS, st.data())
def test_a_cotangent_that_is_wrong_where_it_arrives_is_the_accumulation(walk, data) -> None:
    place = data.draw(st.integers(1, len(walk) - 1))
    step = walk[place]
    terms = sum(parent == step.index for other in walk for parent in other.parents)
    planted = [
        *walk[:place],
        replace(step, cotangent=made_wrong(step.cotangent)),
        *walk[place + 1 :],
    ]
    numbers = data.draw(st.permutations(range(len(walk))))
    sentence = first_divergence(renumbered(planted, numbers), walk, {})
    assert sentence is not None
    assert sentence.startswith(f"{f'`{step.op}`' if step.op else 'the leaf'}")
    assert (
        "its only incoming gradient" if terms == 1 else f"its {terms} incoming gradients"
    ) in sentence


@given(WALKS, st.data())
def test_a_cotangent_that_is_wrong_where_it_was_made_is_the_rule(walk, data) -> None:
    place = data.draw(st.integers(0, len(walk) - 1).filter(lambda i: walk[i].op))
    step = walk[place]
    operand = data.draw(st.integers(0, len(step.handed) - 1))
    handed = tuple(made_wrong(a) if i == operand else a for i, a in enumerate(step.handed))
    planted = [*walk[:place], replace(step, handed=handed), *walk[place + 1 :]]
    numbers = data.draw(st.permutations(range(len(walk))))
    sentence = first_divergence(renumbered(planted, numbers), walk, {})
    assert sentence is not None
    assert re.match(rf"`{step.op}` (\(.*?\) )?passed operand {operand} \(", sentence)


def test_a_cotangent_that_was_never_passed_on_is_not_a_term() -> None:
    """`h + h * h`, where `mul` correctly returns no gradient for its first operand."""
    walk = [
        replace(step, handed=(None, step.handed[1])) if step.op == "mul" else step
        for step in run(REUSED).trace
    ]
    wrong = [
        replace(step, cotangent=made_wrong(step.cotangent)) if step.op == "exp" else step
        for step in walk
    ]
    sentence = first_divergence(wrong, walk, {})
    assert sentence is not None
    assert "its 2 incoming gradients were right" in sentence


def test_a_graph_of_very_many_paths_is_matched_node_by_node() -> None:
    walk = run("x=[1.0]: for _ in range(64):\n        x = x * x; return x").trace
    assert len(walk) == 65
    assert first_divergence(walk, walk, {}) is None


@given(WALKS, st.data())
def test_a_node_that_is_left_out_is_missed(walk, data) -> None:
    place = data.draw(st.integers(1, len(walk) - 1))
    sentence = first_divergence([*walk[:place], *walk[place + 1 :]], walk, {})
    assert sentence is not None
    name = f"`{walk[place].op}`" if walk[place].op else "the leaf"
    assert sentence.startswith(f"the walk never visited {name}")
    place_of = answer_key.parting([*walk[:place], *walk[place + 1 :]], walk)
    assert place_of == answer_key.Parting(walk[place].index, None, in_backward=True)


@given(WALKS, st.data())
def test_a_walk_that_failed_differs_at_the_node_after_its_last(walk, data) -> None:
    place = data.draw(st.integers(0, len(walk) - 1))
    divergence = answer_key.first_divergence(walk[:place], walk, {}, failed=True)
    assert divergence is not None
    assert str(divergence.sentence).startswith("the backward pass failed before it finished")
    assert divergence.parting == answer_key.Parting(walk[place].index, None, in_backward=True)
    assert divergence.walk == walk
    assert answer_key.first_divergence(walk, walk, {}, failed=True) is None


def test_what_was_wrong_before_a_walk_failed_comes_first() -> None:
    walk = traced(0, 3)
    step = next(step for step in walk if step.op and step.handed[0])
    wrong = replace(step, handed=(pack(step.handed[0].numpy() + 1), *step.handed[1:]))
    broken = [wrong if other is step else other for other in walk][: walk.index(step) + 1]
    divergence = answer_key.first_divergence(broken, walk, {}, failed=True)
    assert divergence is not None
    assert divergence.parting == answer_key.Parting(step.index, 0, in_backward=True)


@given(WALKS, st.data())
def test_a_node_that_is_visited_too_early_is_named(walk, data) -> None:
    givers_of = [
        [i for i, other in enumerate(walk) if step.index in other.parents] for step in walk
    ]
    used_twice = [place for place, givers in enumerate(givers_of) if len(givers) > 1]
    assume(used_twice)
    place = data.draw(st.sampled_from(used_twice))
    step, givers = walk[place], givers_of[place]
    rest = [*walk[:place], *walk[place + 1 :]]
    rest.insert(data.draw(st.integers(givers[0] + 1, givers[-1])), step)
    sentence = first_divergence(rest, walk, {})
    assert sentence is not None
    assert "was visited too early: before " in sentence


def test_a_second_walk_that_nobody_asked_for_is_counted() -> None:
    walk = traced(0, 3)
    assert first_divergence([*walk, *walk], walk, {}) == ("2 backward passes were made, expected 1")


@pytest.mark.parametrize("traces", [([], True), (True, []), ([], [])])
def test_an_engine_without_a_trace_says_nothing(traces) -> None:
    walk = traced(1, 3)
    broken, correct = (walk if trace else [] for trace in traces)
    assert first_divergence(broken, correct, {}) is None


# ----- Anything at all -----

ANY = st.builds(
    pack,
    npst.arrays(
        st.sampled_from([np.float64, np.float32, np.complex128, np.int64, np.bool_]),
        npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
    ),
)
INDEX = st.integers(0, 4)
FORGED = st.lists(
    st.builds(
        TraceStep,
        index=INDEX,
        op=st.sampled_from(["", "add", "mul"]),
        parents=st.lists(st.none() | INDEX, max_size=2).map(tuple),
        value=ANY,
        cotangent=ANY,
        handed=st.lists(st.none() | ANY, max_size=2).map(tuple),
    ),
    max_size=5,
)


@examples(200)
@given(FORGED, FORGED | st.builds(traced, st.integers(0, 99), st.integers(1, 3)))
def test_a_forged_trace_raises_nothing(broken: list[TraceStep], walk: list[TraceStep]) -> None:
    for traces in (broken, walk), (walk, broken), (broken, broken):
        first_divergence(*traces, {0: "x"})
        is_cancelled(*traces)


# ----- Graphs that the break changes -----

BOTH = "a=[2.0, 3.0], b=[5.0, 7.0]: h = a.exp(); return h * b"


def both(program: str, patch: str) -> tuple[list[TraceStep], list[TraceStep]]:
    return run(program, patch).trace, run(program).trace


def test_an_operand_that_became_another_leaf_is_named_and_so_is_the_one_that_was_lost() -> None:
    patch = "@@ Methods.__mul__ @@\n-self._apply($op, self, other)\n+self._apply($op, other, other)"
    sentence = divergence(BOTH, patch)
    assert sentence is not None
    assert sentence.endswith(
        "; the graph is different: operand 0 of `mul` is the leaf b, expected `exp`; "
        "no gradient reaches the leaf a"
    )


def test_swapped_operands_of_a_product_are_the_same_leaves_at_other_places() -> None:
    patch = "@@ Methods.__mul__ @@\n-self._apply($op, self, other)\n+self._apply($op, other, self)"
    assert divergence(MUL, patch) == (
        "the graph is different: operand 0 of `mul` is the leaf b, expected the leaf a"
    )


INSERTED = """\
@@ Methods.__mul__ @@
-return self._apply(elementwise.mul, self, other)
+return self._apply(elementwise.mul, self._apply(elementwise.neg, self), other)"""


def test_an_inserted_node_is_named_and_the_others_keep_their_places() -> None:
    broken, correct = both(BOTH, INSERTED)
    match = match_walks(broken, graph_of(correct))
    assert [step.op for step in match.inserted()] == ["neg"]
    ops = {step.index: step.op for step in correct}
    assert {step.index: step.op for step in match.visits} == ops
    assert str(match.difference) == "operand 0 of `mul` is the result of `neg`, expected `exp`"
    assert match.lost_leaves == []
    assert cancelled_by((broken, correct)) == []
    sentence = divergence(BOTH, INSERTED)
    assert sentence is not None
    assert sentence.startswith("the forward pass of `mul` gave the value")
    assert "its operands were right" not in sentence


@pytest.mark.parametrize("program", [BOTH, REUSED, SKEWED, MUL, ADD])
def test_every_node_of_an_unbroken_walk_is_matched_with_itself(program: str) -> None:
    walk = run(program).trace
    shifted = [
        replace(
            step,
            index=step.index + 7,
            parents=tuple(None if p is None else p + 7 for p in step.parents),
        )
        for step in walk
    ]
    match = match_walks(shifted, graph_of(walk))
    assert match.difference is None
    assert match.renumbered() == walk
    assert match.inserted() == []


# ----- Another dtype -----


def test_another_dtype_is_not_where_a_wrong_value_began() -> None:
    walk = linear(1.0, 2.0)
    low = [
        replace(step, value=pack(step.value.numpy().astype(np.float32))) if not step.op else step
        for step in walk
    ]
    alone = first_divergence(low, walk, {0: "x"})
    assert alone is not None
    assert "the leaf x ended with a value of dtype float32, expected float64" in alone
    wrong = with_handed(low, "mul", 1.0)
    sentence = first_divergence(wrong, walk, {0: "x"})
    assert sentence is not None
    assert sentence.startswith("`mul`")
    assert f"; before that, with right numbers: {alone}" in sentence


def test_a_cotangent_that_a_rule_rounded_was_not_changed_on_the_way() -> None:
    patch = "@@ exp.vjp @@\n-$g * value\n+($g * value).astype(np.float32)"
    sentence = divergence("x=[0.1, 0.7]: return x.exp()", patch)
    assert sentence is not None
    assert sentence.startswith("the leaf x received the gradient")
    assert "`exp` passed operand 0 (x) a gradient of dtype float32, expected float64" in sentence
    assert "on the way" not in sentence


def test_values_are_compared_also_if_the_dtype_differs() -> None:
    walk = linear(1.0, 2.0)
    truncated = [
        replace(step, value=pack((step.value.numpy() * 1.3).astype(np.float32)))
        if not step.op
        else step
        for step in walk
    ]
    sentence = first_divergence(truncated, walk, {0: "x"})
    assert sentence is not None
    assert sentence.startswith("the leaf x ended with the value [1.3, 2.6, 3.9], expected")
