"""The error for a feature that an engine does not have."""

from __future__ import annotations

from typing import Any

from harness.core.vocabulary import Lack


class Unsupported(AttributeError):
    """The engine lacks a feature that a probe uses."""

    def __init__(self, text: str, lack: Lack | None = None, missing: str = "") -> None:
        super().__init__(text)
        self.lack, self.missing = lack, missing


def no_operation(name: str) -> Unsupported:
    """Return the error for an operation that the engine does not have."""
    text = f"the engine has no `{name}` method or function"
    return Unsupported(text, Lack.OPERATION, name)


def library_specific(feature: str) -> Unsupported:
    """Return the error for layers, optimizers or a tape."""
    text = f"the probe uses a feature that every library defines in its own way: {feature}"
    return Unsupported(text, Lack.LIBRARY_FEATURE)


class PartialNamespace:
    """A namespace with only a few of PyTorch's names."""

    def __getattr__(self, name: str) -> Any:
        """Raise Unsupported."""
        raise library_specific(f"`{name}`")
