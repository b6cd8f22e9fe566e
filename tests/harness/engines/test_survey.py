"""The parts of a survey: leaves from signatures, attempts in forks, what is seen of gradients."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import EnvironmentProblem
from harness.engines.survey.attempts import Attempts
from harness.engines.survey.leaves import MOST, leaves, switched_on
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.experiment.exploration import Exploration, explore
from harness.runs.cache import Cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.texts import SCALAR, SOUND, changed, written


def tried(folder: Path, text: str, name: str = "") -> Exploration:
    path = written(folder, text) + (f":{name}" if name else "")
    return explore(path, Cache(None), CATALOGUE.conventions)


# ----- Leaves -----


def forms(maker: Any) -> list[str]:
    return leaves("", "T", maker, {})


def test_a_constructor_that_needs_only_data_is_called_with_it() -> None:
    def maker(data: Any, parents: Any = (), op: str = "") -> None: ...

    assert forms(maker) == ["T(data)", "T(data.tolist())"]


def test_flags_are_set_together_and_one_by_one() -> None:
    def maker(data: Any, requires_grad: bool = False, keep_grad: bool = False) -> None: ...

    assert forms(maker)[:4] == [
        "T(data, requires_grad=True)",
        "T(data, requires_grad=True, keep_grad=True)",
        "T(data, keep_grad=True)",
        "T(data)",
    ]


def test_what_must_be_passed_is_passed_by_its_name_or_type() -> None:
    def maker(label: str, value: Any, copied: bool) -> None: ...

    assert forms(maker)[:2] == [
        "T(value=data, label='x', copied=True)",
        "T(value=data, label='x', copied=False)",
    ]


def test_a_number_is_not_passed_to_a_parameter_of_text() -> None:
    def maker(variable: str, number: float = 0.0) -> None: ...

    assert forms(maker)[0] == "T(number=data, variable='x')"


def test_data_that_is_not_passed_is_set_afterwards() -> None:
    class Symbol:
        def __init__(self, name: Any = None) -> None: ...

        def set_value(self, number: float) -> None: ...

    assert leaves("", "S", Symbol, {})[:3] == [
        "(lambda t: (t.set_value(data), t)[-1])(S(name='x'))",
        "(lambda t: (t.set_value(data), t)[-1])(S())",
        "S(data)",
    ]


def test_the_number_of_calls_is_bounded() -> None:
    text = ", ".join(f"flag{i}: bool = False" for i in range(12))
    names: dict[str, Any] = {}
    exec(f"def maker(data, {text}): ...", names)  # noqa: S102  a signature with many flags
    assert len(forms(names["maker"])) <= MOST


def test_attributes_and_methods_may_switch_a_leaf_on() -> None:
    class Tensor:
        def __init__(self) -> None:
            self.requires_grad, self.frozen = False, False

        def retain_grad(self) -> None: ...

    assert list(switched_on("T(data)", Tensor())) == [
        "(lambda t: (setattr(t, 'requires_grad', True), t)[-1])(T(data))",
        "(lambda t: (t.retain_grad(), t)[-1])(T(data))",
    ]


def test_a_flag_that_is_an_attribute_is_found(tmp_path: Path) -> None:
    text = changed(
        ("self.grad = None", "self.grad, self.wants_grad = None, False"),
        ("    def receive(self, part):", "    def receive(self, part):\n" + GUARD),
    )
    dialect = tried(tmp_path, text).engine.dialect
    assert dialect.leaf == "(lambda t: (setattr(t, 'wants_grad', True), t)[-1])(Tensor(data))"


GUARD = "        if not self.wants_grad and not self.rules:\n            return"


@pytest.mark.parametrize("rank", [1, 4])
def test_an_engine_of_one_rank_is_found_out(tmp_path: Path, rank: int) -> None:
    check = f"np.array(data, dtype=float)\n        assert self.data.ndim in (0, {rank})"
    found = tried(tmp_path, changed(("np.array(data, dtype=float)", check)))
    assert (found.engine.dialect.kind, found.accumulation.second_backward) == ("arrays", "rebound")


def test_methods_may_take_the_place_of_operators(tmp_path: Path) -> None:
    text = changed(("def __add__", "def add"), ("def __mul__", "def mul"))
    text = text.replace("def backward(self, g):", "def backward(self):\n" + SEED)
    found = tried(tmp_path, text)
    assert found.engine.dialect.backward == "t.mul(Tensor(cotangent)).sum().backward()"
    assert {"t * u": "right", "t + u": "right"}.items() <= found.storage.one_op.items()


SEED = "        assert self.data.ndim == 0\n        g = 1.0"


# ----- Attempts -----


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """Attempts in forks, even if another test has left a thread behind in this process."""
    monkeypatch.setattr("harness.engines.survey.attempts.can_fork", lambda: True)
    return Attempts(ModuleType("sys"), ())


def test_an_attempt_leaves_the_process_as_it_was(attempts: Attempts) -> None:
    tape: list[int] = []

    def record() -> int:
        tape.append(1)
        return len(tape)

    assert [attempts.apart("record", record, int) for _ in range(2)] == [1, 1]
    assert tape == []


def test_a_failed_attempt_is_listed(attempts: Attempts) -> None:
    assert attempts.apart("an exit", lambda: __import__("os")._exit(3), int) is None
    assert attempts.apart("a result", lambda: "no number", int) is None
    assert attempts.apart("an expression", lambda: attempts.value("1 / 0"), int) is None
    assert attempts.failed == [
        "an exit: it did not end, or it ended the process",
        "1 / 0: ZeroDivisionError: division by zero",
    ]


def test_a_failed_attempt_does_not_spoil_the_next(tmp_path: Path) -> None:
    """The first backward pass that is tried crashes half-way, and leaves the tape filled."""
    tape = """
    TAPE = []

    def backward(self, g=None):
        Tensor.TAPE.append(self)
        if len(Tensor.TAPE) > 1:
            raise RuntimeError("the tape is not empty")
        if g is not None:
            raise NotImplementedError("only from a scalar")
        Tensor.TAPE.clear()
        self.spread(np.ones_like(self.data))

    def spread(self, g):"""
    found = tried(tmp_path, changed(("\n    def backward(self, g):", tape)))
    assert found.engine.dialect.backward == "(t * Tensor(cotangent)).sum().backward()"


def test_the_message_names_the_settings_that_help(tmp_path: Path) -> None:
    text = changed(("def backward(self, g):", "def go(self, g):"))
    with pytest.raises(EnvironmentProblem) as caught:
        tried(tmp_path, text)
    remedy = caught.value.remedy
    assert '`leaf = "Tensor(data)"` and `data = "t.data"`, which work' in remedy
    assert '`backward = "t.backward(cotangent)"`' in remedy
    lines = ["[engine]", f'target = "{tmp_path}/engine.py:Tensor"']
    lines += ['leaf = "Tensor(data)"', 'data = "t.data"', 'backward = "t.go(cotangent)"']
    path = written(tmp_path, "\n".join(lines), "harness.toml")
    dialect = explore(path, Cache(None), CATALOGUE.conventions).engine.dialect
    assert (dialect.gradient, dialect.kind) == ("t.grad", "arrays")


def test_stated_modules_are_imported_even_if_the_engine_does_not(tmp_path: Path) -> None:
    written(tmp_path, SOUND)
    written(tmp_path, "from engine import Tensor\n\n\ndef relu(t):\n    return t\n", "more/ops.py")
    settings = f'[engine]\ntarget = "{tmp_path}/engine.py:Tensor"\nfunctions = ["more.ops"]\n'
    path = written(tmp_path, settings, "harness.toml")
    dialect = explore(path, Cache(None), CATALOGUE.conventions).engine.dialect
    assert dialect.functions == ("more.ops",)
    path = written(tmp_path, settings.replace("more.ops", "more.opz"), "harness.toml")
    with pytest.raises(EnvironmentProblem, match=r"No module named 'more\.opz'") as caught:
        explore(path, Cache(None), CATALOGUE.conventions)
    assert "correct `functions`" in caught.value.remedy


# ----- Gradients that are not stored -----

HIDDEN = changed(("def backward(self, g):", "def _run(self, g):"))
"""No method for a backward pass from outside."""

WALK = """

