"""A submission is a folder: what belongs to it, what is refused, and that its tests find it."""

import os
from pathlib import Path

import numpy as np
import pytest

from harness.engines.engine import find_engine
from harness.grade.files import LARGEST, MOST_FILES, NotGradable, read_submission
from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan, plan_grading
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE

HELPER = """
def ok(a):
    (1 - a).sum().backward()
    return a.grad.tolist() == [-1.0] * 3
"""
TEST = """
import numpy as np
from minigrad import tensor
{line}


def test_sub():
    assert ok(tensor(np.ones(3), requires_grad=True))
"""
UNIT = """
import unittest
import numpy as np
from minigrad import tensor
from helpers import ok


class TestSub(unittest.TestCase):
    def test_sub(self):
        self.assertTrue(ok(tensor(np.ones(3), requires_grad=True)))
"""
FIXTURE = f"import pytest\n{HELPER}\n\n@pytest.fixture(name='ok')\ndef _ok():\n    return ok\n"
DATA = """from pathlib import Path
def ok(a):
    (1 - a).sum().backward()
    return a.grad.tolist() == np.load(Path(__file__).parent / "data.npy").tolist()
"""

DATA_HERE = """
def ok(a):
    (1 - a).sum().backward()
    return a.grad.tolist() == [float(open("data.txt").read())] * 3
"""
RESOURCE = DATA_HERE.replace("open(", "files('mine').joinpath(").replace(".read()", ".read_text()")
RESOURCE = f"from importlib.resources import files\n{RESOURCE}"
MADE = """import tempfile
from pathlib import Path
from helpers import ok
FOLDER = Path(tempfile.mkdtemp())
np.save("made.npy", np.ones(3))
"""


def importing(line: str) -> str:
    return TEST.format(line=line)


LAYOUTS = {
    "helper beside": {"test_a.py": importing("from helpers import ok"), "helpers.py": HELPER},
    "package": {
        "__init__.py": "",
        "test_a.py": importing("from .helpers import ok"),
        "helpers.py": HELPER,
    },
    "package by its name": {
        "__init__.py": "",
        "test_a.py": importing("from submitted.helpers import ok"),
        "helpers.py": HELPER,
    },
    "data": {"test_a.py": importing(DATA), "data.npy": ""},
    "conftest": {
        "conftest.py": FIXTURE,
        "t/u/test_a.py": importing("").replace("test_sub()", "test_sub(ok)"),
    },
    "nested packages": {
        "tests/__init__.py": "",
        "tests/unit/__init__.py": "",
        "tests/helpers.py": HELPER,
        "tests/unit/test_a.py": importing("from ..helpers import ok"),
    },
    "src": {"src/mine/__init__.py": HELPER, "tests/test_a.py": importing("from mine import ok")},
    "from the top": {
        "tests/deep/test_a.py": importing("from tools.helpers import ok"),
        "tools/helpers.py": HELPER,
    },
    "two of one name": {
        "a/test_a.py": importing("from helpers import ok"),
        "b/test_a.py": importing("from helpers import ok"),
        "helpers.py": HELPER,
    },
    "unittest": {"unit_test.py": UNIT, "helpers.py": HELPER},
    "Windows and letters": {
        "test_a.py": importing("from größe import ok").replace("\n", "\r\n"),
        "größe.py": HELPER.replace("\n", "\r\n"),
    },
    "a file ignored by conftest": {
        "conftest.py": "collect_ignore = ['test_old.py']\ncollect_ignore_glob = ['old/*']\n",
        "test_old.py": "raise ValueError",
        "old/test_a.py": "raise ValueError",
        "test_a.py": importing("from helpers import ok"),
        "helpers.py": HELPER,
    },
    "folders that pytest does not search": {
        "build/lib/test_a.py": "raise ValueError",
        "build/lib/helpers.py": "raise ValueError",
        "dist/test_b.py": "raise ValueError",
        "t/test_a.py": importing("from helpers import ok"),
        "helpers.py": HELPER,
    },
    "an empty folder": {
        "out/.gitkeep": "",
        "test_a.py": importing("from helpers import ok") + "    open('out/a', 'w').close()\n",
        "helpers.py": HELPER,
    },
    "made at the import": {
        "test_a.py": importing(MADE) + "    (FOLDER / 'a').touch()\n    np.load('made.npy')\n",
        "helpers.py": HELPER,
    },
    "another current folder": {
        "t/test_a.py": "import os\nos.chdir(os.path.dirname(__file__))\n" + importing(DATA_HERE),
        "t/data.txt": "-1.0",
    },
    "the fixture cache": {
        "test_a.py": importing("from helpers import ok").replace("sub()", "sub(cache)"),
        "helpers.py": HELPER,
    },
    "plugins": {
        "conftest.py": "pytest_plugins = ['fixtures.ok']\n",
        "fixtures/ok.py": FIXTURE,
        "t/test_a.py": importing("").replace("test_sub()", "test_sub(ok)"),
    },
    "resources": {
        "mine/__init__.py": "",
        "mine/data.txt": "-1.0",
        "test_a.py": importing(RESOURCE),
    },
    "helpers of the same name": {
        "a/test_a.py": "def test_a():\n    pass\n",
        "a/helpers.py": "raise ValueError",
        "b/test_b.py": importing("from helpers import ok"),
        "b/helpers.py": HELPER,
    },
    "a mark of its order": {
        "test_a.py": "\ufeff" + importing("from helpers import ok"),
        "helpers.py": "\ufeff" + HELPER,
    },
    "an engine of its own": {
        "minigrad/__init__.py": "raise ValueError",
        "test_a.py": importing("from helpers import ok"),
        "helpers.py": HELPER,
        "pytest.ini": "[pytest]\naddopts = --no-such-option\n",
    },
}
QUICK = ("package", "data", "conftest", "src", "a file ignored by conftest", "made at the import")


