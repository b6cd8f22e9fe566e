"""Leaves that a probe creates itself: recorded, named, compared, and given other values."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import minigrad
from harness.answer_key.outcome import Judgement, judge
from harness.core.run import Digest, Failure, Run, leaf_name, pack
from harness.core.vocabulary import Alarm, Verdict
from harness.engines.adapter import open_library
from harness.engines.engine import Dialect, find_engine
from harness.engines.library import Library
from harness.experiment.baseline import Baseline
from harness.pages.probe import Probe, read_probes
from harness.runs.cache import open_cache
from harness.runs.observer import LARGE, observe
from harness.runs.protocol import is_possible
from harness.runs.trial import Trial
from tests.harness.bundled import CATALOGUE
from tests.harness.diagnostics.wrong_engines import edit, engine_with

LIBRARY = Library(Dialect(module="minigrad"), minigrad)
SHARED = CATALOGUE.shared_probes

TWICE = edit("layer_ops.py::linear", "dx, dweight, $db", "dx, 2 * dweight, $db")
NO_BIAS_HH = edit("LSTMCell.forward", "$gates + self.bias_hh", "$gates + self.bias_hh.detach()")


def probe(text: str) -> Probe:
    return read_probes(f"import numpy as np\n\n\n{text}", "made.py")[0]


def trial(text: str) -> Trial:
    return Trial(LIBRARY, probe(text))


def observed(text: str) -> Run:
    return observe(trial(text), "weighted")


def judged(name: str, change: str) -> Judgement:
    """What a change of minigrad does to a shared probe."""
    runs = Baseline(open_cache(), ())
    loss = SHARED[name].losses[-1]
    key, run = (
        runs.clean(engine, [SHARED[name]])[name, loss].run
        for engine in (find_engine(), engine_with(change))
    )
    return judge(msgspec.structs.replace(run, reached=[0]), key)


# ----- The answer key -----


@pytest.mark.parametrize(
    "name", ["linear-two-outputs", "linear-one-output", "attend-two-heads", "causal-two-heads"]
)
def test_a_wrong_gradient_of_a_layers_own_weight_is_silent_corruption(name: str) -> None:
    found = judged(name, TWICE)
    assert (found.outcome, found.kind) == ("silent-corruption", "value")
    assert str(found.evidence).startswith("the first Linear's weight.grad")


def test_a_layers_bias_without_a_gradient_is_silent_corruption() -> None:
    found = judged("lstm-three-steps", NO_BIAS_HH)
    assert found.outcome == "silent-corruption"
    assert str(found.evidence) == ("the first LSTMCell's bias_hh has no gradient, expected one")


@pytest.mark.parametrize(
    ("head", "name", "title"),
    [
        (
            "def steps(lib):\n    'doc'\n    w = lib.tensor([1.0, 2.0], requires_grad=True)\n",
            "tensor[0]",
            "the probe's first tensor.grad",
        ),
        ("def steps(lib, w=[1.0, 2.0]):\n    'doc'\n", "w", "w.grad"),
    ],
)
def test_a_wrong_gradient_that_no_log_shows_is_found_at_the_step(
    head: str, name: str, title: str
) -> None:
    text = f"""{head}    for _ in range(2):
        (w * w).sum().backward()
        yield {{"done": 1.0}}
"""
    key = observed(text)
    assert [*key.leaf_log[0]] == [name, f"{name}.grad"]
    wrong = dict(key.leaf_log[1]) | {f"{name}.grad": pack([4.0, 9.0])}
    run = msgspec.structs.replace(key, leaf_log=[key.leaf_log[0], wrong], reached=[0])
    evidence = f"after step 1, {title} is [4, 9], expected [4, 8]"
    assert str(judge(run, key).evidence) == evidence


def made(gradient: Any, expected: Any, **rest: Any) -> Judgement:
    """A run whose created leaf has the first gradient, and its key with the second."""
    runs = [
        Run(
            "probe",
            "weighted",
            leaves={"Linear[0].bias": pack([1.0, 2.0]), "Linear[0].weight": pack([1.0])},
            output=pack(1.0),
            gradients={
                "Linear[0].bias": None if one is None else pack(one),
                "Linear[0].weight": pack([1.0]),
            },
            reached=[0],
            **rest,
        )
        for one in (gradient, expected)
    ]
    return judge(*runs)


def test_no_gradient_and_one_of_zeros_are_the_same_for_a_created_leaf() -> None:
    assert made(None, [0.0, 0.0]).outcome == "disguised-correct"
    assert made([0.0, 0.0], None).outcome == "disguised-correct"
    assert made(None, [0.0, 1e-3]).outcome == "silent-corruption"
    assert str(made([0.0, 1.0], None).evidence) == (
        "the first Linear's bias has a gradient, expected none"
    )


def test_a_gradient_of_nothing_but_rounding_is_compared_on_the_scale_of_the_others() -> None:
    assert made([1e-17, -3e-17], [2e-17, 5e-18]).outcome == "disguised-correct"
    assert made([1e-9, 0.0], [2e-17, 5e-18]).outcome == "silent-corruption"


def test_what_could_not_be_compared_is_counted() -> None:
    assert str(made([1.0, 1.0], [1.0, 1.0], not_compared=4).evidence).endswith(
        "; 4 leaves that the probe creates were not compared"
    )
    assert str(made([1.0, 1.0], [1.0, 1.0], not_compared=1).evidence).endswith(
        "; 1 leaf that the probe creates was not compared"
    )


def test_gradients_that_a_crash_kept_from_coming_are_not_called_silently_wrong() -> None:
    text = """def probe(lib, a=(2,)):
    'doc'
    return a * lib.tensor([1.0, 2.0], requires_grad=True)
