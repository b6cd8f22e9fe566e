"""HIPS autograd by PyTorch's names: it agrees with PyTorch, or it declines."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

import minigrad
from harness.core.run import Run
from harness.engines.engine import Dialect
from harness.engines.library import Library
from harness.pages.catalogue import open_catalogue
from harness.pages.probe import read_probes
from harness.runs import hips
from harness.runs.cached_runs import LIBRARIES as ANSWERING
from harness.runs.observer import observe
from harness.runs.trial import Trial
from tests.minigrad.against_torch import LIBRARIES, Program, assert_same_as_torch, of
from tests.minigrad.computing import COMPUTING
from tests.minigrad.moving import MOVING

LIBRARIES[hips.Tensor] = hips
CASES = COMPUTING | MOVING

A_CONVENTION = "a kink, a tie or NaN"
NOT_FINITE = "not finite"
DECLINED = {
    "maximum, ties": A_CONVENTION,
    "maximum, not finite": A_CONVENTION,
    "maximum, infinite cotangent": NOT_FINITE,
    "minimum, ties": A_CONVENTION,
    "minimum, not finite": A_CONVENTION,
    "where, infinite cotangent": NOT_FINITE,
    "where, one guard": NOT_FINITE,
    "pow -1 at 0": NOT_FINITE,
    "exp, not finite": NOT_FINITE,
    "log, kinks": NOT_FINITE,
    "sqrt, kinks": NOT_FINITE,
    "sqrt, not finite": NOT_FINITE,
    "sigmoid, not finite": NOT_FINITE,
    "gelu": "no error function",
    "solve, one matrix": "HIPS autograd's gradient is",  # it does not sum over broadcast axes
    "solve, one right side": "HIPS autograd's gradient is",
    "gelu, scalar": "no error function",
    "gelu, empty": "no error function",
    "gelu, kinks and tails": "no error function",
    "tanh, not finite": NOT_FINITE,
    "relu, kinks": A_CONVENTION,
    "relu, not finite": A_CONVENTION,
    "relu, infinite cotangent": A_CONVENTION,
    "abs, kinks": A_CONVENTION,
    "clamp, at the bounds": A_CONVENTION,
    "clamp, not finite": A_CONVENTION,
    "clamp, infinite cotangent": NOT_FINITE,
    "var, one element": NOT_FINITE,
    "norm, at 0": A_CONVENTION,
    "norm, empty": A_CONVENTION,
    "max, ties": A_CONVENTION,
    "max, not finite": A_CONVENTION,
    "max 1, ties": A_CONVENTION,
    "min 1, ties": A_CONVENTION,
    "min, not finite": A_CONVENTION,
    "logsumexp, rows of infinity": NOT_FINITE,
    "softmax, rows of infinity": NOT_FINITE,
    "log_softmax, rows of infinity": NOT_FINITE,
    "einsum, trace": "output subscript 'i' multiple times",
    "einsum, diagonals": "output subscript 'i' multiple times",
    "einsum, length one": "stretched letter",
    "fake_quantize": "HIPS autograd has no",
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:.*[Dd]egrees of freedom")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_an_op_agrees_with_torch_or_is_declined(name: str, dtype: type[Any]) -> None:
    program, *inputs = CASES[name]
    if name not in DECLINED:
        assert_same_as_torch(program, *inputs, dtype=dtype, leaf=hips.Tensor)
        return
    with pytest.raises((AttributeError, NotImplementedError, ValueError), match=DECLINED[name]):
        assert_same_as_torch(program, *inputs, dtype=dtype, leaf=hips.Tensor)


# ----- Nothing that minigrad computes is missing without a reason -----

IN_PLACE = "HIPS changes nothing in place"
WALK = "HIPS's walk shows no interior node"
OURS = "how minigrad keeps its graph"
LAYERS = "HIPS has no layers, losses, optimizers or training data"
OUT_OF_REACH = {
    **dict.fromkeys([".__setitem__", ".add_", ".copy_", ".mul_"], IN_PLACE),
    **dict.fromkeys([".register_hook", ".retain_grad", ".retains_grad", ".hooks", "trace"], WALK),
    **dict.fromkeys([".op", ".parents", ".recorded", ".share_version", ".version", ".vjp"], OURS),
    **dict.fromkeys(["checkpoint", "data", "losses", "metrics", "models", "nn", "optim"], LAYERS),
    **dict.fromkeys(["GradientTape", "grad"], "another way to ask what backward() answers"),
    "fake_quantize_per_tensor_affine": "its gradient is no derivative",
    "unbroadcast": "HIPS's rules call their own",
    ".__iter__": "__getitem__ is enough",
}


def names(tensor: Any, functions: Iterable[str]) -> set[str]:
    """A tensor's names with a dot before them, and those of the functions."""
    private = {name for name in dir(tensor) if name[0] == "_" and name[-2:] != "__"}
    return {f".{name}" for name in {*dir(tensor)} - private - {*dir(object)}} | {*functions}