def walk(output, wanted):
    output._run(np.ones_like(output.data))
    found = [leaf.grad for leaf in wanted]
    for leaf in leaves_of(output):
        leaf.grad = None
    return found


def leaves_of(output):
    parents = [leaf for parent in output.parents for leaf in leaves_of(parent)]
    return parents or [output]
"""
WAYS = {
    "one leaf at a time": (
        "def grad(loss, leaf):\n    return walk(loss, [leaf])[0]\n",
        "[engine.grad((t * Tensor(cotangent)).sum(), leaf) for leaf in leaves]",
    ),
    "several arguments": (
        "def gradients(loss, *leaves):\n    return tuple(walk(loss, leaves))\n",
        "engine.gradients((t * Tensor(cotangent)).sum(), *leaves)",
    ),
    "tensors": (
        "def gradients(loss, leaves):\n    return [Tensor(g) for g in walk(loss, leaves)]\n",
        "[g.data for g in engine.gradients((t * Tensor(cotangent)).sum(), leaves)]",
    ),
    "a mapping": (
        "def derivatives(loss):\n    all = leaves_of(loss)\n"
        "    return dict(zip(all, walk(loss, all)))\n",
        "(lambda found: [found[leaf] for leaf in leaves])"
        "(engine.derivatives((t * Tensor(cotangent)).sum()))",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_gradients_that_are_not_stored_are_found(tmp_path: Path, way: str) -> None:
    code, backward = WAYS[way]
    found = tried(tmp_path, f"{HIDDEN}{WALK}\n\n{code}", "Tensor")
    assert found.engine.dialect.backward == backward
    assert found.accumulation.second_backward == "returned"


# ----- Gradients of the wrong shape -----

INSIDE = (
    "self.grad = part if self.grad is None else self.grad + part",
    "if self.rules:\n"
    "            buffer = np.zeros_like(self.data)\n"
    "            buffer += part\n"
    "        self.grad = part if self.grad is None else self.grad + part",
)


def test_a_wrong_shape_may_crash_only_inside_the_graph(tmp_path: Path) -> None:
    found = tried(tmp_path, changed(INSIDE))
    assert found.accumulation.initial_gradient == "none"
    assert found.steps[-1].unsummed == {"leaf": "stored", "inside": "crash"}
    assert found.engine.like is None


def test_a_check_of_shapes_is_a_crash(tmp_path: Path) -> None:
    check = "assert part.shape == self.data.shape\n        self.grad = part"
    found = tried(tmp_path, changed(("self.grad = part if", f"{check} if")))
    assert found.steps[-1].unsummed == {"leaf": "crash", "inside": "crash"}


@pytest.mark.parametrize("kind", ["classmethod", "staticmethod"])
def test_a_function_of_the_class_may_sum(tmp_path: Path, kind: str) -> None:
    """Without it, the gradient is stored as it is."""
    first = "cls, " if kind == "classmethod" else ""
    method = f"    @{kind}\n    def fold({first}g, shape):\n"
    text = SOUND[: SOUND.index("def fold")] + SOUND[SOUND.index("def lift") :]
    body = SOUND[SOUND.index("def fold") : SOUND.index("def lift")].rstrip().splitlines()[1:]
    method += "".join(f"    {line}\n" for line in body) + "\n"
    text = changed(
        ("    def __init__", f"{method}    def __init__"),
        ("lambda g: fold", "lambda g: Tensor.fold"),
        text=text,
    )
    found = tried(tmp_path, text)
    assert [reducer.name for reducer in found.reducers] == ["Tensor.fold"]
    assert found.steps[-1].unsummed == {"leaf": "stored", "inside": "stored"}


# ----- Places -----


def test_lambdas_are_told_apart(tmp_path: Path) -> None:
    """Also if they stand in one line."""
    found = tried(tmp_path, SOUND)
    (reducer,) = found.reducers
    assert reducer.central == ""
    assert all("engine.py:" in caller for callers in reducer.callers.values() for caller in callers)


def test_one_place_that_all_ops_pass_is_central(tmp_path: Path) -> None:
    text = changed(
        ("fold(g, a.data.shape)", "g"),
        ("fold(g, b.data.shape)", "g"),
        ("fold(g * b.data, a.data.shape)", "g * b.data"),
        ("fold(g * a.data, b.data.shape)", "g * a.data"),
        ("part = rule(pending[t])", "part = fold(rule(pending[t]), parent.data.shape)"),
    )
    (reducer,) = tried(tmp_path, text).reducers
    assert reducer.central == "Tensor.backward"


def test_an_op_that_does_not_call_a_function_is_not_central_to_it(tmp_path: Path) -> None:
    text = (
        SOUND
        + "\n    def __sub__(self, other):\n"
        + (
            "        a, b = self, lift(other)\n"
            "        rules = (lambda g: by_hand(g, a), lambda g: by_hand(-g, b))\n"
            "        return Tensor(a.data - b.data, (a, b), rules)\n\n\n"
            "def by_hand(g, like):\n"
            "    return g if g.shape == like.data.shape else g.sum(0)\n"
        )
    )
    folds = {r.name: r.central for r in tried(tmp_path, text).reducers if r.callers}
    assert folds["fold"] == ""


# ----- Flaws -----


def test_a_flaw_that_callers_repair_is_none(tmp_path: Path) -> None:
    """It drops axes of length one, and each rule reshapes its result."""
    squeezing = changed(("g.sum(axis=ones, keepdims=True)", "g.sum(axis=ones)"))
    (reducer,) = tried(tmp_path / "a", squeezing).reducers
    assert "(4, 3) to (4, 1): the result has shape (4,)" in reducer.flaws
    repaired = changed(
        ("a.data.shape)", "a.data.shape).reshape(a.data.shape)"),
        ("b.data.shape)", "b.data.shape).reshape(b.data.shape)"),
        text=squeezing,
    )
    (reducer,) = tried(tmp_path / "b", repaired).reducers
    assert reducer.flaws == []


# ----- Gradients that are computed when they are read -----

WEIGHTED_CHILDREN = """
class Var:
    def __init__(self, value):
        self.value, self.children, self.grad_value = value, [], None

    def grad(self):
        if self.grad_value is None:
            self.grad_value = sum(weight * child.grad() for weight, child in self.children)
        return self.grad_value

    def __add__(self, other):
        z = Var(self.value + other.value)
        self.children.append((1.0, z))
        other.children.append((1.0, z))
        return z

    def __mul__(self, other):
        z = Var(self.value * other.value)
        self.children.append((other.value, z))
        other.children.append((self.value, z))
        return z
