"""The adapter: a foreign engine under PyTorch's names, without computation in between."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.engines.adapter import open_library
from harness.engines.calling import Unsupported, call
from harness.engines.engine import Dialect
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.explored import engine_of
from tests.harness.engines.texts import SCALAR, SOUND, changed

HERE = Dialect(
    module="engine",
    leaf="Tensor(data)",
    value="t.data",
    gradient="t.grad",
    backward="t.backward(cotangent)",
    kind="arrays",
)
NUMBERS = replace(HERE, leaf="Value(data)", backward="t.backward()", kind="scalars")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Execute an engine's text and open it as a library."""

    def open_text(text: str, dialect: Dialect = HERE) -> Any:
        module = ModuleType(dialect.module)
        monkeypatch.setitem(__import__("sys").modules, dialect.module, module)
        exec(text, module.__dict__)  # noqa: S102  the tests' own text
        return open_library(dialect, module)

    return open_text


METHODS = """
    def mean(self, dims=None, keep_dims=False):
        kept = self.sum(dims, keep_dims)
        return kept * (kept.data.size / self.data.size)

    def reshape(self, shape):
        return Tensor(self.data.reshape(shape), (self,), (lambda g: g.reshape(self.data.shape),))

    def transpose(self, axes=None):
        order = axes or tuple(reversed(range(self.data.ndim)))
        back = np.argsort(order)
        return Tensor(self.data.transpose(order), (self,), (lambda g: g.transpose(back),))

    def __getitem__(self, key):
        def rule(g):
            whole = np.zeros_like(self.data)
            np.add.at(whole, key, g)
            return whole

        return Tensor(self.data[key], (self,), (rule,))

    def __matmul__(self, other):
        a, b = self, other
        rules = (lambda g: g @ b.data.T, lambda g: a.data.T @ g)
        return Tensor(a.data @ b.data, (a, b), rules)

    def __rsub__(self, other):
        return self * -1 + other

    def __sub__(self, other):
        return self + lift(other) * -1

    def __pow__(self, n):
        return Tensor(self.data**n, (self,), (lambda g: g * n * self.data ** (n - 1),))

    def absolute(self):
        return Tensor(np.abs(self.data), (self,), (lambda g: g * np.sign(self.data),))


def exp(t):
    return Tensor(np.exp(t.data), (t,), (lambda g: g * np.exp(t.data),))


def concatenate(parts, axis=0):
    ends = np.cumsum([part.data.shape[axis] for part in parts])
    rules = [lambda g, i=i: np.split(g, ends[:-1], axis)[i] for i in range(len(parts))]
    return Tensor(np.concatenate([part.data for part in parts], axis), tuple(parts), tuple(rules))
"""
RICH = SOUND + METHODS

SWAPPED = """\
        order = list(range(self.data.ndim))
        order[a], order[b] = order[b], order[a]
"""

X = np.arange(6.0).reshape(2, 3) + 1.0


def test_only_the_engine_computes(opened: Any) -> None:
    library = opened(changed(("a.data + b.data", "a.data + b.data + 100"), text=RICH))
    total = library.leaf(X) + library.leaf(X)
    assert np.array_equal(total.data, X + X + 100)


def test_names_of_options_are_translated(opened: Any) -> None:
    x = opened(RICH).leaf(X)
    assert np.array_equal(x.sum(dim=1, keepdim=True).data, X.sum(1, keepdims=True))
    assert np.array_equal(x.mean(dim=0, keepdim=True).data, X.mean(0, keepdims=True))
    assert np.array_equal(x.mean(1).data, X.mean(1))


def test_a_shape_is_passed_in_the_accepted_form() -> None:
    def whole(_: str, shape: object) -> object:
        return shape

    def parts(_: str, *shape: object) -> object:
        return shape

    for function in (whole, parts):
        for arguments in (("x", 2, 3), ("x", (2, 3))):
            assert call(function, arguments, {}) == (2, 3)


def test_an_axis_is_passed_as_the_function_takes_it() -> None:
    def by_keyword(t: str, *, axis: int | None = None) -> list[object]:
        return [t, axis]

    def by_position(t: str, along: int | None = None) -> list[object]:
        return [t, along]

    assert call(by_keyword, ("t", 1), {}) == ["t", 1]
    assert call(by_keyword, ("t",), {"dim": 1}) == ["t", 1]
    assert call(by_position, ("t",), {"dim": 1}) == ["t", 1]
    with pytest.raises(TypeError):
        call(by_position, ("t",), {"keepdim": True})


