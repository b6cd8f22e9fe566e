"""Fixtures for the tests of the harness."""

import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import harness
from harness.matrix import plan
from harness.pages import catalogue
from tests.harness.command import hide_oracles
from tests.harness.few_pages import write_few_pages

# A module that is first imported while a test has replaced a name would keep the replacement. The
# room `gradients` cannot be imported without PyTorch.
_WITHOUT = () if importlib.util.find_spec("torch") else ("harness.gradients",)
for _module in pkgutil.walk_packages(harness.__path__, "harness.", onerror=lambda _: None):
    if not _module.name.endswith("__main__") and not _module.name.startswith(_WITHOUT):
        importlib.import_module(_module.name)


@pytest.fixture
def without_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch and HIPS autograd were not installed.

    Each new probe costs a start of PyTorch, some seconds of processor time: for tests that write
    probes of their own, and are not about oracles.
    """
    hide_oracles(monkeypatch)


@pytest.fixture
def one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate a matrix in this process, and keep its host for the next command.

    Starting more processes, each with its own host, takes longer than a small matrix.
    """
    monkeypatch.setattr(plan, "available_cores", lambda: 1)
    monkeypatch.setattr(plan, "close_hosts", lambda: None)


@pytest.fixture(scope="session")
def folder_of_few_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few of the bundled pages: see `tests.harness.few_pages`."""
    folder = tmp_path_factory.mktemp("few") / "breaks"
    folder.mkdir()
    write_few_pages(folder)
    return folder


@pytest.fixture
def few_pages(folder_of_few_pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that only a few pages are bundled.

    For tests of commands that run every shared probe on an engine that is not ours.
    """
    monkeypatch.setattr(catalogue, "BUNDLED", folder_of_few_pages)
