"""Finding out how to speak to an engine, by trying it in a child."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

import harness.experiment.exploration
from harness.core.errors import EnvironmentProblem
from harness.core.run import Failure, FailureOrigin
from harness.core.vocabulary import Phase
from harness.engines.engine import Dialect
from harness.engines.survey import ShapeChange, Survey, SurveyStep
from harness.experiment.exploration import Exploration, explore
from harness.experiment.patching import put
from harness.runs.cache import Cache, open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.engines.texts import SCALAR, SOUND, changed, written

CONVENTIONS = CATALOGUE.conventions
ENGINES = Path(__file__).parents[2] / "engines"


def tried(folder: Path, text: str, name: str = "") -> Exploration:
    return explore(written(folder, text) + (f":{name}" if name else ""), Cache(None), CONVENTIONS)


@dataclass(frozen=True)
class Seen:
    """What is to be found out about an engine of `tests/engines`."""

    name: str
    forms: tuple[str, ...]
    before: str
    second: str
    reducer: str | None
    callers: tuple[str, ...] = ()
    """Of its un-broadcasting, in an addition."""
    in_place: bool = False


_DIRECT = "t.backward(cotangent)"

KNOWN = {
    "closures": Seen(
        "Tensor",
        ("Tensor(data)", "t.data", "t.grad", "(t * Tensor(cotangent)).sum().backward()"),
        *("zeros", "in place", "unbroadcast"),
        ("Tensor.__add__.<locals>._backward", "Tensor.__mul__.<locals>._backward"),
        in_place=True,
    ),
    "central": Seen(
        "Tensor",
        ("Tensor(data)", "t.data", "t.grad", _DIRECT),
        *("none", "rebound", "reduce_broadcast", ("Operation.backward",)),
    ),
    "classes": Seen(
        "Variable",
        (
            "Variable(data)",
            "t.data",
            "None if t.grad is None else t.grad.data",
            "(t / Variable(1 / cotangent)).backward()",
        ),
        *("none", "rebound", "sum_to", ("Add.backward", "Div.backward")),
    ),
    "inline": Seen(
        "Tensor",
        ("Tensor(data)", "t.data", "t.grad", "(t * Tensor(cotangent)).backward()"),
        *("zeros", "in place", None),
        in_place=True,
    ),
    "rebinding": Seen(
        "Array",
        ("Array(data)", "t.value", "t.grad", _DIRECT),
        *("zeros", "rebound", "_sum_to_shape", ("Array.add.<locals>.rule",)),
    ),
    "stored_first": Seen(
        "Tensor",
        ("Tensor(data, requires_grad=True)", "t.data", "t.grad", _DIRECT),
        *("none", "rebound", "Tensor.unbroadcast", ("Tensor.__add__.<locals>.grad_fn",)),
    ),
    "tape": Seen(
        "Tensor",
        ("Tensor(data)", "t.data", "t.grad", _DIRECT),
        *("none", "rebound", "sum_grad_to_shape", ("_add_backward",)),
    ),
}


@pytest.mark.parametrize("engine", KNOWN)
def test_an_engine_is_found_out_without_a_word_about_it(engine: str) -> None:
    found, seen = explore(str(ENGINES / f"{engine}.py"), open_cache(), CONVENTIONS), KNOWN[engine]
    said = found.engine.dialect
    assert (found.name, said.kind) == (seen.name, "arrays")
    assert (said.leaf, said.value, said.gradient, said.backward) == seen.forms
    step = found.accumulation
    assert (step.initial_gradient, step.second_backward) == (seen.before, seen.second)
    assert found.engine.like == ("accumulate-in-place" if seen.in_place else None)
    assert [each.name for each in found.reducers] == ([seen.reducer] if seen.reducer else [])
    for each in found.reducers:
        assert tuple(each.callers["add"]) == seen.callers
        assert each.flaws == []
    assert found.engine.names.get("unbroadcast") == seen.reducer
    assert found.engine.names.get("Tensor", "Tensor") == seen.name


ARRIVING = """
import numpy as np

