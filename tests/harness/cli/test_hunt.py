"""`harness hunt`: played on a terminal and with options, left at every prompt, and misused."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.engines.engine import find_engine
from harness.experiment.patching import prepare
from harness.learn.clues import pool_of
from harness.learn.events import open_journal
from harness.learn.hunt import changed_lines, hunts_in, seed_of
from tests.harness.bundled import CATALOGUE
from tests.harness.cli.terminal import CTRL_C, CTRL_D, ENTER, dialogue
from tests.harness.command import Completed, harness

POOL = pool_of(CATALOGUE, 1)
SEED = 4
BUG = POOL.choose(SEED)
(SITE, *_) = prepare(CATALOGUE.page(BUG.id), CATALOGUE, find_engine()).broken.sites
LINE = f"{SITE.file}:{changed_lines(SITE, find_engine())[0]}"
PAR = [clue.name for clue in POOL.par(BUG)]
WRONG_FAMILY = "dtype" if BUG.family != "dtype" else "shapes"


def hunt(*arguments: str, **environment: str) -> Completed:
    return harness("hunt", "--seed", str(SEED), *arguments, **environment)


def solution(place: str = LINE) -> list[str]:
    """Buy the clues of the par, and answer."""
    bought = [word for name in PAR for word in ("--buy", name)]
    return [*bought, "--answer", f"{BUG.family}:{place}"]


@pytest.fixture(autouse=True)
def _catalogue_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process share the catalogue that the tests have read."""
    monkeypatch.setattr("harness.pages.catalogue.open_catalogue", lambda _folders: CATALOGUE)


# ----- On a terminal -----


def sessions() -> list[list[str]]:
    """The sessions on a terminal in the guide, each as its lines."""
    guide = (Path(__file__).parents[3] / "docs" / "hunt.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", guide, re.M)
    shown = [[line[4:] for line in block.strip("\n").splitlines()] for block in blocks]
    return [lines for lines in shown if lines and lines[0].startswith("$ ")]


def test_the_guide_shows_a_hunt_as_it_is() -> None:
    """From start to end, with Ctrl-D at a prompt where nothing is typed."""
    assert len(sessions()) == 2
    for command, *lines in sessions():
        prompts = [line.partition(" >")[2] for line in lines if re.match(r"\d+ passes >", line)]
        keys = [f"{typed.strip()}\n" if typed else CTRL_D for typed in prompts]
        done = dialogue(command.removeprefix("$ harness ").split(), keys)
        assert done.status == 0, done.shown
        assert [line for line in done.lines if "⠋" not in line] == lines
        assert max(map(len, lines)) <= 80


def test_a_hunt_in_spanish_in_a_narrow_window() -> None:
    wrong = ["answer \n", "nonsense\n", "shap x\n", "? nothing-like-it\n", f"answer {BUG.family}\n"]
    keys = [
        ENTER,
        *wrong,
        "? clues\n",
        "? add-new-axis\n",
        f"{PAR[0]}\n",
        f"answer {WRONG_FAMILY} add\n",
    ]
    done = dialogue(["hunt", "--seed", str(SEED)], keys, columns=60, LANG="es_ES.UTF-8")
    assert done.status == 1, done.shown
    shown = " ".join(done.shown.split())
    assert f"Caza: semilla {SEED}, nivel 1" in done.lines
    assert "`nonsense` no es una pista solución: escribe una comprobación y una sonda" in shown
    assert "no hay comprobación `shap` solución: ¿querías decir `shape`?" in shown
    assert "no hay ningún tema de ayuda `nothing-like-it`" in shown
    assert f"`{BUG.family}` no nombra ningún lugar" in shown
    assert "Todavía no has comprado nada." in done.lines
    assert "Pasadas: crash 6, shape 6" in shown
    assert "No resuelta: es otra familia." in done.lines
    assert "Puntuación 0: " in shown
    assert [line for line in done.lines if len(line) > 60 and "⠋" not in line] == []
    assert "las familias son" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "status", "last"),
    [
        (CTRL_C, 130, "harness: stopped"),
        ("q\n", 0, "`harness hunt` continues this hunt."),
    ],
)
def test_the_prompt_can_be_left_in_other_ways(key: str, status: int, last: str) -> None:
    done = dialogue(["hunt", "--seed", str(SEED)], [f"{PAR[0]}\n", key])
    assert (done.status, done.lines[-1]) == (status, last)
    (kept,) = hunts_in(open_journal().events)
    assert list(kept.bought) == PAR[:1]
    assert "So far: 1 clue, " in harness("hunt").stdout


# ----- With options -----


