"""What a report quotes from its page: only where the runs end as the page explains."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from harness.engines.engine import find_engine
from harness.experiment.patching import Experiment, prepare
from harness.experiment.statements import End, quotable
from harness.pages.front_matter import Break
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness

PAGE = "skip-unbroadcast"


def experiment_on(variant: str | None, page: str = PAGE) -> Experiment:
    other = CATALOGUE.page(variant, "variant") if variant else None
    return prepare(CATALOGUE.page(page), CATALOGUE, find_engine(), variant=other)


def ends_of(experiment: Experiment, table: str | None, probes: Iterable[str] = ()) -> list[End]:
    """The ends that the page states for a variant, of some probes or of all."""
    page = experiment.page
    return [
        (probe, loss, outcome)
        for probe in probes or page.expect[None]
        for loss in ("uniform", "weighted")
        if (outcome := page.expected(table, probe, loss))
    ]


@pytest.mark.parametrize(
    ("variant", "like", "start"),
    [
        (None, None, "Broadcasting copies"),
        ("accumulate-in-place", "accumulate-in-place", "The copies are not summed"),
        ("unbroadcast-on-arrival", "unbroadcast-on-arrival", "The rules forget the sum"),
        ("accumulate-in-place", None, ""),
        ("unbroadcast-on-arrival", "accumulate-in-place", ""),
        (None, "accumulate-in-place", ""),
    ],
)
def test_a_text_is_quoted_if_the_runs_end_as_stated_beside_it(
    variant: str | None, like: str | None, start: str
) -> None:
    experiment = experiment_on(variant)
    said = quotable(experiment, ends_of(experiment, like))
    assert str(said["why"]).startswith(start)
    assert bool(said["why"]) == bool(said["beware"]) == bool(start)
    assert (said["unexplained"] is None) == bool(start)


def test_another_engine_without_a_text_gets_counts() -> None:
    page = "skip-unbroadcast-div"
    experiment = experiment_on("accumulate-in-place", page)
    assert isinstance(experiment.page.front, Break)
    assert "accumulate-in-place" not in experiment.page.front.advice
    ends = ends_of(experiment, "accumulate-in-place")
    unlike = sum(
        outcome != experiment.page.expected(None, probe, loss) for probe, loss, outcome in ends
    )
    said = quotable(experiment, ends)
    assert (said["why"], said["unexplained"]) == ("", (unlike, len(ends)))
    hidden = [("div", loss, outcome) for probe, loss, outcome in ends if probe == "div"]
    assert hidden, "a probe that ends alike on both"
    assert quotable(experiment, hidden)["why"] == ""


def test_a_probe_of_which_the_page_states_nothing_explains_nothing() -> None:
    experiment = experiment_on(None)
    mine: list[End] = [("mine", "uniform", "crash")]
    assert quotable(experiment, mine) == {
        "why": "",
        "beware": "",
        "invariant": "",
        "test": "",
        "unexplained": None,
    }
    silent: list[End] = [("mine", "uniform", "silent-corruption")]
    assert quotable(experiment, silent)["invariant"] == "assert leaf.grad.shape == leaf.shape"
    beside = [*ends_of(experiment, None), *mine]
    assert quotable(experiment, beside)["why"]


def test_on_a_foreign_engine_nothing_is_quoted() -> None:
    """The texts name numbers of the page's engine, such as the loss that it reaches."""
    experiment = experiment_on(None)
    foreign = replace(experiment, clean=replace(experiment.clean, foreign=True))
    ends = ends_of(experiment, None)
    assert foreign.foreign
    assert quotable(experiment, ends)["why"]
    assert set(quotable(foreign, ends).values()) == {"", None}


def test_the_report_on_a_variant_is_about_that_variant() -> None:
    text = harness("break", PAGE, "--on", "unbroadcast-on-arrival").stdout
    assert "Why     The rules forget the sum, but this engine sums every gradient" in text
    assert "lower loss" not in text
    assert "Write" not in text
    text = harness("break", PAGE, "--on", "accumulate-in-place", "--lang", "es").stdout
    assert "Por qué    Tampoco aquí hace nadie la suma" in text


def test_a_report_without_a_text_counts() -> None:
    text = harness("break", "skip-unbroadcast-div", "--on", "accumulate-in-place").stdout
    assert "runs do not end as the page explains; in all: " in text
    assert "Beware" not in text