def plan() -> GradingPlan:
    return plan_grading(
        CATALOGUE,
        find_engine(),
        open_cache(),
        selection="sub-sign",
        correct=(),
        seed=b"secret",
        limits=Limits(600.0, 30),
        stages=False,
    )


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return folder


@pytest.mark.parametrize(
    "layout",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LAYOUTS],
)
def test_the_tests_find_the_files_of_their_folder(layout: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "submitted", LAYOUTS[layout])
    if layout == "data":
        np.save(folder / "data.npy", -np.ones(3))
    report = grade_suite(folder, plan())
    assert (report.reason, [result.fate for result in report.breaks]) == ("", ["killed"])
    assert not report.flaky


CHANGING = """
from pathlib import Path
from minigrad import tensor

DATA = Path(__file__).parent / "data.txt"


def test_writes():
    (1 - tensor([1.0]))
    assert DATA.read_text() == "as submitted"
    DATA.write_text("changed")
"""


def test_each_run_begins_with_the_files_as_submitted(tmp_path: Path) -> None:
    files = {"test_a.py": CHANGING, "data.txt": "as submitted"}
    report = grade_suite(write(tmp_path / "submitted", files), plan())
    assert (report.reason, report.tests) == ("", 1)
    assert (tmp_path / "submitted" / "data.txt").read_text() == "as submitted"


def test_hidden_files_caches_and_environments_are_left_out_and_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "test_a.py": "",
            "data/big.txt": "",
            ".git/config": "",
            "sub/__pycache__/a.pyc": "",
            "env/pyvenv.cfg": "",
            "env/lib/site.py": "",
        },
    )
    (tmp_path / "env" / "python").symlink_to("/usr/bin/python3")
    submitted = read_submission(tmp_path)
    assert list(submitted.files) == ["data/big.txt", "sub/", "test_a.py"]
    assert submitted.left_out == [".git/", "env/", "sub/__pycache__/"]


def test_what_cannot_be_sent_is_refused_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"test_a.py": ""})
    strange = tmp_path / "strange"
    for make, reason in (
        (lambda: strange.symlink_to("/etc/passwd"), "`strange` is a symbolic link"),
        (lambda: strange.symlink_to(tmp_path), "`strange` is a symbolic link"),
        (lambda: os.mkfifo(strange), "`strange` is not a regular file"),
        (lambda: strange.write_bytes(bytes(LARGEST + 1)), "its files are larger than 8 MiB"),
    ):
        make()
        with pytest.raises(NotGradable, match=reason):
            read_submission(tmp_path)
        strange.unlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (write(tmp_path, {"test_a.py": ""}) / "test_a.py").chmod(0)
    with pytest.raises(NotGradable, match=r"`test_a\.py` cannot be read: Permission denied"):
        read_submission(tmp_path)


def test_the_number_of_files_and_folders_is_limited(tmp_path: Path) -> None:
    write(tmp_path, {f"f{number}/test_a.py": "" for number in range(MOST_FILES // 2)})
    assert len(read_submission(tmp_path).files) == MOST_FILES // 2
    (tmp_path / "one_more.py").touch()
    with pytest.raises(NotGradable, match="more than 1000 files and folders"):
        read_submission(tmp_path)


@pytest.mark.parametrize("folder", ["", "t/"])
def test_a_conftest_that_cannot_be_imported_is_named(folder: str, tmp_path: Path) -> None:
    files = {f"{folder}conftest.py": "import absent\n", "t/test_a.py": "def test_a():\n    pass\n"}
    report = grade_suite(write(tmp_path / "submitted", files), plan())
    why = "cannot be imported: ModuleNotFoundError: No module named 'absent'"
    assert report.reason == report.stated == f"{folder}conftest.py {why}"


def test_a_test_that_passes_against_its_mark_has_a_reason(tmp_path: Path) -> None:
    text = "import pytest\n\n@pytest.mark.xfail(strict=True)\ndef test_a():\n    pass\n"
    report = grade_suite(write(tmp_path / "submitted", {"test_a.py": text}), plan())
    fails = "test_a.py::test_a fails on the correct engine: Failed"
    assert (report.reason, report.stated) == (f"{fails}: [XPASS(strict)] ", fails)
