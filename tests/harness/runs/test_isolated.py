"""The host: whatever a broken engine does becomes the failure of its run."""

import contextlib
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.runs.isolated import EngineDoesNotLoad, run_isolated, watching
from harness.sandbox.hosts import close_hosts
from harness.sandbox.limits import Limits
from tests.harness.tiny import TINY, hosted, tiny_job

PATIENT = Limits(seconds=600)


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.slow)], ids=["forked", "spawned"]
)
def fork(request: pytest.FixtureRequest) -> Iterator[bool]:
    with hosted(request.param):
        yield bool(request.param)


@pytest.mark.parametrize(("alone", "ended"), [(True, 4), (False, 5)])
def test_a_foreign_forward_pass_that_fails_is_run_with_one_loss(alone: bool, ended: int) -> None:
    """It fails before the loss is known; a failure of the backward pass may depend on the loss."""
    refusing = TINY.replace(
        "        out = Ten", "        assert self.data.size == 1\n        out = Ten"
    )
    names: list[str] = []
    with watching(lambda _, probe: names.append(probe) if probe else None):
        runs = run_isolated(msgspec.structs.replace(tiny_job(refusing), alone=alone))
    assert [(run.probe, run.loss) for run in runs] == [
        *(("square", "uniform"), ("square", "weighted")),
        *(("square-again", "uniform"), ("square-again", "weighted")),
        ("steps", None),
    ]
    assert [run.failure and run.failure.type for run in runs] == [
        *("AssertionError", "AssertionError", None, None, None)
    ]
    assert len(names) == ended


def test_a_library_is_announced_before_it_is_loaded() -> None:
    loaded: list[tuple[str, str]] = []
    with watching(lambda library, probe: loaded.append((library, probe))):
        run_isolated(tiny_job(TINY))
    names = ["", *("square",) * 2, *("square-again",) * 2, "steps"]
    assert loaded == [("tiny", name) for name in names]


def backward_that(does: str) -> str:
    """The tiny engine with a backward pass that does this where the leaf has three elements."""
    line = "        self.parent.grad ="
    assert line in TINY
    body = f"        if self.data.size == 3:\n            import os, sys; {does}\n{line}"
    return TINY.replace(line, body)


_WRITE_EVERYWHERE = """
for descriptor in range(3, 40):
    try:
        os.write(descriptor, b"\\xff" * 64)
    except OSError:
        pass
os._exit(1)
"""
GARBAGE = f"exec({_WRITE_EVERYWHERE!r})"
"""Writes bytes that are not a frame to every descriptor that the child has."""


@pytest.mark.usefixtures("fork")
def test_runs_come_back_in_order_and_with_their_numbers() -> None:
    runs = run_isolated(tiny_job())
    assert [(run.probe, run.loss) for run in runs] == [
        *(("square", "uniform"), ("square", "weighted")),
        *(("square-again", "uniform"), ("square-again", "weighted")),
        ("steps", None),
    ]
    gradient = runs[0].gradients["a"]
    assert gradient is not None
    np.testing.assert_array_equal(gradient.numpy(), [2.0, 4.0, 6.0])
    assert [float(observed["loss"].numpy()) for observed in runs[-1].log] == [1.0, 1 / 2, 1 / 3]


def test_both_ways_observe_the_same() -> None:
    forked = run_isolated(tiny_job())
    with hosted(False):
        spawned = run_isolated(tiny_job())
    for one, other in zip(forked, spawned, strict=True):
        assert (one.output, one.gradients, one.log) == (other.output, other.gradients, other.log)


@pytest.mark.parametrize(
    ("does", "type_", "repeatable"),
    [
        ("raise ValueError('no')", "ValueError", True),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", True),
        ("sys.exit(0)", "SystemExit", True),
        ("os._exit(0)", "ProcessExit", False),
        ("os.kill(os.getpid(), 11)", "SIGSEGV", False),
        ("os.kill(os.getpid(), 40)", "SIG40", False),
        ("[0 for _ in iter(int, 1)]", "ProcessorTimeLimit", True),
        ("import time; time.sleep(60)", "TimeLimit", False),
        ("bytearray(1 << 40)", "MemoryError", False),
        (GARBAGE, "ForgedResult", False),
    ],
)
@pytest.mark.usefixtures("fork")
def test_an_abnormal_end_is_that_runs_failure_and_the_others_go_on(
    does: str, type_: str, repeatable: bool
) -> None:
    limits = Limits(seconds=5) if type_ == "TimeLimit" else Limits(cpu_seconds=0.5)
    runs = run_isolated(tiny_job(backward_that(does), limits=limits))
    failures = [run.failure and (run.failure.type, run.failure.repeatable) for run in runs]
    others = (type_, repeatable) if type_ == "TimeLimit" else None  # after two, none is waited for
    assert failures == [*[(type_, repeatable)] * 2, others, others, others]


@pytest.mark.usefixtures("fork")
def test_a_numpy_warning_is_not_a_failure_even_if_the_parent_raises_on_warnings() -> None:
    text = backward_that("import numpy as np; np.ones(1) / np.zeros(1)")
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert [run.failure for run in run_isolated(tiny_job(text))] == [None] * 5


