"""Which functions of an engine a run calls.

Until a patched engine executes a site, it behaves like the unpatched one. So if the unpatched run
calls no function that contains a site, the patched run does not either, and can be skipped.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from harness.core.site import Hooks, Site
from harness.engines.reach import compile_marked

_HOOKS = Hooks("__breaklab_home__")


def functions_with_sites(
    root: Path, sources: Mapping[str, str], sites: Sequence[Site]
) -> set[str] | None:
    """Return the functions of the unpatched `sources` that contain the sites of a patch.

    None if a site is outside all functions, since the import executes it.
    """
    functions: set[str] = set()
    for file in {site.file for site in sites}:
        undone = tuple((i, site.undone()) for i, site in enumerate(sites) if site.file == file)
        in_file = _functions_in(str(root / file), sources[file], undone)
        if in_file is None:
            return None
        functions |= in_file
    return functions


@lru_cache(maxsize=256)
def _functions_in(
    path: str, text: str, sites: tuple[tuple[int, Site], ...]
) -> frozenset[str] | None:
    """Return the functions of one file; cached, since a break runs on many probes."""
    marked = list(_marked(compile_marked(text, path, sites, _HOOKS)))
    if not all(code.co_flags & inspect.CO_OPTIMIZED for code in marked):
        return None  # the body of a module or a class
    return frozenset(map(_name, marked))


def _marked(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects that call the marker themselves."""
    if _HOOKS.marker in code.co_names:
        yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _marked(inner)


def _name(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"


class Coverage:
    """Records which functions of some files are called in this thread."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._called: set[CodeType] = set()

    def start(self) -> None:
        """Start recording, and discard what was recorded before."""
        self._called.clear()
        sys.settrace(self._trace)

    def stop(self) -> list[str] | None:
        """Return the functions that were called; None if they could not all be recorded.

        Python stops tracing when the stack has no room left for the trace function.
        """
        lost = sys.gettrace() != self._trace
        sys.settrace(None)
        return None if lost else sorted(map(_name, self._called))

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002
        if frame.f_code.co_filename in self._files:
            self._called.add(frame.f_code)
