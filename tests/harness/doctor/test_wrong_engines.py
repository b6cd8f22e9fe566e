"""Bugs of real engines, as mutants of a small one: some shared probe sees each of them."""

import re
from pathlib import Path

import pytest

from harness.experiment.baseline import Baseline
from harness.experiment.conformance import Fit, fit
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.explored import engine_of
from tests.harness.engines.texts import changed

CLOSURES = (Path(__file__).parents[2] / "engines" / "closures.py").read_text(encoding="utf-8")

OWN_RULES = """\
    def __sub__(self, other):
        out = Tensor(self.data - other.data, (self, other))

        def _backward():
            self.grad += unbroadcast(out.grad, self.data.shape)
            other.grad += unbroadcast(-out.grad, other.data.shape)

        out._backward = _backward
        return out

    def __truediv__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        out = Tensor(self.data / other.data, (self, other))

        def _backward():
            self.grad += unbroadcast(out.grad / other.data, self.data.shape)
            other.grad += unbroadcast(-out.grad * out.data / other.data, other.data.shape)

        out._backward = _backward
        return out

    def mean(self, axis=None):
        out = Tensor(self.data.mean(axis=axis), (self,))
        count = self.data.size / out.data.size

        def _backward():
            kept = out.grad if axis is None else np.expand_dims(out.grad, axis)
            self.grad += np.ones_like(self.data) * kept / count

        out._backward = _backward
        return out

"""
"""Backward rules of their own for what is otherwise composed, and a mean."""

DERIVED = re.search(r"    def __sub__.*?(?=    def zero_grad)", CLOSURES, re.S)
assert DERIVED
ENGINE = CLOSURES.replace(DERIVED[0], OWN_RULES)
REDUCED = re.compile(r"unbroadcast\((.+), (?:self|other)\.data\.shape\)$", re.M)

Changes = tuple[tuple[str, str], ...]


def itself(first: str, second: str) -> Changes:
    """A rule that collects its gradients in a table, in which an operand has one row."""
    before = f"            self.grad += {first}\n            other.grad += {second}\n"
    table = f"{{self: {first}, other: {second}}}"
    return ((before, f"            for t, g in {table}.items():\n                t.grad += g\n"),)


def inserted(data: str) -> Changes:
    """A rule that restores an axis with `list.insert`, for which -1 is the last but one place."""
    kept = f"kept = out.grad if {data} else np.expand_dims(out.grad, axis)"
    lines = (
        "shape = list(out.grad.shape)",
        f"shape.insert(axis, 1) if not ({data}) else None",
        "kept = out.grad.reshape(shape)",
    )
    return ((kept, "\n            ".join(lines)),)


STRETCHED = "if size == 1)"
COUNT = "count = self.data.size / out.data.size"
ONES = "self.grad += np.ones_like(self.data) * kept\n"

MUTANTS: dict[str, tuple[Changes, tuple[str, ...]]] = {
    "a created and a stretched axis": (
        (
            ("    grad = grad.sum", "    created = grad.ndim > len(shape)\n    grad = grad.sum"),
            (STRETCHED, "if size == 1 and not created)"),
        ),
        ("add-broadcast", "mul-broadcast", "sub-broadcast", "div-broadcast"),
    ),
    "one element against a matrix": (
        ((STRETCHED, "if size == 1 and shape != (1,))"),),
        ("add-broadcast", "mul-broadcast"),
    ),
    "a quotient of which both are broadcast": (
        (
            (
                "other.grad += unbroadcast(-out.grad * out.data / other.data, other.data.shape)",
                "wide = self.data.shape == out.data.shape or other.data.shape == out.data.shape\n"
                "            g = -out.grad * out.data / other.data\n"
                "            other.grad += unbroadcast(g if wide else 0 * g, other.data.shape)",
            ),
        ),
        ("div-broadcast",),
    ),
    "a difference with itself": (
        itself(
            "unbroadcast(out.grad, self.data.shape)", "unbroadcast(-out.grad, other.data.shape)"
        ),
        ("minus-itself",),
    ),
    "a quotient by itself": (
        itself(
            "unbroadcast(out.grad / other.data, self.data.shape)",
            "unbroadcast(-out.grad * out.data / other.data, other.data.shape)",
        ),
        ("over-itself",),
    ),
    "a matrix times itself": (
        itself("out.grad @ other.data.T", "self.data.T @ out.grad"),
        ("matmul-itself",),
    ),
    "a sum over a negative axis": (inserted("keepdims or axis is None"), ("sum-negative-axes",)),
    "a mean over a negative axis": (inserted("axis is None"), ("mean-negative-axes",)),
    "a sum over two axes": (
        ((ONES, ONES.replace("kept", "kept / (len(axis) if isinstance(axis, tuple) else 1)")),),
        ("sum-two-axes",),
    ),
    "a mean over two axes": (
        ((COUNT, "count = self.data.shape[np.ravel(axis)[0]] if axis else self.data.size"),),
        ("mean-two-axes",),
    ),
    "a sum of a number": (
        ((ONES, ONES.replace("+=", "= self.grad +").replace("kept", "np.atleast_1d(kept)")),),
        ("sum-of-number",),
    ),
}


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return Baseline(open_cache(), diagnostics=())


def verdicts(baseline: Baseline, text: str, *names: str) -> dict[str, Fit]:
    engine = engine_of(text, like=ENGINE, name="Tensor")
    return fit(engine, [CATALOGUE.shared_probes[name] for name in names], baseline)


def late() -> str:
    """The engine, in which a gradient is summed only after all of its parts were added."""
    text = re.sub(r"(\w+)\.grad \+= ", r"\1.grad = \1.grad + ", REDUCED.sub(r"\1", ENGINE))
    summed = "            v.grad = unbroadcast(v.grad, v.data.shape)\n            v._backward()"
    return text.replace("            v._backward()", summed)


def test_the_engine_without_a_mutation_is_right_on_all_of_these(baseline: Baseline) -> None:
    names = {name for _, probes in MUTANTS.values() for name in probes}
    found = verdicts(baseline, ENGINE, "broadcast-twice", *sorted(names))
    assert {name: item.verdict for name, item in found.items() if item.verdict != "fits"} == {}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_shared_probes_see_the_bug(baseline: Baseline, mutant: str) -> None:
    changes, probes = MUTANTS[mutant]
    found = verdicts(baseline, changed(*changes, text=ENGINE), *probes)
    assert {item.verdict for item in found.values()} == {"bug"}


def test_shared_probes_see_a_gradient_that_is_summed_too_late(baseline: Baseline) -> None:
    found = verdicts(baseline, late(), "add-new-axis", "broadcast-twice")
    assert {name: item.verdict for name, item in found.items()} == {
        **{"add-new-axis": "fits", "broadcast-twice": "bug"}
    }