class Tensor:
    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents = np.asarray(data, dtype=float), None, parents

    def take_in(self, g):
        while g.ndim > self.data.ndim:
            g = g.sum(axis=0)
        for axis, n in enumerate(self.data.shape):
            if n == 1:
                g = g.sum(axis=axis, keepdims=True)
        self.grad = g if self.grad is None else self.grad + g

    def __add__(self, other):
        out = Tensor(self.data + other.data, (self, other))
        out.rule = lambda: (self.take_in(out.grad), other.take_in(out.grad))
        return out

    def __mul__(self, other):
        out = Tensor(self.data * other.data, (self, other))
        g = lambda: out.grad
        out.rule = lambda: (self.take_in(g() * other.data), other.take_in(g() * self.data))
        return out

    def backward(self, grad=None):
        order = []
        def visit(tensor):
            if tensor not in order:
                for parent in tensor.parents:
                    visit(parent)
                order.append(tensor)
        visit(self)
        self.grad = np.ones_like(self.data) if grad is None else np.asarray(grad)
        for tensor in reversed(order):
            if tensor.parents:
                tensor.rule()
"""


def test_where_every_gradient_arrives_is_found_whatever_its_name(tmp_path: Path) -> None:
    found = tried(tmp_path, ARRIVING)
    assert found.engine.names["accumulate"] == "take_in"
    page = next(page for page in bundled_pages() if page.id == "skip-unbroadcast")
    (site,) = put(page, found.engine).sites
    assert site.scope == "Tensor.take_in"


@pytest.mark.parametrize("engine", ["closures", "tape"])
def test_a_rule_that_adds_by_itself_is_not_where_every_gradient_arrives(engine: str) -> None:
    found = explore(str(ENGINES / f"{engine}.py"), open_cache(), CONVENTIONS)
    assert "accumulate" not in found.engine.names


def test_a_reducer_of_tensors_with_keywords_is_found() -> None:
    path = ENGINES / "learners" / "tensor_reducers.py"
    found = explore(str(path), open_cache(), CONVENTIONS)
    assert [each.name for each in found.reducers] == ["sum_to_shape"]
    page = next(page for page in bundled_pages() if page.id == "skip-unbroadcast")
    assert len(put(page, found.engine).sites) == 2


def test_an_engine_of_functions_is_found_out() -> None:
    found = explore(str(ENGINES / "functional.py"), open_cache(), CONVENTIONS)
    assert (found.name, found.engine.dialect.kind) == ("vjp", "functional")
    assert found.engine.dialect.pull is not None
    assert [each.name for each in found.reducers] == ["unbroadcast"]


def test_a_tensor_that_is_asked_for_alone_is_found_among_helpers(tmp_path: Path) -> None:
    text = SOUND + "\n\nclass Dropout:\n    def backward(self, g):\n        return g\n"
    assert tried(tmp_path, text).name == "Tensor"


def test_a_gradient_may_be_a_method(tmp_path: Path) -> None:
    text = changed(
        ("self.grad = None", "self.held = None"),
        (
            "self.grad = part if self.grad is None else self.grad + part",
            "self.held = part if self.held is None else self.held + part",
        ),
        ("    def backward", "    def grad(self):\n        return self.held\n\n    def backward"),
    )
    found = tried(tmp_path, text)
    assert found.engine.dialect.gradient == "t.grad()"
    assert found.accumulation.second_backward == "rebound"


def test_a_gradient_may_be_a_tensor(tmp_path: Path) -> None:
    text = changed(
        (
            "self.grad = part if self.grad is None else self.grad + part",
            "self.grad = Tensor(part if self.grad is None else self.grad.data + part)",
        ),
    )
    said = tried(tmp_path, text).engine.dialect
    assert said.gradient == "None if t.grad is None else t.grad.data"


def test_padded_ranks_are_said_and_no_obstacle(tmp_path: Path) -> None:
    found = tried(tmp_path, changed(("np.array(data, dtype=float)", "np.atleast_2d(data)")))
    assert found.engine.dialect.kind == "arrays"
    assert ShapeChange((3,), (1, 3)) in found.storage.shape_changes
    assert (2, 3) not in [change.shape for change in found.storage.shape_changes]


def test_float32_is_noticed(tmp_path: Path) -> None:
    found = tried(tmp_path, changed(("dtype=float)", "dtype=np.float32)")))
    assert found.storage.dtype == "float32"


def test_an_engine_without_operators_is_spoken_to_by_functions(tmp_path: Path) -> None:
    text = changed(
        ("def __add__", "def plus"),
        ("def __mul__", "def times"),
        (
            "class Tensor:",
            "def add(a, b):\n    return a.plus(b)\n\n\ndef mul(a, b):\n    return a.times(b)\n\n\n"
            "class Tensor:",
        ),
    )
    found = tried(tmp_path, text)
    assert found.engine.dialect.kind == "arrays"
    assert found.accumulation.second_backward == "rebound"


def test_an_engine_of_single_numbers_is_known_as_one(tmp_path: Path) -> None:
    found = tried(tmp_path, SCALAR)
    assert (found.name, found.engine.dialect.kind) == ("Value", "scalars")
    assert found.accumulation.initial_gradient == "number"
    assert found.reducers == []


ADDS = "self.grad = part if self.grad is None else self.grad + part"
STYLES = {
    "replaced": ("self.grad = part", "none", "replaced"),
    "in place": ("self.grad += part", "zeros", "in place"),
    "rebound from zeros": ("self.grad = self.grad + part", "zeros", "rebound"),
    "a number": ("self.grad = self.grad + part", "number", "rebound"),
}


@pytest.mark.parametrize("style", STYLES)
def test_how_gradients_are_added_up_is_seen(tmp_path: Path, style: str) -> None:
    after, before, second = STYLES[style]
    start = {"zeros": "np.zeros_like(self.data)", "number": "0", "none": "None"}[before]
    text = changed((ADDS, after), ("self.grad = None", f"self.grad = {start}"))
    seen = tried(tmp_path, text)
    step = seen.accumulation
    assert (step.initial_gradient, step.second_backward) == (before, second)
    assert (seen.engine.like is not None) == (style == "in place")


BOX = "class Box:\n    def __init__(self, data):\n        self.data = data\n\n\nclass Tensor:"


def test_zeros_in_a_wrapped_gradient_of_any_name_are_seen(tmp_path: Path) -> None:
    text = changed(
        (ADDS, "self.adj = Box(self.adj.data + part)"),
        ("self.grad = None", "self.adj = Box(np.zeros_like(self.data))"),
        ("class Tensor:", BOX),
    )
    seen = tried(tmp_path, text)
    assert seen.engine.dialect.gradient == "None if t.adj is None else t.adj.data"
    step = seen.accumulation
    assert (step.initial_gradient, step.second_backward) == ("zeros", "rebound")


def test_memory_that_gradients_share_is_seen(tmp_path: Path) -> None:
    whole = "    if g.shape == shape:\n        return g\n    g = g.sum"
    text = changed(("    g = g.sum", whole))
    assert tried(tmp_path / "a", text).accumulation.shares_memory
    assert not tried(tmp_path / "b", SOUND).accumulation.shares_memory


def test_a_second_walk_may_be_refused(tmp_path: Path) -> None:
    text = changed(
        (
            "        order = []",
            "        if self.parents and self.parents[0].grad is not None:\n"
            "            raise RuntimeError('walked twice')\n        order = []",
        )
    )
    assert tried(tmp_path, text).accumulation.second_backward == "refused"


def test_a_wrong_unbroadcasting_is_found_with_a_witness(tmp_path: Path) -> None:
    squeezing = changed(("g.sum(axis=ones, keepdims=True)", "g.sum(axis=ones)"))
    (reducer,) = tried(tmp_path, squeezing).reducers
    assert reducer.name == "fold"
    assert "(4, 3) to (4, 1): the result has shape (4,)" in reducer.flaws


@pytest.mark.parametrize(
    "call", ["fold(shape, g)", "fold(g, np.zeros(shape))", "fold(Tensor(g), shape)"]
)
def test_an_unbroadcasting_is_known_by_what_it_does(tmp_path: Path, call: str) -> None:
    """Whatever the order and the types of its arguments."""
    body = {
        "fold(shape, g)": "def fold(shape, g):",
        "fold(g, np.zeros(shape))": "def fold(g, like):\n    shape = like.shape",
        "fold(Tensor(g), shape)": "def fold(g, shape):\n    g = g.data",
    }[call]
    text = changed(("def fold(g, shape):", body))
    for g, shape in (
        ("g", "a.data.shape"),
        ("g", "b.data.shape"),
        ("g * b.data", "a.data.shape"),
        ("g * a.data", "b.data.shape"),
    ):
        use = call.replace("np.zeros(shape)", shape.removesuffix(".shape"))
        use = use.replace("shape", shape) if "np.zeros" not in call else use
        use = use.replace("(g", f"({g}").replace(", g", f", {g}")
        text = changed((f"fold({g}, {shape})", use), text=text)
    (reducer,) = tried(tmp_path, text).reducers
    assert (reducer.name, reducer.flaws) == ("fold", [])


def test_what_takes_the_same_arguments_may_do_something_else(tmp_path: Path) -> None:
    spread = (
        "def spread(g, shape):\n    return g if g.shape == shape else np.full(shape, g.sum())\n"
    )
    found = tried(tmp_path, changed(("def lift", f"{spread}\n\ndef lift")))
    assert [each.name for each in found.reducers] == ["fold"]


def test_what_is_said_is_not_tried(tmp_path: Path) -> None:
    text = changed(("self.data", "self.cells"), ("data.shape", "cells.shape"), (".data", ".cells"))
    path = written(tmp_path, text)
    assert explore(path, Cache(None), CONVENTIONS).engine.dialect.value == "t.cells"
    said = f'[engine]\ntarget = "{path}:Tensor"\nleaf = "lift(data)"\naccumulation = "in place"\n'
    found = explore(written(tmp_path, said, "harness.toml"), Cache(None), CONVENTIONS)
    assert found.engine.dialect.leaf == "lift(data)"
    assert found.engine.like == "accumulate-in-place"


@pytest.mark.parametrize("form", ["(lambda: {})()", "[{} for _ in range(1)][0]"])
def test_nested_scopes_of_a_setting_see_its_names(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, SOUND)
    stated = {
        "leaf": form.format("Tensor(data)"),
        "data": form.format("t.data"),
        "grad": form.format("t.grad"),
        "backward": form.format("t.backward(cotangent)"),
    }
    lines = [f'{key} = "{text}"' for key, text in stated.items()]
    text = "\n".join(["[engine]", f'target = "{path}:Tensor"', *lines])
    dialect = explore(
        written(tmp_path, text, "harness.toml"), Cache(None), CONVENTIONS
    ).engine.dialect
    assert dialect.expressions == {
        "leaf": stated["leaf"],
        "value": stated["data"],
        "gradient": stated["grad"],
        "backward": stated["backward"],
    }
    assert dialect.kind == "arrays"


def test_an_engine_that_bears_the_name_of_ours_is_itself(tmp_path: Path) -> None:
    path = written(tmp_path, changed(("class Tensor", "TELL = 1\n\n\nclass Tensor")), "minigrad.py")
    found = explore(f"{path}:Tensor", Cache(None), CONVENTIONS)
    assert (found.engine.name, found.engine.foreign) == ("minigrad", True)
    assert dict(found.engine.sources) == {"minigrad.py": Path(path).read_text(encoding="utf-8")}
    assert [each.name for each in found.reducers] == ["fold"]


def test_what_an_import_prints_is_not_a_result(tmp_path: Path) -> None:
    text = "import sys\nprint('hello', flush=True)\nsys.stderr.write('oh')\n" + SOUND
    assert tried(tmp_path, text).name == "Tensor"


FAILING = {
    "an import that raises": (SOUND + "\n1 / 0\n", "ZeroDivisionError in the import", "import eng"),
    "a missing module": ("import surely_missing\n" + SOUND, "surely_missing", "install surely_mi"),
    "a module of a package": ("import numpy.surely\n" + SOUND, "numpy.surely", "another version"),
    "no Python": ("class Tensor(:\n", "SyntaxError", "must work first"),
    "an exit": ("import sys\nsys.exit(0)\n" + SOUND, "SystemExit in the import", "must work first"),
    "a hard exit": ("import os\nos._exit(0)\n" + SOUND, "the import", "must work first"),
    "no class": ("x = 1\n", "neither a class with a backward", 'target = "'),
    "another class": (
        SOUND.replace("Tensor", "Array"),
        "does not define `Matrix`; what may be meant: Array",
        'engine.py:Array"`',
    ),
    "another class, without a backward": (
        "import math\nfrom textwrap import dedent\ndef f():\n    pass\nclass Node:\n    pass\n",
        "does not define `Matrix`; what may be meant: Node, f\n",
        'engine.py:Node"`',
    ),
    "nothing": (
        "x = 1\n",
        "does not define `Matrix`, nor any other class or function",
        'target = "',
    ),
    "no tensors": (
        "class Tensor:\n    def backward(self):\n        pass\n",
        "no expressions were found",
        "write `leaf = ",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_an_engine_that_cannot_be_tried_gets_one_message_and_a_remedy(
    tmp_path: Path, case: str
) -> None:
    text, words, remedy = FAILING[case]
    with pytest.raises(EnvironmentProblem, match=words) as caught:
        tried(tmp_path, text, "Matrix" if "Matrix" in words else "")
    said, _, help_ = str(caught.value).partition("\n  remedy: ")
    assert said.startswith(f"the engine `{tmp_path}")
    assert remedy in help_
    assert "Traceback" not in said


def test_only_a_setting_belongs_in_the_file_of_settings(tmp_path: Path) -> None:
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    with pytest.raises(EnvironmentProblem, match="ZeroDivisionError") as caught:
        tried(folder, SOUND + "\n1 / 0\n")
    assert caught.value.remedy.startswith("`python -c")
    with pytest.raises(EnvironmentProblem, match="does not define `Matrix`") as caught:
        tried(folder, SOUND, "Matrix")
    assert caught.value.remedy.startswith("in [engine] of harness.toml, name the tensor class")


def test_a_tape_that_has_to_be_opened_is_out_of_reach_and_said_so(tmp_path: Path) -> None:
    text = """\