def test_an_axis_is_passed_by_keyword_if_tensors_are_taken_by_position() -> None:
    """As by a `partialmethod` that hands tensors and keywords to the `forward` of any op."""

    def apply(forward: Callable[..., object], *tensors: Any, **options: object) -> object:
        return forward(*(tensor.upper() for tensor in tensors), **options)

    def softmax(t: str, dim: int) -> list[object]:
        return [t, dim]

    def total(t: str, axis: object = None) -> list[object]:
        return [t, axis]

    def reshape(t: str, shape: object = None) -> list[object]:
        return [t, shape]

    assert call(apply, (softmax, "t", 1), {}) == ["T", 1]
    assert call(apply, (softmax, "t"), {"dim": 1}) == ["T", 1]
    assert call(apply, (total, "t", (0, 2)), {}) == ["T", (0, 2)]
    assert call(apply, (reshape, "t", 2, 3), {}) == ["T", (2, 3)]
    with pytest.raises(AttributeError, match="'int' object has no attribute 'upper'"):
        call(apply, (lambda t: t, "t", 1), {})


def test_what_an_engine_raises_inside_an_op_comes_before_how_it_may_not_be_called() -> None:
    def transpose(_: str, axes: Any) -> None:
        raise TypeError(f"no {axes}")

    with pytest.raises(TypeError, match=r"no \(1, 0\)"):
        call(transpose, ("t", 1, 0), {})


AXES_IMPLIED = """

    def softmax(self):
        e = np.exp(self.data)
        return Tensor(e / e.sum(-1, keepdims=True))

    def max(self):
        return Tensor(self.data.max())

    def backward"""


def test_an_axis_that_an_op_implies_need_not_be_passed(opened: Any) -> None:
    text = changed(("\n    def backward", AXES_IMPLIED), text=SOUND)
    library = opened(text)
    x, vector = library.leaf(X), library.leaf(X[0])
    assert np.allclose(x.softmax(1).data.sum(1), 1)
    assert vector.max(0).data == X[0].max()
    for apply in (lambda: x.softmax(0), lambda: x.max(1)):
        with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
            apply()


def test_functions_with_open_keywords_get_numpys_names() -> None:
    def anything(**options: object) -> object:
        return options

    assert call(anything, (), {"dim": 1, "keepdim": True}) == {"axis": 1, "keepdims": True}


def test_transpose_uses_the_engines_own_function(opened: Any) -> None:
    library = opened(RICH)
    assert np.array_equal(library.leaf(X).T.data, X.T)
    assert np.array_equal(library.leaf(X).transpose(0, 1).data, X.T)
    assert np.array_equal(library.leaf(X).permute(1, 0).data, X.T)
    swaps = changed(
        ("def transpose(self, axes=None):", "def transpose(self, a=0, b=1):"),
        ("        order = axes or tuple(reversed(range(self.data.ndim)))\n", SWAPPED),
        text=RICH,
    )
    assert np.array_equal(opened(swaps).leaf(X).transpose(0, 1).data, X.T)
    property_ = "\n    @property\n    def T(self):\n        return self.transpose()\n"
    assert np.array_equal(opened(SOUND + property_ + METHODS).leaf(X).T.data, X.T)


def test_gradients_are_read_through_the_adapter(opened: Any) -> None:
    library = opened(RICH)
    x, w = library.leaf(X), library.leaf(X.T)
    out = (x @ w).sum()
    library.backward(out, np.array(2.0))
    assert np.array_equal(x.grad, 2 * np.ones((2, 2)) @ X)
    assert library.leaf(X).grad is None


def test_integer_arrays_are_indices_and_not_tensors(opened: Any) -> None:
    library = opened(RICH)
    x, index = library.leaf(X), library.module.tensor([1, 0, 1])
    assert isinstance(index, np.ndarray)
    picked = x[index]
    assert np.array_equal(picked.data, X[[1, 0, 1]])
    library.backward(picked, np.ones((3, 3)))
    assert np.array_equal(x.grad, [[1, 1, 1], [2, 2, 2]])


