"""Which rules are found in a file, in each form, and what belongs to them."""

import textwrap
from pathlib import Path
from typing import get_args

import pytest

from harness.rules import Form, Rule, Side, find_rules


def rules_in(text: str) -> list[Rule]:
    return find_rules({"ops.py": textwrap.dedent(text)})


def parts(rule: Rule) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.name, one.side, one.cotangents) for one in rule.functions]


FORMS = {
    Form.TORCH: (
        """
        import torch
        from torch.autograd import Function

        class Base(Function):
            pass

        class Mul(Base):
            @staticmethod
            def forward(a, b):
                return a * b, a

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, ga, gb):
                g = ga.contiguous()
                return g, gb
        """,
        "Mul",
        [
            ("forward", "forward", ()),
            ("setup_context", "forward", ()),
            ("backward", "backward", ("ga", "gb", "g")),
        ],
    ),
    Form.LIBRARY: (
        """
        import torch

        @torch.library.custom_op("mine::scale", mutates_args=())
        def scale(x: torch.Tensor, k: float) -> torch.Tensor:
            return x * k

        def _setup(ctx, inputs, output):
            ctx.k = inputs[1]

        def _back(ctx, grad):
            return grad * ctx.k, None

        scale.register_autograd(_back, setup_context=_setup)
        """,
        "scale",
        [("_back", "backward", ("grad",)), ("_setup", "forward", ())],
    ),
    Form.JAX: (
        """
        import jax

        @jax.custom_vjp
        def f(x, y):
            return x * y

        def f_fwd(x, y):
            return f(x, y), (x, y)

        def f_bwd(res, ct):
            x, y = res
            return ct * y, ct * x

        f.defvjp(f_fwd, f_bwd)
        """,
        "f",
        [("f_fwd", "forward", ()), ("f_bwd", "backward", ("ct",))],
    ),
    Form.HIPS: (
        """
        from autograd.extend import defvjp, primitive

        @primitive
        def mul(x, y):
            return x * y

        def of_y(ans, x, y):
            def vjp(g):
                return g * x
            return vjp

        defvjp(mul, lambda ans, x, y: lambda g: g * y, of_y)
        """,
        "mul",
        [("vjp0", "backward", ("g",)), ("of_y", "backward", ("g",))],
    ),
    Form.CLASS: (
        """
        class EWiseMul(TensorOp):
            def compute(self, a, b):
                return a * b

            def gradient(self, out_grad, node):
                a, b = node.inputs
                return out_grad * b, out_grad * a
        """,
        "EWiseMul",
        [("compute", "forward", ()), ("gradient", "backward", ("out_grad",))],
    ),
    Form.CLOSURE: (
        """
        class Value:
            def __mul__(self, other):
                out = Value(self.data * other.data)

                def _backward():
                    self.grad += other.data * out.grad

                out._backward = _backward
                return out
        """,
        "Value.__mul__",
        [("_backward", "backward", ("out.grad",))],
    ),
    Form.FUNCTION: (
        """
        def affine_backward(dout, cache):
            x, w = cache
            return dout @ w.T, x.T @ dout
        """,
        "affine_backward",
        [("affine_backward", "backward", ("dout",))],
    ),
}


@pytest.mark.parametrize("form", Form)
def test_every_form_is_found_with_its_functions_and_cotangents(form: Form) -> None:
    text, name, functions = FORMS[form]
    (rule,) = rules_in(text)
    assert (rule.name, rule.form, rule.file) == (name, form, "ops.py")
    assert parts(rule) == functions
    assert {one.side for one in rule.functions} <= set(get_args(Side))


def test_a_function_that_only_the_rule_calls_belongs_to_it() -> None:
    (rule,) = rules_in("""
        def mul_backward(g, a, b):
            return _reduce(g * b, a.shape), _reduce(gradient=g, shape=b.shape)

        def _reduce(gradient, shape):
            return _sum(gradient, shape)

        def _sum(x, shape):
            return x.sum(axis=0)
        """)
    assert parts(rule) == [
        ("mul_backward", "backward", ("g",)),
        ("_reduce", "backward", ()),
        ("_sum", "backward", ()),
    ]


