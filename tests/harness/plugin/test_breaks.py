"""`pytest --breaks`, as a user runs it: in a process of its own, on small suites."""

import re
import textwrap
import time
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import msgspec
import pytest

from tests.harness.cli.terminal import dialogue
from tests.harness.plugin.process import ALONE, ROOT, Result, run_pytest
from tests.harness.report.published import Sarif
from tests.harness.small_suite import SUITE
from tests.harness.sound_page import write_page
from tests.suites import PLUGIN

SELECTION = (
    "skip-unbroadcast,mul-swapped-operands,sub-sign,"  # one test each
    "unbroadcast-mean,"  # reached, and not noticed
    "tanh-uses-input,"  # not reached
    "tape-gradient-in-target-shape"  # cannot be swapped
)


_SUBTRACTING = ["test_small.py::test_sub[1]", "test_small.py::test_sub[3]"]
"""The faster of the two runs first."""


def run(folder: Path, *arguments: str, suite: str = SUITE) -> Result:
    """Run pytest without the plugins of Hypothesis and xdist."""
    return run_with_plugins(folder, *ALONE, *arguments, suite=suite)


def run_with_plugins(folder: Path, *arguments: str, suite: str = SUITE) -> Result:
    """Run pytest with all installed plugins."""
    (folder / "test_small.py").write_text(textwrap.dedent(suite))
    return run_pytest(folder, folder / "report.json", *arguments)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("suite")
    files = [f"--breaks-junit={folder / 'junit.xml'}", f"--breaks-sarif={folder / 'breaks.sarif'}"]
    return run_with_plugins(folder, f"--breaks={SELECTION}", "--breaks-min-score=50", *files)


def test_the_suite_runs_as_usual_and_then_on_every_break(result: Result) -> None:
    assert result.status == 0
    assert "5 passed, 1 xfailed" in result.text
    assert result.fates == {
        "skip-unbroadcast": "killed",
        "unbroadcast-mean": "survived",
        "mul-swapped-operands": "killed",
        "sub-sign": "killed",
        "tanh-uses-input": "not-reached",
        "tape-gradient-in-target-shape": "survived",
    }
    by = {entry["break"]: entry["by"] for entry in result.report["breaks"] if entry["by"]}
    assert by == {
        "skip-unbroadcast": ["test_small.py::TestAdd::test_broadcast"],
        "mul-swapped-operands": ["test_small.py::test_mul"],
        "sub-sign": [next(name for name in _SUBTRACTING if name in by["sub-sign"])],
    }
    report = result.report
    assert (report["schema"], report["engine"], report["tests"]) == (1, "minigrad", 5)
    assert (report["killed"], report["of"], report["score"]) == (3, 6, 50.0)


def test_a_test_reaches_what_its_fixtures_call(result: Result) -> None:
    (entry,) = (e for e in result.report["breaks"] if e["break"] == "mul-swapped-operands")
    names = [name.partition("::")[2] for name in entry["reached_by"]]
    assert names == ["test_only_the_fixture_is_asked_for", "test_mul"]


def test_what_cannot_be_swapped_is_imported_again(result: Result) -> None:
    paths = {entry["break"]: entry["path"] for entry in result.report["breaks"]}
    assert paths.pop("tape-gradient-in-target-shape") == "reloaded"
    assert paths.pop("tanh-uses-input") is None
    assert set(paths.values()) == {"swapped"}


def test_the_summary_names_survivors_and_the_next_command(result: Result) -> None:
    section = result.text.partition("breaks ===")[2]
    assert "minigrad: 5 tests kill 3 of 6 breaks (50 %)" in section
    assert "unbroadcast-mean" in section
    assert "Survivors (2): 2 not measured" in section
    assert "unbroadcast-mean               not measured" in section
    assert "Not reached by any test (1): tanh-uses-input" in section
    assert "next: harness break unbroadcast-mean" in section