def test_constants_and_reflected_operators(opened: Any) -> None:
    library = opened(RICH)
    x = library.leaf(X)
    constant = library.module.tensor(np.full((2, 3), 2.0))
    assert np.array_equal((constant * x).data, 2 * X)
    assert np.array_equal((10.0 - x).data, 10 - X)
    assert np.array_equal((np.ones((2, 3)) + x).data, 1 + X)


def test_functions_and_methods_are_interchangeable(opened: Any) -> None:
    library = opened(RICH)
    x = library.leaf(X)
    assert np.array_equal(x.exp().data, np.exp(X))
    assert np.array_equal(library.module.exp(x).data, np.exp(X))
    assert np.array_equal(library.module.nn.functional.relu(x).data, X)
    assert np.array_equal(x.abs().data, X)
    assert np.array_equal(library.module.cat([x, x], dim=1).data, np.concatenate([X, X], 1))


def test_comparisons_return_boolean_arrays(opened: Any) -> None:
    x = opened(RICH).leaf(X)
    assert np.array_equal(x > 3, X > 3)
    assert np.array_equal(x <= x, X <= X)
    assert np.array_equal(x < X, X < X)


def test_a_function_replaces_a_missing_operator(opened: Any) -> None:
    text = changed(
        ("def __mul__", "def times"),
        ("class Tensor", "def mul(a, b):\n    return a.times(b)\n\n\nclass Tensor"),
    )
    library = opened(text)
    assert np.array_equal((library.leaf(X) * library.leaf(X)).data, X * X)