@pytest.mark.usefixtures("fork")
def test_what_a_broken_engine_prints_stays_out_of_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    does = "print('garbage'); os.write(1, b'more'); os.write(2, b'and more')"
    runs = run_isolated(tiny_job(backward_that(does), limits=PATIENT))
    assert [run.failure for run in runs] == [None] * 5
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError in the import"),
        ("def", "SyntaxError in the import"),
        ("import os; os._exit(3)", "the process ended with status 3"),
        ("while True: pass", "more than 0.5 seconds of processor time"),
        ("import time; time.sleep(60)", "not done after"),
        ("print('last words'); import os; os._exit(3)", "printed: last words"),
    ],
)
@pytest.mark.usefixtures("fork")
def test_an_engine_that_does_not_load_says_why(text: str, words: str) -> None:
    limits = Limits(seconds=5) if "sleep" in text else Limits(cpu_seconds=0.5)
    with pytest.raises(EngineDoesNotLoad, match=words):
        run_isolated(tiny_job(text, limits=limits))


LEFT_BEHIND = {
    "a child": "subprocess.Popen(['sleep', {mark!r}])",
    "another session": "subprocess.Popen(['sleep', {mark!r}], start_new_session=True)",
    "a daemon": (
        "os.fork() or (os.setsid(), os.fork() and os._exit(0), "
        "os.execvp('sleep', ['sleep', {mark!r}]))"
    ),
}


@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_no_process_and_no_file_is_left(
    fork: bool, namespaces: bool, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"60.{os.getpid()}{fork:d}{namespaces:d}{len(what)}"
    does = f"import subprocess; open('litter', 'w'); {LEFT_BEHIND[what]}".format(mark=mark)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    limits = replace(PATIENT, namespaces=namespaces)
    runs = run_isolated(tiny_job(backward_that(does), limits=limits))
    assert [run.failure for run in runs] == [None] * 5
    assert list((tmp_path / "scratch").glob("*/*")) == []
    close_hosts()
    assert list((tmp_path / "scratch").iterdir()) == []
    deadline = time.monotonic() + 60
    while is_running(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(mark)


def is_running(mark: str) -> bool:
    """Whether a process with this argument is there, and is more than an entry to be reaped."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                return True
    return False


@pytest.mark.parametrize("name", ["TimeLimit", "ProcessorTimeLimit"])
def test_an_exception_with_the_name_of_a_limit_does_not_count_as_one(name: str) -> None:
    text = backward_that(f"raise type('{name}', (Exception,), {{}})")
    runs = run_isolated(tiny_job(text))
    types = [run.failure.type if run.failure else None for run in runs]
    assert types == [name, name, None, None, None]


CHANGES = {
    "NumPy": "import numpy as np; np.linalg.norm = None",
    "a builtin": "import builtins; builtins.hex = None",
    "the streams": "sys.stdout = None",
    "the folder": "open('left', 'w').close()",
    "the limit on recursion": "sys.setrecursionlimit(300)",
    "rounding": "import ctypes; ctypes.CDLL(None).fesetround(0x400)",
    "warnings": "import warnings; warnings.simplefilter('error')",
    "the collector": "import gc; gc.disable()",
}
OTHERS = """\
def square(a=[1.0, 2.0, 3.0]):
    "Changes something."
    return a.square()


def steps(lib, a=[1.0]):
    "The state of the process."
    import gc, os, sys, warnings
    import numpy as np
    same = hasattr(np.linalg.norm, "__call__") and hex(10) == "0xa" and gc.isenabled()
    same = same and sys.stdout is not None and not os.listdir() and sys.getrecursionlimit() > 300
    warnings.warn("a warning")
    one = float(a.data[0])
    yield {"same": same, "sum": one + 1e-17, "difference": one - 1e-17}
"""


@pytest.mark.parametrize("what", CHANGES)
def test_a_shared_probe_that_changes_its_process_does_not_affect_the_next(what: str) -> None:
    job = tiny_job(backward_that(CHANGES[what]), OTHERS)
    shared = tuple(replace(probe, shared=True) for probe in job.probes)
    runs = run_isolated(msgspec.structs.replace(job, probes=shared))
    assert [run.failure for run in runs] == [None] * 3
    numbers = {name: float(array.numpy()) for name, array in runs[-1].log[0].items()}
    assert numbers == {"same": 1.0, "sum": 1.0, "difference": 1.0}


WRITES = """\
def writes(lib, a=[1.0]):
    "It leaves a file behind, so that its process must end."
    open("a file", "w").close()
    yield {"a": a}


def one(lib, a=[1.0]):
    "The process that it runs in."
    import os
    yield {"process": float(os.getpid())}


def other(lib, a=[1.0]):
    "The process that it runs in."
    import os
    yield {"process": float(os.getpid())}
"""


def test_after_a_shared_probe_that_changed_its_folder_the_others_share_a_process() -> None:
    job = tiny_job(probes=WRITES)
    shared = tuple(replace(probe, shared=True) for probe in job.probes)
    _, one, other = run_isolated(msgspec.structs.replace(job, probes=shared))
    assert one.log == other.log


@pytest.mark.usefixtures("fork")
def test_a_second_process_that_goes_on_as_the_first_is_not_believed() -> None:
    runs = run_isolated(tiny_job(backward_that("os.fork()"), limits=PATIENT))
    types = [run.failure.type if run.failure else None for run in runs]
    assert set(types) <= {None, "ForgedResult"}
    assert types[2:] == [None] * 3
