"""Predictions: what a learner may type, and how it is scored."""

import pytest

from harness.cli.prediction import CHOICES, read_prediction, show_score
from harness.report.terminal import Screen
from tests.harness.reports import report_of


@pytest.mark.parametrize("outcome", CHOICES)
def test_an_outcome_may_be_written_in_full_or_by_its_first_letters(outcome: str) -> None:
    assert read_prediction(outcome) == outcome
    assert read_prediction(f" {outcome[0].upper()} ") == outcome


def test_enter_is_not_a_prediction() -> None:
    assert read_prediction("  ") is None


@pytest.mark.parametrize("answer", ["boom", "0", "convention"])
def test_anything_else_is_answered_with_the_choices(answer: str) -> None:
    with pytest.raises(
        ValueError, match=f"`{answer}` (is not an outcome|cannot be predicted): .*Enter skips"
    ):
        read_prediction(answer)


def test_predictions_are_scored_against_what_was_seen() -> None:
    console = Screen(record=True, width=80, force_terminal=False)
    report = report_of(("one", "uniform", "crash"), ("two", None, "silent-corruption"))
    show_score(console, {"one": "crash", "two": "crash"}, report)
    text = console.export_text()
    assert "right  one: you predicted crash\n" in text
    assert "wrong  two: you predicted crash, it was ≠ silent-corruption" in text
    assert "1 of 2 right" in text