def test_of_several_functions_the_first_that_takes_the_options_is_called(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package may have a function of arrays and one of tensors with the same name."""
    of_arrays, of_tensors = ModuleType("of_arrays"), ModuleType("of_tensors")
    of_arrays.total = lambda x: np.sum(x)  # type: ignore[attr-defined]
    of_tensors.total = lambda x, dim=None: x.sum(axis=dim)  # type: ignore[attr-defined]
    for module in (of_arrays, of_tensors):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    functions = (of_arrays.__name__, of_tensors.__name__)
    adapter = opened(SOUND, replace(HERE, functions=functions)).module._adapter
    assert adapter.function("total", {"dim": 0}) is of_tensors.total
    assert adapter.function("total") is of_arrays.total
    assert adapter.function("nothing") is None


def test_a_function_that_the_package_exports_comes_before_what_its_module_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package, ops, tensor = (ModuleType(name) for name in ("own", "own.ops", "own.tensor"))
    exec(SOUND, tensor.__dict__)  # noqa: S102  the tests' own text
    package.relu = lambda x: x.relu()  # type: ignore[attr-defined]
    ops.relu = tensor.relu = lambda x: np.maximum(x, 0)  # type: ignore[attr-defined]
    for module in (package, ops, tensor):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    dialect = replace(HERE, module="own.tensor", functions=("own", "own.ops"))
    adapter = open_library(dialect, tensor).module._adapter
    assert adapter.function("relu") is package.relu


METHODS_ALONE = (("def __add__", "def add"), ("def __mul__", "def mul"))


def test_a_method_replaces_a_missing_operator(opened: Any) -> None:
    library = opened(changed(*METHODS_ALONE))
    a, b = library.leaf(np.array([2.0, 3.0])), library.leaf(np.array([5.0, 7.0]))
    library.backward(a * b + a, np.array([1.0, 10.0]))
    assert library.gradient(a).tolist() == [6.0, 80.0]
    assert (a * 2.0).data.tolist() == [4.0, 6.0]


def test_a_method_of_numbers_replaces_a_missing_operator(opened: Any) -> None:
    text = changed(
        ("def __mul__", "def mul"), ("__radd__, __rmul__ =", "__radd__, _ ="), text=SCALAR
    )
    library = opened(text.replace("__add__, __mul__\n", "__add__, mul\n"), NUMBERS)
    a, b = library.leaf(np.array([2.0, 3.0])), library.leaf(np.array([5.0, 7.0]))
    assert (a * b).data.tolist() == [10.0, 21.0]


def test_a_class_named_t_is_not_the_transpose(opened: Any) -> None:
    library = opened(SOUND.replace("Tensor", "T"), replace(HERE, leaf="T(data)"))
    with pytest.raises(Unsupported, match="`T`"):
        _ = library.leaf(np.ones((2, 3))).T


FORMS = """

class tanh:
    def __call__(self, x):
        t = np.tanh(x.data)
        return Tensor(t, (x,), (lambda g: g * (1 - t * t),))


class Rule:
    @classmethod
    def apply(cls, x):
        return Tensor(cls.forward(x.data), (x,), (lambda g: cls.backward(g, x.data),))


class Exp(Rule):
    @staticmethod
    def forward(x):
        return np.exp(x)

    @staticmethod
    def backward(g, x):
        return g * np.exp(x)


class Log(Tensor):
    def __init__(self, x):
        super().__init__(np.log(x.data), (x,), (lambda g: g / x.data,))


class sqrt:
    def __init__(self, power):
        self.power = power


class Function(type):
    def __call__(cls, x):
        return Tensor(np.sin(x.data), (x,), (lambda g: g * np.cos(x.data),))


class sin(metaclass=Function):
    pass
"""
NAMED = """
    def activation(self, name):
        if name != "sigmoid":
            raise ValueError(name)
        s = 1 / (1 + np.exp(-self.data))
        return Tensor(s, (self,), (lambda g: g * s * (1 - s),))

    def __abs__(self):
        return Tensor(abs(self.data), (self,), (lambda g: g * np.sign(self.data),))
"""
OPS = {
    "tanh": ("t * t", "t"),
    "exp": ("g * np.exp(x)", "g"),
    "log": ("g / x.data", "g"),
    "sigmoid": ("g * s * (1 - s)", "g * s"),
    "abs-away-from-zero": ("g * np.sign(self.data)", "g"),
}
"""Ops that an engine has in another form than a function or a method of their name, and a bug."""


@pytest.mark.parametrize("op", OPS)
def test_an_op_may_be_a_class_the_name_of_an_activation_or_a_builtin(op: str) -> None:
    probe, baseline = CATALOGUE.shared_probes[op], Baseline(open_cache(), diagnostics=())
    for bug, verdict in ((), "fits"), ((OPS[op],), "bug"):
        engine = engine_of(changed(*bug, text=SOUND + NAMED + FORMS))
        assert fit(engine, [probe], baseline)[op].verdict == verdict


def test_a_class_may_be_called_as_a_function(opened: Any) -> None:
    """As `exp` of mygrad, whose class says what calling it does."""
    library = opened(SOUND + NAMED + FORMS)
    t = library.leaf(np.zeros(2))
    library.backward(t.sin(), np.array([2.0, 3.0]))
    assert library.gradient(t).tolist() == [2.0, 3.0]


def test_a_class_that_is_no_op_is_not_called(opened: Any) -> None:
    library = opened(SOUND + NAMED + FORMS)
    t = library.leaf(np.ones(2))
    with pytest.raises(Unsupported):
        t.sqrt()
    with pytest.raises(ValueError, match="gelu"):  # the engine refuses it
        t.gelu()


def test_configured_names_come_first(opened: Any) -> None:
    text = changed(("def relu", "def rectify"), text=RICH)
    library = opened(text, replace(HERE, names={"relu": "Tensor.rectify"}))
    assert np.array_equal(library.leaf(-X).relu().data, 0 * X)


MISSING = {
    "a method": "x.cumsum(0)",
    "a function": "lib.einsum('ij->i', x)",
    "a layer": "lib.nn.Dropout(0.5)",
    "an optimizer": "lib.optim.Adam([x], lr=0.1)",
    "momentum": "lib.optim.SGD([x], lr=0.1, momentum=0.9)",
    "a loss": "lib.losses.hinge(x, x)",
    "data": "lib.data",
    "a tape": "lib.GradientTape",
}


@pytest.mark.parametrize("what", MISSING)
def test_missing_features_raise_unsupported(opened: Any, what: str) -> None:
    library = opened(RICH)
    with pytest.raises(Unsupported):
        eval(MISSING[what], {"lib": library.module, "x": library.leaf(X)})  # noqa: S307


def test_losses_are_means_over_all_elements(opened: Any) -> None:
    library = opened(RICH)
    prediction, target = library.leaf(X), library.leaf(X[::-1].copy())
    losses = library.module.losses
    assert losses.mse(prediction, target).item() == pytest.approx(9.0)
    assert losses.mae(prediction, target).item() == pytest.approx(3.0)


@pytest.mark.parametrize("style", ["rebound", "in place", "its own zero_grad"])
def test_sgd_updates_leaves_and_clears_gradients(opened: Any, style: str) -> None:
    adds = "self.grad = part if self.grad is None else self.grad + part"
    text = {
        "rebound": RICH,
        "in place": changed(
            ("self.grad = None", "self.grad = np.zeros_like(self.data)"),
            (adds, "self.grad += part"),
            text=RICH,
        ),
        "its own zero_grad": changed(
            ("    def relu", "    def zero_grad(self):\n        self.grad = None\n\n    def relu"),
            text=RICH,
        ),
    }[style]
    library = opened(text)
    w = library.leaf(X)
    optimizer = library.module.optim.SGD([w], lr=0.25)
    for _ in range(2):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert np.allclose(w.data, X / 4)


def test_a_linear_layer_uses_the_engines_operators(opened: Any) -> None:
    library = opened(RICH)
    layer = library.module.nn.Linear(3, 2, rng=np.random.default_rng(0))
    x = library.leaf(X)
    out = layer(x)
    assert np.allclose(out.data, X @ layer.weight.data.T + layer.bias.data)
    out.sum().backward()
    assert np.allclose(layer.bias.grad, [2, 2])
    assert np.abs(layer.weight.data).max() <= 3**-0.5


def test_assignment_to_read_only_data_raises_unsupported(opened: Any) -> None:
    text = changed(
        (
            "self.data = np.array(data, dtype=float)",
            "self.held = np.array(data, dtype=float)\n        self.held.flags.writeable = False",
        ),
        ("self.data", "self.held"),
        (".data", ".held"),
    )
    text = text + "\n    @property\n    def data(self):\n        return self.held\n"
    library = opened(text)
    with pytest.raises(Unsupported, match="cannot be changed"):
        library.assign(library.leaf(X), X + 1)


def test_scalar_engines_compute_on_arrays(opened: Any) -> None:
    library = opened(SCALAR, NUMBERS)
    a, b = library.leaf(X), library.leaf(X[0])
    out = (a * b + a).sum(1)
    assert np.allclose(out.data, (X * X[0] + X).sum(1))
    library.backward(out, np.array([1.0, 10.0]))
    weights = np.array([[1.0], [10.0]])
    assert np.allclose(a.grad, weights * (X[0] + 1))
    assert np.allclose(b.grad, (weights * X).sum(0))
    assert (a.shape, out.ndim, library.leaf(-X).relu().data.max()) == ((2, 3), 1, 0.0)


def test_a_cotangent_of_one_needs_no_product(opened: Any) -> None:
    library = opened(SCALAR, NUMBERS)
    x = library.leaf(np.array(3.0))
    y = x * x
    library.backward(y, np.array(1.0))
    assert y.native.item().grad == 1.0  # the pass began at this node, not above it
    library.backward(x * x, np.array(10.0))
    assert x.grad == 66.0


def test_a_sum_does_not_start_from_an_int(opened: Any) -> None:
    library = opened(
        changed(("    __radd__, __rmul__ = __add__, __mul__\n", ""), text=SCALAR), NUMBERS
    )
    a = library.leaf(X)
    library.backward(a * a, np.ones((2, 3)))
    assert np.allclose(a.grad, 2 * X)


RETURNED = (
    SOUND
    + """

def gradients(output, seed, leaves):
    for leaf in leaves:
        leaf.grad = None
    output.backward(seed)
    return [leaf.grad for leaf in leaves]


class Descent:
    def __init__(self, leaves, rate):
        self.leaves, self.rate = leaves, rate

    def minimize(self, output, seed):
        for leaf, grad in zip(self.leaves, gradients(output, seed, self.leaves)):
            if grad is not None:
                leaf.data = leaf.data - self.rate * grad
"""
)
LEAVES = {
    "returned": replace(HERE, gradient="", backward="gradients(t, cotangent, leaves)"),
    "moved": replace(
        HERE,
        gradient="(before - t.data) / 4.0",
        backward="Descent(leaves, 4.0).minimize(t, cotangent)",
    ),
}


@pytest.mark.parametrize("way", LEAVES)
def test_gradients_of_given_leaves_are_kept_and_added_up(opened: Any, way: str) -> None:
    library = opened(RETURNED, LEAVES[way])
    x, w, unused = library.leaf(X), library.leaf(X + 1), library.leaf(X)
    for _ in range(2):
        (x * w).backward(np.full((2, 3), 10.0))
    assert np.allclose(x.grad, 20 * (X + 1))
    assert np.allclose(w.grad, 20 * X)
    assert unused.grad is None or np.allclose(unused.grad, 0)
    assert np.array_equal(x.data, X)


@pytest.mark.parametrize("way", LEAVES)
def test_sgd_clears_the_gradients_of_given_leaves(opened: Any, way: str) -> None:
    library = opened(RETURNED, LEAVES[way])
    w = library.leaf(X)
    optimizer = library.module.optim.SGD([w], lr=0.25)
    for _ in range(2):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert np.allclose(w.data, X / 4)


TRANSPOSES = {
    "any axes": ("*axes", "self.data.transpose(axes)", "g.transpose(np.argsort(axes))"),
    "axes in a tuple": ("axes", "self.data.transpose(axes)", "g.transpose(np.argsort(axes))"),
    "axes or none": ("axes=None", "np.transpose(self.data, axes)", "np.transpose(g, axes)"),
    "two axes": ("a, b", "np.swapaxes(self.data, a, b)", "np.swapaxes(g, a, b)"),
    "two axes or none": ("a=0, b=1", "np.swapaxes(self.data, a, b)", "np.swapaxes(g, a, b)"),
    "no axes": ("", "self.data.T", "g.T"),
}
METHOD = """
    def transpose(self, {}):
        return Tensor({}, (self,), (lambda g: {},))
"""
FUNCTION = """

def transpose(self, {}):
    return Tensor({}, (self,), (lambda g: {},))
"""


@pytest.mark.parametrize("form", [METHOD, FUNCTION])
@pytest.mark.parametrize("case", TRANSPOSES)
def test_a_transpose_is_called_with_the_axes_that_it_takes(
    opened: Any, case: str, form: str
) -> None:
    library = opened(SOUND + form.format(*TRANSPOSES[case]))
    x, cube = library.leaf(X), library.leaf(np.arange(24.0).reshape(2, 3, 4))
    results = [x.T]
    if case != "no axes":
        results += [x.transpose(0, 1), x.transpose(-1, 0), library.module.transpose(x, 0, 1)]
        swapped = [] if case == "axes or none" else [cube.transpose(1, 2), cube.transpose(-1, -2)]
        assert all(np.array_equal(t.data, cube.data.transpose(0, 2, 1)) for t in swapped)
    for t in results:
        assert np.array_equal(t.data, X.T)
        x.grad = None
        library.backward(t, X.T)
        assert np.array_equal(x.grad, X)


def test_a_cube_has_all_of_its_axes_reversed(opened: Any) -> None:
    library = opened(SOUND + METHOD.format(*TRANSPOSES["any axes"]))
    cube = library.leaf(np.arange(24.0).reshape(2, 3, 4))
    assert cube.T.shape == (4, 3, 2)


def test_nothing_but_the_probe_runs_on_the_engine(opened: Any) -> None:
    """A transpose makes no tensor to try it with: a tape would record that too."""
    counting = changed(
        ("class Tensor:\n", "MADE = []\n\n\nclass Tensor:\n"),
        ("        self.grad = None\n", "        self.grad = None\n        MADE.append(self)\n"),
        text=SOUND + METHOD.format(*TRANSPOSES["any axes"]),
    )
    library = opened(counting)
    made = library.leaf(X).transpose(0, 1).native.__init__.__globals__["MADE"]
    assert len(made) == 2


def test_the_graph_is_retained_if_the_engine_can_be_asked(opened: Any) -> None:
    once = changed(
        ("    def backward(self, g):\n", "    def backward(self, g{}):\n        {}\n"),
        ("        self.receive(np.array(g, dtype=float))\n        order", "        order"),
    )
    frees = once.replace(
        "{}):\n        {}", ", retain_graph=False):\n        self.keep = retain_graph"
    )
    library = opened(frees)
    x = library.leaf(X)
    y = x * x
    y.backward(retain_graph=True)
    assert y.native.keep
    y.backward()
    assert not y.native.keep
    assert np.array_equal(x.grad, 4 * X)
    plain = opened(SOUND).leaf(X)
    (plain * plain).backward(retain_graph=True)
    assert np.array_equal(plain.grad, 2 * X)


def test_an_interior_gradient_is_retained_by_the_engine_or_needs_no_request(opened: Any) -> None:
    (opened(SOUND).leaf(X) * 2.0).retain_grad()
    asks = changed(
        ("    def relu", "    def retain_grad(self):\n        self.asked = 1\n\n    def relu")
    )
    x = opened(asks).leaf(X)
    x.retain_grad()
    assert x.native.asked == 1


@pytest.mark.parametrize(("text", "dialect"), [(SOUND, HERE), (SCALAR, NUMBERS)])
def test_data_and_gradients_can_be_set(opened: Any, text: str, dialect: Dialect) -> None:
    x = opened(text, dialect).leaf(X)
    (x * x).sum().backward()
    x.grad *= 0.5
    assert np.array_equal(x.grad, X)
    x.data = x.data - x.grad
    assert not x.data.any()
    x.grad = None
    assert x.grad is None or not x.grad.any()
    if dialect is HERE:
        x.grad = X
        assert np.array_equal(x.grad, X)


@pytest.mark.parametrize(("text", "dialect"), [(SOUND, HERE), (SCALAR, NUMBERS)])
def test_numpy_reads_the_data_and_not_objects(opened: Any, text: str, dialect: Dialect) -> None:
    x = opened(text, dialect).leaf(X)
    assert np.array_equal(np.asarray(x), X)
    assert np.asarray([x, x]).dtype == float
    assert np.array_equal(x.detach().numpy(), X)
    assert not (x * 0.0).sum()


def test_scalar_engines_train(opened: Any) -> None:
    library = opened(SCALAR, NUMBERS)
    w = library.leaf(X)
    optimizer = library.module.optim.SGD([w], lr=0.25)
    for _ in range(2):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert np.allclose(w.data, X / 4)


def test_only_leaves_that_are_in_use_are_passed(opened: Any) -> None:
    counting = "\n\ndef count(leaves):\n    return [np.array(float(len(leaves))) for _ in leaves]\n"
    library = opened(RETURNED + counting, replace(LEAVES["returned"], backward="count(leaves)"))
    for _ in range(2):
        x = library.leaf(X)
        library.leaf(X)
        library.module.tensor(X)
        (x * x).backward(X)
        assert x.grad == 1.0


def test_functions_of_several_numbers_are_broadcast(opened: Any) -> None:
    library = opened(
        SCALAR + "\n\ndef maximum(a, b):\n    return a if a.data > b.data else b\n", NUMBERS
    )
    a, b = library.leaf(X), library.leaf(X[0][::-1].copy())
    assert np.array_equal(library.module.maximum(a, b).data, np.maximum(X, X[0][::-1]))


def test_a_number_without_a_gradient_counts_as_zero(opened: Any) -> None:
    lazy = changed(("data, 0.0, parents", "data, None, parents"), text=SCALAR)
    lazy = lazy.replace("self.grad += ", "self.grad = (self.grad or 0.0) + ")
    library = opened(lazy.replace("other.grad += ", "other.grad = (other.grad or 0.0) + "), NUMBERS)
    x = library.leaf(X)
    assert x.grad is None
    library.backward(x[0] * 2.0, np.ones(3))
    assert np.array_equal(x.grad, [[2, 2, 2], [0, 0, 0]])


@pytest.mark.parametrize("seed", [0.0, 1.0])
def test_a_loss_starts_with_the_default_of_the_engine(opened: Any, seed: float) -> None:
    """Only a call without a cotangent, as in a user's training, shows that the default is wrong."""
    default = f"def backward(self, g=None):\n        g = {seed} if g is None else g\n"
    text = changed(("def backward(self, g):\n", default))
    library = opened(text)
    x = library.leaf(np.array([1.0, 2.0]))
    (x * x).sum().backward()
    assert library.gradient(x).tolist() == [2 * seed, 4 * seed]
    y = library.leaf(np.array([1.0, 2.0]))
    (y * y).backward(np.ones(2))
    assert library.gradient(y).tolist() == [2, 4]
