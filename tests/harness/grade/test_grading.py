"""`harness grade`: correct engines, flaky tests, breaks, and what is loaded of a suite."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from harness.core.errors import UsageError
from harness.engines.engine import Engine, find_engine
from harness.engines.loading import Functions
from harness.experiment.exploration import explore
from harness.grade import processes
from harness.grade.feedback import disclose
from harness.grade.files import SubmittedFiles
from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan, plan_grading
from harness.grade.processes import EngineResults
from harness.grade.protocol import Ended, RunRequest
from harness.grade.suite import SuiteReport
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.small_suite import SUITE
from tests.suites import PLUGIN

USUAL = processes.CPU_PATIENCE
SUITES = Path(__file__).parents[2] / "suites"

BREAKS = (
    "skip-unbroadcast,mul-swapped-operands,sub-sign,"  # one test each
    "unbroadcast-mean,"  # reached, and not noticed
    "tanh-uses-input,"  # not reached
    "tape-gradient-in-target-shape"  # cannot be swapped
)


def plan(selection: str = BREAKS, engine: Engine | None = None, **options: Any) -> GradingPlan:
    options = {"correct": (), "seed": b"secret", "limits": Limits(600.0, 30)} | options
    engine = engine or find_engine()
    return plan_grading(CATALOGUE, engine, open_cache(), selection=selection, **options)


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _patience() -> Iterator[None]:
    """No run is ended because the machine is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "PATIENCE", 300.0)
        patch.setattr(processes, "CPU_PATIENCE", 30)
        yield


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> SuiteReport:
    folder = write(tmp_path_factory.mktemp("suite"), test_small=SUITE)
    return grade_suite(folder / "test_small.py", plan(correct=("relu-mask-ge", "float32-data")))


def test_a_suite_is_graded_as_the_plugin_runs_it(report: SuiteReport) -> None:
    assert (report.gradable, report.reason, report.tests) == (True, "", 5)
    assert {result.break_: result.fate for result in report.breaks} == {
        "skip-unbroadcast": "killed",
        "unbroadcast-mean": "survived",
        "mul-swapped-operands": "killed",
        "sub-sign": "killed",
        "tanh-uses-input": "not-reached",
        "tape-gradient-in-target-shape": "survived",
    }
    by = {result.break_: result.by for result in report.breaks if result.by}
    assert by["skip-unbroadcast"] == ["test_small.py::TestAdd::test_broadcast"]
    assert by["mul-swapped-operands"] == ["test_small.py::test_mul"]
    assert by["sub-sign"][0] in ("test_small.py::test_sub[1]", "test_small.py::test_sub[3]")
    assert (report.killed, report.of, report.score) == (3, 6, 50.0)


STATIC = """
import inspect

import minigrad


def test_the_rule_of_sub_has_a_minus():
    assert "-g" in inspect.getsource(minigrad.elementwise.sub)
"""


def test_a_suite_cannot_read_the_source_and_is_told_so(tmp_path: Path) -> None:
    write(tmp_path, test_static=STATIC)
    report = grade_suite(tmp_path, plan("sub-sign", correct=()))
    name, sentence = (
        "test_static.py::test_the_rule_of_sub_has_a_minus",
        "looks at the engine's code, which a graded suite cannot see",
    )
    assert not report.gradable
    assert report.reason == f"{name} {sentence}"
    assert report.stated == report.reason
    assert report.refused == {name: ["__code__"]}


WITH_LIB = """
def test_product(lib):
    a, b = (lib.tensor([x], requires_grad=True) for x in (2.0, 5.0))
    (a * b).backward()
    assert a.grad[0] == 5.0
"""


def test_a_test_takes_any_engine_as_lib(tmp_path: Path) -> None:
    engine = Path(__file__).parents[2] / "engines" / "closures.py"
    found = explore(str(engine), open_cache(), CATALOGUE.conventions).engine
    write(tmp_path, test_lib=WITH_LIB)
    report = grade_suite(tmp_path, plan("mul-swapped-operands,mul-ignore-upstream", found))
    fates = {result.break_: result.fate for result in report.breaks}
    assert fates == {"mul-swapped-operands": "killed", "mul-ignore-upstream": "survived"}