"""
    key = observed(text)
    failure = Failure("the backward pass", "ValueError", "no")
    run = msgspec.structs.replace(key, leaves={}, gradients={}, failure=failure)
    assert str(judge(run, key).evidence) == "ValueError in the backward pass: no"


# ----- What is recorded, and its name -----


def test_leaves_are_named_in_the_order_of_their_creation() -> None:
    run = observed("""def layers(lib, x=(2, 3)):
    'doc'
    rng = np.random.default_rng(0)
    one, two = lib.nn.Linear(3, 4, rng=rng), lib.nn.Linear(4, 2, rng=rng)
    constant = lib.tensor([1.0, 2.0])
    scale = lib.tensor([1.0, 2.0], requires_grad=True)
    return two(one(x)) * scale + constant
""")
    assert [*run.leaves] == [
        *("x", "Linear[0].weight", "Linear[0].bias", "Linear[1].weight", "Linear[1].bias"),
        "tensor[1]",  # `constant` is the first tensor, and takes no part in the backward pass
    ]
    assert all(run.gradients.values())


def test_a_frozen_parameter_is_recorded_only_if_it_gets_a_gradient() -> None:
    text = """def frozen(lib, x=(2, 3)):
    'doc'
    layer = lib.nn.Linear(3, 2, rng=np.random.default_rng(0))
    for parameter in layer.parameters():
        parameter.requires_grad = FROZEN
    return layer(x)
"""
    assert [*observed(text.replace("FROZEN", "False")).leaves] == ["x"]
    assert len(observed(text.replace("FROZEN", "True")).leaves) == 3


def test_what_the_engine_makes_for_itself_is_not_recorded() -> None:
    run = observed("""def cell(lib, x=(2, 3)):
    'doc'
    layer = lib.nn.LSTMCell(3, 2, rng=np.random.default_rng(0))
    return layer(x)[0]
""")  # its state of zeros is a tensor, too
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert [*run.leaves] == ["x", *(f"LSTMCell[0].{part}" for part in parts)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a", "a"),
        ("Linear[1].weight", "the second Linear's weight"),
        ("Linear[23].weight", "the weight of Linear 24"),
        ("tensor[2]", "the probe's third tensor"),
    ],
)
def test_a_created_leaf_is_named_as_a_reader_would(name: str, words: str) -> None:
    assert str(leaf_name(name)) == words


def test_nothing_is_left_of_the_watch() -> None:
    before = vars(minigrad.Tensor)["__init__"], dict(vars(minigrad.nn.Module))
    observed("def leaf(lib, a=(2,)):\n    'doc'\n    return a * lib.tensor([1.0, 2.0])\n")
    assert (vars(minigrad.Tensor)["__init__"], dict(vars(minigrad.nn.Module))) == before


def test_large_leaves_are_compared_by_their_digests() -> None:
    text = f"""def large(lib, x=(2, {LARGE})):
    'doc'
    layer = lib.nn.Linear({LARGE}, 1, rng=np.random.default_rng(0))
    return layer(x)
"""
    key = observed(text)
    assert [*key.leaves] == ["x", "Linear[0].bias"]
    (large,) = key.large
    assert [*large] == ["Linear[0].weight", "Linear[0].weight.grad"]
    assert is_possible(key, probe(text), "weighted", may_be_empty=False)
    gradient = large["Linear[0].weight.grad"]
    other = Digest(gradient.checksum, gradient.projection + 1e-3, gradient.rounding)
    run = msgspec.structs.replace(
        key, large=[large | {"Linear[0].weight.grad": other}], reached=[0]
    )
    assert judge(msgspec.structs.replace(key, reached=[0]), key).outcome == "disguised-correct"
    assert str(judge(run, key).evidence) == "the first Linear's weight.grad differs"


@pytest.mark.parametrize(
    "change",
    [
        {"leaves": {"b": pack([1.0])}},
        {"leaves": {"Linear[0].weight\n": pack([1.0])}},
        {"leaf_log": [{"a.grad": pack([1.0])}]},
        {"leaf_log": [{"Linear[0].weight.grad": pack([1.0])}]},
        {"leaf_log": [{"b": pack([1.0])}]},
        {"leaf_log": [{}, {}]},
    ],
)
def test_a_forged_record_of_created_leaves_is_refused(change: dict[str, Any]) -> None:
    text = "def leaf(lib, a=(2,)):\n    'doc'\n    return a * a\n"
    run = observed(text)
    assert is_possible(run, probe(text), "weighted", may_be_empty=False)
    if "leaves" in change:
        gradients = dict.fromkeys(change["leaves"])
        change = {"leaves": run.leaves | change["leaves"], "gradients": run.gradients | gradients}
    forged = msgspec.structs.replace(run, **change)
    assert not is_possible(forged, probe(text), "weighted", may_be_empty=False)


# ----- Other values -----

LOADED = """def loaded(lib, x=(2, 3)):
    'doc'
    layer = lib.nn.Linear(3, 2, rng=np.random.default_rng(0))
    layer.load_state_dict({"weight": np.ones((2, 3)), "bias": np.zeros(2)})
    return layer(x)
