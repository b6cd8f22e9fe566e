"""The comparison with an independent recorder, and that the recorder sees what it should."""

from pathlib import Path

import numpy as np
import pytest

from harness.engines.engine import find_engine
from harness.experiment.patching import prepare
from harness.pages.catalogue import open_catalogue
from tests.truth.__main__ import _changed, compare, record
from tests.truth.recorder import Call, Case, Record, RuleCall, numbers
from tests.truth.verdicts import false_sentences, infection, is_near, true_outcome

SUB = ("methods.py", "Methods.__rsub__")
ALIASED = "_apply(elementwise.sub, other, self)", "_apply(elementwise.sub, self, other)"


@pytest.mark.slow
@pytest.mark.long
def test_the_harness_says_nothing_false_of_drawn_triples() -> None:
    tally = compare(seed=7, hidden=24, silent=8)
    assert [(kind, str(triple)) for kind, triple in tally.false] == []
    assert tally.compared["disguised-correct"] == 24
    assert tally.compared["silent-corruption"] == 8
    assert len(tally.unclear) <= 4


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of minigrad, and one in which `2 - a` is `a - 2`."""
    folder = tmp_path_factory.mktemp("copies")
    for name in ("clean", "broken"):
        for file, text in find_engine().sources.items():
            path = folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace(*ALIASED) if name == "broken" else text, encoding="utf-8")
    return folder / "broken", folder / "clean"


def _records(copies: tuple[Path, Path], body: str) -> tuple[Record, Record]:
    """Return the records of a function of `lib` and `a` on the broken and on the clean copy."""
    source = f"def probe(lib, a):\n    return {body}\n"
    leaves = {"a": np.array([0.5, 2.0, -3.0])}
    case = Case(source, "probe", "gradient", True, leaves, False, (1, 2), 3, frozenset({SUB}))
    (broken,), (clean,) = (record(copy, [case]) for copy in copies)
    return broken, clean


@pytest.mark.parametrize(
    ("body", "outcome", "infected"),
    [
        ("2 - a", "silent-corruption", "wrong value"),
        ("(1 - a) * (1 - a)", "disguised-correct", "wrong value"),
        ("a - 2", "disguised-correct", "no wrong value"),
        ("(0 - a) * 0 + a", "disguised-correct", "wrong value"),
        ("lib.tensor([[1.0]]).sum() / a", "disguised-correct", "no wrong value"),
        ("(2 - a).reshape(3, 1) @ (2 - a).reshape(1, 3)", "disguised-correct", "wrong value"),
    ],
)
def test_the_recorder_sees_what_a_wrong_minus_does(
    copies: tuple[Path, Path], body: str, outcome: str, infected: str
) -> None:
    broken, clean = _records(copies, body)
    assert (true_outcome(broken, clean, []), infection(broken, clean)) == (outcome, infected)


def test_a_leaf_that_the_probe_makes_is_observed(copies: tuple[Path, Path]) -> None:
    body = "(2 - lib.Tensor([1.0, 2.0, 3.0], requires_grad=True)) ** 2 * a"
    broken, clean = _records(copies, body)
    assert true_outcome(broken, clean, []) == "disguised-correct"
    assert "the gradient of tensor 0" in clean.observed
    broken, clean = _records(copies, "(2 - lib.Tensor([1.0], requires_grad=True)).detach() * 0 + a")
    assert "the gradient of tensor 0" not in clean.observed


def _called(result: object) -> Record:
    call = Call(SUB, numbers([2.0]), numbers(result), [])
    return Record(calls=[call])


@pytest.mark.parametrize(
    ("result", "infected"),
    [
        (np.ones((3, 1)), "no wrong value"),  # broadcasts to the same numbers
        (np.ones(2), "wrong value"),
        (np.array([[1.0], [2.0], [1.0]]), "wrong value"),
        ({"value": np.ones(3), "done": True}, "no wrong value"),  # a flag is not a number
        ({"value": np.ones(3), "count": 1}, "wrong value"),
    ],
)
def test_a_wrong_value_is_a_wrong_number(result: object, infected: str) -> None:
    assert infection(_called(result), _called({"value": np.ones(3)})) == infected


def test_what_is_left_of_a_sum_of_zero_is_rounding() -> None:
    residues = (Record(calls=_called(n * 1e-16).calls, values=[np.ones(2)]) for n in (1, 5))
    assert infection(*residues) == "no wrong value"
    numbers = (Record(calls=_called(n * 1e-10).calls, values=[np.ones(2)]) for n in (1, 5))
    assert infection(*numbers) == "wrong value"


def test_the_same_calls_prove_nothing_if_other_cotangents_arrive() -> None:
    broken, clean = _called(1.0), _called(1.0)
    clean.rules = [RuleCall("exp", np.ones(2), np.ones(2), [])]
    broken.rules = [RuleCall("exp", np.ones(2), -np.ones(2), [])]
    clean.values, broken.values = [np.ones(2)], [-np.ones(2)]
    assert infection(broken, clean) == "unclear"
    broken.rules = clean.rules
    assert infection(broken, clean) == "no wrong value"


def test_what_a_rule_computes_for_a_constant_is_not_wrong(tmp_path: Path) -> None:
    copies = tmp_path / "broken", tmp_path / "clean"
    for copy in copies:
        for file, text in find_engine().sources.items():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            wrong = (
                text.replace("    if created:", "    if False:") if copy.name == "broken" else text
            )
            (copy / file).write_text(wrong, encoding="utf-8")
    changed = frozenset({("broadcasting.py", "unbroadcast")})
    source = "def probe(lib, a):\n    return a + 1.0\n"
    case = Case(source, "probe", "gradient", True, {"a": np.ones(3)}, True, (1,), 3, changed)
    (broken,), (clean,) = (record(copy, [case]) for copy in copies)
    assert clean.calls
    assert infection(broken, clean) == "no wrong value"


def test_a_comprehension_is_part_of_the_function_around_it() -> None:
    experiment = prepare(
        open_catalogue().page("squeeze-ignores-dim"), open_catalogue(), find_engine(), probes=[]
    )
    assert _changed(experiment) == {("methods.py", "Methods.squeeze")}


@pytest.mark.parametrize(
    ("evidence", "is_false"),
    [
        ("the output is [-1.5, 0, -5], expected [1.5, 0, 5]", False),
        ("the output is [-1.5, 0, -5], expected [1.5, 0, 4]", True),
        ("the output is [1.5, 0, 5], expected [1.5, 0, 5]", True),
        ("a.grad is [1, 1, 1], expected [-1, -1, -1]", True),
    ],
)
def test_a_sentence_with_other_numbers_is_false(
    copies: tuple[Path, Path], evidence: str, is_false: bool
) -> None:
    report = {"evidence": evidence, "first_divergence": None}
    assert bool(list(false_sentences(report, *_records(copies, "2 - a")))) == is_false


@pytest.mark.parametrize(
    ("actual", "expected", "near"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-13], True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-6], False),
        ([np.nan, np.inf], [np.nan, np.inf], True),
        ([np.nan, 1.0], [0.0, 1.0], False),
        ([[1.0]], [1.0], False),
    ],
)
def test_what_counts_as_equal(actual: list[float], expected: list[float], near: bool) -> None:
    assert is_near(np.array(actual), np.array(expected)) == near
