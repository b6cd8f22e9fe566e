"""The versions of the distributions that results depend on."""

from __future__ import annotations


def version_of(distribution: str, otherwise: str) -> str:
    """Return the version of a distribution, or `otherwise` if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # many commands need no version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return otherwise


def own_version() -> str:
    """Return the version of this distribution, or that there is none."""
    return version_of("breaklab", "(run from its sources)")
