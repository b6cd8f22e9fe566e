"""What all tests share: an empty home folder with a cache in it, and Hypothesis profiles.

See `tests/README.md` for the tiers and for what is shared.
"""

import gc
import hashlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.configuration import set_hypothesis_home_dir

for _library in ("OMP", "OPENBLAS", "MKL"):
    # Arrays in tests are small, so further threads of PyTorch and NumPy would only busy-wait.
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# No profile has a deadline, since a slow machine is not a failure, nor a database of examples,
# since a second run would then try other examples than the first.
_COMMON = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("light", _COMMON, max_examples=20, derandomize=True)
settings.register_profile("full", _COMMON, max_examples=100, derandomize=True)
settings.register_profile("random", _COMMON, max_examples=100, print_blob=True)
settings.load_profile("light")

_HOME = "BREAKLAB_TEST_HOME"
"""The environment variable with the home folder of this run, which xdist's workers inherit."""

_DATA = "BREAKLAB_DATA"
"""The environment variable with the folder of a learner's progress."""


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, and make a home folder in the first process that all of them use."""
    # The tests and PyTorch hold half a million objects, which Python would scan every few seconds.
    gc.set_threshold(20_000, 10, 10)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background commands like this, and what the tests run would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _runs_slow(config) and not config.getoption("--hypothesis-profile"):
        settings.load_profile("full")
    if not hasattr(config, "workerinput"):
        os.environ[_HOME] = tempfile.mkdtemp(prefix="breaklab-home-")
    home = Path(os.environ[_HOME])
    for name in ("HOME", "USERPROFILE"):
        os.environ[name] = str(home)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        os.environ[name] = str(home / "cache")
    os.environ[_DATA] = str(home / "data" / "start")
    set_hypothesis_home_dir(config.rootpath / ".hypothesis")  # digests of our sources, no examples


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each test its own learner; the folder is created when something is recorded."""
    name = hashlib.sha256(item.nodeid.encode()).hexdigest()
    os.environ[_DATA] = str(Path(os.environ[_HOME]) / "data" / name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one process more than there are processors: many tests wait for a child process."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else 2


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(_HOME), ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count properties with all their examples as slow, and begin with the tests marked `long`.

    Otherwise one worker might begin a long test when all others are done.
    """
    for item in items:
        if _runs_slow(config) and is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def _runs_slow(config: pytest.Config) -> bool:
    """Whether another tier than the default one is run."""
    return bool(config.option.markexpr != "not slow")