def test_the_limit_of_processor_time_is_not_a_whole_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "CPU_PATIENCE", 0.4)
    left = "assert 0 < signal.getitimer(signal.ITIMER_PROF)[0] < 0.7"
    suite = f"import signal\n\ndef test_left():\n    {left}\n"
    files = SubmittedFiles("left", {"test_left.py": suite.encode()})
    with closing(processes.Processes(tmp_path / "test_left.py", files, plan())) as started:
        started.collect()
        started.seconds, started.cpu_seconds = 1.0, 0.01
        observed = started.observe({}, [0])
    assert [ended.result for ended in observed.ended.values()] == ["passed"], observed


def test_the_location_of_a_test_is_looked_up_before_the_fork(tmp_path: Path) -> None:
    suite = """
import pytest

@pytest.fixture
def here(request):
    assert "location" in vars(request.node)

def test_here(here): ...
"""
    files = SubmittedFiles("here", {"test_here.py": suite.encode()})
    with closing(processes.Processes(tmp_path / "test_here.py", files, plan())) as started:
        started.collect()
        observed = started.observe({}, [0])
    assert [ended.result for ended in observed.ended.values()] == ["passed"], observed


def test_a_quick_test_may_use_less_processor_time_than_a_slow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "CPU_PATIENCE", USUAL)
    suite = """
import signal

def left():
    return signal.getitimer(signal.ITIMER_PROF)[0]

def test_quick():
    assert 0 < left() < 1.1

def test_slow():
    assert 4.5 < left() < 5.1
"""
    files = SubmittedFiles("left", {"test_left.py": suite.encode()})
    with closing(processes.Processes(tmp_path / "test_left.py", files, plan())) as started:
        started.collect()
        usual = {0: Ended(0, "passed", 0.001), 1: Ended(1, "passed", 0.02, cpu_seconds=0.001)}
        started.set_usual_times([processes.EngineResults(usual)])
        observed = started.observe({}, [0, 1])
    assert [ended.result for ended in observed.ended.values()] == ["passed"] * 2, observed


def test_a_test_that_tries_longer_on_a_broken_engine_still_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trains for 20 steps, or gives up after 10,000; another test runs before it."""
    monkeypatch.setattr(processes, "CPU_PATIENCE", USUAL)
    suite = """
from minigrad import tensor

def test_add():
    assert (1 + tensor([1.0])).data[0] == 2

def test_sub():
    weight = 0.0
    for step in range(10_000):
        a = tensor([weight], requires_grad=True)
        (1 - a).sum().backward()
        weight -= 0.05 * a.grad[0]
        if weight > 0.99:
            return
    assert weight > 0
"""
    graded = grade_suite(write(tmp_path, test_patient=suite), plan("sub-sign", stages=False))
    assert [result.fate for result in graded.breaks] == ["killed"]


def test_what_cannot_be_swapped_is_loaded_by_another_process(report: SuiteReport) -> None:
    paths = {result.break_: result.path for result in report.breaks}
    assert paths.pop("tape-gradient-in-target-shape") == "reloaded"
    assert paths.pop("tanh-uses-input") is None
    assert set(paths.values()) == {"swapped"}


def test_the_stage_of_a_survivor(report: SuiteReport) -> None:
    assert {result.break_: result.stage for result in report.breaks} == {
        "skip-unbroadcast": "revealed",
        "unbroadcast-mean": "not-revealed",
        "mul-swapped-operands": "revealed",
        "sub-sign": "revealed",
        "tanh-uses-input": "not-reached",
        "tape-gradient-in-target-shape": None,
    }


def test_a_fault_that_changes_no_value_is_not_infected(tmp_path: Path) -> None:
    suite = """
from minigrad import tensor


def test_add():
    a = tensor([1.0, 2.0], requires_grad=True)
    (a + a).sum().backward()
    assert a.grad is not None
"""
    graded = grade_suite(write(tmp_path, test_add=suite), plan("skip-unbroadcast"))
    (result,) = graded.breaks
    assert (result.fate, result.stage) == ("survived", "not-infected")


ONE_SIDED = """
from minigrad import tensor


def test_sub():
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad={needed})
    (a - b).sum().backward()
    assert list(a.grad) == [1.0, 1.0]