def test_what_minigrad_has_is_here_or_out_of_reach() -> None:
    ours = names(minigrad.Tensor(0.0), minigrad.__all__)
    ours -= {".__annotations__", ".__slots__", ".__slotnames__"}  # the last after a deep copy
    assert ours - names(hips.Tensor(0.0), dir(hips)) == OUT_OF_REACH.keys()


# ----- The walk -----


def leaf(values: Any) -> Any:
    return hips.tensor(values, requires_grad=True)


def test_a_leaf_that_was_not_used_has_no_gradient() -> None:
    used, unused = leaf([1.0, 2.0]), leaf([3.0])
    (used * 2.0).sum().backward()
    np.testing.assert_array_equal(used.grad, [2.0, 2.0])
    assert unused.grad is None


def test_gradients_accumulate_over_walks_of_one_graph_and_of_several() -> None:
    x = leaf([1.0, 3.0])
    squares = (x * x).sum()
    squares.backward(retain_graph=True)
    squares.backward()
    x.sum().backward()
    np.testing.assert_array_equal(x.grad, [5.0, 13.0])


def test_a_leaf_may_be_the_target_and_its_gradient_is_a_copy() -> None:
    x, cotangent = leaf([1.0, 2.0]), np.array([3.0, 4.0])
    x.backward(cotangent)
    cotangent[0] = 9.0
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])


def test_a_gradient_has_its_leafs_dtype_where_leaves_differ() -> None:
    single, double = leaf(np.ones(2, np.float32)), leaf(np.ones(2))
    (single * double).sum().backward()
    assert (single.grad.dtype, double.grad.dtype) == (np.float32, np.float64)


def test_constants_and_what_is_detached_or_made_in_no_grad_pass_no_gradient() -> None:
    x, constant = leaf([2.0]), hips.tensor([3.0])
    with hips.no_grad():
        y = x * x
    assert (y.requires_grad, x.detach().requires_grad, constant.requires_grad) == (False,) * 3
    (x * y * x.detach() * constant).sum().backward()
    np.testing.assert_array_equal(x.grad, [24.0])
    assert constant.grad is None


@pytest.mark.parametrize(
    ("walk", "error", "message"),
    [
        (lambda x: (x * x).backward(), RuntimeError, "needs a cotangent"),
        (lambda x: (x * x).backward(np.ones(3)), RuntimeError, "needs a cotangent"),
        (lambda x: (x * x).backward(1.0), RuntimeError, "needs a cotangent"),
        (lambda x: x.detach().sum().backward(), RuntimeError, "nothing that requires a gradient"),
        (lambda _: leaf([1, 2]), TypeError, "int64"),
        (lambda _: leaf(np.ones(2, np.float16)), TypeError, "float16"),
    ],
)
def test_what_has_no_gradient_raises(
    walk: Callable[[Any], None], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        walk(leaf([1.0, 2.0]))


def test_numbers_out_of_range_give_no_warning() -> None:
    x = leaf([-1000.0, 1000.0])
    (x.tanh() + x.sigmoid()).sum().backward()
    np.testing.assert_array_equal(x.grad, [0.0, 0.0])
    np.testing.assert_array_equal(x.exp().numpy(), [0.0, np.inf])


# ----- Declining -----

KINK_AT_ZERO: dict[str, Program] = {
    "relu": lambda a: a.relu(),
    "abs": lambda a: a.abs(),
    "clamp": lambda a: a.clamp(0.0, 5.0),
    "max": lambda a: of(a).stack([a, 0 * a.detach()]).amax(0),
    "min": lambda a: of(a).stack([a, 0 * a.detach()]).amin(0),
    "maximum": lambda a: of(a).maximum(a, 0 * a.detach()),
    "minimum": lambda a: (0 * a.detach()).minimum(a),
    "norm": lambda a: a.reshape(3, 1).norm(dim=1),
}
AT_THE_KINK, BESIDE_IT = np.array([-2.0, 0.0, 3.0]), np.array([-2.0, 1e-100, 3.0])


@pytest.mark.parametrize("name", KINK_AT_ZERO)
def test_a_kink_declines_the_gradient_and_not_the_value(name: str) -> None:
    program = KINK_AT_ZERO[name]
    with pytest.raises(NotImplementedError, match=A_CONVENTION):
        program(leaf(AT_THE_KINK))
    expected = program(torch.tensor(AT_THE_KINK)).numpy()
    np.testing.assert_array_equal(program(hips.tensor(AT_THE_KINK)), expected)
    with hips.no_grad():
        np.testing.assert_array_equal(program(leaf(AT_THE_KINK)), expected)


@pytest.mark.parametrize("name", KINK_AT_ZERO)
def test_beside_a_kink_nothing_is_declined(name: str) -> None:
    assert_same_as_torch(KINK_AT_ZERO[name], BESIDE_IT, leaf=hips.Tensor)


def test_a_gradient_of_the_wrong_shape_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hips, "_expand", lambda a, _: a)  # so that HIPS's `where` is asked
    x = leaf([1.0, 2.0, 3.0])
    y = hips.where(np.ones((4, 3), bool), x, 0.0)
    with pytest.raises(NotImplementedError, match=r"gradient is \(4, 3\), its leaf \(3,\)"):
        y.sum().backward()


