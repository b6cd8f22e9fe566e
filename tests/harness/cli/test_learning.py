"""The commands for learners: what they show, ask and record."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.cli import show, track
from harness.cli.break_ import record_break
from harness.cli.session import CommandSession
from harness.core.errors import UsageError
from harness.core.message import message
from harness.learn.events import (
    AnyEvent,
    Attempt,
    Draw,
    PageFinished,
    PredictionMade,
    TestAnswer,
    open_journal,
)
from harness.learn.progress import PRIMER, LearnerProgress, Way, first_step
from harness.report.language import open_language
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.cli.terminal import CTRL_C, CTRL_D, ENTER, dialogue
from tests.harness.command import harness, light_program
from tests.harness.learn.events import one_of_each_kind, prediction
from tests.harness.reports import report_of

TRACK = tuple(CATALOGUE.track)


def events() -> Sequence[AnyEvent]:
    return open_journal().events


def record(*new: AnyEvent) -> None:
    open_journal().record(*new)


def read(*pages: str) -> None:
    record(*(PageFinished(page=page) for page in pages))


# ----- The welcome -----


def test_without_a_command_a_terminal_gets_six_lines() -> None:
    done = dialogue([])
    assert done.status == 0
    assert len(done.lines) == 6
    assert done.lines[1] == f"You have not begun: the track has {len(TRACK)} pages."
    begin = r"harness start +begin with page 0, the engine itself"
    assert re.fullmatch(begin, done.lines[2])


def test_the_welcome_says_where_one_is() -> None:
    read(*TRACK[:3])
    record(prediction("crash", "crash"), prediction("crash", "crash", probe="other", right=False))
    done = dialogue([], LANG="es_ES.UTF-8")
    assert len(done.lines) == 6
    assert f"Itinerario: 3 de {len(TRACK)} páginas. Predicciones: 1 de 2 acertadas." in done.lines
    assert f"harness start      página 4 de {len(TRACK)}: {TRACK[3]}" in done.lines


def test_without_a_command_a_pipe_gets_the_help() -> None:
    done = harness()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr
    assert "progress" in done.stderr


def test_the_version_is_shown() -> None:
    done = harness("--version")
    assert done.returncode == 0
    ours, libraries = done.stdout.splitlines()
    assert re.fullmatch(r"breaklab \d\S+, Python 3\.\d+\.\d+, \S+ \S+", ours)
    assert re.match(r"NumPy \d\S+, LibCST \d\S+, pytest \d\S+, PyTorch \S+", libraries)


def test_the_shell_completes_commands_and_ids() -> None:
    asked = {"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": "harness pro", "COMP_CWORD": "1"}
    assert harness(**asked).stdout.split() == ["progress"]
    asked |= {"COMP_WORDS": "harness show skip-unbroadcast-m", "COMP_CWORD": "2"}
    names = [name for name in CATALOGUE.files if name.startswith("skip-unbroadcast-m")]
    assert sorted(harness(**asked).stdout.split()) == sorted(names) != []
    asked |= {"COMP_WORDS": "harness grade x --format r", "COMP_CWORD": "4"}
    assert harness(**asked).stdout.split() == ["record"]
    asked |= {"COMP_WORDS": "harness cohort x --feedback s", "COMP_CWORD": "4"}
    assert harness(**asked).stdout.split() == ["score", "stage"]


# ----- The list -----


def test_a_list_is_filtered_by_words_family_level_and_kind() -> None:
    def listed(*arguments: str) -> set[str]:
        pages = json.loads(harness("list", "--json", *arguments).stdout)["pages"]
        return {page["id"] for page in pages}

    every = {page.id: page.front for page in bundled_pages()}
    with_both = listed("unbroadcast", "SKIP")
    assert {"skip-unbroadcast", "skip-unbroadcast-mul"} <= with_both
    assert with_both == listed("unbroadcast") & listed("skip") != listed("unbroadcast")
    assert listed("--kind", "myths") == {name for name, f in every.items() if f.kind == "myth"}
    assert listed("--family", "shapes", "--level", "1", "--kind", "break") == {
        name for name, f in every.items() if (f.family, f.level, f.kind) == ("shapes", 1, "break")
    }


def test_what_is_done_is_marked_and_left_out_of_what_is_to_do() -> None:
    read("skip-unbroadcast")
    shown = harness("list", "skip-unbroadcast").stdout.splitlines()
    assert next(line.split()[1] for line in shown if line[:1] == "✓") == "skip-unbroadcast"
    others = [line for line in shown if line.startswith("  ")]
    assert f"✓ done: 1 of {1 + len(others)}" in shown
    todo = harness("list", "skip-unbroadcast", "--todo").stdout
    assert "skip-unbroadcast-mul" in todo
    assert "\n  skip-unbroadcast " not in todo
    assert "variant" not in harness("list", "--todo").stdout
    track = json.loads(harness("list", "--track", "--json").stdout)["track"]
    assert [page["id"] for page in track if page["done"]] == ["skip-unbroadcast"]
    read(*(page.id for page in bundled_pages() if page.front.family == "shapes"))
    done = harness("list", "--family", "shapes", "--kind", "break", "--todo")
    assert (done.returncode, done.stdout) == (0, "There is nothing left to do here.\n")


@pytest.mark.parametrize(
    ("arguments", "problem", "remedy"),
    [
        (["--family", "brodcasting"], "no family `brodcasting`", "did you mean `broadcasting`"),
        (["--level", "4"], "no level `4`", "--level takes 1, 2, 3"),
        (["--kind", "brake"], "no kind `brake`", "did you mean `break`"),
        (["skip-unbrodcast"], "no page with `skip-unbrodcast`", "did you mean `skip-unbroadcast`"),
        (["--level", "1", "--family", "nothing-like-it"], "no family", "--family takes "),
    ],
)
def test_an_unknown_filter_is_answered_with_the_nearest_names(
    arguments: list[str], problem: str, remedy: str
) -> None:
    done = harness("list", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize("columns", [60, pytest.param(80, marks=pytest.mark.slow)])
def test_a_row_fits_into_the_window(columns: int) -> None:
    done = dialogue(["list", "--family", "broadcasting", "--kind", "break"], columns=columns)
    rows = [line for line in done.lines if line.startswith("  ")]
    assert len(rows) > 10
    assert max(map(len, rows)) <= columns
    assert any(line.endswith("…") for line in rows)


# ----- Progress -----


def test_progress_shows_what_is_done_and_the_calibration() -> None:
    read(*TRACK[:2])
    record(
        prediction("silent-corruption", "silent-corruption", probe="a"),
        prediction("silent-corruption", "crash", probe="b"),
    )
    shown = harness("progress").stdout
    assert f"Track        2 of {len(TRACK)}" in shown
    assert "Predictions  1 of 2 right; the first about each run counts" in shown
    assert re.search(r"≠ silent-corruption +1 of 2 +1 crash", shown)
    assert f"page 3 of {len(TRACK)}: {TRACK[2]}" in shown
    table = json.loads(harness("progress", "--json").stdout)
    assert table["track"] == {"done": 2, "pages": len(TRACK), "next": TRACK[2]}
    assert table["calibration"] == [
        {"predicted": "silent-corruption", "count": 2, "right": 1, "instead": {"crash": 1}}
    ]
    assert "Predicciones" in harness("progress", "--lang", "es").stdout


def test_the_next_steps_are_readable_in_a_narrow_window() -> None:
    read(*TRACK)
    record(*(Attempt(exercise=page, killed=True) for page in TRACK))
    command = "  harness list --todo --kind break --level 2"
    narrow = harness("progress", COLUMNS="60").stdout.splitlines()
    below = narrow[narrow.index(command) + 1]
    assert re.fullmatch(r" {6}\d+ breaks of level 2 *", below)
    wide = harness("progress").stdout
    assert re.search(rf"^{command}  \d+ breaks of level 2 *$", wide, re.M)


def test_an_export_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = one_of_each_kind()
    record(*new)
    file = str(tmp_path / "mine.json")
    written = harness("progress", "--export", file).stdout
    assert "".join(written.split()) == "".join(f"10 events written to {file}".split())  # it wraps
    assert harness("progress", "--export", file).returncode == 2
    monkeypatch.setenv("BREAKLAB_DATA", str(tmp_path / "another"))
    record(new[0])
    assert harness("progress", "--import", file).stdout == "9 events added; 1 were already there\n"
    assert harness("progress", "--import", file).stdout == "0 events added; 10 were already there\n"
    assert list(events()) == new


def test_a_file_that_is_no_export_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"schema": 1, "events": [3]}')
    done = harness("progress", "--import", str(tmp_path / "other.json"))
    assert done.returncode == 2
    assert "it is not an export of progress" in done.stderr
    assert not Path(os.environ["BREAKLAB_DATA"]).exists()


def test_a_reset_needs_a_yes() -> None:
    read("sub-sign")
    done = harness("progress", "--reset")
    assert (done.returncode, len(events())) == (2, 1)
    assert "add --yes" in done.stderr
    assert harness("progress", "--reset", "--yes").stdout == "Your progress is empty.\n"
    assert events() == ()


@pytest.mark.parametrize(
    ("keys", "status", "left", "last"),
    [
        (["yes\n"], 0, 0, "Your progress is empty."),
        pytest.param(["y\n"], 0, 1, "Nothing was changed.", marks=pytest.mark.slow),
        ([CTRL_D], 0, 1, "Nothing was changed."),
        ([CTRL_C], 130, 1, "harness: stopped"),
    ],
)
def test_a_reset_asks_first(keys: list[str], status: int, left: int, last: str) -> None:
    read("sub-sign")
    done = dialogue(["progress", "--reset"], keys)
    assert (done.status, done.lines[-1], len(events())) == (status, last, left)


def test_two_things_at_once_are_refused() -> None:
    done = harness("progress", "--reset", "--export", "x")
    assert done.returncode == 2
    assert "--reset and --export cannot be combined" in done.stderr


def test_nothing_fails_where_nothing_can_be_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = {"BREAKLAB_DATA": str(tmp_path / "file")}
    assert harness("progress", **nowhere).returncode == 0
    done = dialogue(
        ["start"], ["s\n", "s\n", CTRL_D, CTRL_D, "x\n", CTRL_D], program=light_program(), **nowhere
    )
    assert done.status == 0
    assert done.shown.count("progress is not saved") == 1
    assert "`harness start` continues with page 2" in done.shown
    refused = harness("progress", "--import", str(tmp_path / "file"), **nowhere)
    assert refused.returncode == 2


# ----- The track -----


def test_predictions_and_the_page_are_remembered() -> None:
    done = dialogue(
        ["break", "sub-sign", "--probe", "sub"], ["c\n", CTRL_D], program=light_program()
    )
    assert done.status == 0, done.shown
    (made, finished) = events()
    assert isinstance(made, PredictionMade)
    assert (made.page, made.probe, made.right) == ("sub-sign", "sub", False)
    assert (made.predicted, made.actual) == ("crash", "silent-corruption")
    assert isinstance(finished, PageFinished)


def test_whatever_was_typed_can_be_read_again() -> None:
    session = CommandSession(cached=False)
    page = session.page("sub-sign")
    report = report_of(("sub", None, "crash"))
    typed = prediction("\x1b[A\udc80", "x" * 5000, question="One\nline?")
    record_break(session, page, report, [typed])
    made = events()[0]
    assert isinstance(made, PredictionMade)
    assert (made.predicted, made.question) == ("\\x1b[A\\udc80", "One line?")
    assert len(made.actual) == 1000


def test_a_piped_report_is_no_progress() -> None:
    harness("break", "sub-sign", "--probe", "sub")
    assert events() == ()


def test_the_track_ends_with_what_comes_after_it() -> None:
    """It begins with its last unread page, a myth; then come the questions, which are skipped."""
    myth = next(page for page in TRACK if CATALOGUE.page(page).front.kind == "myth")
    read(*(page for page in TRACK if page != myth))
    done = dialogue(["start"], [CTRL_D])
    assert done.status == 0
    assert f"Page {TRACK.index(myth) + 1} of {len(TRACK)}" in done.shown
    assert "You have done the whole track." in done.lines
    assert "harness list --todo --kind break --level 2" in done.shown
    assert any(isinstance(event, PageFinished) and event.page == myth for event in events()[-1:])


def test_the_track_keeps_the_language_of_the_option() -> None:
    myth = next(page for page in TRACK if CATALOGUE.page(page).front.kind == "myth")
    read(*(page for page in TRACK if page != myth))
    done = dialogue(["start", "--lang", "es"], [CTRL_D])
    assert done.status == 0
    assert f"{myth}, un mito" in done.shown


def test_an_error_on_the_track_is_in_the_language_of_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(page: str, **_options: object) -> int:
        raise UsageError(message("{path} already exists", path=page), "choose another id")

    session = CommandSession(lang="es")
    myth = next(page for page in TRACK if CATALOGUE.page(page).front.kind == "myth")
    monkeypatch.setattr(show, "myth", refuse)
    track._run(session, myth)
    assert f"harness: {myth} ya existe\n  solución: elige otro id" in capsys.readouterr().err


BEFORE = ("sub-sign", "div-missing-square", "sort-not-inverted", "getitem-drop-grad")
AFTER = ("skip-unbroadcast-sub", "unbroadcast-lead-only", "rsub-alias-sub", "train-stats-on-test")


def test_the_self_test_is_asked_before_the_track_and_after_it() -> None:
    record(Draw(before=BEFORE, after=AFTER))
    done = dialogue(["start"], ["s\n", ENTER, "never so\n", "c\n", "?\n", ENTER, CTRL_D])
    assert done.status == 0
    assert [event.right for event in events() if isinstance(event, TestAnswer)] == [False, None]
    assert "Type one of the answers; ? shows the code" in done.shown
    assert re.search(r"\n +def \w+\(", done.shown)
    assert "`harness start` continues with this question." in done.lines
    done = dialogue(["start"], [ENTER, "skip\n", CTRL_C])
    assert done.status == 130
    assert f"Question 3 of {len(BEFORE)}" in done.shown
    assert "Before the track: 0 of 1 right, 3 not answered." in done.lines
    read(*TRACK)
    record(*(Attempt(exercise=page, killed=True) for page in TRACK))
    after = dialogue(["start"], [ENTER, "skip\n"])
    assert "After the track: skipped; before it: 0 of 1 right, 3 not answered." in after.lines
    assert f"Question 1 of {len(AFTER)}" in after.shown
    assert "Self-test" not in harness("start").stdout
    shown = " ".join(harness("progress").stdout.split())
    assert "before the track 0 of 1 right, 3 not answered; after it skipped" in shown


@pytest.mark.parametrize(
    ("keys", "status", "last"),
    [
        pytest.param([CTRL_C], 130, "harness: stopped", marks=pytest.mark.slow),
        pytest.param([CTRL_D], 0, "`harness start` continues with page 0.", marks=pytest.mark.slow),
        pytest.param(["s\n", CTRL_C], 130, "harness: stopped", marks=pytest.mark.slow),
        pytest.param(["s\n", "s\n", CTRL_C], 130, "harness: stopped", marks=pytest.mark.slow),
        pytest.param(
            ["s\n", "s\n", CTRL_D, CTRL_C], 130, "harness: stopped", marks=pytest.mark.slow
        ),
        pytest.param(
            ["s\n", "s\n", CTRL_D, CTRL_D],
            0,
            "`harness start` continues with page 2.",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["s\n", "s\n", CTRL_D, "x\n", "q\n"],
            0,
            "`harness start` continues with page 2.",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_prompt_of_the_track_can_be_left(keys: list[str], status: int, last: str) -> None:
    done = dialogue(["start"], keys)
    assert (done.status, done.lines[-1]) == (status, last)
    assert ("Press Enter to continue, or type q to stop." in done.lines) == ("x\n" in keys)
    finished = [event.page for event in events() if isinstance(event, PageFinished)]
    assert finished == [PRIMER, TRACK[0]][: ("s\n" in keys) + (len(keys) > 3)]


STATES = {
    "the first command": ([], TRACK[0], "page 0: the engine, before it is broken"),
    "page 0 read": ([PRIMER], TRACK[0], f"page 2 of {len(TRACK)}: {TRACK[1]}"),
    "some pages done": (TRACK[:4], TRACK[1], f"page 5 of {len(TRACK)}: {TRACK[4]}"),
    "a page left out": ((TRACK[0], *TRACK[2:5]), TRACK[3], f"page 2 of {len(TRACK)}: {TRACK[1]}"),
    "the exercises left": (
        [page for page in TRACK if CATALOGUE.page(page).front.kind != "exercise"],
        TRACK[0],
        f"page 6 of {len(TRACK)}: {TRACK[5]}",
    ),
    "all done": (TRACK, TRACK[0], "what comes after the track"),
}


@pytest.mark.parametrize("code", ["en", "es"])
@pytest.mark.parametrize(("pages", "page", "expected"), STATES.values(), ids=STATES)
def test_every_command_names_the_same_next_step(
    pages: Sequence[str], page: str, expected: str, code: str
) -> None:
    read(*pages)
    shown = [harness("break", page, "--lang", code).stdout]
    read(page)
    why = first_step(Way(CATALOGUE, LearnerProgress(events()))).why
    assert str(why) == expected
    step = open_language(code)(why)
    shown.append(dialogue([], LANG=code).text)
    if expected != "what comes after the track":
        shown += [harness(name, "--lang", code).stdout for name in ("start", "progress")]
    for text in shown:
        assert step in " ".join(text.split())


def test_an_interrupted_page_is_next() -> None:
    read(PRIMER, *TRACK[:3])
    record(TestAnswer(phase="before", page="x", right=None))
    assert dialogue(["start"], ["s\n", CTRL_C]).status == 130
    assert f"page 4 of {len(TRACK)}: {TRACK[3]}" in harness("start").stdout


def test_without_a_terminal_the_next_page_is_named() -> None:
    read(*TRACK[:4])
    done = harness("start")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"page 5 of {len(TRACK)}: {TRACK[4]}" in done.stdout


# ----- Exercises -----

USELESS = 'def useless(a=(3,)):\n    """A sum."""\n    return a + a\n'


@pytest.mark.usefixtures("without_oracles")
def test_hints_are_offered_after_the_second_failure_and_then_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USELESS)
    tries = [harness("exercise", "squares-only", str(file)) for _ in range(2)]
    offers = [done.stdout.splitlines()[-1] for done in tries]
    assert [done.returncode for done in tries] == [1, 1]
    assert "--hint" not in offers[0]
    assert offers[1] == "Hint 1 of 3, free:  harness exercise squares-only --hint"
    hints = [harness("exercise", "squares-only", "--hint").stdout for _ in range(3)]
    assert [hint.splitlines()[0] for hint in hints] == [f"Hint {n} of 3" for n in (1, 2, 3)]
    assert "harness diff mul-swapped-operands" in hints[2]
    last = harness("exercise", "squares-only", str(file)).stdout.splitlines()[-1]
    assert last == "The answer:  harness exercise squares-only --answer"
    every = harness("exercise", "squares-only", "--hint").stdout
    assert [hint in every for hint in hints] == [True] * 3
    answer = harness("exercise", "squares-only", "--answer").stdout
    assert answer.startswith("Answer\n")
    assert "def " in answer
    assert "\nLesson\n" in answer


@pytest.mark.usefixtures("without_oracles")
def test_json_counts_no_attempt(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USELESS)
    assert harness("exercise", "squares-only", str(tmp_path / "mine.py"), "--json").returncode == 1
    assert events() == ()


@pytest.mark.usefixtures("without_oracles")
def test_a_solved_exercise_is_done(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text('def product(a=(3,), b=(3,)):\n    """A product."""\n    return a * b\n')
    assert harness("exercise", "squares-only", str(file)).returncode == 0
    assert [(event.exercise, event.killed) for event in events() if isinstance(event, Attempt)] == [
        ("squares-only", True)
    ]
    assert "--hint" not in harness("exercise", "squares-only", str(file)).stdout


@pytest.mark.usefixtures("without_oracles")
@pytest.mark.parametrize(
    "exercise",
    [
        page.id if page.id == "squares-only" else pytest.param(page.id, marks=pytest.mark.slow)
        for page in bundled_pages()
        if page.front.kind == "exercise"
    ],
)
def test_the_file_to_start_from_runs_and_solves_nothing(tmp_path: Path, exercise: str) -> None:
    file = str(tmp_path / "mine.py")
    done = harness("exercise", exercise, "--start", file)
    assert done.returncode == 0
    assert f"harness exercise {exercise} {file}" in done.stdout
    judged = json.loads(harness("exercise", exercise, file, "--json").stdout)
    assert [probe["problems"] for probe in judged["probes"]] == [[]]
    assert judged["killed"] is False


def test_the_options_of_an_exercise_exclude_each_other(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USELESS)
    again = harness("exercise", "squares-only", "--start", str(file))
    assert (again.returncode, file.read_text()) == (2, USELESS)
    assert "already exists" in again.stderr
    both = harness("exercise", "squares-only", str(file), "--hint")
    assert both.returncode == 2
    assert "FILE and --hint cannot be combined" in both.stderr


def test_a_page_that_is_not_on_the_track_names_no_next_step() -> None:
    assert CommandSession().following(CATALOGUE.page("sub-sign")) == ""
