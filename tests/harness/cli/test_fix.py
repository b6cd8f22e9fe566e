"""`harness fix`: from the copy to the repair, in a terminal and in pipes."""

import json
import re
import shlex
from pathlib import Path

import pytest

from harness.learn.events import AnyEvent, Fix, open_journal
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness, light_program
from tests.harness.engines.texts import SOUND
from tests.harness.proven_page import proven
from tests.harness.sound_page import write_page

ROOT = Path(__file__).parents[3]
PAGE = "relu-as-identity"
FILE = Path("minigrad", "elementwise.py")


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def events() -> tuple[AnyEvent, ...]:
    return open_journal().events


def original() -> str:
    return (ROOT / FILE).read_text(encoding="utf-8")


def test_a_break_is_repaired_in_a_terminal(folder_of_few_pages: Path) -> None:
    """From the copy over a half repair to the difference and Why, in two languages and widths."""
    before = original()
    page, light = "relu-identity-grad", light_program(folder_of_few_pages)
    begun = dialogue(["fix", page], program=light)
    folder, check = f"fix-{page}", f"harness fix {page} --check"
    assert begun.status == 0, begun.shown
    assert f"Open    {folder}/{FILE}" in begun.lines
    assert f"Then    {check}" in begun.lines
    assert len(begun.lines) <= 24
    copy = Path(folder) / FILE
    copy.write_text(copy.read_text("utf-8") + "\n# Nothing.\n", encoding="utf-8")
    wrong = dialogue(["fix", page, "--check"], columns=60, program=light, LANG="es_ES.UTF-8")
    assert wrong.status == 1
    (start,) = (n for n, line in enumerate(wrong.lines) if line.startswith("Aún no está bien: "))
    verdict = wrong.lines[start:]
    assert any("se esperaba" in line for line in verdict)
    assert verdict[-1] == f"Luego   {check}"
    assert max(map(len, verdict)) <= 60
    assert len(verdict) <= 20

    copy.write_text(before.replace("# ", "#  ", 1), encoding="utf-8")
    right = dialogue(["fix", page, "--check"], program=light)
    assert right.status == 0, right.shown
    assert any(line == "Repaired: the code equals the original." for line in right.lines)
    assert "Changes from the original to your copy:" in right.lines
    assert any(line.startswith("Why     ") for line in right.lines)
    assert original() == before
    assert [event.right for event in events() if isinstance(event, Fix)] == [False, True]
    shown = harness("list", page).stdout
    assert f"✓ {page}" in shown
    assert "Repairs      1" in harness("progress").stdout
    assert json.loads(harness("progress", "--json").stdout)["repaired"] == [page]


def test_a_repair_is_resumed_in_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    harness("fix", PAGE)
    monkeypatch.chdir(Path(f"fix-{PAGE}", "minigrad"))
    done = harness("fix")
    assert done.returncode == 1
    assert "Nothing is repaired yet: the copy still has the bug.\n" in done.stdout
    assert events() == ()
    assert "Open    ../minigrad/elementwise.py\nThen    harness fix\n" in done.stdout
    assert harness("fix", PAGE, "--check").stdout == done.stdout


def test_nothing_is_lost_when_one_starts_over() -> None:
    harness("fix", PAGE)
    mine = Path(f"fix-{PAGE}") / FILE
    mine.write_text("mine = 1\n", encoding="utf-8")
    refused = harness("fix", PAGE)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"fix-{PAGE} already exists\n  remedy: `harness fix {PAGE} --check`" in refused.stderr
    assert mine.read_text(encoding="utf-8") == "mine = 1\n"
    again = harness("fix", PAGE, "--again")
    assert again.returncode == 0
    assert f"The old copy is now fix-{PAGE}.1." in again.stdout
    assert (Path(f"fix-{PAGE}.1") / FILE).read_text(encoding="utf-8") == "mine = 1\n"
    assert mine.read_text(encoding="utf-8") != "mine = 1\n"


@pytest.mark.usefixtures("without_oracles")
def test_ones_own_engine_is_repaired_in_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Path("tensor.py").absolute()
    engine.write_text(SOUND, encoding="utf-8")
    text = engine.read_bytes()
    begun = harness("fix", "skip-unbroadcast", "--engine", f"{engine.name}:Tensor", "--json")
    assert begun.returncode == 0, begun.stderr
    made = json.loads(begun.stdout)
    assert (made["state"], made["files"]) == ("unrepaired", [engine.name])
    monkeypatch.chdir("fix-skip-unbroadcast")
    copy = Path(engine.name)
    copy.write_text(copy.read_text("utf-8") + "\n# Nothing.\n", encoding="utf-8")
    done = harness("fix", "--json")  # the engine is named from the folder above
    assert done.returncode == 1, done.stderr
    repair = json.loads(done.stdout)
    assert (repair["state"], repair["engine"]["foreign"]) == ("wrong", True)
    assert engine.read_bytes() == text
    assert events() == ()  # a page is about our engine
    engine.write_bytes(text + b"\n")
    changed = harness("fix")
    assert changed.returncode == 2
    assert (
        "has changed since this copy was made\n  remedy: start over with --again" in changed.stderr
    )