import numpy as np

class Variable:
    def __init__(self, data):
        self.data, self.grad = np.asarray(data), None

    def __mul__(self, other):
        return Tape.open.record(self, other)

class Tape:
    open = None

    def __enter__(self):
        Tape.open = self
        return self

    def __exit__(self, *_):
        Tape.open = None

    def record(self, a, b):
        return Variable(a.data * b.data)

    def backward(self, end):
        pass
"""
    with pytest.raises(EnvironmentProblem, match=r"only inside `with Tape.*not supported"):
        tried(tmp_path, text, "Variable")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second for a step, where a survey has half a minute."""

    def soon(task: Survey) -> list[SurveyStep]:
        limits = Limits(seconds=1.0, cpu_seconds=3)
        return patient(msgspec.structs.replace(task, limits=limits))

    patient = harness.experiment.exploration.run_survey
    monkeypatch.setattr(harness.experiment.exploration, "run_survey", soon)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("where", ["an import", "a backward"])
def test_an_engine_that_hangs_is_ended_and_reported(tmp_path: Path, where: str) -> None:
    hang = "__import__('time').sleep(600)"
    text = {
        "an import": f"{SOUND}\n{hang}\n",
        "a backward": changed(("        order = []", f"        {hang}\n        order = []")),
    }[where]
    with pytest.raises(EnvironmentProblem, match=r"TimeLimit in the (import|tensors)") as caught:
        tried(tmp_path, text)
    assert "remedy: " in str(caught.value)


