"""The error for a feature that an engine does not have."""

from __future__ import annotations

from typing import Any

LIBRARY_SPECIFIC = "the probe uses a feature that every library defines in its own way"
"""The start of the reason why a probe of layers, optimizers or a tape does not run on an engine."""


class Unsupported(AttributeError):
    """The engine lacks a feature that a probe uses."""


class PartialNamespace:
    """A namespace with only a few of PyTorch's names."""

    def __getattr__(self, name: str) -> Any:
        """Raise Unsupported."""
        raise Unsupported(f"{LIBRARY_SPECIFIC}: `{name}`")
