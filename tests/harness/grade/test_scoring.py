"""The score of a suite, and the weights that an instructor chooses."""

from pathlib import Path

import pytest

from harness.core.errors import BreaklabError, PageError, UsageError
from harness.grade.suite import Weights, read_weights, scores
from tests.harness.bundled import bundled_pages
from tests.harness.grade.results import MIXED, report, result


def written(text: str, folder: Path) -> Path:
    file = folder / "weights.toml"
    file.write_text(text)
    return file


def test_without_weights_every_break_that_has_a_site_counts_the_same() -> None:
    judged = scores(MIXED.breaks)
    assert (judged.total.killed, judged.total.of, judged.total.score) == (2, 6, 33.3)
    assert judged.total.score == MIXED.score
    by_level = {level: (score.killed, score.of) for level, score in judged.levels.items()}
    assert by_level == {1: (2, 2), 2: (0, 2), 3: (0, 2)}
    by_family = {name: (score.killed, score.of) for name, score in judged.families.items()}
    assert by_family == {"broadcasting": (1, 2), "graph": (0, 1), "rules": (1, 3)}


def test_the_weight_of_an_id_goes_before_its_family_and_the_family_before_its_level() -> None:
    weights = Weights(breaks={"a": 7}, families={"rules": 3, "graph": 2}, levels={2: 5, 3: 4})
    breaks = [
        result("a", family="rules", level=2),
        result("b", family="rules", level=2),
        result("c", family="other", level=2),
        result("d", family="other", level=1),
    ]
    assert [weights.of(one) for one in breaks] == [7, 3, 5, 1]


def test_a_score_is_the_share_of_the_weight_and_of_the_points() -> None:
    weights = Weights(points=20, levels={2: 3})
    judged = scores([result("a"), result("b", "survived", level=2)], weights)
    assert (judged.total.score, judged.total.points, judged.total.max_points) == (25.0, 5.0, 20.0)
    assert (judged.levels[2].score, judged.levels[2].max_points) == (0.0, 15.0)


def test_a_break_of_weight_0_is_left_out() -> None:
    weights = Weights(families={"rules": 0}, breaks={"tanh-input": 1})
    judged = scores(MIXED.breaks, weights)
    assert (judged.total.killed, judged.total.of) == (1, 4)
    assert judged.families["rules"].of == 1


def test_without_breaks_that_count_there_is_no_score() -> None:
    for weights in (Weights(levels={1: 0}), Weights(breaks={"a": 0})):
        judged = scores([result("a"), result("b", "does-not-apply")], weights)
        assert (judged.total.score, judged.total.of, judged.levels) == (None, 0, {})
    assert scores(report().breaks).total.score is None


def test_a_file_of_weights_is_read(tmp_path: Path) -> None:
    file = written(
        "points = 40\n[breaks]\nskip-unbroadcast = 2.5\n[families]\nbroadcasting = 0\n"
        "[levels]\n3 = 2\n",
        tmp_path,
    )
    assert read_weights(file, bundled_pages()) == Weights(
        40.0, {"skip-unbroadcast": 2.5}, {"broadcasting": 0.0}, {3: 2.0}
    )
    assert read_weights(written("", tmp_path), bundled_pages()) == Weights()


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("[breaks]\nskip-unbrodcast = 2", "no break is called `skip-unb", "`skip-unbroadcast`"),
        ("[families]\nbrodcasting = 2", "no family is called `brodcasting`", "`broadcasting`"),
        ("[levels]\n9 = 2", "no level is called `9`", "harness list"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(
    text: str, problem: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        read_weights(written(text, tmp_path), bundled_pages())
    assert problem in error.value.problem
    assert remedy in error.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        "points = ",
        ".".join("a" * 20_000) + " = 1",
        "points = 0",
        "points = inf",
        "points = 'many'",
        "weights = 3",
        "[breaks]\nskip-unbroadcast = -1",
        "[breaks]\nskip-unbroadcast = nan",
        "[breaks]\nskip-unbroadcast = true",
        "[levels]\nfirst = 1",
        "[families]\nbroadcasting = [1]",
        "\x00",
    ],
)
def test_a_file_of_other_things_is_one_message_with_a_remedy(text: str, tmp_path: Path) -> None:
    with pytest.raises(PageError) as error:
        read_weights(written(text, tmp_path), bundled_pages())
    assert str(tmp_path) in str(error.value)
    assert "\n" not in error.value.problem
    assert error.value.remedy


def test_a_file_that_does_not_exist_is_an_error_of_usage(tmp_path: Path) -> None:
    for file in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(BreaklabError) as error:
            read_weights(file, bundled_pages())
        assert error.value.exit_status == 2


def test_weights_that_leave_out_every_selected_break_are_an_error() -> None:
    chosen = [page for page in bundled_pages() if page.id in ("skip-unbroadcast", "sub-sign")]
    left_out = {page.id: 0.0 for page in chosen}
    with pytest.raises(UsageError, match="all selected breaks have the weight 0"):
        Weights(breaks=left_out).require_some(chosen)
    Weights(breaks={"sub-sign": 0.0}).require_some(chosen)
