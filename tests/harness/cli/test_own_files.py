"""A learner's own package called `minigrad` is an engine like any other, and ours stays ours."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import harness
from tests.harness.command import Completed, harness_process, light_program
from tests.harness.engines.texts import changed, written

REPOSITORY = Path(harness.__file__).parents[1]


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages called `minigrad` and `breaks`."""
    folder = tmp_path_factory.mktemp("learner")
    written(folder, changed(("Tensor", "Value")), "minigrad/engine.py")
    written(folder, "from minigrad.engine import Value\n", "minigrad/__init__.py")
    written(folder, "raise ImportError('not the pages')\n", "breaks/__init__.py")
    return folder


def run(folder: Path, *arguments: str, program: Sequence[str] = ("-m", "harness")) -> Completed:
    path = os.pathsep.join([str(folder), str(REPOSITORY)])
    return harness_process(*arguments, cwd=folder, program=program, PYTHONPATH=path)


def test_doctor_judges_it_against_the_reference_engine(
    learner: Path, folder_of_few_pages: Path
) -> None:
    light = light_program(folder_of_few_pages)
    done = run(learner, "doctor", "minigrad:Value", "--json", program=light)
    verdicts = {item["probe"]: item["verdict"] for item in json.loads(done.stdout)["probes"]}
    assert done.stderr == ""
    assert "bug" not in verdicts.values()
    assert {"add-new-axis", "mul-stretched-axis", "sum-rows"} <= {
        name for name, verdict in verdicts.items() if verdict == "fits"
    }


def test_a_break_is_judged_on_it(learner: Path, folder_of_few_pages: Path) -> None:
    probe = "--probe", "add-new-axis"
    light = light_program(folder_of_few_pages)
    engine = "--engine", "./minigrad/engine.py:Value"
    done = run(learner, "break", "skip-unbroadcast", *probe, *engine, program=light)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 of 2 runs end as the page says" in " ".join(done.stdout.split())


def test_the_working_folder_does_not_replace_libraries(tmp_path: Path) -> None:
    """`python -m` puts it first on the import path, but the command `harness` does not."""
    written(tmp_path, "raise ImportError('not the library')\n", "rich/__init__.py")
    done = harness_process("list", cwd=tmp_path, PYTHONPATH=str(REPOSITORY))
    assert (done.returncode, done.stderr) == (0, "")


def test_programs_import_the_reference_engine(learner: Path) -> None:
    done = run(learner, "myth", "right-shape-means-right-gradient")
    assert (done.returncode, done.stderr) == (0, "")
