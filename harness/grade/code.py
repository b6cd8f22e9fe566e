"""The functions of a loaded engine, and which of them a changed file replaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType

from harness.engines.loading import Functions, Replacement, compile_files, differ


class Code:
    """The numbered functions of an engine; every process that reads its files numbers them alike.

    Parameters
    ----------
    root : Path
        The folder of the engine.
    sources : mapping from str to str
        Its files without a break, by their path below the root.
    """

    def __init__(self, root: Path, sources: Mapping[str, str]) -> None:
        self.root, self.sources = root, sources
        self.files = compile_files(root, sources, ())
        self.paths = {code.co_filename for code in self.files.values()}
        self._numbers = {
            (code.co_filename, code): number
            for number, code in enumerate(
                inner for code in self.files.values() for inner in _all_code(code)
            )
        }

    def numbers(self, codes: Iterable[CodeType]) -> set[int]:
        """Return the numbers of the code objects that belong to the engine."""
        own = [code for code in codes if code.co_filename in self.paths]
        return {self._numbers.get((code.co_filename, code), -1) for code in own}

    def changed(self, pairs: Sequence[Replacement]) -> set[int]:
        """Return the numbers of the functions that behave differently after a swap."""
        return self.numbers(old for old, new in pairs if differ(old, new))

    def functions(self, called: Collection[CodeType] | None) -> Functions:
        """Return the function objects in this process; those in `called` have already run.

        With None, it is not known which of them have run.
        """
        if called is None:
            return Functions(self.files, None)
        return Functions(self.files, {code for code in called if code.co_filename in self.paths})


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
