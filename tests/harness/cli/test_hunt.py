"""`harness hunt`: played on a terminal and with options, left at every prompt, and misused."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.vocabulary import OUTCOMES
from harness.engines.engine import find_engine
from harness.experiment.patching import prepare
from harness.learn.hunt.game import hunts_in, seed_of
from harness.learn.hunt.place import changed_lines
from harness.learn.hunt.pool import pool_of
from harness.learn.journal import open_journal
from tests.harness.bundled import CATALOGUE
from tests.harness.cli.terminal import CTRL_C, CTRL_D, ENTER, dialogue
from tests.harness.command import Completed, harness

POOL = pool_of(CATALOGUE, 1)
SEED = 4
BUG = POOL.ranked(SEED)[0]
(SITE, *_) = prepare(CATALOGUE.page(BUG.id), CATALOGUE, find_engine()).broken.sites
LINE = f"{SITE.file}:{changed_lines(SITE, find_engine())[0]}"
CHEAPEST = [clue.name for clue in POOL.cheapest(BUG)]
WRONG_FAMILY = "dtype" if BUG.family != "dtype" else "shapes"


def hunt(*arguments: str, **environment: str) -> Completed:
    return harness("hunt", "--seed", str(SEED), *arguments, **environment)


def solution(place: str = LINE) -> list[str]:
    """Buy the cheapest clues, and answer."""
    bought = [word for name in CHEAPEST for word in ("--buy", name)]
    return [*bought, "--answer", f"{BUG.family}:{place}"]


# ----- On a terminal -----


def test_a_hunt_from_start_to_end() -> None:
    keys = [ENTER, "? checks\n", "? broadcasting\n", f"{CHEAPEST[0].replace(':', ' ')}\n"]
    left = dialogue(["hunt", "--seed", str(SEED)], [*keys, CTRL_D])
    assert left.status == 0, left.shown
    assert left.lines[-1] == "`harness hunt` continues this hunt."
    assert f"Hunt: seed {SEED}, level 1" in left.lines
    assert "answer FAMILY PLACE  end the hunt; PLACE is FUNCTION or FILE.py:LINE" in left.lines
    assert "gradcheck        6-184  a gradient that is not the derivative" in left.shown
    assert "add-new-axis          A created axis: (3,) + (4, 3)." in left.lines
    assert BUG.id not in left.shown
    rest = [f"{name}\n" for name in CHEAPEST[1:]]
    done = dialogue(["hunt"], [*rest, "? clues\n", f"answer {BUG.family} {LINE}\n"])
    assert done.status == 0, done.shown
    passes = sum(clue.passes for clue in POOL.cheapest(BUG))
    assert "Solved: the family and the line are right." in done.lines
    assert f"{BUG.family}: {BUG.id}" in done.lines
    assert f"Score 100: {passes:g} passes; {passes:g} would do" in done.shown
    share = next(line for line in done.lines if line.startswith("breaklab hunt "))
    assert share.startswith(f"breaklab hunt seed {SEED} level 1: {passes:g} passes, ")
    assert share.endswith(", solved")
    assert not re.search(rf"{BUG.id}|{BUG.family}", share)
    assert done.lines[-1] == f"Next  harness break {BUG.id}"
    for line in [*left.lines, *done.lines]:
        assert len(line) <= 80 or "remedy" in line or "⠋" in line, line


def test_a_hunt_in_spanish_in_a_narrow_window() -> None:
    wrong = ["nonsense\n", "shap x\n", "? nothing-like-it\n", f"answer {BUG.family}\n"]
    keys = [ENTER, *wrong, "? add-new-axis\n", f"{CHEAPEST[0]}\n", f"answer {WRONG_FAMILY} add\n"]
    done = dialogue(["hunt", "--seed", str(SEED)], keys, columns=60, LANG="es_ES.UTF-8")
    assert done.status == 1, done.shown
    shown = " ".join(done.shown.split())
    assert f"Caza: semilla {SEED}, nivel 1" in done.lines
    assert "`nonsense` no es una pista solución: escribe una comprobación y una sonda" in shown
    assert "no hay comprobación `shap` solución: ¿querías decir `shape`?" in shown
    assert "nada se llama `nothing-like-it`" in shown
    assert f"`{BUG.family}` no nombra ningún lugar" in shown
    assert "Pasadas: crash 6, shape 6" in shown
    assert "No resuelta: es otra familia." in done.lines
    assert "Puntuación 0: " in shown
    assert "1 pista, no resuelta" in shown
    rows = [line for line in done.lines if not re.search("⠋|harness:|solución:", line)]
    assert max(len(line) for line in rows if "caza de breaklab" not in line) <= 60


@pytest.mark.parametrize("key", [CTRL_C, pytest.param("q\n", marks=pytest.mark.slow)])
def test_the_prompt_can_be_left_and_what_was_bought_is_kept(key: str) -> None:
    done = dialogue(["hunt", "--seed", str(SEED)], [f"{CHEAPEST[0]}\n", key])
    expected = (
        (130, "harness: stopped") if key == CTRL_C else (0, "`harness hunt` continues this hunt.")
    )
    assert (done.status, done.lines[-1]) == expected
    (kept,) = hunts_in(open_journal().progress.events)
    assert list(kept.bought) == CHEAPEST[:1]
    assert f"So far: {len(kept.bought)} clue, " in harness("hunt").stdout


# ----- With options -----


def test_a_hunt_with_options_and_its_line_to_share() -> None:
    bought = hunt("--buy", CHEAPEST[0])
    assert bought.returncode == 0
    assert "harness hunt --seed 4 --level 1 --answer FAMILY:PLACE" in bought.stdout
    assert BUG.id not in bought.stdout
    done = hunt(*solution())
    assert (done.returncode, done.stderr) == (0, "")
    line = next(row for row in done.stdout.splitlines() if row.startswith("breaklab hunt"))
    assert harness("hunt", "--share").stdout.splitlines() == [line.rstrip()]
    again = hunt()
    assert again.returncode == 0
    assert line in again.stdout
    assert "1 of 1 solved; best score 100" in harness("progress").stdout
    hunts = json.loads(harness("progress", "--json").stdout)["hunts"]
    assert hunts == {"ended": 1, "solved": 1, "scores": [100]}


def test_a_hunt_as_json() -> None:
    table = json.loads(hunt("--json", "--buy", "grads:add-new-axis", *solution()).stdout)
    assert table["hunt"] == {"seed": SEED, "level": 1, "engine": "minigrad", "logs": False}
    assert [entry["clue"] for entry in table["clues"]] == ["grads:add-new-axis", *CHEAPEST]
    assert table["passes"] == sum(entry["passes"] for entry in table["clues"])
    a, _ = table["bought"][0]["gradients"]
    assert (a["leaf"], a["expected"]["shape"]) == ("a", [3])
    assert table["end"]["result"] == "solved"
    assert table["end"]["place"] == "line"
    assert table["end"]["bug"]["id"] == BUG.id
    assert table["end"]["cheapest"]["clues"] == CHEAPEST


def test_the_right_function_is_near_and_the_family_alone_is_half() -> None:
    near = hunt("--answer", f"{BUG.family}:{SITE.file}:{SITE.scope}")
    assert near.returncode == 0
    assert "the line is near: right function." in near.stdout
    half = hunt("--logs", "--answer", f"{BUG.family}:topological_order")
    assert half.returncode == 1


def test_logs_are_all_that_a_hunt_with_logs_sells() -> None:
    shown = harness("hunt", "--logs", "--seed", "1", "--buy", "log:adam").stdout
    assert re.search(r"^log:adam: 6 passes$", shown, re.M)
    assert "--level 1 --logs --buy log:" in shown
    refused = harness("hunt", "--logs", "--seed", "1", "--buy", "shape:add-new-axis")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no check `shape`" in refused.stderr
    wrong = harness("hunt", "--logs", "--seed", "1", "--answer", "dtype:topological_order").stdout
    assert ", logs only: 6 passes, 1 clue, " in wrong


def test_the_bug_of_the_day_has_the_day_as_its_seed() -> None:
    before = seed_of(datetime.now(UTC))
    shown = harness("hunt", "--daily", "--level", "2", "--json").stdout
    assert json.loads(shown)["hunt"]["seed"] in (before, seed_of(datetime.now(UTC)))


def test_nothing_that_is_stored_names_the_bug() -> None:
    hunt("--buy", CHEAPEST[0], "--answer", f"{WRONG_FAMILY}:topological_order")
    (file,) = Path(os.environ["BREAKLAB_DATA"]).iterdir()
    stored = file.read_bytes()
    assert CHEAPEST[0].encode() in stored
    assert BUG.id.encode() not in stored
    assert BUG.family.encode() not in stored
    assert not any(outcome.encode() in stored for outcome in OUTCOMES)


def test_a_hunt_in_another_engine(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    engine = f"{root / 'tests' / 'engines' / 'closures.py'}:Tensor"
    shown = harness("hunt", "--seed", "5", "--engine", engine, "--json").stdout
    assert json.loads(shown)["hunt"]["engine"] == "closures"
    names = [suspect for suspect in POOL.ranked(5) if suspect.is_portable]
    answer = f"{names[0].family}:closures.py:1"
    end = json.loads(
        harness("hunt", "--seed", "5", "--engine", engine, "--json", "--answer", answer).stdout
    )["end"]
    assert end["bug"]["id"] in {suspect.id for suspect in names}
    assert all(site["file"].endswith("closures.py") for site in end["bug"]["sites"])
    lacks = harness("hunt", "--seed", "6", "--engine", engine, "--buy", "log:adam")
    assert lacks.returncode == 2
    assert "closures cannot run this probe" in lacks.stderr


# ----- Bad input -----


@pytest.mark.parametrize(
    ("arguments", "problem", "remedy"),
    [
        (["--level", "4"], "no level `4`", "--level takes 1, 2, 3"),
        (["--seed", "-1"], "--seed -1 cannot be used", "a whole number from 0"),
        (["--seed", "3", "--daily"], "--seed and --daily cannot be combined", "leave one out"),
        (["--seed", "3", "--buy", "gradchek:add-new-axis"], "no check", "`gradcheck`"),
        (["--seed", "3", "--buy", "shape:add-new-axs"], "no probe", "did you mean `add-new-axis`"),
        (["--seed", "3", "--buy", "gradcheck:adam"], "a probe of kind steps", "another probe"),
        (["--seed", "3", "--buy", "gradcheck"], "no probe ``", "list --probes"),
        (["--seed", "3", "--answer", "brodcasting:add"], "no family", "`broadcasting`"),
        (["--seed", "3", "--answer", "broadcasting"], "names no place", "FILE.py:LINE"),
        (["--seed", "3", "--answer", "broadcasting:vjp"], "places are called", "add.vjp"),
        (["--share"], "no hunt has ended", "`harness hunt` begins one"),
    ],
)
def test_a_mistake_is_answered_and_costs_nothing(
    arguments: list[str], problem: str, remedy: str
) -> None:
    done = harness("hunt", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert remedy in done.stderr
    assert all(hunt.passes == 0 for hunt in hunts_in(open_journal().progress.events))


def test_a_hunt_that_has_ended_takes_no_more_answers() -> None:
    hunt("--answer", f"{WRONG_FAMILY}:topological_order")
    done = hunt("--answer", f"{BUG.family}:{LINE}")
    assert done.returncode == 2
    assert "this hunt has ended" in done.stderr
    assert hunt().returncode == 1


@pytest.mark.usefixtures("without_oracles")
def test_a_check_whose_library_is_missing_costs_nothing() -> None:
    done = hunt("--buy", "torch:add-new-axis")
    assert done.returncode == 2
    assert "torch is not installed" in done.stderr
    (kept,) = hunts_in(open_journal().progress.events)
    assert kept.bought == {}


def test_a_hunt_works_where_nothing_can_be_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = hunt(*solution(), BREAKLAB_DATA=str(tmp_path / "file"))
    assert done.returncode == 0
    assert done.stderr.count("progress is not saved") == 1
    assert "Solved" in done.stdout
