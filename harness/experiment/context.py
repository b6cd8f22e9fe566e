"""The context of a page: the resources that it runs with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.pages.catalogue import Catalogue


class Context(Protocol):
    """The resources that pages run with; they may be opened when they are first used."""

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of pages, probes and recipes."""

    @property
    def engine(self) -> Engine:
        """The unbroken engine."""

    @property
    def baseline(self) -> Baseline:
        """The results that are shared by all pages: the unbroken engine's and the oracles'."""


@dataclass(frozen=True)
class OpenContext:
    """A context whose parts are already open."""

    catalogue: Catalogue
    engine: Engine
    baseline: Baseline
