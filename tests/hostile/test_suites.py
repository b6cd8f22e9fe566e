"""Hostile test suites: a cheat kills no break, and a bad suite gets a clear line in its own result.

A cheat is a file in `suites/cheats/`, which is put after `suites/prelude.py`. It reaches two
breaks, and looks at everything except what they do. `FATE` says what becomes of both: "recognised"
if the cheat also fails on correct code.
"""

from pathlib import Path

import pytest

from harness.engines.engine import find_engine
from harness.grade import processes
from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan, plan_grading
from harness.grade.suite import SuiteReport
from harness.runs.cache import open_cache
from harness.sandbox.confinement import namespaces_available
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE

HERE = Path(__file__).parent / "suites"
CHEATS = sorted(path.stem for path in (HERE / "cheats").glob("*.py"))
GROUPS = {
    "see nothing": [
        "import_hooks",
        *("linecache_and_disk", "source_by_inspect", "objects_in_memory"),
        *("a_state_on_disk", "a_process_left_behind", "failing_atexit"),
    ],
    "see the twin, too": [
        *("hash_of_the_code", "frames_of_the_harness", "count_of_processes", "a_shared_page"),
    ],
    "end the process": ["exit_status", "abort", "kill_the_collector", "hang"],
    "catalogue": ["the_catalogue"],
    "timing": ["timing"],
    "forged reports": ["forged_reports"],
    "patched collector": ["patched_collector"],
    "patched pytest": ["patched_pytest"],
    "edited engine": ["an_edited_engine"],
    "second copy": ["a_second_copy"],
}
"""Cheats that do not disturb each other are graded together, which is quicker."""

BREAKS = "sub-sign,skip-unbroadcast"
LIMITS = Limits(seconds=600.0, cpu_seconds=30)

HONEST = """
def test():
    a, b = minigrad.tensor(np.ones(3), requires_grad=True), minigrad.tensor(np.ones((4, 3)))
    (a + b).sum().backward()
    (1 - a).sum().backward()
    assert a.grad.tolist() == [3.0] * 3
"""


def plan(selection: str = BREAKS, limits: Limits = LIMITS) -> GradingPlan:
    return plan_grading(
        CATALOGUE,
        find_engine(),
        open_cache(),
        selection=selection,
        correct=(),
        seed=b"secret",
        limits=limits,
    )


@pytest.fixture(scope="module")
def two_breaks() -> GradingPlan:
    return plan()


def grade(folder: Path, text: str, plan: GradingPlan) -> SuiteReport:
    file = folder / "test_suite.py"
    file.write_text(text)
    return grade_suite(file, plan)


def after_prelude(text: str) -> str:
    return (HERE / "prelude.py").read_text() + text


def test_an_honest_test_kills_both(two_breaks: GradingPlan, tmp_path: Path) -> None:
    report = grade(tmp_path, after_prelude(HONEST), two_breaks)
    assert [result.fate for result in report.breaks] == ["killed", "killed"]
    assert report.score == 100.0


@pytest.mark.parametrize("group", GROUPS)
def test_cheats_earn_nothing(
    group: str, two_breaks: GradingPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 1.0 if "hang" in GROUPS[group] else 300.0)
    texts = {name: (HERE / "cheats" / f"{name}.py").read_text() for name in GROUPS[group]}
    for name, text in texts.items():
        (tmp_path / f"test_{name}.py").write_text(after_prelude(text))
    report = grade_suite(tmp_path, two_breaks)
    assert (report.gradable, report.reason, report.tests) == (True, "", len(texts))
    recognised = {f"test_{name}.py::test" for name, text in texts.items() if _is_recognised(text)}
    for result in report.breaks:
        assert result.fate == ("recognised" if recognised else "survived")
        assert set(result.by) == recognised
        assert len(result.reached_by) == len(texts)
    assert report.score == 0.0


def test_every_cheat_is_in_one_group() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == CHEATS


def _is_recognised(text: str) -> bool:
    """Whether a cheat fails on correct code, so that it is known to be one."""
    return 'FATE = "recognised"' in text


GUESSES = """
import hashlib
import pytest


@pytest.mark.parametrize("number", range(20))
def test(number):
    use()
    if changed():
        text = repr((number, message()))
        assert hashlib.sha256(text.encode()).digest()[0] % 4
"""


def test_a_suite_that_guesses_from_a_sealed_message_is_not_gradable(tmp_path: Path) -> None:
    """From outside, a break and its twin look alike: many tests fail on both."""
    report = grade(tmp_path, after_prelude(GUESSES), plan("family:broadcasting"))
    assert not report.gradable
    assert "they recognise code instead of testing what it does" in report.reason
    assert report.breaks == []


FINE = "\n\ndef test_fine():\n    pass\n"

