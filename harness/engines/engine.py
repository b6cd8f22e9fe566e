"""An engine: the source of a reverse-mode autodiff library, and how probes call it.

An engine is text. Nothing is imported, and patching it gives another `Engine` with other text; only
a child process executes it, from memory.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.core import PACKAGES, read_bytes
from harness.core.errors import EnvironmentProblem
from harness.core.message import message
from harness.core.report import EngineReport

if TYPE_CHECKING:  # reading an engine does not need LibCST
    from harness.core.site import Site
    from harness.patch import EngineNames, Patched


LARGEST = 1024 * 1024
"""The largest source file, in bytes; larger files are generated tables."""


@dataclass(frozen=True)
class Dialect:
    """How to call a library: Python expressions over its module's names.

    In them, `data` is a float64 array, `t` a tensor, `cotangent` an array like the output, and
    `leaves` the tensors that the probe has made so far.
    """

    module: str
    distribution: str | None = None
    """The name of its distribution, if it differs from the module's."""
    leaf: str = "Tensor(data, requires_grad=True)"
    value: str = "t.data"
    gradient: str = "t.grad"
    """Empty if `backward` returns the gradients of `leaves`. An expression that uses `before`, a
    leaf's data before the backward pass, reads the gradient from an optimizer's step: it is
    evaluated right after the pass, and the data is restored."""
    backward: str = "t.backward(cotangent)"
    backward_again: str | None = None
    """As `backward`, but keeping the graph for another pass; None if the library cannot."""
    trace: str | None = None
    """A context manager that returns the list of backward steps, as `minigrad.trace()` does."""
    pull: str | None = None
    """For a functional engine: the pair of `function(data)` and its VJP."""
    kind: Literal["arrays", "scalars", "functional"] | None = None
    """How a foreign engine computes; None for a library with PyTorch's own names."""
    functions: tuple[str, ...] = ()
    """Further modules with functions of tensors."""
    names: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Names that differ in a foreign engine: our name, and its name or names."""

    refused_ranks: tuple[int, ...] = ()
    """The numbers of axes that a tensor of a foreign engine cannot have."""

    @property
    def stated_kind(self) -> str:
        """The kind, as a `harness.toml` states it: an engine of two axes is one of matrices."""
        of_matrices = self.kind == "arrays" and self.refused_ranks == NOT_MATRICES
        return "matrices" if of_matrices else self.kind or ""

    @property
    def expressions(self) -> dict[str, str]:
        """The Python expressions that are defined, by the name of their field."""
        values = {name: getattr(self, name) for name in EXPRESSIONS}
        return {name: value for name, value in values.items() if value}

    @property
    def stores_gradients(self) -> bool:
        """Whether the backward pass leaves the gradients in the leaves."""
        return bool(self.gradient) and not re.search(r"\bbefore\b", self.gradient)


NOT_MATRICES = (0, 1, 3, 4)
"""The numbers of axes that an engine of matrices refuses."""

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "leaf": ("data",),
    "value": ("t",),
    "gradient": ("t", "before"),
    "backward": ("t", "cotangent", "leaves"),
    "backward_again": ("t", "cotangent", "leaves"),
    "trace": (),
    "pull": ("function", "data"),
}
"""The fields of a dialect that hold expressions, and the names that each may use, besides those of
the engine."""


@dataclass(frozen=True)
class Engine:
    """An engine's source files, by their path below `root`, and the sites of its last patch."""

    name: str
    dialect: Dialect
    root: Path
    sources: Mapping[str, str]
    names: EngineNames = field(default_factory=dict)
    """Names that differ in its code: our name, and its name or names."""
    gradient_arguments: Mapping[str, int] = field(default_factory=dict)
    """The position of the gradient in calls of functions that reduce it, by name; -1 in
    `g.sum_to(shape)`."""
    sites: tuple[Site, ...] = ()
    """The sites of the last patch, whose execution a run records."""
    foreign: bool = False
    """Whether it differs from the engine that the pages are written for."""
    base: Mapping[str, str] = field(default_factory=dict)
    """The sources without any patch, if it is our own engine; else empty."""
    like: str | None = None
    """The variant of our engine that accumulates gradients as this one does."""

    def patched(self, patch: Patched) -> Engine:
        """The engine after a patch."""
        return replace(self, sources=patch.sources, sites=patch.sites)

    def without_sites(self) -> Engine:
        """The engine, of which a run records no sites."""
        return replace(self, sites=())

    def report(self, variant: str | None) -> EngineReport:
        """The engine, for reports, with the id of the variant that is in it."""
        return EngineReport(self.name, variant, self.foreign, self.like)


OUR_ENGINE = "minigrad"
"""The package of the reference engine."""


def find_engine() -> Engine:
    """Read the files of the reference engine, without importing it.

    They are those beside the harness, even if the import path has another `minigrad`. Raises
    EnvironmentProblem if there are none.
    """
    folder = PACKAGES / OUR_ENGINE
    sources = {
        path.relative_to(PACKAGES).as_posix(): read_source(path)
        for path in sorted(folder.rglob("*.py"))
    }
    if not sources:
        raise EnvironmentProblem(
            message("the reference engine is missing: no Python files in {folder}", folder=folder),
            "install breaklab again",
        )
    dialect = Dialect(
        module=OUR_ENGINE,
        backward_again="t.backward(cotangent, retain_graph=True)",
        trace="trace()",
    )
    return Engine(OUR_ENGINE, dialect, PACKAGES, sources, base=sources)


def read_source(path: Path) -> str:
    """The text of a Python file, decoded as it declares, with its line ends unchanged.

    Raises PageError for a file that cannot be read, SyntaxError for an encoding that Python does
    not read, UnicodeDecodeError for text that is not in the encoding that it declares.
    """
    raw = read_bytes(path, LARGEST)
    encoding, _ = tokenize.detect_encoding(BytesIO(raw).readline)
    try:
        return TextIOWrapper(BytesIO(raw), encoding, newline="").read()
    except LookupError as error:  # such as rot13, which does not encode text as bytes
        raise SyntaxError(str(error)) from None
