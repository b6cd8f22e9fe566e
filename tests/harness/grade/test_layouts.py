"""A suite keeps the kills that it has in plain pytest, whatever its layout and its style."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.engines.engine import find_engine
from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan, plan_grading
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.grade.layouts import LAYOUTS, PLAIN
from tests.suites import PLUGIN

BREAKS = "sub-sign", "tanh-uses-input"


def plan(*, partial: bool = False) -> GradingPlan:
    return plan_grading(
        CATALOGUE,
        find_engine(),
        open_cache(),
        selection=",".join(BREAKS),
        correct=(),
        seed=b"secret",
        limits=Limits(600.0, 30),
        partial=partial,
    )


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def plain_pytest_fails(suite: Path, engine: Path) -> bool:
    """Whether plain pytest fails on the engine in a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    if "--cov" in "".join(file.read_text() for file in suite.glob("pytest.ini")):
        command += ["-o", "addopts="]  # the plugins that it names are not installed
    variables = {"PYTHONPATH": str(engine), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=suite, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stdout
    return done.returncode == 1


def killed_in_the_plugin(suite: Path) -> dict[str, bool]:
    """Return which breaks `pytest --breaks` calls killed."""
    file = suite.parent / "breaks.json"
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider"]
    if "--cov" in "".join(file.read_text() for file in suite.glob("pytest.ini")):
        command += ["-o", "addopts="]
    command += [f"--breaks={','.join(BREAKS)}", f"--breaks-json={file}"]
    subprocess.run(command, cwd=suite, check=True, capture_output=True)
    return {e["break"]: e["fate"] == "killed" for e in json.loads(file.read_text())["breaks"]}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with the clean engine, and one with each broken one."""
    changed = {"": {}, **{mutant.page.id: mutant.files.texts for mutant in plan().breaks}}
    return {
        name: write(tmp_path_factory.mktemp("engine"), {**find_engine().sources, **texts})
        for name, texts in changed.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kills_are_those_of_plain_pytest(
    layout: str, engines: Mapping[str, Path], tmp_path: Path
) -> None:
    suite = write(tmp_path / "submission", LAYOUTS[layout])
    assert not plain_pytest_fails(suite, engines[""])
    plain = {name: plain_pytest_fails(suite, engines[name]) for name in BREAKS}
    assert plain == {"sub-sign": layout != "only-reached", "tanh-uses-input": False}
    graded = grade_suite(suite, plan())
    assert graded.reason == ""
    assert {result.break_: result.fate == "killed" for result in graded.breaks} == plain
    assert all(name.startswith(tuple(LAYOUTS[layout])) for name in graded.shown.values())
    assert killed_in_the_plugin(suite) == plain


@pytest.mark.parametrize("name", ["@x.py", "-x.py", "test[1].py", "test.py", "a b.py"])
def test_a_single_file_may_have_any_name(name: str, tmp_path: Path) -> None:
    write(tmp_path, {name: PLAIN})
    graded = grade_suite(tmp_path / name, plan())
    assert (graded.reason, graded.tests, graded.killed) == ("", 1, 1)
    assert list(graded.shown.values()) == [f"{name}::test_sub"]


def test_settings_and_links_of_a_submission(tmp_path: Path) -> None:
    """Settings choose tests; a link to a file of the submission is that file."""
    suite = write(tmp_path / "submission", LAYOUTS["pytest-ini"])
    shutil.move(suite / "lib" / "helper.py", suite / "real.py")
    (suite / "lib" / "helper.py").symlink_to("../real.py")
    graded = grade_suite(suite, plan())
    assert (graded.reason, graded.tests, graded.killed) == ("", 1, 1)
    (suite / "lib" / "secret").symlink_to("/etc/hostname")
    assert grade_suite(suite, plan()).reason.startswith("`lib/secret` is a symbolic link")


def test_an_archive_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "suite.zip").write_bytes(b"PK")
    reason = grade_suite(tmp_path / "suite.zip", plan()).reason
    assert reason == "`suite.zip` is not a Python file; unpack an archive, and name its folder"


def test_a_fixture_of_a_conftest_beside_a_single_file_is_explained(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["conftest"])
    graded = grade_suite(tmp_path / "test_sub.py", plan())
    for reason in (graded.reason, graded.stated):
        assert reason.endswith(
            "(a file is graded without those beside it: grade its folder instead)"
        )