def test_a_mistake_in_the_syntax_is_shown_with_a_caret() -> None:
    harness("fix", PAGE)
    (Path(f"fix-{PAGE}") / FILE).write_text("def relu(a):\n    retrn a\n", encoding="utf-8")
    done = harness("fix", PAGE, "--check")
    assert done.returncode == 2
    expected = f"{FILE}:2: the file is not Python: invalid syntax\n    retrn a\n          ^\n"
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem", "remedy"),
    [
        (["relu-as-identty"], "no page `relu-as-identty`", "did you mean `relu-as-identity`"),
        (["relu-as-identty", "--check"], "no page `relu-as-identty`", "did you mean"),
        ([PAGE, "--check"], f"fix-{PAGE} has no scratch copy", "`harness fix ID` makes one"),
        ([], "there is no scratch copy in this folder", "`harness fix ID` makes one"),
        (["--dir", "nowhere"], "nowhere has no scratch copy", "`harness fix ID` makes one"),
        (["squares-only"], "`squares-only` is an exercise, not a break", "`harness list`"),
        ([PAGE, "--check", "--again"], "--check and --again cannot be combined", "run one"),
        (["--again"], "--again needs the id of a break", "`harness fix ID --again`"),
        ([PAGE, "--check", "--engine", "a.py:T"], "--engine is only for a new copy", "leave --eng"),
        ([PAGE, "--dir", "."], ". already exists, and is not a scratch copy", "--dir"),
        ([PAGE, "--dir", ".", "--again"], "and is not a scratch copy", "name a new folder"),
        ([PAGE, "--engine", "nope.py:T"], "no engine `nope.py:T`", "name an engine"),
    ],
)
def test_bad_input_is_answered_with_a_remedy(
    arguments: list[str], problem: str, remedy: str
) -> None:
    done = harness("fix", *arguments)
    assert done.returncode in (2, 3)
    assert problem in done.stderr
    assert remedy in done.stderr
    assert list(Path.cwd().iterdir()) == []


def test_a_copy_of_another_break_is_not_checked() -> None:
    Path("mine").mkdir()
    (Path("mine") / "fix.toml").write_text(
        'page = "sub-sign"\nengine = ""\nbase = "/"\nbreaks = []\ndigest = ""\n', encoding="utf-8"
    )
    done = harness("fix", PAGE, "--check", "--dir", "mine")
    assert done.returncode == 2
    assert "mine is a copy of `sub-sign`\n  remedy: `harness fix sub-sign --check" in done.stderr


@pytest.mark.parametrize("base", ["gone", "fix.toml", "a\\u0000b"])
def test_the_folder_in_which_a_copy_was_made_is_named_if_it_cannot_be_entered(base: str) -> None:
    Path("mine").mkdir()
    where = base if base.startswith("a") else str(Path("mine", base).resolve())
    (Path("mine") / "fix.toml").write_text(
        f'page = "{PAGE}"\nengine = "t.py:T"\nbase = "{where}"\nbreaks = []\ndigest = ""\n',
        encoding="utf-8",
    )
    done = harness("fix", "--dir", "mine")
    assert done.returncode == 2
    assert "in which the copy was made, cannot be entered: " in done.stderr
    assert "remedy: start over with --again" in done.stderr


@pytest.mark.usefixtures("without_oracles")
def test_a_copy_of_ones_own_page_is_checked_without_naming_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    write_page(folder, proven())
    made = harness("fix", "log-slope-one", "--breaks", "pages")
    assert "Then    harness fix log-slope-one --check\n" in made.stdout
    assert harness("fix", "log-slope-one", "--check").returncode == 1


@pytest.mark.slow
@pytest.mark.usefixtures("without_oracles")
def test_the_commands_in_the_guide_run() -> None:
    guide = (ROOT / "docs" / "fix.md").read_text(encoding="utf-8")
    commands = re.findall(r"^harness (fix .*?)(?: +#.*)?$", guide, re.M)
    Path("tensor.py").write_text(SOUND, encoding="utf-8")
    done = [harness(*shlex.split(command)) for command in commands]
    assert [run.returncode for run in done] == [0, 1, 0, 1, 0], [run.stderr for run in done]
