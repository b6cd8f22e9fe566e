"""Shared by the tests of the semantic patch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.patch import Patched, apply_patch, combine, parse_patch

PatchFile = Callable[..., str]


@pytest.fixture
def patched() -> Callable[..., Patched]:
    """Apply the text of a diff block to one file; every site must undo exactly."""

    def apply(hunks: str, source: str, sites: int | None = None) -> Patched:
        patch = combine([parse_patch(hunks, path="page.md", line=1)], sites)
        result = apply_patch(patch, {"ops.py": source})
        data, original = result.sources["ops.py"].encode(), source.encode()
        for site in reversed(result.sites):
            assert data[site.start : site.end].decode() == site.after
            assert original[slice(*site.origin)].decode() == site.before
            assert site.origin[1] <= len(original)
            data = data[: site.start] + site.before.encode() + data[site.end :]
        assert data.decode() == source
        return result

    return apply


@pytest.fixture
def patch_file(patched: Callable[..., Patched]) -> PatchFile:
    """The same, giving only the patched text."""
    return lambda hunks, source: patched(hunks, source).sources["ops.py"]
