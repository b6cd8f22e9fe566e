"""The first divergence: real breaks of minigrad, and faults planted in its traces."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.answer_key import divergence as answer_key
from harness.core.run import Run, TraceStep, pack
from harness.engines.engine import find_engine
from harness.pages.probe import read_probes
from harness.patch import apply_patch, parse_patch
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job
from minigrad import Tensor, trace

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
    items = tuple((0, loss) for loss in probes[0].losses)[-1:]
    sources = dict(engine.sources)
    job = Job(engine.dialect, str(engine.root), sources, engine.sites, probes, items, traces=items)
    observed, traced = run_isolated(job)
    return msgspec.structs.replace(observed, trace=traced.trace)


def first_divergence(
    broken: Sequence[TraceStep], correct: Sequence[TraceStep], names: Mapping[int, str]
) -> str | None:
    """The divergence in English."""
    outcome = answer_key.first_divergence(broken, correct, names)
    return None if outcome is None else str(outcome)


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
        "`add` passed operand 0 (a) a cotangent of shape (4, 3), expected (3,) "
        "(not summed over axis 0: its sum is the correct one); what `add` received was right"
    )


def test_a_missing_unbroadcast_inside_the_graph_is_still_the_rule_of_add() -> None:
    """The gradient of the leaf has the right shape, and nothing explains its values."""
    gradient = run(INSIDE, UNBROADCAST).gradients["a"]
    assert gradient is not None
    assert gradient.shape == (3, 5)
    assert divergence(INSIDE, UNBROADCAST) == (
        "`add` passed operand 1 (`mean`) a cotangent of shape (3, 5), expected (3, 1) "
        "(not summed over axis 1: its sum is the correct one); what `add` received was right"
    )


def test_swapped_operands_are_the_rule_of_mul() -> None:
    cotangent = run(MUL).cotangent
    assert cotangent is not None
    g = cotangent.numpy()
    actual, expected = ([float(f"{x:.4g}") for x in g * np.array(by)] for by in ([2, 3], [5, 7]))
    assert divergence(MUL, SWAPPED) == (
        f"`mul` passed operand 0 (a) the cotangent {actual}, expected {expected}; "
        "what `mul` received was right"
    )


def test_tanh_with_its_input_for_its_output_is_the_rule_of_tanh() -> None:
    program = "a=(5,), b=(5,): return (a * b).tanh() + a"
    sentence = divergence(program, "@@ tanh.vjp @@\n-value**2\n+a**2")
    assert sentence is not None
    assert sentence.startswith("`tanh` passed operand 0 (`mul`) a cotangent of shape (5,) with ")
    assert sentence.endswith("; what `tanh` received was right")


@pytest.mark.parametrize(
    ("then", "counted"),
    [
        ("return cotangent", "only the last counted"),
        ("return cotangent if total is None else total", "only the first counted"),
        ("return cotangent if total is None else total - cotangent", "they do not add up to that"),
    ],
)
def test_a_wrong_sum_of_right_terms_is_the_accumulation(then: str, counted: str) -> None:
    sentence = divergence(REUSED, ACCUMULATE + then)
    assert sentence is not None
    assert sentence.startswith("`exp` received the cotangent [")
    assert sentence.endswith(f"; its 3 incoming cotangents were right, but {counted}")


def test_a_cotangent_that_somebody_else_added_to_was_changed_on_its_way() -> None:
    """`add` returns the same array for both operands; one is accumulated in place."""
    sentence = divergence("x=[1.0], y=[2.0]: return (x + y) + x", ACCUMULATE + IN_PLACE)
    assert sentence is not None
    assert sentence.startswith("the leaf y received the cotangent [")
    assert sentence.endswith(
        "(2 times the correct one); "
        "its only incoming cotangent was right, but was changed on the way"
    )


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
        "operand 0 (`exp` (number 1 of 2 from the inputs)) the cotangent ["
    )


def test_what_is_handed_to_a_constant_goes_nowhere() -> None:
    patch = "@@ mul.vjp @@\n-unbroadcast(g * a, b.shape)\n+unbroadcast(g + a, b.shape)"
    assert divergence("a=[1.0, 2.0]: return a * 3.0", patch) is None


def test_a_rule_that_forgets_an_operand_is_named() -> None:
    patch = "@@ mul.vjp @@\n-return $a, $b\n+return ($a,)"
    assert run(MUL, patch).failure is not None
    assert divergence(MUL, patch) == (
        "`mul` passed operand 1 (b) no cotangent, expected one of shape (2,); "
        "what `mul` received was right"
    )


def test_a_walk_from_the_inputs_ends_at_the_output() -> None:
    sentence = divergence(REUSED, "@@ walk @@\n-order.pop()\n+order.pop(0)")
    assert sentence == "the walk never visited `mul`, although `add` passed it a cotangent"


def test_a_node_visited_before_its_children_is_named_with_the_child() -> None:
    assert divergence(SKEWED, UNVISITED) == (
        "`exp` was visited too early: before `tanh`, which had a cotangent for it"
    )


def test_a_wrong_start_is_not_blamed_on_the_first_rule() -> None:
    patch = "@@ _first_cotangent @@\n-cotangent.astype(root.dtype)\n+cotangent / root.data.size"
    sentence = divergence(REUSED, patch)
    assert sentence is not None
    assert sentence.startswith("the walk starts from the cotangent [")
    assert sentence.endswith("(1/2 times the correct one)")


def test_another_op_is_another_graph() -> None:
    patch = "@@ Tensor.__sub__ @@\n-elementwise.sub\n+elementwise.add"
    program = "x=[1.0], y=[2.0]: return {}"
    assert divergence(program.format("(x - y).exp()"), patch) == (
        "the graph is different: operand 0 of `exp` is the result of `add`, "
        "expected the result of `sub`"
    )
    assert divergence(program.format("x - y"), patch) == (
        "the graph is different: the output is the result of `add`, expected the result of `sub`"
    )


def test_an_operand_that_is_left_out_is_named() -> None:
    patch = "@@ topological_order @@\n-reversed(node.parents)\n+node.parents[:1]"
    assert divergence(MUL, patch) == (
        "the graph is different: operand 1 of `mul` is cut off from the walk, expected a leaf"
    )


def test_a_value_that_was_changed_after_its_use_is_not_blamed_on_its_op() -> None:
    patch = "@@ relu @@\n-np.maximum(a, 0)\n+np.maximum(a, 0, out=a)"
    sentence = divergence("x=[-1.0, 2.0]: return (-x).relu()", patch)
    assert sentence is not None
    assert sentence.startswith("`neg` ended with the value [1, 0], expected [1, -2]")
    assert "everything computed from it is right" in sentence


def test_a_leaf_of_another_dtype_is_wrong_from_the_start() -> None:
    patch = "@@ Tensor.__init__ @@\n-np.array(data, dtype)\n+np.array(data, np.float32)"
    assert divergence(MUL, patch) == (
        "the leaf a has a value of dtype float32, expected float64, "
        "before anything was computed from it"
    )


def test_no_cotangent_is_not_a_cotangent_of_zeros() -> None:
    patch = "@@ exp.vjp @@\n-(g * value,)\n+(None,)"
    assert divergence(REUSED, patch) == (
        "`exp` passed operand 0 (x) no cotangent, expected one of shape (2,); "
        "what `exp` received was right"
    )
    assert first_divergence(run(REUSED).trace, run(REUSED, patch).trace, {}) == (
        "`exp` passed operand 0 (a node that the correct walk never visits) "
        "a cotangent of shape (2,), expected none; what `exp` received was right"
    )


def test_a_crash_leaves_what_was_wrong_before_it() -> None:
    in_place = ACCUMULATE + "total = np.zeros_like(node.data) if total is None else total\n"
    in_place += "+total += cotangent\n+return total"
    assert run(ADD, f"{UNBROADCAST}\n{in_place}").failure is not None
    sentence = divergence(ADD, f"{UNBROADCAST}\n{in_place}")
    assert sentence is not None
    assert sentence.startswith("`add` passed operand 0 (a) a cotangent of shape (4, 3)")


def test_another_operand_is_another_graph() -> None:
    """In either direction: one node for two, and two nodes for one."""
    program = "x=[1.0], y=[1.0]: return x * y"
    one = run(program, "@@ Tensor.__mul__ @@\n-apply($op, self, other)\n+apply($op, self, self)")
    sentence = "the graph is different: operand 1 of `mul` is a different node in the correct graph"
    assert first_divergence(one.trace, run(program).trace, {}) == sentence
    assert first_divergence(run(program).trace, one.trace, {}) == sentence


def test_of_several_backward_passes_the_first_that_parts_is_named() -> None:
    """They differ in size, so that the same index is another node in each."""
    program = """\