def test_a_cotangent_is_followed_into_a_function() -> None:
    (rule,) = rules_in("""
        def relu_backward(g, x):
            return _masked(x, g.copy())

        def _masked(x, upstream):
            return upstream * (x > 0)
        """)
    assert parts(rule)[1] == ("_masked", "backward", ("upstream",))
    assert rule.cotangents == ("g", "upstream")


def test_a_function_that_the_forward_pass_calls_too_is_left_alone() -> None:
    (rule,) = rules_in("""
        def rotate(x, angle):
            return _turned(x, angle)

        def rotate_backward(g, angle):
            return _turned(g, -angle)

        def _turned(x, angle):
            return x * angle
        """)
    assert [one.name for one in rule.functions] == ["rotate_backward"]


@pytest.mark.parametrize(
    "text",
    [
        "def test_backward():\n    assert True\n",
        "class Tensor:\n    def backward(self, grad):\n        self.grad = grad\n",
        "backward = (\n",  # not Python
        "",
    ],
)
def test_what_is_not_a_rule(text: str) -> None:
    assert rules_in(text) == []


ENGINES = Path(__file__).parents[2] / "engines"


@pytest.mark.parametrize(
    ("file", "rule", "function", "cotangent"),
    [
        ("courses/tinytorch.py", "MulBackward", "apply", "grad_output"),
        ("courses/cs231n/tensor.py", "Tensor.__mul__", "lambda", "g"),
        ("inline.py", "Tensor.__mul__", "back", "out.grad"),
        ("rebinding.py", "Array.mul", "rule", "g"),
        ("learners/static.py", "Times", "pull", "g"),
        ("learners/dataclass_nodes.py", "Node.__mul__", "lambda", "g"),
        ("learners/lazy.py", "BACKWARD.mul", "backward", "g"),
        ("styles/dispatch.py", "BACKWARD.times", "backward", "g"),
        ("styles/labelled.py", "Var.__mul__", "push", "g"),
        ("styles/returned.py", "Tensor.__mul__", "lambda", "g"),
    ],
)
def test_the_rules_of_engines(file: str, rule: str, function: str, cotangent: str) -> None:
    rules = {one.name: one for one in find_rules({file: (ENGINES / file).read_text()})}
    places = {one.name: one.cotangents[0] for one in rules[rule].functions if one.cotangents}
    assert places[function] == cotangent


def test_a_lambda_of_something_else_is_not_a_rule() -> None:
    text = """
def backward_order(groups, gradients):
    first = sorted(groups, key=lambda g: g.size)
    names = list(map(lambda g: g.name, groups))
    return first, names, Table(lambda row: row.grad), min(gradients, key=lambda grad: grad.norm)
"""
    assert [one.name for one in find_rules({"a.py": text})] == ["backward_order"]


@pytest.mark.parametrize("start", ["VJPS =", "GRADS =", "BACKWARD: dict[str, object] ="])
def test_a_table_may_have_any_case_and_an_annotation(start: str) -> None:
    (rule,) = find_rules({"a.py": f"def mul(g, a):\n    return g * a\n\n{start} {{'mul': mul}}\n"})
    assert (rule.name, rule.cotangents) == (f"{start.split()[0].rstrip(':')}.mul", ("g",))


def test_a_lambda_in_a_file_that_does_not_speak_of_gradients_is_not_a_rule() -> None:
    text = "def sums(table):\n    return table.groupby('a').apply(lambda g: g.sum())\n"
    assert find_rules({"a.py": text}) == []


def test_a_table_of_other_functions_has_no_rules() -> None:
    assert find_rules({"a.py": "GRAD_NAMES = {'a': lambda x: x, 'b': len, **others}\n"}) == []


@pytest.mark.parametrize(
    ("methods", "inputs"),
    [
        ("def forward(ctx, x, k=2): ...", ("x", "k")),
        ("def forward(x, k): ...\n    def setup_context(ctx, inputs, output): ...", ("x", "k")),
        ("def forward(ctx, *tensors): ...", ()),
        ("def other(ctx, x): ...", ()),
    ],
    ids=["ctx", "setup_context", "any number", "forward is inherited"],
)
def test_the_inputs_of_a_function_are_known(methods: str, inputs: tuple[str, ...]) -> None:
    head = "import torch\nclass F(torch.autograd.Function):\n"
    (rule,) = rules_in(f"{head}    {methods}\n    def backward(ctx, g): return g, None\n")
    assert rule.inputs == inputs
