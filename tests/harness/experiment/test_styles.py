"""What is found out about engines in other styles, most of them without settings."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.core.errors import EnvironmentProblem
from harness.doctor.diagnosis import settings_of
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.experiment.exploration import Exploration, explore
from harness.experiment.patching import put
from harness.runs.cache import Cache, open_cache
from tests.engines.styles.programs import HERE, STYLES
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.engines.texts import written

ROOT = Path(__file__).parents[3]
CONVENTIONS = CATALOGUE.conventions


@dataclass(frozen=True)
class Known:
    """What a person would say after reading the engine's source."""

    forms: tuple[str, str, str, str]
    """How a leaf is made, its data and its gradient are read, and the backward pass is run."""
    second: str
    reducer: str | None
    central: str = ""
    unsummed: dict[str, str] = field(default_factory=dict)


CRASHES = {"leaf": "crash", "inside": "crash"}
STORES = {"leaf": "stored", "inside": "stored"}

KNOWN = {
    "two_flags": Known(
        (
            "Tensor(data, requires_grad=True, keep_grad=True)",
            *("t.data", "t.grad", "t.backward(cotangent)"),
        ),
        *("rebound", "shrink", "Tensor.backward", STORES),
    ),
    "labelled": Known(
        (
            *("Var('x', data, Role.PARAMETER)", "t.value", "t.gradient"),
            "(t * Var('x', cotangent, Role.PARAMETER)).sum().backpropagate()",
        ),
        *("rebound", None),
    ),
    "fixed_rank": Known(
        (
            *("Matrix(data, needs_grad=True)", "t.data", "t.grad"),
            "(t * Matrix(cotangent)).sum().backward()",
        ),
        *("in place", "fold", "", CRASHES),
    ),
    "returned": Known(
        (
            *("Tensor(data)", "t.values", ""),
            "returned.gradients((t * Tensor(cotangent)).sum(), leaves)",
        ),
        *("returned", "match", "gradients"),
    ),
    "tape_counter": Known(
        ("Tensor(data)", "t.data", "t.grad", "t.backward(cotangent)"),
        *("replaced", "sum_like", "", STORES),
    ),
    "dispatch": Known(
        ("Node(data)", "t.data", "t.grad", "(t * Node(cotangent)).sum().backward()"),
        *("in place", "unspread", "", CRASHES),
    ),
    "refusing": Known(
        ("Tensor(data)", "t.data", "t.grad", "t.backward(cotangent)"),
        *("rebound", "_fit", "", STORES),
    ),
    "tensor_grads": Known(
        (
            *("Tensor(data)", "t.numpy()", "None if t.grad is None else t.grad.numpy()"),
            "t.backward(Tensor(cotangent))",
        ),
        *("rebound", "Tensor.reduced", "", STORES),
    ),
    "global_graph": Known(
        ("Variable(data)", "t.value", "t.grad", "global_graph.backward(t, cotangent)"),
        *("rebound", "collapse", "backward", STORES),
    ),
    "minimizing": Known(
        (
            *("Parameter(data)", "t.data", "(before - t.data) / 2.0**20"),
            "SGD(leaves, lr=2.0**20).minimize((t * Parameter(cotangent)).sum())",
        ),
        *("returned", "narrow", "SGD.minimize"),
    ),
    "visitors": Known(
        (
            *("Parameter(data)", "t.value", "t.grad"),
            "[walk(end, visit) for end in [t * Constant(cotangent)] "
            "for visit in (Clear(), Pull())]",
        ),
        *("replaced", "summed_to", "Pull.__call__", STORES),
    ),
    "sibling": Known(
        ("Tensor(data, requires_grad=True)", "t.data", "t.grad", "t.backward(cotangent)"),
        *("rebound", "sum_to_shape", "", STORES),
    ),
    "own_minigrad": Known(
        ("Tensor(data)", "t.data", "t.grad", "(t * Tensor(cotangent)).sum().backward()"),
        *("in place", "unbroadcast", "", CRASHES),
    ),
}


@pytest.fixture(scope="module")
def explored() -> dict[str, Exploration]:
    """Each engine, explored once."""
    return {}


def exploration_of(name: str, explored: dict[str, Exploration]) -> Exploration:
    if name not in explored:
        explored[name] = explore(STYLES[name].path, open_cache(), CONVENTIONS)
    return explored[name]