"""


def test_a_created_leaf_holds_given_values_although_the_probe_loads_others() -> None:
    run, again = observed(LOADED), trial(LOADED)
    values = run.values()
    assert values["Linear[0].weight"].tolist() == [[1.0] * 3] * 2
    moved = values | {"Linear[0].bias": np.array([0.0, 5.0])}
    difference = again.output(moved) - again.output(values)
    assert np.allclose(difference, [[0.0, 5.0]] * 2)
    gradients = again.gradients(moved, np.ones((2, 2)))[1]
    assert gradients["Linear[0].bias"].tolist() == [2.0, 2.0]  # type: ignore[union-attr]


def test_a_leaf_that_changes_after_its_use_is_not_measured() -> None:
    text = LOADED.replace(
        "    return layer(x)\n",
        "    first = layer(x)\n    layer.weight.data = 2 * layer.weight.data\n"
        "    return layer(x) * first\n",
    )
    run, again = observed(text), trial(text)
    assert len(run.leaves) == 3
    assert [*again.measurable(run).leaves] == ["x"]
    assert [*trial(LOADED).measurable(observed(LOADED)).leaves] == [*observed(LOADED).leaves]


def verdicts(name: str, change: str) -> dict[str, Verdict]:
    found = Baseline(open_cache()).clean(engine_with(change), [SHARED[name]])
    return found[name, SHARED[name].losses[-1]].verdicts


def test_diagnostics_alarm_on_a_wrong_gradient_of_a_layers_own_weight() -> None:
    small = verdicts("linear-two-outputs", TWICE)
    assert isinstance(small["gradcheck"], Alarm)
    assert "the first Linear's weight.grad[0, 0]" in str(small["gradcheck"].message)
    assert isinstance(small["directional"], Alarm)
    assert isinstance(verdicts("attend-two-heads", TWICE)["directional"], Alarm)


@pytest.mark.parametrize(
    ("name", "diagnostic"), [("linear-two-outputs", "torch"), ("train-lstm", "trajectory")]
)
def test_pytorch_is_compared_where_it_creates_the_same_leaf(name: str, diagnostic: str) -> None:
    pytest.importorskip("torch")
    change = TWICE if diagnostic == "torch" else NO_BIAS_HH
    assert isinstance(verdicts(name, change)[diagnostic], Alarm)


# ----- Foreign engines -----

FOREIGN = """
import numpy as np


class Tensor:
    def __init__(self, data, parents=(), rule=None):
        self.data, self.parents, self.rule = np.asarray(data, float), parents, rule
        self.grad = None

    def __mul__(self, other):
        product = self.data * other.data
        return Tensor(product, (self, other), lambda g: (g * other.data, g * self.data))

    def backward(self, g):
        self.grad = g if self.grad is None else self.grad + g
        for parent, part in zip(self.parents, self.rule(g) if self.rule else ()):
            parent.backward(part)
"""


def test_leaves_of_an_adapters_probe_are_recorded() -> None:
    module = type(minigrad)("foreign")
    exec(FOREIGN, vars(module))  # noqa: S102
    import sys

    sys.modules["foreign"] = module
    try:
        dialect = replace(
            Dialect(module="foreign"),
            kind="arrays",
            leaf="Tensor(data)",
            backward="t.backward(cotangent)",
        )
        library = open_library(dialect, module)
        text = """def scaled(lib, x=(2,)):
    'doc'
    scaled = x * lib.tensor([1.0, 2.0]) * lib.tensor([3.0, 4.0], requires_grad=True)
    return scaled * lib.Tensor([1.0, 1.0], requires_grad=True)
"""
        run = observe(Trial(library, probe(text)), "uniform")
        again = Trial(library, probe(text))
        values = run.values() | {"tensor[1]": np.array([1.0, 1.0])}
        assert np.allclose(again.output(values), run.values()["x"] * [1.0, 2.0])
    finally:
        del sys.modules["foreign"]
    assert [*run.leaves] == ["x", "tensor[1]", "tensor[2]"]
    assert np.allclose(run.gradients["tensor[1]"].numpy(), run.values()["x"] * [1.0, 2.0])  # type: ignore[union-attr]