lib, x=[1.0, 2.0]: for step in range(3):
        (x.exp() if step == 1 else x * x * x).sum().backward()
        yield {'x': x}"""
    assert divergence(program, FLIPPED) == (
        "in backward pass 2: `exp` passed operand 0 (x) the cotangent [-2.718, -7.389], "
        "expected [2.718, 7.389] (the sign is flipped); what `exp` received was right"
    )


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


def spoilt(array):
    return pack(array.numpy() * 1.5 + 1)


@given(WALKS, st.data())
def test_a_cotangent_that_is_wrong_where_it_arrives_is_the_accumulation(walk, data) -> None:
    place = data.draw(st.integers(1, len(walk) - 1))
    step = walk[place]
    terms = sum(parent == step.index for other in walk for parent in other.parents)
    planted = [*walk[:place], replace(step, cotangent=spoilt(step.cotangent)), *walk[place + 1 :]]
    numbers = data.draw(st.permutations(range(len(walk))))
    sentence = first_divergence(renumbered(planted, numbers), walk, {})
    assert sentence is not None
    assert sentence.startswith(f"{f'`{step.op}`' if step.op else 'the leaf'}")
    assert (
        "its only incoming cotangent" if terms == 1 else f"its {terms} incoming cotangents"
    ) in sentence


@given(WALKS, st.data())
def test_a_cotangent_that_is_wrong_where_it_was_made_is_the_rule(walk, data) -> None:
    place = data.draw(st.integers(0, len(walk) - 1).filter(lambda i: walk[i].op))
    step = walk[place]
    operand = data.draw(st.integers(0, len(step.handed) - 1))
    handed = tuple(spoilt(a) if i == operand else a for i, a in enumerate(step.handed))
    planted = [*walk[:place], replace(step, handed=handed), *walk[place + 1 :]]
    numbers = data.draw(st.permutations(range(len(walk))))
    sentence = first_divergence(renumbered(planted, numbers), walk, {})
    assert sentence is not None
    assert re.match(rf"`{step.op}` (\(.*?\) )?passed operand {operand} \(", sentence)


def test_a_cotangent_that_was_never_passed_on_is_not_a_term() -> None:
    """`h + h * h`, where `mul` correctly returns no cotangent for its first operand."""
    walk = [
        replace(step, handed=(None, step.handed[1])) if step.op == "mul" else step
        for step in run(REUSED).trace
    ]
    wrong = [
        replace(step, cotangent=spoilt(step.cotangent)) if step.op == "exp" else step
        for step in walk
    ]
    sentence = first_divergence(wrong, walk, {})
    assert sentence is not None
    assert "its 2 incoming cotangents were right" in sentence


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
