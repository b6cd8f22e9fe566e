"""The adapter for each kind of engine."""

from __future__ import annotations

from types import ModuleType

from harness.engines.adapter.arrays import Adapter
from harness.engines.adapter.functional import FunctionalAdapter
from harness.engines.adapter.namespace import Namespace
from harness.engines.adapter.returning import ReturningAdapter
from harness.engines.adapter.scalars import ScalarAdapter
from harness.engines.engine import Dialect
from harness.engines.expressions import names_in
from harness.engines.library import Library

ADAPTERS = {"arrays": Adapter, "scalars": ScalarAdapter, "functional": FunctionalAdapter}
"""How an engine computes: with arrays, with single numbers, or by transforming functions."""


def open_library(dialect: Dialect, module: ModuleType) -> Library:
    """Return the loaded module as a library that runs probes."""
    if dialect.kind is None:
        return Library(dialect, module)
    takes_leaves = dialect.kind == "arrays" and "leaves" in names_in(dialect.backward)
    adapter = (ReturningAdapter if takes_leaves else ADAPTERS[dialect.kind])(dialect, module)
    adapter.module = Namespace(adapter)
    return adapter