GONE = {
    "at the import": ("import numpy as np\n", "import numpy as np\n\nReal = np.float\n", 3),
    "in an import": ("import numpy as np\n", "import numpy as np\nfrom numpy import float\n", 2),
    "in a constructor": ("dtype=float", "dtype=np.float", 16),
}


@pytest.mark.parametrize("case", GONE)
def test_a_name_that_numpy_lost_is_the_cause_that_is_named(tmp_path: Path, case: str) -> None:
    old, new, line = GONE[case]
    with pytest.raises(EnvironmentProblem) as raised:
        tried(tmp_path, changed((old, new)))
    assert f"has no `numpy.float`, which is used in engine.py:{line}" in raised.value.problem
    assert raised.value.remedy.startswith(f"write `float` in its place in engine.py:{line};")


def test_a_failure_of_the_survey_itself_does_not_ask_to_fix_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = SurveyStep(Phase.ACCUMULATION, Dialect("engine"), "Tensor")
    for raiser, remedy in (("adapter", "a limitation of breaklab"), ("engine", "fix the engine")):
        failure = Failure(Phase.ACCUMULATION, "TypeError", "no", origin=FailureOrigin(raiser))
        steps = [msgspec.structs.replace(step, failure=failure)]
        monkeypatch.setattr(harness.experiment.exploration, "run_survey", lambda _, s=steps: s)
        with pytest.raises(EnvironmentProblem) as raised:
            tried(tmp_path, SOUND)
        assert remedy in raised.value.remedy
