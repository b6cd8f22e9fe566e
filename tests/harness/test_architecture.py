"""The rooms, and what one command costs, are as docs/architecture.md says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare, with_in_place
from harness.pages.catalogue import open_catalogue
from harness.runs import isolated
from harness.runs.cache import Cache

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDER = Path(harness.__file__).parent
ROOMS = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_no_module_lies_beside_the_rooms() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_every_room_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", DOCUMENT, re.M)
    assert {room for row in rows for room in re.findall(r"`(\w+)`", row)} == ROOMS


def test_the_files_to_read_exist_and_are_about_fifteen() -> None:
    road = re.search(r"<!-- road -->(.*)<!-- /road -->", DOCUMENT, re.S)
    assert road
    files = re.findall(r"^\d+\. `(\S+)`", road[1], re.M)
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert 12 <= len(files) <= 18


def test_a_cold_break_starts_at_most_five_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the clean engine, the broken one, the variant that adds in place, and each oracle."""
    tasks = []
    start = isolated.start_worker

    def counted(task: Any, *arguments: Any) -> Any:
        tasks.append(task)
        return start(task, *arguments)

    monkeypatch.setattr(isolated, "start_worker", counted)
    catalogue = open_catalogue()
    experiment = prepare(catalogue.page("skip-unbroadcast"), catalogue, find_engine())
    experiment = with_in_place(experiment, catalogue)
    report = run_lab(experiment, Baseline(Cache(None), explain=True))
    assert {run.stage for run in report.runs} > {"revealed"}
    assert any(run.fingerprint for run in report.runs)
    assert 3 <= len(tasks) <= 5


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
        *("check", "doctor", "grade", "learn", "matrix", "plugin", "training"),
    }
    assert len(modules) <= 93
