"""An engine that has a bug loads: nothing that it computes has to be right."""

from pathlib import Path

import pytest

from harness.core.errors import EnvironmentProblem
from harness.engines.survey import doubt_of
from harness.experiment.exploration import Exploration, explore
from harness.runs.cache import Cache
from tests.engines.learners.bugs import BUGS, write
from tests.engines.loading_table import ENGINES, broken_engines, called_like_clean, drawn
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.texts import SCALAR, SOUND, changed, written


def loaded(path: Path | str) -> Exploration:
    return explore(path, Cache(None), CATALOGUE.conventions)


def test_an_engine_of_numbers_with_any_of_our_breaks_loads() -> None:
    broken = list(broken_engines(["scalar"]))
    named = {"assign-not-accumulate", "no-seed", "skip-second-parent", "forward-order"}
    assert named | {"mul-swapped-operands"} <= {item.page for item in broken}
    assert {item.page: called_like_clean(item) for item in broken} == dict.fromkeys(
        [item.page for item in broken], ""
    )


@pytest.mark.slow
def test_breaks_drawn_from_all_engines_load() -> None:
    results = {(b.engine, b.page): called_like_clean(b) for b in drawn(20, ENGINES, seed=33)}
    assert [key for key, result in results.items() if result.startswith("does not load")] == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", BUGS)
def test_the_bugs_of_learners_load(engine: str, tmp_path: Path) -> None:
    clean = loaded(write(tmp_path, engine)).engine.dialect
    for number, bug in enumerate(BUGS[engine]):
        folder = tmp_path / str(number)
        folder.mkdir()
        dialect = loaded(write(folder, engine, bug)).engine.dialect
        assert _calls(dialect) == _calls(clean) or bug.name in _EVADED, bug.name


CALLS = {
    "deferred": (
        *("scalars", "Quantity(amount=data, label='x')", "t.evaluate()"),
        *("(lambda t: (t.evaluate(), t.backward()))(t)", "t.adjoint"),
    ),
    "set_later": (
        *("scalars", "(lambda t: (t.set_value(data), t)[-1])(Symbol(name='x'))"),
        *("t.compute() if t.val is None else t.val", "t.reverse()", "t.der"),
    ),
    "no_product": (
        *("arrays", "Unit(data)", "t.data"),
        *("((t + Unit(cotangent / 2 - t.data)) ** 2).sum().backward()", "t.grad"),
    ),
    "flat_lists": (
        *("arrays", "Tensor(data)", "np.reshape(t.data.data, t.data.shape)"),
        "(t * Tensor(cotangent)).sum().backward()",
        "None if t.grad is None else np.reshape(t.grad.data, t.grad.shape)",
    ),
}
"""Calls that are found only if the parts of one are found together."""


@pytest.mark.parametrize("engine", CALLS)
def test_a_call_is_found_with_all_that_belongs_to_it(engine: str, tmp_path: Path) -> None:
    found = loaded(write(tmp_path, engine))
    assert tuple(_calls(found.engine.dialect)) == CALLS[engine]
    assert set(found.storage.one_op.values()) == {"right"}


@pytest.mark.parametrize(
    "lines",
    [
        ['data = "t.amount"'],
        ['data = "t.evaluate()"', 'backward = "t.backward()"'],
        ['data = "t.amount"', 'backward = "t.backward()"'],
    ],
)
def test_an_expression_that_is_not_evaluated_makes_the_call_doubtful(
    tmp_path: Path, lines: list[str]
) -> None:
    """Its one-op gradients are right even so: the operands are leaves."""
    write(tmp_path, "deferred")
    text = "\n".join(["[engine]", 'target = "deferred.py:Quantity"', *lines])
    found = loaded(written(tmp_path, text, "harness.toml"))
    doubt = doubt_of(found.storage.one_op, "scalars")
    assert doubt is not None
    assert doubt.kind == "nothing-right"


@pytest.mark.parametrize(
    ("kind", "refused"),
    [("arrays", ()), ("matrices", (0, 1, 3, 4)), ("scalars", ())],
)
def test_the_kind_that_the_user_states_is_used(
    tmp_path: Path, kind: str, refused: tuple[int, ...]
) -> None:
    written(tmp_path, SOUND)
    text = f'[engine]\ntarget = "engine.py:Tensor"\nkind = "{kind}"\n'
    dialect = loaded(written(tmp_path, text, "harness.toml")).engine.dialect
    assert (dialect.stated_kind, dialect.refused_ranks) == (kind, refused)


