"""Independent answers: the same text, another library, another process."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from harness.core.run import Failure, Run
from harness.core.vocabulary import Loss, Phase, Skipped
from harness.pages.probe import Probe, read_probes
from harness.runs import cached_runs
from harness.runs import cached_runs as answers
from harness.runs.cache import Cache
from harness.runs.cached_runs import run_on_library
from harness.runs.isolated import EngineDoesNotLoad
from harness.runs.job import prepare_library
from tests.harness.verdicts import in_english, skipped

TEXT = "def square(a=[1.0, 2.0]):\n    'A square.'\n    return a**2\n"
STEPS = """\
def train(lib, w=[1.0, 2.0]):
    'Two steps.'
    optimizer = lib.optim.SGD([w], lr=0.25)
    for _ in range(2):
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()
        yield {"w": w}
"""

THREADS_AND_IMPORTS = """\
def prepared(lib, w=[1.0]):
    'The numbers of threads and of modules that the first optimizer imports.'
    import sys
    before = len(sys.modules)
    lib.optim.SGD([w], lr=0.25)
    yield {"threads": lib.get_num_threads(), "imported": len(sys.modules) - before}
"""


def probe_of(text: str = TEXT) -> Probe:
    return read_probes(text, "p.py")[0]


def gradient(answer: Run | Skipped) -> list[float]:
    assert isinstance(answer, Run), answer
    result = answer.gradients["a"]
    assert result is not None
    return [float(x) for x in result.numpy()]


def test_torch_runs_the_same_text() -> None:
    answer = run_on_library("torch", [(probe_of(), "uniform")], Cache(None))["square", "uniform"]
    assert gradient(answer) == [2.0, 4.0]
    assert isinstance(answer, Run)
    assert answer.output is not None
    np.testing.assert_array_equal(answer.output.numpy(), [1.0, 4.0])


def test_torch_trains_the_same_text() -> None:
    answer = run_on_library("torch", [(probe_of(STEPS), None)], Cache(None))["train", None]
    assert isinstance(answer, Run)
    assert [list(observed["w"].numpy()) for observed in answer.log] == [[0.5, 1.0], [0.25, 0.5]]


def test_torch_is_set_up_before_forking_and_uses_one_thread() -> None:
    pairs: list[tuple[Probe, Loss | None]] = [(probe_of(THREADS_AND_IMPORTS), None)]
    pairs.append((probe_of(STEPS), None))  # a single run would not use a fork
    answer = run_on_library("torch", pairs, Cache(None))["prepared", None]
    assert isinstance(answer, Run)
    (snapshot,) = answer.log
    assert {name: int(array.numpy()) for name, array in snapshot.items()} == {
        "threads": 1,
        "imported": 0,
    }


def test_torch_is_used_without_its_optimizers_if_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, threads = ModuleType("torch"), list[int]()
    torch.set_num_threads = threads.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    prepare_library("torch", [probe_of(STEPS)])
    assert threads == [1]


def test_torch_is_not_imported_into_this_process_for_it() -> None:
    imported = "torch" in sys.modules
    run_on_library("torch", [(probe_of(), "uniform")], Cache(None))
    assert ("torch" in sys.modules) == imported


def test_a_page_that_changes_the_library_does_not_affect_another_page() -> None:
    change = "type(a).__pow__ = lambda self, n: self * 7.0"
    vandal = TEXT.replace("square", "change").replace("    return", f"    {change}\n    return")
    probes = [read_probes(text, f"{at}.py")[0] for at, text in enumerate((vandal, TEXT))]
    pairs: list[tuple[Probe, Loss | None]] = [(probe, "uniform") for probe in probes]
    answers = run_on_library("autograd", pairs, Cache(None))
    assert gradient(answers["change", "uniform"]) == [7.0, 7.0]
    assert gradient(answers["square", "uniform"]) == [2.0, 4.0]


def test_an_oracle_run_is_cached_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_on_library("torch", [(probe_of(), "weighted")], Cache(tmp_path / "runs"))
    monkeypatch.setattr(cached_runs, "run_isolated", None)
    assert run_on_library("torch", [(probe_of(), "weighted")], Cache(tmp_path / "runs")) == first


def test_a_library_that_is_not_installed_is_a_reason_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "find_spec", lambda _: None)
    (answer,) = run_on_library("torch", [(probe_of(), "uniform")], Cache(None)).values()
    assert in_english(answer) == skipped("torch is not installed: pip install 'breaklab[torch]'")


def test_a_probe_of_another_kind_is_not_put_to_it() -> None:
    layer = probe_of("def module_m(lib, x=(2,)):\n    'A layer.'\n    return lib.nn.ReLU()\n")
    assert run_on_library("torch", [(layer, None)], Cache(None)) == {}


def test_a_library_that_cannot_be_imported_is_not_repeatable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise EngineDoesNotLoad(Failure(Phase.IMPORT, "SIGKILL", "", repeatable=False))

    monkeypatch.setattr(cached_runs, "run_isolated", fail)
    (answer,) = run_on_library("torch", [(probe_of(), "uniform")], Cache(None)).values()
    assert isinstance(answer, Skipped)
    assert not answer.repeatable
