"""An engine: the source of a reverse-mode autodiff library, and how probes speak to it.

Here an engine is text. Nothing is imported, and a patched engine is another `Engine` with other
text; only a child process ever executes it, from memory.
"""

from __future__ import annotations

import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.core.errors import EnvironmentProblem

if TYPE_CHECKING:  # who only reads an engine needs no LibCST
    from harness.patch import Names, Patched, Site


@dataclass(frozen=True)
class Dialect:
    """How to say on a library what a probe needs: Python expressions over its module's names.

    In them, `data` is a float64 array, `t` a tensor, and `cotangent` an array like the output.
    """

    module: str
    distribution: str | None = None
    """What it is installed as, if not under the module's name."""
    leaf: str = "Tensor(data, requires_grad=True)"
    value: str = "t.data"
    gradient: str = "t.grad"
    backward: str = "t.backward(cotangent)"
    backward_again: str | None = None
    """As `backward`, with the graph kept for another; None where the library has no such thing."""
    trace: str | None = None
    """A context that gives the list in which a backward walk is recorded, as `minigrad.trace()`."""
    pull: str | None = None
    """Of a functional engine: a pair of `function(data)` and of what pulls a cotangent back."""
    kind: Literal["arrays", "scalars", "functional"] | None = None
    """How a foreign engine computes; None for one that speaks PyTorch's names by itself."""
    functions: tuple[str, ...] = ()
    """Modules with functions of tensors, beside the one that is named."""
    names: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """What a foreign engine calls differently: our name, its name or names."""

    @property
    def expressions(self) -> dict[str, str]:
        """Everything that is said in Python."""
        return {name: said for name in SPOKEN if (said := getattr(self, name)) is not None}


SPOKEN = ("leaf", "value", "gradient", "backward", "backward_again", "trace", "pull")
"""The fields of a dialect that are expressions."""


@dataclass(frozen=True)
class Engine:
    """An engine's source files, by their path below `root`, and what has been patched in them."""

    name: str
    dialect: Dialect
    root: Path
    sources: Mapping[str, str]
    names: Names = field(default_factory=dict)
    """What it calls differently: our name, its name or the several that it has for it."""
    sites: tuple[Site, ...] = ()
    """The sites of the last patch: their execution is what a run proves."""
    foreign: bool = False
    """It is not the one that the pages are written for, whatever it is called."""
    like: str | None = None
    """The variant of our engine that adds gradients up as this one does."""

    def patched(self, patch: Patched) -> Engine:
        """The same engine after a patch."""
        return replace(self, sources=patch.sources, sites=patch.sites)


def find_engine(name: str = "minigrad") -> Engine:
    """The importable package `name`, read but not imported.

    Raises EnvironmentProblem where there is no such package, or none in Python source.
    """
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentProblem(
            f"no engine `{name}`: no package of that name can be imported",
            "install it into this environment, or name a package that is there",
        )
    folder = Path(next(iter(spec.submodule_search_locations)))
    sources = {
        path.relative_to(folder.parent).as_posix(): read_source(path)
        for path in sorted(folder.rglob("*.py"))
    }
    return Engine(name, _dialect(name), folder.parent, sources)


def _dialect(name: str) -> Dialect:
    if name != "minigrad":
        return Dialect(module=name)
    return Dialect(
        module=name,
        backward_again="t.backward(cotangent, retain_graph=True)",
        trace="trace()",
    )


def read_source(path: Path) -> str:
    """A Python file's text in its own encoding, line ends kept as they are."""
    raw = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(BytesIO(raw).readline)
    return TextIOWrapper(BytesIO(raw), encoding, newline="").read()