def test_a_hunt_with_options() -> None:
    bought = hunt("--buy", PAR[0])
    assert bought.returncode == 0
    assert "harness hunt --seed 4 --level 1 --answer FAMILY:PLACE" in bought.stdout
    assert BUG.id not in bought.stdout
    done = hunt(*solution())
    assert (done.returncode, done.stderr) == (0, "")
    again = hunt()
    assert again.returncode == 0
    assert again.stdout.strip() in done.stdout
    assert "Solved: right family, right line.\n" in again.stdout
    assert "1 of 1 solved; best score 100" in harness("progress").stdout
    hunts = json.loads(harness("progress", "--json").stdout)["hunts"]
    assert hunts == {"ended": 1, "solved": 1, "scores": [100]}


def test_gradients_are_shown_with_the_loss_that_they_are_of() -> None:
    shown = hunt("--buy", "grads:add-new-axis").stdout
    assert "grads:add-new-axis: 6 passes\n  weighted loss:\n  a.grad" in shown


def test_a_hunt_as_json() -> None:
    table = json.loads(hunt("--json", "--buy", "grads:add-new-axis", *solution()).stdout)
    assert table["hunt"] == {"seed": SEED, "level": 1}
    assert [entry["clue"] for entry in table["clues"]] == ["grads:add-new-axis", *PAR]
    assert table["passes"] == sum(entry["passes"] for entry in table["clues"])
    a, _ = table["bought"][0]["gradients"]
    assert (a["leaf"], a["expected"]["shape"]) == ("a", [3])
    assert table["bought"][0]["loss"] == "weighted"
    assert table["end"]["result"] == "solved"
    assert table["end"]["place"] == "line"
    assert table["end"]["bug"]["id"] == BUG.id
    assert table["end"]["par"]["clues"] == PAR


def test_the_right_function_is_near_and_the_family_alone_is_half(tmp_path: Path) -> None:
    near = hunt("--answer", f"{BUG.family}:{SITE.file}:{SITE.scope}")
    assert near.returncode == 0
    assert "Solved: right family, right function.\n" in near.stdout
    elsewhere = f"{BUG.family}:topological_order"
    half = hunt("--answer", elsewhere, BREAKLAB_DATA=str(tmp_path / "another"))
    assert half.returncode == 1
    assert "Half solved: right family, wrong place." in half.stdout
    assert "Score 50: 0 passes; " in half.stdout


def test_the_bug_of_the_day_has_the_day_as_its_seed() -> None:
    before = seed_of(datetime.now(UTC))
    shown = harness("hunt", "--daily", "--level", "2", "--json").stdout
    assert json.loads(shown)["hunt"]["seed"] in (before, seed_of(datetime.now(UTC)))


def test_nothing_that_is_stored_names_the_bug() -> None:
    hunt("--buy", PAR[0], "--answer", f"{WRONG_FAMILY}:topological_order")
    (file,) = Path(os.environ["BREAKLAB_DATA"]).iterdir()
    stored = file.read_bytes()
    assert PAR[0].encode() in stored
    assert BUG.id.encode() not in stored
    assert BUG.family.encode() not in stored


# ----- Bad input -----


@pytest.mark.parametrize(
    ("arguments", "problem", "remedy"),
    [
        (["--level", "4"], "no level `4`", "--level takes 1, 2, 3"),
        (["--seed", "-1"], "--seed -1 cannot be used", "a whole number from 0"),
        (["--seed", "0", "--daily"], "--seed and --daily cannot be combined", "leave one out"),
        (["--seed", "3", "--buy", "gradchek:add-new-axis"], "no check", "`gradcheck`"),
        (["--seed", "3", "--buy", "shape:add-new-axs"], "no probe", "did you mean `add-new-axis`"),
        (["--seed", "3", "--buy", "gradcheck:adam"], "a probe of kind steps", "another probe"),
        (["--seed", "3", "--buy", "gradcheck"], "no name is given for the probe", "list --probes"),
        (["--seed", "3", "--buy", ":adam"], "the clue names no check", "name a check and a probe"),
        (["--seed", "3", "--answer", ""], "the answer names no family", "the families are "),
        (["--seed", "3", "--answer", ":add"], "the answer names no family", "the families are "),
        (["--seed", "3", "--answer", "brodcasting:add"], "no family", "`broadcasting`"),
        (["--seed", "3", "--answer", "broadcasting"], "does not name a place", "FILE.py:LINE"),
        (["--seed", "3", "--answer", "broadcasting:vjp"], "places are called", "add.vjp"),
    ],
)
def test_a_mistake_is_answered_and_costs_nothing(
    arguments: list[str], problem: str, remedy: str
) -> None:
    done = harness("hunt", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert remedy in done.stderr
    assert all(hunt.passes == 0 for hunt in hunts_in(open_journal().events))


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
    (kept,) = hunts_in(open_journal().events)
    assert kept.bought == {}


def test_a_hunt_works_where_nothing_can_be_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = hunt(*solution(), BREAKLAB_DATA=str(tmp_path / "file"))
    assert done.returncode == 0
    assert done.stderr.count("progress is not saved") == 1
    assert "Solved" in done.stdout
