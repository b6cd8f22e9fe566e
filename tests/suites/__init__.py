"""Test suites for minigrad in different styles, as users of `pytest --breaks` would write them.

They are run by their path; nothing collects them otherwise.
"""

import os
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

_INSTALLED = {point.value for point in entry_points(group="pytest11")}
PLUGIN = (
    ()
    if _INSTALLED & {"breaklab:plugin", "harness.plugin.entry"}
    else ("-p", "harness.plugin.entry")
)
"""The options with which pytest loads the plugin. An environment that was created before the plugin
existed does not load it by itself."""

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Suite:
    """A test suite for minigrad."""

    name: str
    style: str
    paths: tuple[str, ...]
    """Its files, relative to the root of the repository."""

    @property
    def arguments(self) -> list[str]:
        """The arguments of pytest in the root of the repository: one process, no configuration."""
        quiet = ("-q", "-c", os.devnull, f"--rootdir={ROOT}", "--noconftest")
        return [*self.paths, *quiet, "-p", "no:cacheprovider", "-p", "no:xdist", *PLUGIN]


def _own(name: str, style: str) -> Suite:
    return Suite(name, style, (f"tests/suites/{name}.py",))


SUITES = (
    _own("course", "a weak suite of a course: trees, ones and sums"),
    _own("functions", "parametrised functions: ops against central differences"),
    _own("classes", "`unittest` classes with `setUp`: optimizers and losses"),
    _own("fixtures", "fixtures of several scopes: a network that is trained once"),
    _own("properties", "Hypothesis properties of gradients"),
    Suite(
        "minigrad",
        "a part of minigrad's own unit tests",
        tuple(
            f"tests/minigrad/test_{name}.py"
            for name in ("tensor", "in_place", "tape", "data", "modes", "metrics")
        ),
    ),
)
"""The suites in different styles that the benchmark and the documentation use."""