def test_every_style_is_explored() -> None:
    assert set(KNOWN) == set(STYLES)


@pytest.mark.parametrize("name", KNOWN)
def test_a_style_is_found_out(name: str, explored: dict[str, Exploration]) -> None:
    found, known = exploration_of(name, explored), KNOWN[name]
    dialect = found.engine.dialect
    forms = (dialect.leaf, dialect.value, dialect.gradient, dialect.backward)
    assert (dialect.kind, forms) == ("arrays", known.forms)
    assert found.accumulation.second_backward == known.second
    reducers = [(reducer.name, reducer.central, reducer.flaws) for reducer in found.reducers]
    assert reducers == ([(known.reducer, known.central, [])] if known.reducer else [])
    assert found.steps[-1].unsummed == known.unsummed


JUDGED = {
    "two_flags": {"add-new-axis", "matmul-2x3-3x4", "reused-leaf"},
    "labelled": {"add-new-axis", "square", "reused-leaf"},
    "fixed_rank": {"add-stretched-axis", "mul-stretched-axis", "matmul-2x3-3x4"},
    "returned": {"add-new-axis", "add-column-and-row", "reused-leaf"},
    "minimizing": {"add-new-axis", "matmul-2x3-3x4", "reused-leaf"},
    "visitors": {"add-new-axis", "square", "reused-leaf"},
    "sibling": {"add-new-axis", "sub", "reused-leaf"},
    "global_graph": {"add-new-axis", "matmul-2x3-3x4", "reused-leaf"},
}
"""Some of the probes that can be judged."""


@pytest.mark.parametrize("name", JUDGED)
def test_probes_can_be_judged_on_a_style(name: str, explored: dict[str, Exploration]) -> None:
    probes = [CATALOGUE.shared_probes[probe] for probe in sorted(JUDGED[name])]
    engine = exploration_of(name, explored).engine
    fits = fit(engine, probes, Baseline(open_cache(), diagnostics=()))
    assert {probe: item.verdict for probe, item in fits.items()} == dict.fromkeys(fits, "fits")


@pytest.mark.parametrize("name", ["returned", "minimizing", "visitors", "labelled"])
def test_the_settings_of_a_style_lead_to_the_same_calls(
    name: str, explored: dict[str, Exploration], tmp_path: Path
) -> None:
    first = exploration_of(name, explored)
    target = str(HERE / STYLES[name].file)
    text = settings_of(first).replace(first.target.settings.target, target)
    again = explore(written(tmp_path, text, "harness.toml"), Cache(None), CONVENTIONS)
    assert again.engine.dialect.expressions == first.engine.dialect.expressions


def test_the_guide_shows_the_line_of_an_engine_without_a_backward_method() -> None:
    """It is the one with which the engine is called, and the remedy shows it too."""
    lines = (HERE / "visitors.toml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 4
    assert lines[-1] in (ROOT / "docs" / "your-engine.md").read_text(encoding="utf-8")
    with pytest.raises(EnvironmentProblem) as caught:
        explore(HERE / "visitors.py", Cache(None), CONVENTIONS)
    assert f"`{lines[-1]}`" in caught.value.remedy


def test_rules_in_a_table_are_named_by_their_keys(explored: dict[str, Exploration]) -> None:
    found = exploration_of("dispatch", explored)
    (reducer,) = found.reducers
    assert reducer.callers["mul"] == ['BACKWARD["times"]']
    assert found.steps[-1].keys == {"add": "plus", "sub": "minus", "div": "over"}


def test_a_break_changes_the_rule_in_a_table(explored: dict[str, Exploration]) -> None:
    page = next(page for page in bundled_pages() if page.id == "skip-unbroadcast")
    patched = put(page, exploration_of("dispatch", explored).engine)
    assert [(site.before, site.after) for site in patched.sites] == [
        ("unspread(g, a.shape)", "g"),
        ("unspread(g, b.shape)", "g"),
    ]


def test_an_unusual_key_is_a_name_of_its_op(tmp_path: Path) -> None:
    text = (HERE / "dispatch.py").read_text(encoding="utf-8").replace('"plus"', '"combine"')
    found = explore(written(tmp_path, text), Cache(None), CONVENTIONS)
    assert found.engine.names["add"] == "combine"
    assert "sub" not in found.engine.names