# ----- As an array -----


def test_a_tensor_is_read_as_in_torch() -> None:
    values = np.arange(6.0).reshape(2, 3)
    ours, theirs = leaf(values), torch.tensor(values, requires_grad=True)
    assert (ours.shape, ours.size(1), ours.ndim, len(ours)) == ((2, 3), 3, 2, 2)
    assert (ours.is_leaf, (ours * 2).is_leaf, (ours.detach() * 2).is_leaf) == (True, False, True)
    assert ours[1, 2].item() == theirs[1, 2].item()
    assert bool(ours[0, 1] > 0) is bool(ours[0, 1]) is True
    assert [row.shape for row in ours] == [(3,), (3,)]
    np.testing.assert_array_equal(np.asarray(ours), ours.numpy(), strict=True)
    np.testing.assert_array_equal(ours > 2, (theirs > 2).numpy(), strict=True)
    np.testing.assert_array_equal(ours.ne(2.0) & ours.eq(ours), (theirs.ne(2.0)).numpy())


def test_a_tensor_holds_a_copy() -> None:
    values = np.ones(2)
    x, y = leaf(values), hips.tensor(values)
    values[:] = 5.0
    np.testing.assert_array_equal(x + y, [2.0, 2.0])


def test_tensors_may_be_given_by_name_and_axes_as_a_list() -> None:
    x = leaf(np.arange(6.0).reshape(2, 3))
    chosen = hips.where(np.asarray(x) > 2, input=x * x, other=x)
    chosen.sum(dim=[0, 1]).backward()
    np.testing.assert_array_equal(x.grad, [[1.0, 1.0, 1.0], [6.0, 8.0, 10.0]])


def test_an_array_on_the_left_of_an_operator_leaves_it_to_the_tensor() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    matrix = np.array([[1.0, 0.0], [2.0, 1.0]])
    (matrix @ x + matrix - matrix / x * (matrix * x)).sum().backward()
    np.testing.assert_allclose(x.grad, [[3.0, 3.0], [1.0, 1.0]], 1e-12, 1e-12)


# ----- In the harness -----

LIBRARY = Library(Dialect(module="harness.runs.hips"), hips)
TORCH = Library(ANSWERING["torch"].dialect, torch)
SHARED = {
    name: probe
    for name, probe in open_catalogue().shared_probes.items()
    if probe.kind == "gradient"
}
DECLINING = ("AttributeError", "NotImplementedError", "TypeError", "ValueError")


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_probe_agrees_with_torch_or_is_declined(name: str) -> None:
    probe = SHARED[name]
    for loss in probe.losses:
        ours, theirs = (observe(Trial(x, probe), loss) for x in (LIBRARY, TORCH))
        if ours.failure:
            assert theirs.failure or ours.failure.type in DECLINING
        elif not theirs.failure:
            assert_same_run(ours, theirs)


def assert_same_run(ours: Run, theirs: Run) -> None:
    assert ours.gradients
    for name, shown in ours.leaves.items():
        actual, other = ours.gradients[name], theirs.gradients[name]
        np.testing.assert_allclose(
            np.zeros(shown.shape) if actual is None else actual.numpy(),
            np.zeros(shown.shape) if other is None else other.numpy(),
            1e-9 if shown.dtype == "<f8" else 1e-4,
            1e-12 if shown.dtype == "<f8" else 1e-5,
        )


def test_the_text_of_a_probe_runs_here() -> None:
    text = "def g(lib, a=(3, 1), b=(3, 5)):\n    'doc'\n    return lib.where(a > b, a * b, b)\n"
    (probe,) = read_probes(text, "p.py")
    for loss in probe.losses:
        run = observe(Trial(LIBRARY, probe), loss)
        assert run.failure is None
        assert_same_run(run, observe(Trial(TORCH, probe), loss))


def test_what_is_lacking_is_said_of_hips() -> None:
    with pytest.raises(AttributeError, match="HIPS autograd has no `nn`"):
        hips.nn.Linear(3, 2)
    assert not hasattr(hips, "GradientTape")


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, harness.runs.hips; print(*{'torch', 'scipy'} & {*sys.modules})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "\n"
