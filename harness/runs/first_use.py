"""Set up an installed library before forking, so that it is not set up again in every fork."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from harness.pages.probe import Probe


def prepare_library(module: str, probes: Sequence[Probe]) -> None:
    """Set up an imported library for running these probes in forks.

    It runs only code of the library and of this module, and leaves the rest of its state alone.
    """
    if module != "torch":
        return
    # The arrays are small, so threads would only wait for each other, and a fork has only one.
    importlib.import_module("torch").set_num_threads(1)
    if any("optim" in probe.source for probe in probes):
        with suppress(Exception):  # the run that makes one reports it, and the others need none
            _make_torch_optimizer()


@cache
def _make_torch_optimizer() -> None:
    """Make PyTorch import its compiler, as it does for its first optimizer; this takes a second.

    Do not run a backward pass here: on a machine with an accelerator, it starts threads.
    """
    torch = importlib.import_module("torch")
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