"""


@pytest.mark.parametrize(("needed", "stage"), [(False, "not-infected"), (True, "not-revealed")])
def test_a_wrong_gradient_of_a_constant_is_not_a_wrong_number(
    tmp_path: Path, needed: bool, stage: str
) -> None:
    """Only other inputs help the first suite; only another assertion helps the second one."""
    suite = ONE_SIDED.format(needed=needed)
    (result,) = grade_suite(write(tmp_path, test_sub=suite), plan("sub-sign")).breaks
    assert (result.fate, result.stage) == ("survived", stage)


def test_a_test_reaches_what_its_fixtures_call(report: SuiteReport) -> None:
    (entry,) = (e for e in report.breaks if e.break_ == "mul-swapped-operands")
    names = [name.partition("::")[2] for name in entry.reached_by]
    assert names == ["test_only_the_fixture_is_asked_for", "test_mul"]


def test_the_correct_engines_come_first(report: SuiteReport) -> None:
    assert [(engine.engine, engine.passed, engine.failed) for engine in report.correct[:1]] == [
        ("minigrad", 5, [])
    ]
    rest = {engine.engine: (engine.passed, engine.failed) for engine in report.correct[1:]}
    assert rest == {"relu-mask-ge": (5, []), "float32-data": (5, [])}


def test_a_suite_that_fails_on_another_correct_engine_is_not_gradable(tmp_path: Path) -> None:
    suite = """
from minigrad import tensor


def test_slope_of_relu_at_0():
    a = tensor(0.0, requires_grad=True)
    a.relu().backward()
    assert a.grad == 0
"""
    folder = write(tmp_path, test_relu=suite)
    rejected = grade_suite(folder, plan(correct=("relu-mask-ge", "tanh-by-expm1")))
    assert (rejected.gradable, rejected.score, rejected.breaks) == (False, None, [])
    assert rejected.reason == (
        "test_relu.py::test_slope_of_relu_at_0 fails on a correct engine: "
        "A ReLU with slope 1 at 0 (relu-mask-ge)"
    )
    (engine,) = (engine for engine in rejected.correct if engine.failed)
    assert (engine.engine, engine.note) == ("relu-mask-ge", "A ReLU with slope 1 at 0")


PARTIAL = """
import os

import pytest
from minigrad import tensor


def slope(use):
    a = tensor([0.0], requires_grad=True)
    use(a).sum().backward()
    return a.grad[0]


def test_wrong():
    assert slope(lambda a: 1 - a) == 1


@pytest.mark.parametrize("number", [0, 1])
def test_relu(number):
    assert slope(lambda a: (a + number).relu()) == number


def test_sub():
    assert slope(lambda a: 1 - a) == -1


def test_exit():
    os._exit(0)


def test_add():
    assert slope(lambda a: 1 + a) == 1
"""


def test_a_suite_is_graded_without_the_tests_that_fail_on_a_correct_engine(tmp_path: Path) -> None:
    """Of five functions, two fail, and one does with half of its parameters."""
    suite = write(tmp_path, test_mine=PARTIAL)
    graded = grade_suite(suite, plan("sub-sign", correct=("relu-mask-ge",), partial=True))
    assert not graded.gradable
    assert "test_exit does not end" in graded.reason
    assert [test.rpartition("::")[2] for test in graded.excluded] == [
        "test_wrong",
        "test_relu[0]",
        "test_exit",
    ]
    assert (graded.tests, graded.cost) == (3, 50.0)
    assert [(result.fate, result.by) for result in graded.breaks] == [
        ("killed", ["test_mine.py::test_sub"])
    ]
    assert [(engine.engine, engine.passed, len(engine.failed)) for engine in graded.correct] == [
        ("minigrad", 4, 2),
        ("relu-mask-ge", 3, 1),
    ]
    grade = disclose(graded, partial=True)
    assert (grade.gradable, grade.score, grade.points, grade.cost) == (True, 50.0, 50.0, 50.0)
    assert disclose(graded).score is None


def test_functions_that_no_test_calls_are_named_with_or_without_a_break(
    report: SuiteReport,
) -> None:
    assert {"softmax", "Adam.step", "unbroadcast"} - {*report.uncalled} == {"unbroadcast"}
    assert not any("_" in name[:1] or "<" in name for name in report.uncalled)
    assert disclose(report, "stage").uncalled == report.uncalled
    assert disclose(report, "score").uncalled is UNSET


def test_a_suite_of_which_no_test_is_left_is_not_gradable(tmp_path: Path) -> None:
    suite = write(tmp_path, test_mine="def test_wrong():\n    assert False\n")
    graded = grade_suite(suite, plan("sub-sign", partial=True))
    assert graded.reason.startswith("test_mine.py::test_wrong fails on the correct engine")
    assert (graded.breaks, disclose(graded, partial=True).gradable) == ([], False)


EARLY = """
from minigrad import tensor

