"""Verdicts on unbroken engines: what fits, what is lacking, what differs, and real bugs."""

from dataclasses import replace

import pytest

from harness.core.errors import InternalError
from harness.engines.engine import find_engine
from harness.experiment import conformance
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import Fit, fit, usable_probes
from harness.pages.probe import read_probes
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.explored import engine_of
from tests.harness.engines.texts import SCALAR, SOUND, changed

PROBES = CATALOGUE.shared_probes
WHOLE = "    if g.shape == shape:\n        return g\n    g = g.sum"
"""What need not be summed is passed on as it is."""


ADDED_FIRST = """\
self.wide = part if self.grad is None else self.wide + part
        self.grad = fold(self.wide, self.data.shape)"""


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    """One for all: what our own engine answers is asked for once."""
    return Baseline(open_cache())


def verdicts(baseline: Baseline, text: str, *names: str) -> dict[str, Fit]:
    return fit(engine_of(text), [PROBES[name] for name in names], baseline)


def verdict(baseline: Baseline, text: str, name: str) -> Fit:
    return verdicts(baseline, text, name)[name]


def test_a_sound_engine_fits_what_it_has_and_lacks_the_rest(baseline: Baseline) -> None:
    names = ("add-new-axis", "mul-stretched-axis", "sum-rows", "reused-leaf", "exp", "train-mlp")
    found = verdicts(baseline, SOUND, *names)
    assert usable_probes(found.values()) == {"add-new-axis", "mul-stretched-axis", "sum-rows"} | {
        "reused-leaf"
    }
    assert (found["exp"].verdict, found["train-mlp"].verdict) == ("lacks", "lacks")
    assert "has no `exp`" in str(found["exp"].reason)


