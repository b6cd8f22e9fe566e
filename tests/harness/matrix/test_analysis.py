"""What follows from reports: fates, rows, recall, cost, witnesses."""

import pytest

from harness.core.message import verbatim
from harness.core.vocabulary import Outcome
from harness.matrix.evaluation import Size
from harness.matrix.records import BreakFate, BreakRow, Matrix
from harness.matrix.verdict import build_matrix
from tests.harness.matrix.made import ALL, diagnostic, evaluation, evaluations, seen
from tests.harness.reports import run_of


def row(*runs, pardon: str = "") -> BreakRow:  # type: ignore[no-untyped-def]
    return build_matrix(evaluations(evaluation("b", *runs, pardon=pardon))).breaks[0]


@pytest.mark.parametrize(
    ("outcomes", "by", "fate"),
    [
        (["silent-corruption"], "shape", "caught"),
        (["silent-corruption", "crash"], "shape", "caught"),
        (["crash", "not-reached", "disguised-correct"], "shape", "crashes-only"),
        (["silent-corruption", "not-reached"], "", "survived"),
        (["disguised-correct"], "", "survived"),
        (["convention"], "", "survived"),
        (["crash"], "", "survived"),
        (["not-reached", "not-reached"], "", "never-reached"),
        ([], "", "does-not-apply"),
    ],
)
def test_the_fate_of_a_break(outcomes: list[Outcome], by: str, fate: BreakFate) -> None:
    found = row(*(seen(by=by if i == 0 else "", outcome=o) for i, o in enumerate(outcomes)))
    assert (found.fate, found.survived) == (fate, fate == "survived")


def test_a_row_says_who_catches_misses_and_was_not_asked() -> None:
    skipped = {"torch": "torch is not installed"}
    found = row(
        seen("small", "", skipped=skipped),
        seen("large", "shape", loss="uniform", skipped=skipped),
        seen("large", "shape", skipped=skipped),
        seen("train", "shape", skipped=skipped),
    )
    assert found.caught_by == {"shape": ["large", "train"]}
    assert found.messages == {"shape": verbatim("shape on large")}
    assert found.missed_by == ["gradcheck"]
    assert found.unasked == {"torch": "torch is not installed"}


def test_a_diagnostic_that_could_judge_no_run_has_declined_and_not_missed() -> None:
    found = row(
        seen("small", "shape", declined={"gradcheck": "kinks", "torch": "no such op"}),
        seen("large", "shape", declined={"gradcheck": "kinks"}, skipped={"torch": "missing"}),
        seen("train", "shape", declined={"gradcheck": "NaN"}, skipped={"torch": "missing"}),
    )
    assert found.declined == {"gradcheck": "kinks; NaN", "torch": "no such op"}
    assert found.missed_by == []
    assert found.unasked == {}
    silent_elsewhere = row(seen(declined={"gradcheck": "kinks"}), seen("large"))
    assert silent_elsewhere.declined == {}
    assert "gradcheck" in silent_elsewhere.missed_by


def test_a_diagnostic_that_looked_only_where_nothing_is_wrong_has_not_missed_the_break() -> None:
    found = row(
        seen("small", "shape", skipped={"torch": "missing"}, declined={"gradcheck": "kinks"}),
        seen("large", outcome="disguised-correct"),
    )
    assert found.missed_by == []
    assert found.declined == {"gradcheck": "kinks"}
    assert found.unasked == {"torch": "nothing is wrong in any run that it judged"}


def test_a_run_that_was_not_reached_shows_no_diagnostic_blind_and_costs_nothing() -> None:
    matrix = build_matrix(
        evaluations(
            evaluation("b", run_of("large", None, "not-reached", wrong_reason={"shape": "always"})),
            controls=(),
        )
    )
    assert matrix.breaks[0].missed_by == []
    assert matrix.diagnostics[0].passes == 0


def test_an_alarm_that_the_clean_engine_raises_too_is_not_a_catch() -> None:
    found = row(seen(wrong="gradcheck"))
    assert (found.fate, found.wrong_reason) == ("survived", {"gradcheck": "gradcheck on small"})
    assert found.caught_by == {}
    assert found.missed_by == ["shape", "gradcheck", "torch"]


def test_an_alarm_for_the_wrong_reason_is_told_only_of_a_run_that_is_wrong() -> None:
    found = row(
        seen("large", outcome="not-reached", wrong="torch"),
        seen("small", outcome="disguised-correct", wrong="shape"),
        seen("train", outcome="crash", wrong="gradcheck"),
    )
    assert found.wrong_reason == {"gradcheck": "gradcheck on train"}


def test_the_reason_for_a_loss_is_of_the_run_that_gives_the_headline() -> None:
    found = row(
        seen("small", outcome="not-reached"),
        seen("large", outcome="disguised-correct"),
        seen("train", outcome="silent-corruption"),
    )
    assert found.why == "why train"
    assert row(seen(by="shape")).why == ""


def test_rows_are_survivors_first_then_never_reached_then_by_family() -> None:
    matrix = build_matrix(
        evaluations(
            evaluation("z", seen(by="shape"), family="a"),
            evaluation("caught", seen(by="shape"), family="b"),
            evaluation("a", seen(by="shape"), family="b"),
            evaluation("unreached", seen(outcome="not-reached"), family="a"),
            evaluation("survivor", seen(), family="z"),
        )
    )
    assert [row.break_ for row in matrix.breaks] == ["survivor", "unreached", "z", "a", "caught"]