tensor(1.0, requires_grad=True).relu().backward()


def test_relu():
    a = tensor([1.0, 2.0], requires_grad=True)
    a.relu().sum().backward()
    assert a.grad.tolist() == [1.0, 1.0]


def test_exp():
    assert tensor(0.0).exp().item() == 1
"""


def test_a_correct_engine_that_cannot_be_swapped_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[int]] = []
    reloaded = processes.Processes._reloaded

    def noted(self: processes.Processes, changed: Any, run: RunRequest) -> EngineResults:
        ran.append(run.tests)
        return reloaded(self, changed, run)

    monkeypatch.setattr(processes.Processes, "_reloaded", noted)
    folder = write(tmp_path, test_early=EARLY)
    report = grade_suite(folder, plan("sub-sign", correct=["relu-mask-ge"]))
    assert report.correct[1].passed == 2
    assert ran == [[0, 1]]


def test_the_required_variants_give_the_same_results_apart_from_conventions() -> None:
    ids = {mutant.page.id for mutant in plan("sub-sign", correct=None).variants}
    assert {"relu-mask-ge", "sub-is-add-of-neg", "max-ties-first"} <= ids
    assert not ids & {"float32-data", "abs-subgrad-one"}


def test_a_flaky_test_does_not_count(tmp_path: Path) -> None:
    suite = (
        SUITE
        + """

def test_now_and_then():
    import os
    a = tensor([1.0], requires_grad=True)
    a.tanh().backward()
    assert os.getpid() % 2 and a.grad[0] > 0.4199
"""
    )
    graded = grade_suite(write(tmp_path, test_flaky=suite), plan("tanh-uses-input,sub-sign"))
    assert graded.flaky == ["test_flaky.py::test_now_and_then"]
    fates = {result.break_: result.fate for result in graded.breaks}
    assert fates == {"sub-sign": "killed", "tanh-uses-input": "not-reached"}


EXPECTED_TO_FAIL = """
import unittest

import pytest
from minigrad import tensor


def slope():
    a = tensor([1.0], requires_grad=True)
    (1 - a).sum().backward()
    return a.grad[0]


@pytest.mark.xfail(strict=True)
def test_strict():
    assert slope() == 1


class TestExpected(unittest.TestCase):
    @unittest.expectedFailure
    def test_unittest(self):
        assert slope() == 1


@pytest.mark.xfail
def test_lenient():
    assert slope() == 1


@pytest.mark.xfail
def test_needless():
    assert slope() == -1


@pytest.mark.skip
def test_skipped():
    assert slope() == -1


def test_skipped_at_run_time():
    if slope() == -1:
        pytest.skip()
    assert False
"""


@pytest.mark.parametrize(
    "name", ["test_strict", "test_unittest", "test_lenient", "test_skipped_at_run_time"]
)
def test_a_test_that_neither_passes_nor_fails_kills_as_in_plain_pytest(
    name: str, tmp_path: Path
) -> None:
    """On this break, the slope is 1: what must fail passes, and what was skipped fails."""
    suite = f"{EXPECTED_TO_FAIL}\n\ndef test_add():\n    assert tensor([1.0]).data[0] == 1\n"
    for other in ("test_strict", "test_unittest", "test_lenient", "test_skipped_at_run_time"):
        suite = suite if other == name else suite.replace(other, f"not_{other}")
    graded = grade_suite(write(tmp_path, test_mine=suite), plan("sub-sign"))
    (result,) = graded.breaks
    kills = name != "test_lenient"
    assert [test.rpartition("::")[2] for test in result.by] == ([name] if kills else [])
    uncounted = {test.rpartition("::")[2]: how for test, how in graded.uncounted.items()}
    rest = {} if kills else {"test_lenient": "xfailed"}
    assert uncounted == {"test_needless": "xpassed", "test_skipped": "skipped", **rest}


def test_a_test_that_begins_to_fail_keeps_no_kill(tmp_path: Path) -> None:
    """It kills in the first runs, which have one process each, and fails on twins later."""
    suite = """
