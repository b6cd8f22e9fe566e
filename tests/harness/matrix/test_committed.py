"""The committed matrix: written, read, compared."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import EnvironmentProblem, PageError
from harness.core.vocabulary import OUTCOMES, Outcome
from harness.diagnostics import Diagnostic
from harness.matrix.committed import (
    Committed,
    commit_row,
    committed_file,
    compare,
    read_committed,
    write_committed,
)
from harness.matrix.records import BreakRow
from harness.matrix.verdict import build_matrix
from tests.harness.matrix.made import ALL, NO_OP, SABOTAGE, evaluation, evaluations, seen

WORDS = st.sampled_from(["a", "b2", "7", "add-new-axis", "true", "inf", "2024-01-01", "shape"])
ROWS = st.dictionaries(
    WORDS,
    st.builds(
        Committed,
        st.sampled_from(OUTCOMES),
        st.booleans(),
        st.dictionaries(WORDS, st.lists(WORDS | st.just("probe-of-𠮷"), min_size=1)),
    ),
)


@given(ROWS)
def test_what_is_written_is_read(rows: dict[str, Committed]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, "matrix.toml")
        write_committed(file, rows)
        assert read_committed(file) == rows
        assert [path.name for path in Path(folder).iterdir()] == ["matrix.toml"]


def test_the_file_has_a_line_for_each_diagnostic_sorted(tmp_path: Path) -> None:
    file = tmp_path / "matrix.toml"
    rows = {
        "b": Committed("crash", False, {"shape": ["one", "two"], "crash": ["one"]}),
        "a": Committed("disguised-correct", True),
    }
    write_committed(file, rows)
    text = file.read_text(encoding="utf-8")
    assert text[text.index("\n[a]") :] == (
        '\n[a]\nheadline = "disguised-correct"\nsurvived = true\n'
        '\n[b]\nheadline = "crash"\nsurvived = false\n'
        'caught_by.shape = ["one", "two"]\ncaught_by.crash = ["one"]\n'
    )


def test_a_row_is_committed_in_alphabetical_order() -> None:
    committed = commit_row(row(seen("small", "torch"), seen("large", "torch shape")))
    assert list(committed.caught_by) == ["shape", "torch"]
    assert committed.caught_by["torch"] == ["large", "small"]


def test_nothing_is_committed_where_there_is_no_file(tmp_path: Path) -> None:
    assert read_committed(committed_file(tmp_path, None)) is None
    assert committed_file(tmp_path, None).name == "matrix.toml"
    assert committed_file(tmp_path, "in-place").name == "matrix.in-place.toml"


@pytest.mark.parametrize(
    "text", ["not TOML", '[a]\nheadline = "fine"\nsurvived = true', "[a]\n", f"a = {'[' * 3000}"]
)
def test_a_spoilt_file_is_a_mistake_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "matrix.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PageError, match=r"matrix\.toml.*(?s:.*)harness matrix --accept"):
        read_committed(tmp_path / "matrix.toml")


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").mkdir()
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        write_committed(tmp_path / "matrix.toml", {})
    assert [path.name for path in tmp_path.iterdir()] == ["matrix.toml"]


# ----- Comparison ----------------------------------------------------------------------------


def row(*runs: object, diagnostics: tuple[Diagnostic, ...] = ALL, name: str = "b") -> BreakRow:
    return build_matrix(evaluations(evaluation(name, *runs), diagnostics=diagnostics)).breaks[0]  # type: ignore[arg-type]


def lines(now: BreakRow, then: Committed, *skipped: str) -> list[str]:
    found = compare([now], {"b": then}, skipped)
    assert {difference.break_ for difference in found} <= {"b"}
    return [f"{difference.sign} {difference.text}" for difference in found]


@pytest.fixture(scope="module")
def caught() -> BreakRow:
    return row(seen("small", "shape torch"), seen("large", "shape"))


def test_equal_rows_do_not_differ(caught: BreakRow) -> None:
    assert lines(caught, commit_row(caught)) == []


def test_each_catch_that_came_or_went_is_named_with_its_probes(caught: BreakRow) -> None:
    then = commit_row(row(seen("small", "gradcheck torch"), seen("large", "gradcheck shape")))
    assert lines(caught, then) == [
        "- gradcheck no longer catches it with large, small",
        "+ shape now catches it with small",
    ]


def test_a_break_that_is_lost_altogether_survives() -> None:
    assert lines(row(seen("small")), commit_row(row(seen("small", "shape")))) == [
        "+ survives: no diagnostic catches it any more",
        "- shape no longer catches it with small",
    ]


def test_a_survivor_that_is_caught_at_last_is_a_difference_too() -> None:
    assert lines(row(seen("small", "shape")), commit_row(row(seen("small")))) == [
        "+ shape now catches it with small",
        "- no longer survives",
    ]


def test_another_headline_is_a_difference() -> None:
    now: Outcome = "crash"
    assert lines(row(seen(by="shape", outcome=now)), commit_row(row(seen(by="shape")))) == [
        "- its headline was silent-corruption",
        "+ its headline is crash",
    ]


def test_diagnostics_that_could_not_be_asked_are_compared_nowhere() -> None:
    then = commit_row(row(seen("small", "torch")))
    missing = {"torch": "torch is not installed"}
    now = row(seen("small", skipped=missing))
    assert now.survived
    assert lines(now, then, "torch") == []
    then = commit_row(row(seen("small", "torch shape")))
    assert lines(now, then, "torch") == [
        "+ survives: no diagnostic catches it any more",
        "- shape no longer catches it with small",
    ]


def test_a_survivor_that_a_missing_diagnostic_catches_is_not_a_problem() -> None:
    missing = {"torch": "torch is not installed"}
    controls = tuple(
        evaluation(
            control.name, *(seen(run.probe, by, run.outcome, skipped=missing) for run in runs)
        )
        for control, by in ((NO_OP, ""), (SABOTAGE, "shape gradcheck"))
        for runs in [control.report.runs]
    )
    lost = evaluations(evaluation("b", seen("small", skipped=missing)), controls=controls)
    assert not build_matrix(lost).agrees
    then = {"b": commit_row(row(seen("small", "torch")))}
    matrix = build_matrix(lost, committed=then, differences=[])
    assert (matrix.breaks[0].caught_elsewhere, matrix.problems) == (["torch"], [])


def test_new_breaks_and_breaks_that_are_gone(caught: BreakRow) -> None:
    found = compare([caught], {}, (), gone=["old"])
    assert [(d.break_, d.sign) for d in found] == [("b", "+"), ("old", "-")]


def test_a_difference_is_a_problem_that_names_the_way_to_accept_it(caught: BreakRow) -> None:
    then = {"b": commit_row(row(seen("small", "torch")))}
    found = compare([caught], then, ())
    now = evaluations(evaluation("b", seen(by="shape")))
    matrix = build_matrix(now, committed=then, differences=found)
    assert not matrix.agrees
    assert "1 break is not as committed" in matrix.problems[0]
    assert "`harness matrix --accept`" in matrix.problems[0]


def test_a_break_that_was_never_committed_is_a_problem_of_its_own(caught: BreakRow) -> None:
    now = evaluations(evaluation("b", seen(by="shape")))
    matrix = build_matrix(now, committed={}, differences=compare([caught], {}, ()))
    assert (matrix.agrees, matrix.new) == (False, ["b"])
    (problem,) = matrix.problems
    assert problem.startswith("1 break is new, and in no committed matrix")
    assert build_matrix(now).new == []
