"""The rooms, and what one command costs, are as docs/architecture.md says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import harness
from harness.check.prose import A_BOUND, CONDITION, OF_TRAINING, sections_of
from harness.core.vocabulary import PageKind
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare, with_in_place
from harness.pages.catalogue import open_catalogue
from harness.runs import isolated
from harness.runs.cache import Cache
from tests.harness.phrases import comparisons

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDER = Path(harness.__file__).parent
ROOMS = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_no_module_lies_beside_the_rooms() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_every_room_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", DOCUMENT, re.M)
    assert {room for row in rows for room in re.findall(r"`(\w+)`", row)} == ROOMS


HEADINGS = {heading for kind in get_args(PageKind) for heading in sections_of(kind)}
"""The sections of a page, which are part of its format."""

NOT_OUR_SENTENCES = {
    "answer_key/stage.py": {" idle"},  # a key of the recorder
    "check/prose.py": {  # what an author writes
        *(r"\?|predict|guess|before you", OF_TRAINING.pattern, A_BOUND.pattern, CONDITION.pattern),
    },
    "engines/survey/explorer.py": {"None if t.grad is None else "},  # Python
    "experiment/exploration.py": {"in place"},  # the value of a setting
    "gradients/checking.py": {"not implemented for"},  # a message of PyTorch
    "learn/primer.py": {"return unbroadcast"},  # Python
    "learn/watch.py": {r"^#\s*harness exercise ([a-z0-9-]+) "},  # a command
    "pages/front_matter.py": {  # messages of msgspec and of tomllib
        *("at line (\\d+)", "unknown field `(.+?)`", "missing required field `(.+?)`"),
    },
    "patch/side.py": {  # a message of Python
        *("expected an indented block", "expected an indented block.* on line (\\d+)"),
    },
    "report/cohort.py": {"another library"},  # a style of a suite
    "report/doctor.py": {"in place"},  # the same setting
    "check/fix.py": {"Binary files|GIT binary"},  # what git writes
    "report/hunt.py": {"false alarm"},  # a verdict
    "runs/isolated.py": {"harness tries:"},  # a mark in what a child prints
}


def _compared_in(folder: Path) -> list[tuple[str, int, str]]:
    return [
        (file, line, text)
        for file, line, text in comparisons(folder)
        if not (file == "core/message.py" or text in HEADINGS | NOT_OUR_SENTENCES.get(file, set()))
    ]


def test_nothing_compares_or_searches_our_own_sentences() -> None:
    assert _compared_in(FOLDER) == []


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("x = reason == ABSENT", "no such name"),
        ("x = ABSENT in error.reason", "no such name"),
        ("x = f'{shape} is ' in changes", " is "),
        ("x = reason.template == kind", "reason.template"),
        ("x = run.phase in ('the leaves', 'the test')", "the leaves"),
        ("x = SHORT.get(text)", "the forward pass"),
        ("x = SHORT[text]", "the forward pass"),
        ("x = reason.startswith(ABSENT)", "no such name"),
        ("x = LACKING.match(reason)", "it has no `(.*)`"),
        ("x = re.search('it has no (.*)', reason)", "it has no (.*)"),
        ("x = reason == UNSTABLE", "message('it differs')"),
        ("x = words.ABSENT in reason", "no such name"),
        ("x = reason in frozenset({ABSENT})", "no such name"),
        ("x = re.compile(re.escape(ABSENT)).match(reason)", "no such name"),
        ("x = '=' in remedy[:60]", "remedy"),
        ("x = str(run.evidence).partition(':')", "run.evidence"),
        ("match reason:\n    case 'no such name': pass", "no such name"),
    ],
)
def test_each_way_to_compare_a_sentence_is_found(tmp_path: Path, statement: str, text: str) -> None:
    (tmp_path / "words.py").write_text(
        "ABSENT = 'no such name'\nSHORT = {'the forward pass': 'forward'}\n"
        "LACKING = re.compile('it has no `(.*)`')\nUNSTABLE = message('it differs')\n"
    )
    imports = f"from {tmp_path.name}.words import ABSENT, LACKING, SHORT, UNSTABLE\n"
    (tmp_path / "uses.py").write_text(imports + statement)
    found = {text for file, _, text in comparisons(tmp_path) if file == "uses.py"}
    assert text in found


def test_the_files_to_read_exist_and_are_about_fifteen() -> None:
    road = re.search(r"<!-- road -->(.*)<!-- /road -->", DOCUMENT, re.S)
    assert road
    files = re.findall(r"^\d+\. `(\S+)`", road[1], re.M)
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert 12 <= len(files) <= 18


def test_a_cold_break_starts_at_most_eight_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two for the clean engine, and one for the broken one, the variant, and each oracle; and two
    to look inside."""
    tasks = []
    start = isolated.start_worker

    def counted(task: Any, *arguments: Any) -> Any:
        tasks.append(task)
        return start(task, *arguments)

    monkeypatch.setattr(isolated, "start_worker", counted)
    catalogue = open_catalogue()
    experiment = prepare(catalogue.page("skip-unbroadcast"), catalogue, find_engine())
    experiment = with_in_place(experiment, catalogue)
    report = run_lab(experiment, Baseline(Cache(None)), causes=True)
    assert {run.stage for run in report.runs} > {"revealed"}
    assert any(run.fingerprint for run in report.runs)
    assert 6 <= len(tasks) <= 8


def test_a_cold_break_imports_none_of_the_rooms_that_it_does_not_enter(tmp_path: Path) -> None:
    command = (
        "import sys; sys.argv[1:] = ['break', 'skip-unbroadcast', '--probe', 'add-new-axis']\n"
    )
    command += "from harness.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    command += "print(*[name for name in sys.modules if name.split('.')[0] == 'harness'])"
    done = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "PYTHONPATH": str(ROOT)},
    )
    modules = done.stdout.splitlines()[-1].split()
    entered = {name.split(".")[1] for name in modules if "." in name}
    assert entered == ROOMS - {
        *("check", "doctor", "grade", "gradients", "matrix", "plugin", "rules"),
        "training",
    }
    assert len(modules) <= 98
