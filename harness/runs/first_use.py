"""Do before a process forks what an installed library would otherwise do again in every fork."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from harness.pages.probe import Probe


def prepare_library(module: str, probes: Sequence[Probe]) -> None:
    """Set up a library that has been imported, for runs of these probes in forks.

    It runs only code of the library and of this module, and leaves it in the state of its import.
    """
    if module != "torch":
        return
    # The arrays are small, so its threads would only wait for each other; and no fork has them.
    importlib.import_module("torch").set_num_threads(1)
    if any("optim" in probe.source for probe in probes):
        with suppress(Exception):  # the run that makes one reports it, and the others need none
            _make_torch_optimizer()


@cache
def _make_torch_optimizer() -> None:
    """Have PyTorch import its compiler, which takes a second, as it does at the first optimizer.

    A backward pass would be too much: on a machine with an accelerator it starts threads.
    """
    torch = importlib.import_module("torch")
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