def made() -> Matrix:
    return build_matrix(
        evaluations(
            evaluation("both", seen(by="shape gradcheck"), family="a"),
            evaluation("alone", seen(by="gradcheck"), family="a"),
            evaluation("other", seen("large", "torch"), family="b"),
            evaluation("survivor", seen(), family="b"),
            evaluation("same", seen(outcome="disguised-correct"), family="b", pardon="Equivalent."),
            evaluation("unreached", seen(outcome="not-reached"), family="b"),
        )
    )


def test_families_say_who_catches_how_many_and_who_cannot_be_replaced() -> None:
    first, second = made().families
    assert (first.family, first.breaks, first.caught) == ("a", 2, 2)
    assert (first.caught_by, first.sole) == ({"shape": 1, "gradcheck": 2}, {"gradcheck": ["alone"]})
    assert (second.breaks, second.caught, second.sole) == (4, 1, {"torch": ["other"]})


def test_recall_counts_the_breaks_that_can_be_caught() -> None:
    """Three are caught and one survives; the pardoned and the unreached count for nothing."""
    rows = {row.name: row for row in made().diagnostics}
    assert {name: row.recall for name, row in rows.items()} == {
        "shape": 0.25,
        "gradcheck": 0.5,
        "torch": 0.25,
    }
    assert (rows["gradcheck"].caught, rows["gradcheck"].sole) == (2, ["alone"])
    assert build_matrix(evaluations()).diagnostics[0].recall is None


def test_cost_is_of_every_probe_and_loss_on_which_it_was_asked_once() -> None:
    skipped = {"gradcheck": "too large"}
    matrix = build_matrix(
        evaluations(
            evaluation(
                "a", seen("small"), seen("small", loss="uniform"), seen("large", skipped=skipped)
            ),
            evaluation("b", seen("small", by="shape"), seen("own"), own=Size("gradient", 5)),
            evaluation("c", seen("own"), own=Size("gradient", 7)),
            controls=(),
        )
    )
    passes = {row.name: row.passes for row in matrix.diagnostics}
    assert passes["shape"] == 3 * 5  # small under two losses, large, and two probes called own
    assert passes["gradcheck"] == 2 * (2 * 2 + 3) + (2 * 5 + 3) + (2 * 7 + 3)


def test_a_diagnostic_that_was_asked_nowhere_is_neither_silent_nor_blind() -> None:
    missing = {"torch": "torch is not installed"}
    matrix = build_matrix(
        evaluations(
            evaluation("a", seen(by="shape", skipped=missing)),
            controls=(evaluation("sabotage", seen(by="shape gradcheck", skipped=missing)),),
        )
    )
    assert matrix.skipped == missing
    assert [row.recall for row in matrix.diagnostics] == [1.0, 0.0, None]
    assert matrix.breaks[0].missed_by == ["gradcheck"]
    assert next(row for row in matrix.controls if row.control == "sabotage").problems == []


def test_probes_of_two_pages_that_share_a_name_are_two_probes() -> None:
    own = Size("gradient", 1)
    matrix = build_matrix(
        evaluations(
            evaluation("a", seen("own", "shape"), own=own),
            evaluation("b", seen("own", "shape"), own=own),
            controls=(),
        )
    )
    assert matrix.diagnostics[0].passes == 3.0 + 3.0
    assert matrix.breaks[0].caught_by == {"shape": ["own"]}


def test_the_witness_is_the_smallest_probe_then_the_cheapest_diagnostic() -> None:
    found = row(
        seen("train", "shape"),
        seen("large", "shape"),
        seen("layer", "shape"),
        seen("small", "gradcheck torch", loss="uniform", margins={"torch": 3.0}),
        seen("small", "torch", margins={"torch": 9.0}),
    ).witness
    assert found
    assert (found.probe, found.diagnostic, found.loss) == ("small", "torch", "weighted")
    assert (found.elements, found.passes, found.margin) == (2, 3.0, 9.0)
    assert found.message == "torch on small"


def test_a_training_counts_as_larger_than_a_layer_though_it_has_no_leaves() -> None:
    found = row(seen("train", "shape"), seen("layer", "shape")).witness
    assert found
    assert (found.probe, found.margin) == ("layer", None)


def test_a_break_that_nobody_catches_has_no_witness() -> None:
    assert row(seen()).witness is None


@pytest.mark.parametrize(
    ("runs", "pardon", "words"),
    [
        ([seen(by="shape")], "", None),
        ([seen()], "", "b survives"),
        ([seen()], "Equivalent.", None),
        ([seen(outcome="not-reached")], "", "b is never reached"),
        ([seen(outcome="not-reached")], "Only on Windows.", None),
        ([seen(by="shape torch")], "Equivalent.", "b is pardoned, but caught by shape, torch"),
    ],
)
def test_what_is_lost_without_a_pardon_is_a_problem(
    runs: list[object], pardon: str, words: str | None
) -> None:
    matrix = build_matrix(evaluations(evaluation("b", *runs, pardon=pardon)))  # type: ignore[arg-type]
    assert matrix.agrees is (words is None)
    assert words is None or matrix.problems[0].startswith(words)


def test_diagnostics_stand_in_their_own_order() -> None:
    first, second = diagnostic("zeta"), diagnostic("alpha")
    found = build_matrix(evaluations(evaluation("b", seen()), diagnostics=(*ALL, first, second)))
    assert [row.name for row in found.diagnostics][-2:] == ["zeta", "alpha"]