def test_the_summary_fits_a_narrow_terminal(tmp_path: Path) -> None:
    suite = "def test_nothing():\n    pass\n"
    (tmp_path / "test_small.py").write_text(suite)
    program = ("-m", "pytest", "-p", "no:cacheprovider", *ALONE, *PLUGIN)
    shown = dialogue(
        ["--breaks=sub-sign,mul-swapped-operands,tanh-uses-input,unbroadcast-mean"],
        program=program, columns=50, cwd=tmp_path, PYTHONPATH=str(ROOT),
    )  # fmt: skip
    assert shown.status == 0
    names = ("unbroadcast-mean", "tanh-uses-input", "sub-sign", "mul-swapped-operands")
    section = shown.text.partition(" breaks =")[2].partition("next: ")[0]
    assert all(name in section for name in names)
    assert max(map(len, section.splitlines())) <= 50


def test_junit_has_a_failure_for_each_break_that_gets_through(result: Result) -> None:
    cases = ElementTree.parse(result.folder / "junit.xml").getroot().iter("testcase")
    failures = {case.get("name"): case.find("failure") is not None for case in cases}
    assert failures == {name: fate != "killed" for name, fate in result.fates.items()}


def test_sarif_has_each_break_that_gets_through_at_its_line(result: Result) -> None:
    (log,) = msgspec.json.decode((result.folder / "breaks.sarif").read_bytes(), type=Sarif).runs
    places = {one.ruleId: one.locations[0].physicalLocation for one in log.results}
    assert places.keys() == {name for name, fate in result.fates.items() if fate != "killed"}
    place = places["tanh-uses-input"]
    file = Path(urlsplit(place.artifactLocation.uri).path)
    assert file == ROOT / "minigrad" / "elementwise.py"
    (entry,) = (e for e in result.report["breaks"] if e["break"] == "tanh-uses-input")
    assert "tanh" in "".join(file.read_text().splitlines()[place.region.startLine - 6 :][:6])
    assert place.region.startLine == entry["line"]


def test_the_workers_of_xdist_share_the_breaks(result: Result, tmp_path: Path) -> None:
    selection = ("sub-sign", "unbroadcast-mean", "tape-gradient-in-target-shape")
    breaks = f"--breaks={','.join(selection)}"
    shared = run_with_plugins(tmp_path, breaks, "-n", "2", "-p", "no:hypothesispytest")
    assert shared.status == 0
    assert shared.fates == {name: result.fates[name] for name in selection}
    assert shared.report["tests"] == 5


def test_a_false_claim_fails_the_run_and_all_tests_that_fail_are_listed_on_request(
    tmp_path: Path,
) -> None:
    suite = SUITE.replace('kills("sub-sign")', 'kills("sub-sign", "unbroadcast-mean")')
    claimed = run(tmp_path, "--breaks=sub-sign", "--breaks-all", "-v", suite=suite)
    assert claimed.status == 1
    assert claimed.report["claims"] == {name: ["unbroadcast-mean"] for name in _SUBTRACTING}
    (entry,) = claimed.report["breaks"]
    assert sorted(entry["by"]) == _SUBTRACTING
    killed_by = claimed.text.partition("Killed by:\n")[2].splitlines()[:2]
    assert sorted(killed_by) == [f"  {name}: sub-sign" for name in _SUBTRACTING]


INTERRUPTED = """
import os
import signal
import subprocess
import sys
from pathlib import Path
import numpy as np
from minigrad import tensor


def test_mul():
    a = tensor([1.0, 2.0], requires_grad=True)
    (a * 3.0).sum().backward()
    assert a.grad.tolist() == [3.0, 3.0]


def test_sub():
    a = tensor(np.ones(2), requires_grad=True)
    (1 - a).sum().backward()
    if a.grad.tolist() != [-1.0, -1.0]:
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path("left").write_text(str(left.pid))
        os.kill(int(os.environ["MAIN_PROCESS"]), signal.SIGINT)
        signal.pause()
"""
"""On the break `sub-sign`, it starts a process and presses Ctrl-C."""

ONE_RUNNER = """
import os
from harness.plugin import session

session.available_cores = lambda: 1


def pytest_configure(config):
    in_worker = hasattr(config, "workerinput")
    os.environ["MAIN_PROCESS"] = str(os.getppid() if in_worker else os.getpid())
"""
"""A `conftest.py` with which the breaks are run one after the other."""


