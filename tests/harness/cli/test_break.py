"""`harness break`: the one-screen report on a terminal, in a pipe and in a narrow window."""

import json

import pytest

from harness.runs.cache import open_cache
from harness.runs.cached_runs import LIBRARIES, run_on_library
from tests.harness.bundled import CATALOGUE
from tests.harness.cli.terminal import CTRL_C, CTRL_D, dialogue
from tests.harness.command import harness, light_program

TRACK = [name for name in CATALOGUE.track if CATALOGUE.page(name).front.kind == "break"]
LABELS = {"en": ("Why", "Beware"), "es": ("Por qué", "Cuidado")}


def without_test(lines: list[str]) -> list[str]:
    """The lines of a report without the test to write, whose lines stay whole so that it can be
    pasted.
    """
    starts = [number for number, line in enumerate(lines) if line.startswith("import ")]
    if not starts:
        return lines
    blank = [n for n, line in enumerate(lines) if not line and n > starts[0]]
    return [*lines[: starts[0] - 1], *lines[blank[1] + 1 :]]


@pytest.fixture(scope="module", autouse=True)
def _oracles() -> None:
    """The oracles' runs of all pages of the track, from one start of each library."""
    probes = {p.name: p for name in TRACK for p in CATALOGUE.probes_for(CATALOGUE.page(name))}
    pairs = [(probe, loss) for probe in probes.values() for loss in probe.losses]
    for library in LIBRARIES:
        run_on_library(library, pairs, open_cache())


@pytest.mark.parametrize("lang", ["en", pytest.param("es", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "page", [*TRACK[:3], *(pytest.param(page, marks=pytest.mark.slow) for page in TRACK[3:])]
)
def test_the_report_of_each_page_of_the_track_fits_a_screen(page: str, lang: str) -> None:
    done = harness("break", page, "--lang", lang)
    lines = without_test(done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 34
    why, beware = (
        next(number for number, line in enumerate(lines) if line.startswith(f"{label} "))
        for label in LABELS[lang]
    )
    assert [line for line in lines[:why] if line.startswith(("  - ", "  + "))]
    assert beware <= 24  # so the lines before it, counted from 1, are the first 24
    assert why < beware


@pytest.mark.parametrize(
    ("columns", "lang", "words"),
    [
        (80, "en", ("What do you predict?", "wrong: = hidden", "You  ", "1 of 3 right")),
        (60, "es", ("¿Qué predices?", "mal: = oculto", "Tú  ", "1 de 3 acertadas")),
    ],
)
def test_a_learner_predicts_and_then_sees_one_screen(
    columns: int, lang: str, words: tuple[str, ...]
) -> None:
    keys = ["crash\n", "nonsense\n", "?\n", "silent-corruption\n", "1\n", CTRL_D]
    done = dialogue(["break", "skip-unbroadcast", "--lang", lang], keys, columns=columns)
    text = done.text
    assert [word for word in words if word not in text] == []
    assert "def add_new_axis(a=(3,), b=(4, 3)):" in text
    report = without_test(text[text.index("9/13") :].splitlines())
    assert max(map(len, report)) <= columns
    assert "skip-unbroadcast" in text
    assert "minigrad/elementwise.py:24 add.vjp" in text


@pytest.mark.parametrize(("key", "status"), [(CTRL_C, 130), (CTRL_D, 0)])
def test_ctrl_c_and_ctrl_d_at_a_prompt_end_with_a_line(key: str, status: int) -> None:
    done = dialogue(["break", "sum-no-expand"], [key], program=light_program())
    assert done.status == status
    line = "harness: stopped" if status else "The other questions are skipped."
    assert line in done.shown
    assert "Traceback" not in done.shown


def test_without_questions_a_terminal_gets_the_report_alone() -> None:
    done = dialogue(["break", "sum-no-expand", "--no-predict"], NO_COLOR="")
    assert "predict?" not in done.shown
    assert done.lines[0].endswith("track: page 8/13")
    assert "\x1b[1m" in done.shown
    assert "\x1b[2m" not in done.shown  # dim, and yellow, cannot be read on a light terminal
    assert "\x1b[33m" not in done.shown


def test_full_is_the_whole_report() -> None:
    shown = harness("break", "sum-no-expand", "--full").stdout
    for words in ("@@ -", "looks like", "caught by", "Summary", "Everything is as the page says."):
        assert words in shown
    assert "not-infected:" not in shown


def test_both_engines_are_in_the_json_of_a_break() -> None:
    report = json.loads(harness("break", "skip-unbroadcast", "--json").stdout)
    outcomes = {(run["probe"], run["loss"]): run["outcome"] for run in report["in_place"]}
    assert outcomes.keys() == {(run["probe"], run["loss"]) for run in report["runs"]}
    assert outcomes["add-new-axis", "weighted"] == "crash"
    on = json.loads(
        harness("break", "skip-unbroadcast", "--on", "accumulate-in-place", "--json").stdout
    )
    assert outcomes == {(run["probe"], run["loss"]): run["outcome"] for run in on["runs"]}
    assert on["in_place"] == []


def test_on_a_variant_the_table_has_one_engine() -> None:
    shown = harness("break", "skip-unbroadcast", "--on", "accumulate-in-place").stdout
    assert "with grad +=" not in shown
    assert "skip-unbroadcast, on minigrad with accumulate-in-place" in shown


@pytest.mark.usefixtures("without_oracles")
def test_a_page_that_is_not_on_the_track_names_no_place() -> None:
    shown = harness("break", "sub-sign").stdout
    assert "track:" not in shown
    assert "Next" not in shown