BUGS = {
    "un-broadcasts the wrong operand": (
        ("lambda g: fold(g, b.data.shape))", "lambda g: fold(g, a.data.shape))"),
        *("add-new-axis", "shape", "b.grad has shape (3,), expected (4, 3)"),
    ),
    "does not un-broadcast": (
        ("lambda g: fold(g, a.data.shape),", "lambda g: g,"),
        *("add-new-axis", "shape", "a.grad has shape (4, 3), expected (3,)"),
    ),
    "squeezes an axis": (
        ("g.sum(axis=ones, keepdims=True)", "g.sum(axis=ones)"),
        *("add-stretched-axis", "shape", "a.grad has shape (3,), expected (3, 1)"),
    ),
    "takes the wrong factor": (
        ("lambda g: fold(g * a.data, b.data.shape)", "lambda g: fold(g * b.data, b.data.shape)"),
        *("mul-stretched-axis", "value", "b.grad"),
    ),
    "forgets the first of two gradients": (
        ("self.grad = part if self.grad is None else self.grad + part", "self.grad = part"),
        *("reused-leaf", "value", "x.grad"),
    ),
    "crashes on a legal shape": (
        ("in enumerate(shape) if size == 1", "in enumerate(shape, 1) if size == 1"),
        *("add-stretched-axis", "crash", "AxisError in the backward pass"),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_met_with_a_witness(baseline: Baseline, bug: str) -> None:
    change, probe, kind, said = BUGS[bug]
    found = verdict(baseline, changed(change), probe)
    assert (found.verdict, found.kind) == ("bug", kind)
    assert said in str(found.reason)


def test_a_reduction_after_the_gradients_have_been_added_is_a_bug(baseline: Baseline) -> None:
    """What arrives wide is added to what is narrow, and summed only then: too much of it."""
    text = changed(
        (
            "lambda g: fold(g, a.data.shape), lambda g: fold(g, b.data.shape)",
            "lambda g: g, lambda g: g",
        ),
        ("self.grad = part if self.grad is None else self.grad + part", ADDED_FIRST),
    )
    probe = PROBES["add-new-axis"]
    twice = read_probes(
        "def wide_and_narrow(a=(3,), b=(4, 3)):\n"
        '    """Once in a stretched sum, once by itself."""\n'
        "    return (a + b).sum() + (a * a).sum()\n",
        probe.path,
    )
    found = fit(engine_of(text), [probe, *twice], baseline)
    assert found["add-new-axis"].verdict == "fits"
    assert (found["wide-and-narrow"].verdict, found["wide-and-narrow"].kind) == ("bug", "value")


def test_shared_memory_is_reported_and_is_not_an_obstacle(baseline: Baseline) -> None:
    found = verdict(baseline, changed(("    g = g.sum", WHOLE)), "add-same-shape")
    assert (found.verdict, found.kind) == ("fits", "aliased")
    assert "share memory" in str(found.reason)


DRAWN = "self.data = np.array(data, dtype=float)"
"""Each node gets an id that no result depends on."""


def test_a_draw_that_changes_no_number_is_not_a_bug(baseline: Baseline) -> None:
    text = changed((DRAWN, f"{DRAWN}\n        self.id = np.random.randint(10**9)"))
    found = verdicts(baseline, text, "add-same-shape", "mul", "reused-leaf")
    assert {(item.verdict, item.kind) for item in found.values()} == {("fits", "drawn")}


def test_a_draw_does_not_hide_a_wrong_number(baseline: Baseline) -> None:
    text = changed(
        (DRAWN, f"{DRAWN}\n        self.id = np.random.randint(10**9)"),
        ("lambda g: fold(g * b.data,", "lambda g: fold(g * a.data,"),
    )
    found = verdict(baseline, text, "mul")
    assert (found.verdict, found.kind) == ("bug", "value")


def test_a_leaf_that_cannot_be_made_is_not_a_bug_of_the_op(baseline: Baseline) -> None:
    text = changed((DRAWN, f"{DRAWN}\n        parents or self.data.reshape(4, 3)"))
    found = verdicts(baseline, text, "add-new-axis", "add-same-shape")
    assert (found["add-new-axis"].verdict, found["add-same-shape"].verdict) == ("lacks", "fits")
    assert str(found["add-new-axis"].reason).startswith("it makes no such leaf: ValueError")


def test_another_meaning_of_a_name_differs(baseline: Baseline) -> None:
    text = changed(("np.maximum(self.data, 0), (self,)", "np.maximum(self.data, 0) + 1, (self,)"))
    found = verdict(baseline, text, "relu-away-from-zero")
    assert found.verdict == "differs"
    assert str(found.reason).startswith("the output")


NO_CHOICE = {
    "2 - x is computed as x - 2": (
        (
            "    def sum(",
            "    def __rsub__(self, other):\n        return self + -other\n\n    def sum(",
        ),
        *("number-minus", "value", "the output is"),
    ),
    "tanh of a large number is a NaN": (
        (
            "    def sum(",
            "    def tanh(self):\n"
            "        t = np.sinh(self.data) / np.cosh(self.data)\n"
            "        return Tensor(t, (self,), (lambda g: g * (1 - t * t),))\n\n"
            "    def sum(",
        ),
        *("tanh-far-out", "non-finite", "the output is [nan, 0, nan]"),
    ),
    "a gradient in another precision is doubled": (
        ("g * (self.data > 0)", "(2 * g * (self.data > 0)).astype(np.float32)"),
        *("relu-of-positives", "value", "a.grad is [2, 2, 2], expected [1, 1, 1]"),
    ),
}


@pytest.mark.parametrize("bug", NO_CHOICE)
def test_a_wrong_number_is_no_convention(baseline: Baseline, bug: str) -> None:
    change, probe, kind, evidence = NO_CHOICE[bug]
    found = verdict(baseline, changed(change), probe)
    assert (found.verdict, found.kind) == ("bug", kind)
    assert evidence in str(found.reason)


def test_a_right_gradient_in_another_precision_differs(baseline: Baseline) -> None:
    text = changed(("g * (self.data > 0)", "(g * (self.data > 0)).astype(np.float32)"))
    assert verdict(baseline, text, "relu-of-positives").verdict == "differs"


def test_an_epsilon_differs_and_is_called_one(baseline: Baseline) -> None:
    text = changed(("lambda g: g * (self.data > 0)", "lambda g: g * (1 + 1e-7) * (self.data > 0)"))
    found = verdict(baseline, text, "relu-away-from-zero")
    assert (found.verdict, "an epsilon" in str(found.reason)) == ("differs", True)
    wrong = changed(("lambda g: g * (self.data > 0)", "lambda g: g * 1.01 * (self.data > 0)"))
    assert verdict(baseline, wrong, "relu-away-from-zero").verdict == "bug"


def test_another_subgradient_fits(baseline: Baseline) -> None:
    text = changed(("lambda g: g * (self.data > 0)", "lambda g: g * (self.data >= 0)"))
    found = verdict(baseline, text, "relu-at-kinks")
    assert (found.verdict, found.kind) == ("fits", "convention")


FORWARD = "    def __add__(self, other):\n"
CONSTRUCTOR = "        self.grad = None\n"
RULE = "lambda g: fold(g * a.data, b.data.shape)"
RECEIVE = "    def receive(self, part):\n"
FAILURES = {
    "its words, forward": (FORWARD, "raise ValueError('only equal ranks')", "refusal"),
    "an assertion, forward": (FORWARD, "assert self.data.ndim == 7", "refusal"),
    "its words, in a constructor": (CONSTRUCTOR, "raise ValueError('must be 2-D')", "refusal"),
    "its words, backward": (RECEIVE, "raise RuntimeError('the tensor has changed')", "refusal"),
    "not implemented, backward": (RECEIVE, "raise NotImplementedError", "lacks"),
    "an assertion without words, backward": (RECEIVE, "assert self.data.ndim == 7", "bug"),
    "words that fail, backward": (RECEIVE, "raise ValueError(f'{self.nothing}')", "bug"),
    "numpy, forward": (FORWARD, "np.zeros(2) + np.zeros(3)", "bug"),
    "a missing attribute, forward": (FORWARD, "self.nothing", "bug"),
    "an assertion that fails, forward": (FORWARD, "assert self.data.shape[7] == 1", "lacks"),
    "a missing attribute, backward": (RECEIVE, "self.nothing", "bug"),
    "a wrong type, backward": (RECEIVE, "len(3)", "bug"),
    "a missing key, backward": (RECEIVE, "{}[3]", "bug"),
    "a missing name, backward": (RECEIVE, "nothing", "bug"),
    "an index, backward": (RECEIVE, "[][0]", "bug"),
    "a name that NumPy lost, backward": (RECEIVE, "np.float(3)", "lacks"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_a_refusal_a_lack_or_a_bug(baseline: Baseline, case: str) -> None:
    place, raised, wanted = FAILURES[case]
    text = changed(
        (place, f"{place}        if self.data.shape == (3, 1):\n            {raised}\n"),
    )
    found = verdict(baseline, text, "add-stretched-axis")
    verdict_and_kind = {"refusal": ("lacks", "refusal"), "bug": ("bug", "crash")}
    assert (found.verdict, found.kind) == verdict_and_kind.get(wanted, (wanted, ""))
    lines = text.splitlines()
    assert (found.file, lines[found.line - 1].strip()) == ("engine.py", raised)


ENTRY = "    def backward(self, g):\n"
SUM_RULE = "        def rule(g):\n"
NO_RULE = (
    "lambda g: fold(g, a.data.shape), lambda g: fold(g, b.data.shape)",
    "lambda g: g, lambda g: g",
)
"""What arrives at the operands of a sum is not un-broadcast."""

REFUSE = "raise ValueError('not implemented')\n"
GUARDS = {
    "a check of every gradient": (
        [NO_RULE, (RECEIVE, f"{RECEIVE}        if part.shape != self.data.shape: {REFUSE}")],
        *("add-new-axis", "bug"),
    ),
    "the words of a rule": (
        [(SUM_RULE, f"{SUM_RULE}            if axis == 0: {REFUSE}")],
        *("sum-columns", "lacks"),
    ),
    "a check before the pass begins": (
        [(ENTRY, f"{ENTRY}        if self.data.ndim == 2: {REFUSE}")],
        *("add-new-axis", "lacks"),
    ),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_words_in_the_backward_pass_are_a_bug_if_every_gradient_is_checked(
    baseline: Baseline, guard: str
) -> None:
    changes, probe, wanted = GUARDS[guard]
    right = ("add-same-shape", "mul", "reused-leaf", "relu-away-from-zero", "sum-rows")
    found = verdicts(baseline, changed(*changes), probe, *right)
    item = found.pop(probe)
    assert (item.verdict, item.kind) == (wanted, "crash" if wanted == "bug" else "refusal")
    assert "not implemented" in str(item.reason)


OPERANDS = {
    "tensors": ("__add__(self, other)", "x + x", "bug"),
    "none": ("relu(self)", "x.relu()", "bug"),
    "an axis": ("sum(self, axis=None, keepdims=False)", "x.sum(0)", "lacks"),
    "an annotated axis": ("sum(self, axis: int | None = None)", "x.sum(0)", "bug"),
    "an axis like the default": ("sum(self, axis=0)", "x.sum(0)", "bug"),
    "two axes of one": ("sum(self, axis: int | None = None)", "x.sum((0,))", "lacks"),
    "a number": ("__mul__(self, other)", "x * 2.0", "lacks"),
    "an annotated number": ("__mul__(self, other: 'Tensor | float')", "x * 2.0", "bug"),
    "a number on the left": ("__rmul__(self, other)", "2.0 * x", "bug"),
    "a tensor on the left": ("__rmul__(self, other: 'Tensor')", "2.0 * x", "lacks"),
    "a tensor for an option": ("relu(self, slope=0.0)", "x.relu(x)", "lacks"),
    "a function of an unknown kind": ("function exp(x)", "x.exp()", "lacks"),
    "a function of tensors": ("function exp(x: Tensor)", "x.exp()", "bug"),
}


@pytest.mark.parametrize("case", OPERANDS)
def test_a_crash_is_a_bug_if_the_op_is_written_for_the_operands(
    baseline: Baseline, case: str
) -> None:
    signature, expression, wanted = OPERANDS[case]
    crash = f"    def {signature}:\n        return {{}}[0]\n\n"
    if signature.startswith("function "):
        text = f"{SOUND}\n\ndef {signature[9:]}:\n    return {{}}[0]\n"
    else:
        text = changed(("    def backward(self, g):", f"{crash}    def backward(self, g):"))
    probe = f'def special(x=(3,)):\n    """One op."""\n    return {expression}\n'
    found = fit(engine_of(text), read_probes(probe, "probes.py"), baseline)["special"]
    assert (found.verdict, found.kind) == (wanted, "crash" if wanted == "bug" else "")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("other.__mul__(self)", "bug"),
        ("NotImplemented", "lacks"),
        ("self.own(other)\n\n    def own(self, other):\n        return NotImplemented", "lacks"),
        ("self * other", "fits"),
    ],
)
def test_a_reflected_method_that_gives_up_without_saying_so_is_a_bug(
    baseline: Baseline, body: str, wanted: str
) -> None:
    text = changed((ENTRY, f"    def __rmul__(self, other):\n        return {body}\n\n{ENTRY}"))
    probe = 'def special(x=(3,)):\n    """A number times a tensor."""\n    return 2.0 * x\n'
    found = fit(engine_of(text), read_probes(probe, "probes.py"), baseline)["special"]
    assert found.verdict == wanted
    if wanted == "bug":
        assert text.splitlines()[found.line - 1].strip() == "def __rmul__(self, other):"


def test_a_tensor_in_place_of_a_number_is_a_wrong_value(baseline: Baseline) -> None:
    own = "    def exp(self):\n        return Value(self + self, (self,))\n\n"
    text = changed(("    def backward(self):", f"{own}    def backward(self):"), text=SCALAR)
    probe = 'def special(x=(3,)):\n    """A method."""\n    return x.exp()\n'
    found = fit(engine_of(text, SCALAR), read_probes(probe, "probes.py"), baseline)["special"]
    assert (found.verdict, found.kind) == ("bug", "value")
    assert "the data of a `Value` that it computes is a `Value`" in str(found.reason)


def test_a_limit_of_breaklab_is_not_a_bug_of_the_engine(baseline: Baseline) -> None:
    large = "        if self.data.shape == (3, 1):\n            raise MemoryError\n"
    found = verdict(baseline, changed((FORWARD, FORWARD + large)), "add-stretched-axis")
    assert (found.verdict, found.kind) == ("unjudged", "limit")
    assert "limit of breaklab" in str(found.reason)


@pytest.mark.parametrize(
    ("expression", "kind", "said"),
    [
        ("next(a.__iter__())", "adapter", "breaklab's adapter cannot run it"),
        (
            "a + {'minigrad.tensor': 1.0}[type(a).__module__]",
            "probe",
            "the probe itself fails there",
        ),
        ("a + [][0]", "probe", "it fails on minigrad too"),
    ],
)
def test_a_failure_of_ours_is_not_one_of_the_engine(
    baseline: Baseline, expression: str, kind: str, said: str
) -> None:
    text = f'def special(a=(3,)):\n    """Our own."""\n    return {expression}\n'
    found = fit(engine_of(SOUND), read_probes(text, "probes.py"), baseline)["special"]
    assert (found.verdict, found.kind) == ("unjudged", kind)
    assert said in str(found.reason)


def damage_answer_key(monkeypatch: pytest.MonkeyPatch, begins: str) -> None:
    """Let a rule of our own engine, whose definition begins like this, raise an exception."""
    ours, file = find_engine(), "minigrad/elementwise.py"
    text = changed((begins, f"{begins}    1 / 0\n"), text=ours.sources[file])
    damaged = replace(ours, sources={**ours.sources, file: text}, base={})
    monkeypatch.setattr(conformance, "find_engine", lambda: damaged)


def test_a_failed_answer_key_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    damage_answer_key(monkeypatch, "def add(a: Array, b: Array) -> Recorded:\n")
    with pytest.raises(
        InternalError, match=r"the reference engine fails on .*add-new-axis"
    ) as raised:
        verdict(Baseline(open_cache()), SOUND, "add-new-axis")
    assert raised.value.exit_status == 3


def test_what_the_engine_lacks_needs_no_answer_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most probes need an op that a small engine lacks; our engine does not run them either."""
    damage_answer_key(monkeypatch, "def exp(a: Array) -> Recorded:\n")
    found = verdict(Baseline(open_cache()), SOUND, "exp")
    assert (found.verdict, found.missing) == ("lacks", "exp")


def test_float32_is_compared_in_float32(baseline: Baseline) -> None:
    text = changed(("dtype=float)", "dtype=np.float32)"))
    found = verdicts(baseline, text, "add-new-axis", "mul-stretched-axis", "sum-rows")
    assert {each.verdict for each in found.values()} == {"fits"}


def test_a_refusal_that_a_probe_asks_for_is_a_choice(baseline: Baseline) -> None:
    found = verdict(baseline, SOUND, "refuse-target-without-cotangent")
    assert found.verdict == "lacks"


POWERS = """
    def __pow__(self, other):
        a, b = self, lift(other)
        rules = (
            lambda g: fold(g * b.data * a.data ** (b.data - 1), a.data.shape),
            lambda g: fold(g * a.data**b.data * np.log(np.abs(a.data)), b.data.shape),
        )
        return Tensor(a.data**b.data, (a, b), rules)

    def __rpow__(self, other):
        return lift(other) ** self
"""


LACKS = ["lacks", "lacks"]
EXPONENTS: dict[str, tuple[tuple[tuple[str, str], ...], list[str]]] = {
    "right": ((), ["fits", "fits"]),
    "no gradient": ((("np.log(np.abs(a.data))", "0"),), ["bug", "bug"]),
    "reversed": ((("lift(other) ** self", "self ** lift(other)"),), ["bug", "fits"]),
    "no reflected operator": ((("def __rpow__", "def rpow"),), ["lacks", "fits"]),
    "numbers only": (
        (("b = self, lift(other)", "b = self, Tensor(float(other))"), ("__rpow__", "rpow")),
        LACKS,
    ),
    "checked": (
        (("a, b = self", "assert not isinstance(other, Tensor)\n        a, b = self"),),
        LACKS,
    ),
}


@pytest.mark.parametrize("case", EXPONENTS)
def test_an_exponent_may_be_a_tensor(baseline: Baseline, case: str) -> None:
    """Many engines take only numbers as exponents, which is no bug, whatever they raise then."""
    changes, expected = EXPONENTS[case]
    text = SOUND + changed(*changes, text=POWERS)
    found = verdicts(baseline, text, "number-power", "tensor-power")
    assert [item.verdict for item in found.values()] == expected