def _ends(pid: int) -> bool:
    """Whether a process ends soon; one that has ended has no command line any more."""
    command = Path(f"/proc/{pid}/cmdline")
    for _ in range(200):
        if not command.exists() or not command.read_bytes():
            return True
        time.sleep(0.05)
    return False


def interrupted(folder: Path, *arguments: str) -> Result:
    (folder / "conftest.py").write_text(ONE_RUNNER)
    breaks = "--breaks=mul-swapped-operands,sub-sign,tanh-uses-input"
    return run_with_plugins(
        folder, breaks, "-v", "-p", "no:hypothesispytest", *arguments, suite=INTERRUPTED
    )


def test_on_an_interrupt_the_breaks_that_were_run_are_reported(tmp_path: Path) -> None:
    shown = interrupted(tmp_path, "-p", "no:xdist")
    assert shown.status == pytest.ExitCode.INTERRUPTED
    assert "2 tests kill 1 of 1 breaks" in shown.text
    assert "test_small.py::test_mul: mul-swapped-operands" in shown.text
    assert "ERROR: interrupted: 2 of 3 breaks were not run" in shown.text
    assert shown.report == {}  # no file
    assert _ends(int((tmp_path / "left").read_text()))


@pytest.mark.slow
def test_on_an_interrupt_the_workers_of_xdist_report_too(tmp_path: Path) -> None:
    shown = interrupted(tmp_path, "-n2")
    assert shown.status == pytest.ExitCode.INTERRUPTED
    assert re.search(r"ERROR: interrupted: [123] of 3 breaks were not run", shown.text)


OBSERVED = """
import sys
from harness.plugin import session


class ObservedRunner(session.BreakRunner):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        with open("runners", "a") as file:
            file.write("forked\\n")


session.BreakRunner, session.available_cores = ObservedRunner, lambda: 8


def pytest_plugin_registered(plugin_name):
    if plugin_name == "breaklab-recording":
        with open("recorded", "w") as file:
            file.write(repr(sys.getprofile()))
"""
"""A `conftest.py` that notes how many runners are forked, and the profiler as the plugin starts."""


