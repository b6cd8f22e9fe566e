"""`harness.check_rule`: what each check notices, and what it says."""

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import Function  # noqa: E402

from harness import RuleError, check_rule  # noqa: E402


def numbers(*shape: int, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    options = {"dtype": torch.double, **options}
    return torch.randn(shape, generator=generator, **options).requires_grad_()


class Mul(Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g[0] * b, g[0] * a


def mul(backward: Any) -> Any:
    """Return the product with another backward rule."""
    return type("Mul", (Mul,), {"backward": staticmethod(backward)}).apply


def factor_of_two(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    return g * b, 2 * g * a


def one_gradient(ctx: Any, g: Any) -> Any:
    return g * ctx.saved_tensors[1]


def in_place(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    gb = g * a
    return g.mul_(b), gb


def saved_in_place(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    return g * b, a.data.mul_(g)


def released(ctx: Any, g: Any) -> Any:
    a, b = ctx.kept if hasattr(ctx, "kept") else ctx.saved_tensors
    ctx.kept = a, a
    return g * b, g * a


def not_linear(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    return g.sign() * g.square() * b, g * a


def strides_ignored(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    g = g.as_strided(g.shape, torch.empty(g.shape).stride())
    return g * b, g * a


def wrong_flag(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    return g * b, g * a if ctx.needs_input_grad[0] else None


def detached(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    return g.detach() * b, g * a


def low_precision(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    is_half = g.dtype == torch.float16
    return (g * b, (g * 1000 * a * 1000) / 1e6) if is_half else (g * b, g * a)


@pytest.mark.parametrize(
    ("backward", "check", "words"),
    [
        (factor_of_two, "gradcheck",
         ["input 1 is wrong for the cotangent that is 1 at [", "expected ", "got ", "2 times"]),
        (one_gradient, "written", ["incorrect number of gradients"]),
        (in_place, "written", ["writes into the cotangent of output 0", "in place"]),
        (saved_in_place, "written", ["writes into input 0"]),
        (released, "twice", ["input 0 differs in a second backward pass"]),
        (not_linear, "layouts", ["input 0 is wrong for a random cotangent that is contiguous"]),
        (strides_ignored, "layouts", ["cotangent that is transposed", ".contiguous() is missing"]),
        (wrong_flag, "frozen", ["input 1 is wrong if input 0 needs no gradient", "got      0"]),
        (detached, "second", ["the gradient of input 0", "detached"]),
        (low_precision, "dtypes", ["input 1 is wrong in float16", "a cast is missing"]),
    ],
)  # fmt: skip
def test_a_wrong_rule(backward: Any, check: str, words: list[str]) -> None:
    inputs = numbers(2, 3), numbers(2, 3).detach().flip(0).requires_grad_()
    assert not check_rule(mul(backward), inputs, raise_exception=False)
    with pytest.raises(RuleError) as caught:
        check_rule(mul(backward), inputs)
    assert caught.value.check == check
    assert [word for word in words if word not in str(caught.value)] == []
    assert isinstance(caught.value, AssertionError)


class Doubled(Function):
    """Writes into its input; `mark_dirty` is left out if `known` is False."""

    known = True

    @classmethod
    def forward(cls, ctx: Any, x: Any) -> Any:
        x.mul_(2)
        if cls.known:
            ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:  # noqa: ARG004
        return 2 * g[0]


def test_a_function_in_place_says_so() -> None:
    assert check_rule(Doubled.apply, (numbers(3),))
    unknown = type("Unknown", (Doubled,), {"known": False})
    with pytest.raises(RuleError, match="forward pass writes into input 0") as caught:
        check_rule(unknown.apply, (numbers(3),))
    assert "mark_dirty" in str(caught.value)


class Pair(Function):
    """Two outputs; the cotangent of one that is not used is None."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:  # noqa: ARG004
        return 2 * g[0] + 3 * g[1]


def test_an_output_that_is_not_used() -> None:
    with pytest.raises(RuleError, match="if only output 0 is used") as caught:
        check_rule(Pair.apply, (numbers(3),))
    assert caught.value.check == "unused"


class Bias(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, bias: Any = None) -> Any:  # noqa: ARG004
        return 2 * x if bias is None else 2 * x + bias

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        slope = 1 if ctx.needs_input_grad[1] else 3
        return 2 * g[0] if ctx.needs_input_grad[1] else slope * g[0], g[0]


class Halves(Function):
    """An output without elements, and one with a wrong gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: ARG004
        return x.clone(), 2 * y

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:  # noqa: ARG004
        return g[0], 3 * g[1]


def test_what_has_no_elements_does_not_hide_the_wrong_gradient() -> None:
    with pytest.raises(RuleError, match="input 1 is wrong for the cotangent of output 1") as caught:
        check_rule(Halves.apply, (numbers(0, 2), numbers(3)))
    assert "1.5 times" in str(caught.value)


def test_none_for_an_optional_input() -> None:
    with pytest.raises(RuleError, match="if input 1 is None") as caught:
        check_rule(Bias.apply, (numbers(3), numbers(3)), skip=["frozen"])
    assert caught.value.check == "none"
    with pytest.raises(RuleError, match="in the forward pass, if input 1 is None"):
        check_rule(Mul.apply, (numbers(3), numbers(3)), optional=[1])


def test_a_cast_is_needed_under_autocast() -> None:
    class MatMul(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx: Any, *g: Any) -> Any:
            a, b = ctx.saved_tensors
            return g[0] @ b.T, a.T @ g[0]

    inputs = numbers(2, 3), numbers(3, 4)
    with pytest.raises(RuleError, match="under autocast to bfloat16") as caught:
        check_rule(MatMul.apply, inputs)
    assert caught.value.check == "autocast"
    assert check_rule(MatMul.apply, inputs, autocast=None)

    class Cast(MatMul):
        forward = staticmethod(torch.amp.custom_fwd(MatMul.forward, device_type="cpu"))
        backward = staticmethod(torch.amp.custom_bwd(MatMul.backward, device_type="cpu"))

    assert check_rule(Cast.apply, inputs)


def test_a_custom_op() -> None:
    def op(name: str) -> Any:
        made = torch.library.custom_op(
            f"check_rule::{name}", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        made.register_autograd(lambda ctx, g: g * 2)  # noqa: ARG005
        return made

    with pytest.raises(RuleError, match="opcheck") as caught:
        check_rule(op("no_fake"), (numbers(3),))
    assert caught.value.check == "opcheck"
    complete = op("complete")
    complete.register_fake(torch.empty_like)
    assert check_rule(complete, (numbers(3),))


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ((numbers(3).detach(),) * 2, {}, "no input requires a gradient"),
        ((numbers(3, dtype=torch.cfloat),) * 2, {}, "input 0 is complex or not strided"),
        ((numbers(3),) * 2, {"skip": ["layout"]}, "no check is called 'layout'; they are written"),
        ((numbers(3),) * 2, {"optional": [2]}, "there is no input 2"),
    ],
)
def test_arguments_that_are_not_valid(inputs: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_rule(Mul.apply, inputs, **options)


@pytest.mark.parametrize(
    "function",
    [lambda x: {"y": 2 * x}, lambda x: [[2 * x]], lambda x: x * 1j, torch.argmax, lambda _: None],
    ids=["dictionary", "nested", "complex", "integer", "nothing"],
)
def test_a_function_of_which_nothing_could_be_checked_is_refused(function: Any) -> None:
    with pytest.raises(ValueError, match="fn returns no floating-point tensor: let it return a"):
        check_rule(function, (numbers(3),))


def test_an_input_that_is_detached_in_place_has_a_wrong_gradient() -> None:
    with pytest.raises(RuleError, match="the gradient of input 0 is wrong") as caught:
        check_rule(lambda x: 2 * x.detach_(), (numbers(3),))
    assert caught.value.check == "gradcheck"


@pytest.mark.parametrize(
    ("function", "check", "words"),
    [
        (lambda x: (x * 2, x) if x.requires_grad else x * 2, "frozen",
         "outputs is 1 if no input needs a gradient, otherwise 2"),
        (lambda x: x * 2 if x.dtype == torch.double else x.long(), "dtypes",
         "outputs is 0 in float32, otherwise 1"),
    ],
)  # fmt: skip
def test_the_number_of_outputs_does_not_depend_on_the_call(
    function: Any, check: str, words: str
) -> None:
    with pytest.raises(RuleError, match=words) as caught:
        check_rule(function, (numbers(3),))
    assert caught.value.check == check


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_autograd_may_be_switched_off_around_it(context: Any) -> None:
    with context():
        assert check_rule(Mul.apply, (numbers(3), numbers(3)))
        assert not torch.is_grad_enabled()


def test_the_inputs_are_not_changed_and_may_be_single() -> None:
    inputs = numbers(2, 3, dtype=torch.float32), numbers(2, 3, dtype=torch.float32)
    before = [one.detach().clone() for one in inputs]
    assert check_rule(Mul.apply, inputs)
    assert all(map(torch.equal, inputs, before))
    assert all(one.grad is None and one.dtype == torch.float32 for one in inputs)
    state = torch.get_rng_state()
    assert check_rule(torch.tanh, numbers(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_importing_it_imports_nothing_else_of_ours() -> None:
    program = (
        "import sys, harness; before = 'torch' in sys.modules; harness.check_rule; "
        "names = {n for n in sys.modules if n.split('.')[0] in ('harness', 'libcst', 'rich')}; "
        "print(before, *sorted(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    rooms = "harness harness.gradients harness.gradients.checking harness.gradients.trial"
    assert done.stdout.split() == ["False", *rooms.split()]
