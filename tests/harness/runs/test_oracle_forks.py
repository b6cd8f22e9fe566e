"""A probe that a page brings cannot change what an oracle computes for another one."""

import pytest

from harness.pages.probe import Probe, read_probes
from harness.runs.cached_runs import job_on_library
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job
from tests.harness.tiny import hosted

PATCHES_TORCH = '''
def changes_abs(lib, a=[1.0]):
    """Replaces a method of PyTorch."""
    import torch
    torch.Tensor.abs = lambda self: self * 100.0
    return a * a
'''

COPIED = '''
def copied(a=[-1.0, 2.0]):
    """The same text as a bundled probe, so that it has its identity."""
    return a.abs()
'''


def job(*texts: str) -> Job:
    """The probes of one page on PyTorch, in this order."""
    probes: list[Probe] = [probe for text in texts for probe in read_probes(text, "page.md")]
    return job_on_library("torch", [(probe, "uniform") for probe in probes])


@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_each_probe_of_a_page_has_its_own_process_on_an_oracle(forks: bool) -> None:
    pytest.importorskip("torch")
    with hosted(forks):
        *_, run = run_isolated(job(PATCHES_TORCH, COPIED))
        (alone,) = run_isolated(job(COPIED))
    assert run.output is not None
    assert run.output.numpy().tolist() == [1.0, 2.0]
    assert (run.output, run.gradients) == (alone.output, alone.gradients)