@pytest.fixture(scope="module")
def low(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run with a low score, in which collecting the tests calls code that a break changes."""
    folder = tmp_path_factory.mktemp("low")
    (folder / "conftest.py").write_text(OBSERVED)
    suite = f"{SUITE}\n\n(1 - tensor(1.0, requires_grad=True)).backward()\n"
    options = ("--breaks=sub-sign,tanh-uses-input", "--breaks-min-score=51")
    return run(folder, *options, suite=suite)


def test_a_low_score_fails_the_run(low: Result) -> None:
    assert low.fates == {"sub-sign": "killed", "tanh-uses-input": "not-reached"}
    assert (low.status, low.report["claims"]) == (1, {})
    assert "ERROR: the score is below 51 % (--breaks-min-score)" in low.text


def test_code_that_is_called_while_collecting_is_imported_again(low: Result) -> None:
    assert {entry["break"]: entry["path"] for entry in low.report["breaks"]} == {
        "sub-sign": "reloaded",
        "tanh-uses-input": None,
    }


def test_after_an_incomplete_recording_everything_is_imported_again(tmp_path: Path) -> None:
    """It is not known what the collection called once a suite has ended the recording."""
    suite = f"import sys\nsys.setprofile(None)\n{textwrap.dedent(SUITE)}"
    suite += "\n\n(1 - tensor(1.0, requires_grad=True)).backward()\n"
    ended = run(tmp_path, "--breaks=sub-sign,mul-swapped-operands", suite=suite)
    assert ended.fates == {"sub-sign": "killed", "mul-swapped-operands": "killed"}
    assert {entry["path"] for entry in ended.report["breaks"]} == {"reloaded"}


def test_no_more_runners_are_forked_than_there_are_breaks(low: Result) -> None:
    assert (low.folder / "runners").read_text().splitlines() == ["forked"] * 2


def test_the_start_of_the_plugin_is_not_recorded(low: Result) -> None:
    assert (low.folder / "recorded").read_text() == "None"


def test_nothing_is_tried_if_the_suite_fails(tmp_path: Path) -> None:
    failing = run(tmp_path, "--breaks=sub-sign", suite="def test_wrong():\n    assert 1 == 2\n")
    assert failing.status == 1
    assert "No break was tried: 1 test fails without a break." in failing.text
    assert (failing.report["gradable"], failing.report["breaks"]) == (False, [])


def test_a_break_that_hangs_or_ends_the_process_harms_no_other(tmp_path: Path) -> None:
    suite = """
    import os
    import numpy as np
    from minigrad import tensor


    def test_sub():
        a = tensor(np.ones(2), requires_grad=True)
        (1 - a).sum().backward()
        if a.grad.tolist() != [-1.0, -1.0]:
            os.kill(os.getpid(), 9)


    def test_exp():
        a = tensor(np.ones(2), requires_grad=True)
        (a * 2).sum().backward()
        while a.grad.tolist() != [2.0, 2.0]:
            pass
    """
    impatient = "from harness.plugin import runners\nrunners.CPU_PATIENCE = 0.3\n"
    (tmp_path / "conftest.py").write_text(impatient)
    ended = run(tmp_path, "--breaks=sub-sign,mul-swapped-operands", suite=suite)
    assert ended.fates == {"sub-sign": "killed", "mul-swapped-operands": "killed"}
    by = {entry["break"]: entry["by"] for entry in ended.report["breaks"]}
    assert by["sub-sign"] == ["the process that ran the tests ended early"]
    assert by["mul-swapped-operands"][0].startswith("not done after")


@pytest.mark.slow
def test_work_that_a_test_does_for_the_others_is_not_a_kill(tmp_path: Path) -> None:
    """Even if that test does not count, as it is expected to fail."""
    suite = """
    import functools
    import time

    import pytest
    from minigrad import tensor


    @functools.lru_cache
    def numbers():
        end = time.process_time() + 3.5
        while time.process_time() < end:
            pass
        return [1.0, 2.0]


    @pytest.mark.xfail
    def test_open():
        assert not numbers()


    def test_sub():
        (1 - tensor(numbers(), requires_grad=True)).sum().backward()
    """
    assert run(tmp_path, "--breaks=sub-sign", suite=suite).fates == {"sub-sign": "survived"}


def test_a_test_that_must_fail_kills_if_it_passes(tmp_path: Path) -> None:
    suite = """
    import pytest
    from minigrad import tensor


    @pytest.mark.xfail(strict=True)
    def test_wrong():
        a = tensor([1.0], requires_grad=True)
        (1 - a).sum().backward()
        assert a.grad[0] == 1
    """
    result = run(tmp_path, "--breaks=sub-sign", suite=suite)
    assert result.fates == {"sub-sign": "killed"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--breaks=skip-unbrodcast"], "did you mean `skip-unbroadcast`"),
        (["--breaks=" + "skip-unbrodcast," * 20], "did you mean `skip-unbroadcast`"),
        (["--breaks", "--breaks-engine=no_such_engine"], "no_such_engine"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], message: str, tmp_path: Path) -> None:
    wrong = run(tmp_path, *arguments)
    assert wrong.status == 4
    assert message in wrong.text
    assert "Traceback" not in wrong.text


def test_a_file_after_the_option_is_collected_and_not_a_selection(tmp_path: Path) -> None:
    both = run(tmp_path, "--breaks", "test_small.py", "--collect-only", "-q")
    assert both.status == 0
    assert "test_small.py::test_mul" in both.text


def test_pages_and_units_of_own_folders_can_be_selected(tmp_path: Path) -> None:
    write_page(tmp_path / "hidden" / "op-formula")
    (tmp_path / "public").mkdir()
    unit = '[q1]\ntitle = "Question 1"\nidea = "Slopes."\npages = ["sub-sign", "log-slope-one"]\n'
    (tmp_path / "public" / "course.toml").write_text(unit)
    log = """
def test_log():
    a = tensor([4.0], requires_grad=True)
    a.log().sum().backward()
    assert a.grad.tolist() == [0.25]
"""
    folders = "--breaks-pages=public", "--breaks-pages=hidden"
    result = run(tmp_path, "--breaks=unit:q1", *folders, suite=SUITE + log)
    assert result.fates == {"sub-sign": "killed", "log-slope-one": "killed"}
    wrong = run(tmp_path, "--breaks=unit:q1", *folders[:1])
    assert (wrong.status, "log-slope-one" in wrong.text) == (4, True)
    assert "Traceback" not in wrong.text


def test_a_results_file_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    suite = 'from pathlib import Path\n\ndef test_folder():\n    Path("junit.xml").mkdir()\n'
    wrong = run(tmp_path, "--breaks=sub-sign", "--breaks-junit=junit.xml", suite=suite)
    assert wrong.status == 1
    assert "junit.xml cannot be written" in wrong.text
    assert "INTERNALERROR" not in wrong.text
    assert wrong.fates == {"sub-sign": "not-reached"}


def test_a_results_file_without_a_folder_is_refused_before_the_tests_run(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "junit.xml"
    wrong = run(tmp_path, "--breaks=sub-sign", f"--breaks-junit={nowhere}")
    assert wrong.status == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {nowhere} cannot be written: there is no folder" in wrong.text
    assert "passed" not in wrong.text


RELOADED = """
import os
import numpy as np
from minigrad import losses, tensor


def test_fixture(number):
    assert tensor(number).item() == 7.0


def test_far_scores(request):
    scores = tensor(np.array([710.0]), requires_grad=True)
    losses.binary_cross_entropy_with_logits(scores, np.array([1.0])).backward()
    assert np.isfinite(scores.grad).all()
"""

CONFTEST = """
import os
import pytest
{imports}
with open("loads", "a") as file:
    file.write("loaded\\n")


@pytest.fixture
def number():
    return 7.0
"""


@pytest.mark.parametrize(
    ("imports", "loads"),
    [("", 1), pytest.param("import minigrad", 3, marks=pytest.mark.slow)],
    ids=["zygote", "fresh processes"],
)
def test_the_engine_is_imported_again_with_the_users_configuration(
    imports: str, loads: int, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(imports=imports))
    breaks = "--breaks=where-single-guard,tape-gradient-in-target-shape"
    ended = run(tmp_path, breaks, suite=RELOADED)
    assert ended.fates == {
        "where-single-guard": "killed",
        "tape-gradient-in-target-shape": "survived",
    }
    entries = {entry["break"]: entry for entry in ended.report["breaks"]}
    assert entries["where-single-guard"]["by"] == ["test_small.py::test_far_scores"]
    assert {entry["path"] for entry in entries.values()} == {"reloaded"}
    assert len((tmp_path / "loads").read_text().splitlines()) == loads


def test_a_failure_that_the_zygote_has_without_a_break_kills_nothing(tmp_path: Path) -> None:
    """The test fails in every fork; fresh processes are used instead."""
    (tmp_path / "conftest.py").write_text(
        CONFTEST.format(imports="import os; PROCESS = os.getpid()").replace("7.0", "PROCESS")
    )
    suite = RELOADED.replace("== 7.0", "== os.getpid()").replace("[710.0]", "[1.0]")
    ended = run(tmp_path, "--breaks=tape-gradient-in-target-shape", suite=suite)
    assert ended.fates == {"tape-gradient-in-target-shape": "survived"}
    assert len((tmp_path / "loads").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("condition", "status", "message"),
    [
        ("any(Path(task['root'], f).read_text() != t for f, t in task['sources'].items())", 0, ""),
        ("True", 4, "the tests do not run in a fresh process"),
    ],
)
def test_a_fresh_process_that_cannot_collect_the_tests(
    condition: str, status: int, message: str, tmp_path: Path
) -> None:
    suite = f"""
    import json
    import os
    from pathlib import Path
    from minigrad import tensor

    if "BREAKLAB_PATCHED" in os.environ:
        task = json.loads(Path(os.environ["BREAKLAB_PATCHED"]).read_text())
        if {condition}:
            raise ImportError("not with this engine")


    def test_exp():
        assert tensor(0.0).exp().item() == 1.0
    """
    (tmp_path / "conftest.py").write_text("import minigrad")  # so that there is no zygote
    ended = run(tmp_path, "--breaks=tape-gradient-in-target-shape", suite=suite)
    assert (ended.status, "INTERNALERROR" in ended.text) == (status, False)
    assert message in ended.text
    if not message:
        assert ended.fates == {"tape-gradient-in-target-shape": "killed"}
