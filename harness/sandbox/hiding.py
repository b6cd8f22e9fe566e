"""What no confined child may see: the store, which has patched sources in it, and the progress."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.core import PACKAGES
from harness.core.folders import cache_folder, data_folder
from harness.sandbox.limits import Limits


def hiding_own_folders(limits: Limits) -> Limits:
    """Return the limits of a child that sees neither the store nor the learner's progress."""
    with contextlib.suppress(OSError):
        # A folder is hidden only if it exists: another process may create the store at any time.
        cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return replace(limits, hidden=tuple(dict.fromkeys((*limits.hidden, *_own()))))


def _own() -> Iterator[str]:
    needed = [Path.cwd(), PACKAGES, *map(Path, (sys.prefix, sys.base_prefix))]
    needed.append(Path(tempfile.gettempdir()))
    for folder in (cache_folder().resolve(), data_folder().resolve()):
        if any(path.resolve().is_relative_to(folder) for path in needed):
            yield from map(str, sorted(folder.glob("*.sqlite*")))  # the folder has other files, too
        else:
            yield str(folder)
