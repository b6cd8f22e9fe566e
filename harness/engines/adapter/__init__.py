"""Foreign engines by PyTorch's names, so that they run the texts of the probes as they are.

A probe gets a `Tensor` that holds one of the engine's own and hands every operator, method and
function on to it. Nothing is computed here: what an engine has no word for is `NotSpoken`.
"""

from types import ModuleType

from harness.engines.adapter.functional import Functional
from harness.engines.adapter.library import Foreign
from harness.engines.adapter.missing import NotSpoken
from harness.engines.adapter.scalars import Scalars
from harness.engines.engine import Dialect
from harness.engines.library import Library

KINDS = {"arrays": Foreign, "scalars": Scalars, "functional": Functional}
"""How an engine computes: with arrays, with single numbers, or by transforming functions."""


def open_library(dialect: Dialect, module: ModuleType) -> Library:
    """The loaded module, ready to be spoken to."""
    return KINDS[dialect.kind](dialect, module) if dialect.kind else Library(dialect, module)


__all__ = ["KINDS", "Foreign", "Functional", "NotSpoken", "Scalars", "open_library"]