import os
from minigrad import tensor

FIRST = os.getpid()

def slope():
    a = tensor([1.0], requires_grad=True)
    (1 - a).sum().backward()
    return a.grad[0]

def test_sometimes():
    assert slope() == -1 and os.getpid() - FIRST < 16
"""
    graded = grade_suite(write(tmp_path, test_mine=suite), plan("sub-sign"))
    assert [result.fate for result in graded.breaks] == ["not-reached"]
    assert graded.flaky == ["test_mine.py::test_sometimes"]
    steady = suite.replace("< 16", "< 16 or slope() == -1")
    graded = grade_suite(write(tmp_path, test_mine=steady), plan("sub-sign"))
    assert [result.fate for result in graded.breaks] == ["killed"]


def test_properties_of_hypothesis_are_graded() -> None:
    graded = grade_suite(SUITES / "properties.py", plan("sub-sign,softmax-no-max-shift"))
    assert (graded.gradable, graded.reason) == (True, "")


CONFTEST = """
import pytest

@pytest.fixture
def allowed():
    return True

def pytest_collection_modifyitems(items):
    items.reverse()
"""


@pytest.mark.parametrize("allowed", [True, False])
def test_a_folder_is_not_imported_as_a_whole(allowed: bool, tmp_path: Path) -> None:
    one = "def test_one(allowed):\n    pass\n" if allowed else "def test_one():\n    pass\n"
    write(tmp_path, conftest=CONFTEST, test_one=one, two_test="def test_two():\n    pass\n")
    write(tmp_path, helper="raise ValueError", setup="raise ValueError")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "sitecustomize.py").write_text("raise ValueError")
    graded = grade_suite(tmp_path, plan("sub-sign", allow_conftest=allowed))
    assert (graded.reason, graded.tests) == ("", 2)
    assert graded.left_out == ([] if allowed else ["conftest.py (because of --no-conftest)"])


def test_a_single_file_is_graded_without_those_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, helper="", test_one="import helper\n\ndef test_one():\n    pass\n")
    graded = grade_suite(tmp_path / "test_one.py", plan("sub-sign"))
    hint = "(a file is graded without those beside it: grade its folder instead)"
    for reason in (graded.reason, graded.stated):
        assert reason.endswith(f"ModuleNotFoundError: No module named 'helper' {hint}")
    assert grade_suite(tmp_path, plan("sub-sign")).reason == ""


@pytest.mark.parametrize("name", ["a b.py", "prüfung.py", "suite.txt.py"])
def test_a_file_of_any_name_is_graded(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("def test():\n    pass\n")
    assert grade_suite(tmp_path / name, plan("sub-sign")).reason == ""


def test_files_that_are_not_read(tmp_path: Path) -> None:
    assert grade_suite(tmp_path, plan("sub-sign")).reason == "the folder is empty"
    (tmp_path / "notes.txt").touch()
    assert "no file test_*.py" in grade_suite(tmp_path, plan("sub-sign")).reason
    (tmp_path / "test_link.py").symlink_to("/etc/passwd")
    reason = "`test_link.py` is a symbolic link; hand in the file itself"
    assert grade_suite(tmp_path, plan("sub-sign")).reason == reason
    strange = tmp_path / "test::1.py"
    strange.touch()
    assert "rename it" in grade_suite(strange, plan("sub-sign")).reason
    with pytest.raises(UsageError):
        grade_suite(tmp_path / "missing.py", plan("sub-sign"))


def test_a_plan_can_be_sent_to_another_process() -> None:
    there: GradingPlan = pickle.loads(pickle.dumps(plan("sub-sign")))
    here = plan("sub-sign")
    assert there.seed == here.seed
    assert there.pair(there.breaks[0]) == here.pair(here.breaks[0])


def test_two_seeds_give_other_code() -> None:
    one, two = plan("sub-sign"), plan("sub-sign", seed=b"another")
    assert one.pair(one.breaks[0]) != two.pair(two.breaks[0])
    assert one.pair(one.breaks[0], 0) != one.pair(one.breaks[0], 1)


def test_what_a_plan_has_prepared_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = plan("sub-sign,tanh-uses-input", correct=["relu-mask-ge"])
    prepared.prepare()
    for name in ("compose", "put", "compile_in_place", "compile_files"):
        monkeypatch.setattr(f"harness.grade.plan.{name}", None)
    monkeypatch.setattr(Functions, "plan", None)
    for mutant in prepared.breaks:
        assert prepared.changed_functions(mutant)
        assert prepared.pair(mutant, 0) != prepared.pair(mutant, 1)
        assert prepared.marked(mutant).broken != prepared.marked(mutant).clean
    (variant,) = prepared.variants
    assert prepared.changed_functions(variant)
    assert prepared.correct(variant)


@pytest.mark.parametrize("library", ["hypothesis", "torch"])
def test_a_slow_library_is_imported_once_for_all_submissions_that_name_it(
    library: str, tmp_path: Path
) -> None:
    pytest.importorskip(library)
    test = "def test_it(): assert loaded"
    with_it = f"import sys\nloaded = '{library}' in sys.modules\n{test}\n"
    absent = f"'{library[:-1]}' + '{library[-1]}' not in sys.modules"
    without_it = f"import sys\nloaded = {absent}\n{test}\n"
    write(tmp_path, test_with=with_it)
    assert grade_suite(tmp_path, plan("sub-sign")).gradable
    write(tmp_path, test_with=without_it)
    assert grade_suite(tmp_path, plan("sub-sign")).gradable


@pytest.mark.parametrize(
    ("files", "libraries"),
    [
        ([b"import numpy"], []),
        ([b"import numpy", b"from hypothesis import given"], ["hypothesis"]),
        ([b"import torch"], ["hypothesis", "scipy", "torch"]),
        ([b"import torch", b"import hypothesis"], ["hypothesis", "scipy", "torch"]),
    ],
)
def test_there_are_few_kinds_of_hosts(files: list[bytes], libraries: list[str]) -> None:
    assert processes.libraries_for(files) == tuple(libraries)


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["classes", "course", "fixtures", "functions", "properties"])
def test_the_verdicts_are_those_of_the_plugin(suite: str, tmp_path: Path) -> None:
    selection = "family:broadcasting,family:optimizers,tape-gradient-in-target-shape"
    file, result = SUITES / f"{suite}.py", tmp_path / "breaks.json"
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", "--noconftest"]
    command += ["-c", os.devnull, f"--rootdir={SUITES}", str(file), f"--breaks={selection}"]
    subprocess.run([*command, f"--breaks-json={result}"], check=True, capture_output=True)
    expected = {row["break"]: row["fate"] for row in json.loads(result.read_text())["breaks"]}
    graded = grade_suite(file, plan(selection))
    assert {row.break_: row.fate for row in graded.breaks} == expected


# ----- The command -----


def test_the_command_prints_a_score_and_json(tmp_path: Path) -> None:
    suite = str(write(tmp_path, test_small=SUITE) / "test_small.py")
    selected = ("--select", "sub-sign,tanh-uses-input", "--correct", "tanh-by-expm1")
    done = harness("grade", suite, *selected)
    assert (done.returncode, done.stderr) == (0, "")
    assert "minigrad: 5 tests kill 1 of 2 breaks (50 %)" in done.stdout
    done = harness("grade", suite, *selected, "--json")
    table = json.loads(done.stdout)
    assert (table["schema"], table["gradable"], table["score"]) == (1, True, 50.0)
    assert [(entry["break"], entry["fate"]) for entry in table["breaks"]] == [
        ("sub-sign", "killed"),
        ("tanh-uses-input", "not-reached"),
    ]
    assert [entry["engine"] for entry in table["correct"]] == ["minigrad", "tanh-by-expm1"]


def test_the_exit_status_of_the_command(tmp_path: Path) -> None:
    broken = str(write(tmp_path, test_wrong="def test_wrong():\n    assert False\n"))
    done = harness("grade", broken, "--select", "sub-sign", "--correct", "tanh-by-expm1")
    assert done.returncode == 1
    stdout = " ".join(done.stdout.split())
    assert "test_wrong.py::test_wrong fails on the correct engine: AssertionError" in stdout
    assert harness("grade", str(tmp_path / "missing.py")).returncode == 2
    assert harness("grade", broken, "--select", "no-such-break").returncode == 2
    assert harness("grade", broken, "--correct", "no-such-variant").returncode == 2
