"""What is said where an engine has no word for what a probe asks."""

from __future__ import annotations

from typing import Any

OWN_WAY = "the probe asks for what every library has in its own way"
"""How the reason begins why a probe of layers, optimizers or a tape cannot be put to an engine."""


class NotSpoken(AttributeError):
    """The engine has no word for what a probe asks."""


class Partly:
    """Has a few of the names that probes ask for; the others are left to the engine's authors."""

    def __getattr__(self, name: str) -> Any:
        """Raise NotSpoken: it is not there."""
        raise NotSpoken(f"{OWN_WAY}: `{name}`")
