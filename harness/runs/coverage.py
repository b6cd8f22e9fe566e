"""Which functions of an engine a run calls.

Up to the moment at which a patched engine executes a site, it does what the unpatched one does. So
where the unpatched run calls no function that holds a site, the patched one comes to no site
either, and need not be run at all.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType

from harness.patch import Site
from harness.patch.reach import Hooks, compile_marked

_HOOKS = Hooks("__breaklab_home__")


def homes(root: Path, sources: Mapping[str, str], sites: Sequence[Site]) -> set[str] | None:
    """The functions of the unpatched `sources` in which the sites of a patch are.

    None where one of them is in no function: then it is executed by the import.
    """
    found: set[str] = set()
    for file in {site.file for site in sites}:
        undone = [(i, site.undone()) for i, site in enumerate(sites) if site.file == file]
        code = compile_marked(sources[file], str(root / file), undone, _HOOKS)
        for one in _marked(code):
            if not one.co_flags & inspect.CO_OPTIMIZED:  # a module's or a class's body
                return None
            found.add(_name(one))
    return found


def _marked(code: CodeType) -> Iterator[CodeType]:
    """The code objects that call the marker themselves."""
    if _HOOKS.marker in code.co_names:
        yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _marked(inner)


def _name(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"


class Coverage:
    """Watches which functions of some files are called, in this thread."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._called: set[CodeType] = set()

    def start(self) -> None:
        """Watch from now on; what was seen before is forgotten."""
        self._called.clear()
        sys.settrace(self._trace)

    def stop(self) -> list[str] | None:
        """The functions that were called since; None where Python stopped the watching.

        It does so when the stack has no room for the watcher, and then nothing is known.
        """
        lost = sys.gettrace() != self._trace
        sys.settrace(None)
        return None if lost else sorted(map(_name, self._called))

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002
        if frame.f_code.co_filename in self._files:
            self._called.add(frame.f_code)