BAD = {
    "no tests": ("X = 1\n", "it has no tests"),
    "syntax": ("def test(:\n" + FINE, "test_suite.py cannot be imported: SyntaxError"),
    "no Python": ("\0\xff", "test_suite.py cannot be imported: "),
    "import": ("import nothing_of_that_name" + FINE, "No module named 'nothing_of_that_name'"),
    "raises": ("raise ValueError('why')" + FINE, "cannot be imported: ValueError: why"),
    "exits": ("import os\nos._exit(0)" + FINE, "collecting the tests: the process ended"),
    "exit": ("import sys\nsys.exit()" + FINE, "cannot be imported: SystemExit"),
    "aborts": ("import os\nos.abort()" + FINE, "collecting the tests: the process was killed"),
    "stops pytest": ("import pytest\npytest.exit('done')" + FINE, "cannot be imported: Exit: done"),
    "fails": (
        "def test_wrong():\n    assert 1 == 2, 'no'\n",
        "test_suite.py::test_wrong fails on the correct engine: AssertionError: no",
    ),
    "fixture": (
        "def test_wrong(missing):\n    pass\n",
        "test_suite.py::test_wrong fails on the correct engine: fixture 'missing' not found",
    ),
    "test that exits": (
        f"import os{FINE}\n\ndef test_last():\n    os._exit(0)\n",
        "test_suite.py::test_last does not end on minigrad: the process ended with status 0",
    ),
    "takes minutes": (
        "def test_slow():\n    while True:\n        pass\n",
        "test_suite.py::test_slow does not end on minigrad: ",
    ),
    "slow import": ("while True:\n    pass\n", "collecting the tests: a limit of time"),
    "skips": (
        "import pytest\n\n\n@pytest.mark.skip\ndef test_skipped():\n    pass\n",
        "no test passes on the correct engine",
    ),
    "too many": (
        "import pytest\n\n\n@pytest.mark.parametrize('n', range(10001))\ndef test(n):\n    pass\n",
        "it has more than 10000 tests",
    ),
    "long names": (
        "import pytest\n\n\n@pytest.mark.parametrize('n', [0], ids=['n' * 2000])\n"
        "def test(n):\n    pass\n",
        "or a name is too long",
    ),
    "too large": ("#" * 2**23 + FINE, "its files are larger than 8 MiB"),
}

REPEATED = ("slow import", "too many", "raises", "aborts", "stops pytest", "skips", "fixture")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in REPEATED else ()) for kind in BAD],
)
def test_a_bad_suite_is_not_gradable_and_says_why(kind: str, tmp_path: Path) -> None:
    text, reason = BAD[kind]
    slow = Limits(seconds=600.0, cpu_seconds=0.5)
    report = grade(tmp_path, text, plan(limits=slow if "while True" in text else LIMITS))
    assert not report.gradable
    assert reason in report.reason
    assert (report.breaks, report.score) == ([], None)


REFUSING = """
import sys

confined = sys.modules["harness.grade.confined"]
refused = confined.ForkOutput(confined.encode_event(confined.Refused()))
confined._run_in_fork = lambda *_: refused


def test():
    pass
"""


def test_a_suite_that_refuses_the_engine_without_a_break_is_not_gradable(tmp_path: Path) -> None:
    """A process may refuse only changed code; without a change, the refusal is forged."""
    report = grade(tmp_path, REFUSING, plan())
    assert not report.gradable
    assert "it refused to run the tests" in report.reason


OTHER_TESTS = """
import os
import signal
import pytest


@pytest.mark.parametrize("number", [os.getpid()])
def test(number):
    use()
    if changed():
        os.kill(os.getppid(), signal.SIGKILL)
"""


def test_a_suite_that_is_collected_anew_must_have_the_same_tests(
    two_breaks: GradingPlan, tmp_path: Path
) -> None:
    report = grade(tmp_path, after_prelude(OTHER_TESTS), two_breaks)
    assert report.reason == "collecting it twice gives different tests"


NOISY = """
import os
import subprocess
import sys
import threading
from pathlib import Path


def test_prints_megabytes(capfd):
    with capfd.disabled():
        for _ in range(40):
            print("x" * 2**20)
            os.write(2, b"x" * 2**20)


def test_writes_files(tmp_path):
    (tmp_path / "file").write_text("x")
    Path("pytest.ini").write_text("[pytest]\\naddopts = --collect-only\\n")
    Path("test_suite.py").unlink()


def test_cannot_write_elsewhere():
    try:
        Path(FOLDER, "another.py").write_text("broken = True")
        raise AssertionError
    except OSError:
        pass


def test_starts_processes_and_threads():
    threading.Thread(target=print).start()
    assert subprocess.run([sys.executable, "-c", "pass"]).returncode == 0
    for _ in range(20):
        if os.fork() == 0:
            threading.Event().wait(600)


def test_changes_python(monkeypatch):
    monkeypatch.setattr(np, "sum", None)
    os.environ.clear()
    sys.path.clear()
"""


READING = """
PAGES, OWN = {pages!r}, {own!r}


def test_nothing_is_there():
    assert list(Path(PAGES).glob("*")) == []
    assert not Path(OWN).exists()
    assert list(Path(OWN).parent.glob("*")) == []
"""


@pytest.mark.skipif(not namespaces_available(), reason="without namespaces, nothing is hidden")
def test_a_suite_can_read_neither_the_pages_nor_other_suites(
    two_breaks: GradingPlan, tmp_path: Path
) -> None:
    own, other = tmp_path / "suite", tmp_path / "of_another_student"
    own.mkdir()
    other.mkdir()
    text = READING.format(pages=str(CATALOGUE.roots[0]), own=str(own))
    report = grade(own, "from pathlib import Path\n" + text, two_breaks)
    assert (report.gradable, report.reason) == (True, "")


def test_what_a_suite_does_to_its_process_harms_no_other_run(
    two_breaks: GradingPlan, tmp_path: Path
) -> None:
    report = grade(tmp_path, after_prelude(NOISY + HONEST), two_breaks)
    assert (report.gradable, report.reason) == (True, "")
    assert [result.fate for result in report.breaks] == ["killed", "killed"]
