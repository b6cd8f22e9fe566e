"""Foreign engines under PyTorch's names, so that probes run on them unchanged.

A probe gets a `Tensor` that wraps one of the engine's own tensors and forwards every operator,
method and function to it. Nothing is computed here: an operation that the engine lacks raises
`Unsupported`.
"""

from types import ModuleType

from harness.engines.adapter.arrays import Adapter
from harness.engines.adapter.functional import FunctionalAdapter
from harness.engines.adapter.namespace import Namespace
from harness.engines.adapter.scalars import ScalarAdapter
from harness.engines.adapter.unsupported import Unsupported
from harness.engines.engine import Dialect
from harness.engines.library import Library

ADAPTERS = {"arrays": Adapter, "scalars": ScalarAdapter, "functional": FunctionalAdapter}
"""How an engine computes: with arrays, with single numbers, or by transforming functions."""


def open_library(dialect: Dialect, module: ModuleType) -> Library:
    """The loaded module as a library that runs probes."""
    if dialect.kind is None:
        return Library(dialect, module)
    adapter = ADAPTERS[dialect.kind](dialect, module)
    adapter.module = Namespace(adapter)
    return adapter


__all__ = ["Adapter", "Unsupported", "open_library"]