def test_a_factory_of_another_class_makes_no_leaf_of_this_one(tmp_path: Path) -> None:
    """With a wrong product, the blocks of an engine would otherwise seem to be its tensors."""
    bug = next(bug for bug in BUGS["flat_lists"] if bug.op == "mul")
    assert loaded(write(tmp_path, "flat_lists", bug)).engine.dialect.leaf == "Tensor(data)"


_EVADED = {"seed ignored"}
"""Bugs that another way to call the engine avoids."""


def _calls(dialect: object) -> list[object]:
    names = ("kind", "leaf", "value", "backward", "gradient")
    return [getattr(dialect, name) for name in names]


def test_what_came_out_right_is_recorded(tmp_path: Path) -> None:
    text = changed(("self.grad = 1.0", "self.grad = 0.0"), text=SCALAR)
    storage = loaded(written(tmp_path, text)).storage
    assert set(storage.one_op.values()) == {"empty"}
    text = changed(("g * b.data, a.data.shape", "g, a.data.shape"))
    outcomes = loaded(written(tmp_path, text)).storage.one_op
    assert outcomes["t + u"] == "right"
    assert outcomes["t * u"] == "scaled"


def test_methods_that_no_operator_calls_are_listed(tmp_path: Path) -> None:
    text = SOUND + "\n    def __div__(self, other): ...\n\n    __plus__ = __add__\n"
    assert loaded(written(tmp_path, text)).storage.misnamed == {"__div__": "__truediv__"}


@pytest.mark.parametrize(
    ("parameters", "backward"),
    [
        ("g: Optional['Tensor'] = None", "t.backward(Tensor(cotangent))"),
        ("g: np.ndarray", "t.backward(cotangent)"),
        ("retain_graph=True", "(t * Tensor(cotangent)).sum().backward()"),
    ],
)
def test_a_signature_decides_if_nothing_comes_out_right(
    tmp_path: Path, parameters: str, backward: str
) -> None:
    bug = "raise RuntimeError\n        g = 1.0\n        order = []"
    text = changed(
        ("self, g):\n        self.receive", f"self, {parameters}):\n        self.receive")
    )
    text = "from typing import Optional\n" + changed(
        ("self.receive(np.array(g, dtype=float))\n        order = []", bug), text=text
    )
    assert loaded(written(tmp_path, text)).engine.dialect.backward == backward


SETTINGS = {
    "leaf": '"Tensor(data)"',
    "data": '"t.data"',
    "backward": '"t.backward(cotangent)"',
    "grad": '"t.grad"',
}


@pytest.mark.parametrize(
    "bug",
    [
        ("pending = {self: np.array(g, dtype=float)}", "pending = {self: g * 0}"),
        ("self.grad = part if", "self.grad = None if"),
        ("order = []", "raise RuntimeError"),
        ("self.data = np.array(data, dtype=float)", "self.data = np.zeros(np.shape(data))"),
        ("self.data = np.array(data, dtype=float)", "self.data = np.arry(data)"),
    ],
)
def test_settings_that_the_user_wrote_are_used(tmp_path: Path, bug: tuple[str, str]) -> None:
    written(tmp_path, changed(bug))
    lines = [f"{name} = {value}" for name, value in SETTINGS.items()]
    written(
        tmp_path, "\n".join(["[engine]", 'target = "engine.py:Tensor"', *lines]), "harness.toml"
    )
    dialect = loaded(tmp_path / "harness.toml").engine.dialect
    assert [dialect.leaf, dialect.backward] == ["Tensor(data)", "t.backward(cotangent)"]


def test_a_class_from_elsewhere_is_not_the_engine(tmp_path: Path) -> None:
    text = "class Tensor:\n    def backward(self): ...\n\n\nTensor.__module__ = 'torch'\n"
    numbers = changed(("self.grad = 1.0", "self.grad = 0.0"), text=SCALAR)
    assert loaded(written(tmp_path, f"{text}\n\n{numbers}")).name == "Value"


def test_a_function_that_differentiates_nothing_is_not_offered_as_a_leaf(tmp_path: Path) -> None:
    text = "def make_vjp(function):\n    raise NotImplementedError\n"
    with pytest.raises(EnvironmentProblem) as caught:
        loaded(written(tmp_path, text))
    assert "make_vjp(data)" not in caught.value.remedy
    assert "name the tensor class" in caught.value.remedy