"""


def test_the_output_of_an_engine_without_a_backward_pass_is_given_its_gradient(
    tmp_path: Path,
) -> None:
    found = tried(tmp_path, WEIGHTED_CHILDREN)
    dialect = found.engine.dialect
    assert (dialect.backward, dialect.gradient) == ("setattr(t, 'grad_value', 1.0)", "t.grad()")
    assert set(found.storage.one_op.values()) == {"right"}
    probe = CATALOGUE.shared_probes["square"]
    assert fit(found.engine, [probe], Baseline(Cache(None), ()))[probe.name].verdict == "fits"


def test_a_backward_pass_that_fails_is_not_replaced_by_an_assignment(tmp_path: Path) -> None:
    text = changed(("        visit(self)\n", "        visit(self)\n        1 / 0\n"), text=SCALAR)
    assert tried(tmp_path, text).engine.dialect.backward == "t.backward()"


# ----- Shapes that an engine does not handle -----

CUBES = """
import numpy as np


class Cube:
    def __init__(self, values, sources=()):
        batch, rows, columns = np.shape(values)
        self.values, self.slope, self.sources = np.asarray(values, dtype=float), 0.0, sources

    def __add__(self, other):
        return Cube(self.values + other.values, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return Cube(self.values * other.values, [(self, other.values), (other, self.values)])

    def backward(self, g):
        self.slope = self.slope + g
        for source, factor in self.sources:
            source.backward(g * factor)
"""


def test_an_engine_of_three_axes_refuses_leaves_of_others(tmp_path: Path) -> None:
    found = tried(tmp_path, CUBES)
    dialect = found.engine.dialect
    assert (dialect.value, dialect.gradient) == ("t.values", "t.slope")
    assert dialect.refused_ranks == (0, 1, 2, 4)


@pytest.mark.parametrize("part", ["part.ndim == 2", "part.ndim != 1"])
def test_a_shape_is_refused_if_no_backward_pass_ends_with_it(tmp_path: Path, part: str) -> None:
    rule = f"part = rule(pending[t])\n                assert {part}"
    found = tried(tmp_path, changed(("part = rule(pending[t])", rule)))
    assert found.engine.dialect.refused_ranks == ((1,) if "!=" in part else (0, 1, 3, 4))


def test_a_shape_is_refused_if_its_gradients_have_another(tmp_path: Path) -> None:
    """An engine of matrices stores a vector, and gives its gradient as a row."""
    text = changed(
        ("self.grad + part", "self.grad + part\n        self.grad = np.atleast_2d(self.grad)")
    )
    found = tried(tmp_path, text)
    assert found.engine.dialect.refused_ranks == (0, 1)


def test_a_shape_with_wrong_gradients_is_not_refused(tmp_path: Path) -> None:
    """A bug that only vectors show: refusing them would hide it."""
    reverse = (
        "part = rule(pending[t])\n                part = part[::-1] if part.ndim == 1 else part"
    )
    found = tried(tmp_path, changed(("part = rule(pending[t])", reverse)))
    assert found.engine.dialect.refused_ranks == ()
    probe = CATALOGUE.shared_probes["reused-leaf"]
    item = fit(found.engine, [probe], Baseline(Cache(None), ()))[probe.name]
    assert (item.verdict, item.kind) == ("bug", "value")


def test_the_search_does_not_end_with_half_of_the_probes(tmp_path: Path) -> None:
    """A cotangent is doubled where an operand is used twice; ones are not."""
    doubled = (
        "is_twice = g is not None and self.parents and self.parents[0] is self.parents[-1]\n"
        "        g = np.ones_like(self.data) if g is None else np.asarray(g)\n"
        "        g = 2.0 * g if is_twice else g\n"
        "        self.receive"
    )
    text = changed(
        ("def backward(self, g):", "def backward(self, g=None):"),
        ("self.receive(np.array(g, dtype=float))", f"{doubled}(np.array(g, dtype=float))"),
    )
    found = tried(tmp_path, text)
    assert found.engine.dialect.backward == "(t * Tensor(cotangent)).sum().backward()"
    assert set(found.storage.one_op.values()) == {"right"}
