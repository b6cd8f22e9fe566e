"""Where an exception comes from: the engine under test, breaklab's adapter, or the probe.

It is decided in the child, from the frames that the exception passed through and the instruction
that raised it, and never from its text.
"""

from __future__ import annotations

import dis
import linecache
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, TracebackType

import harness
from harness.core.run import FailureOrigin, Raiser
from harness.core.vocabulary import Lack
from harness.engines.adapter.calling import call_engine, pull_back
from harness.engines.adapter.unsupported import Unsupported
from harness.engines.library import CODE_OF
from harness.engines.loader import file_of

_OURS = str(Path(harness.__file__).parent)


def origin_of(error: BaseException, probe: str = "") -> FailureOrigin | None:
    """Return where an exception was raised, or None if no frame shows it.

    Parameters
    ----------
    error : BaseException
        The exception, with its traceback.
    probe : str
        The path of the probe that was running, if any.
    """
    steps = list(_steps(error.__traceback__))
    raisers = [_raiser(step.tb_frame, probe) for step in steps]
    last = max((at for at, raiser in enumerate(raisers) if raiser), default=None)
    if last is None:
        return None
    raiser = raisers[last]
    assert raiser is not None
    if raiser == "engine" and last == len(steps) - 1 and _opcode(steps[last])[0] == "RAISE_VARARGS":
        raiser = "statement"
    place = next((step for step in reversed(steps) if file_of(step.tb_frame)), None)
    at = _place(place) if place else ("", 0, "", "")
    return FailureOrigin(raiser, *at, _is_in_backward(steps), *_lack(error, steps))


def _place(step: TracebackType) -> tuple[str, int, str, str]:
    """Return the file, the line, the function and the text of what a frame was executing."""
    code, line = step.tb_frame.f_code, step.tb_lineno
    file = file_of(step.tb_frame) or ""
    start, end, first, last = list(code.co_positions())[step.tb_lasti // 2]
    rows = linecache.getlines(code.co_filename)[(start or line) - 1 : end or line]
    if rows and start and end and first is not None and last is not None:  # columns count bytes
        rows[-1] = rows[-1].encode()[:last].decode(errors="replace")
        rows[0] = rows[0].encode()[first:].decode(errors="replace")
    return file, line, code.co_qualname, " ".join(" ".join(rows).split())


def _steps(step: TracebackType | None) -> Iterator[TracebackType]:
    while step is not None:
        yield step
        step = step.tb_next


def _raiser(frame: FrameType, probe: str) -> Raiser | None:
    """Return whose code a frame executes; None for a library's."""
    file = frame.f_code.co_filename
    if file_of(frame) is not None:
        return "engine"
    if frame.f_code in _CALLS:
        return "call"
    if file.startswith(_OURS) or file.startswith(CODE_OF):
        return "adapter"
    return "probe" if file == probe else None


_CALLS = {call_engine.__code__, pull_back.__code__}


def _is_in_backward(steps: Sequence[TracebackType]) -> bool:
    """Whether the backward pass was running, and not what its expression computes before it."""
    for step in steps:
        code = step.tb_frame.f_code
        if code is pull_back.__code__:
            return True
        if code.co_filename.startswith(f"{CODE_OF}backward"):
            return _is_outermost(code, step.tb_lasti)
    return False


def _is_outermost(code: CodeType, instruction: int) -> bool:
    """Whether an instruction of an expression evaluates all of it, as the last call does."""
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line and end_line and column is not None and end_column is not None
    ]
    line, end_line, column, end_column = list(code.co_positions())[instruction // 2]
    if not spans or line is None:  # Python was asked not to record columns
        return True
    whole = min(start for start, _ in spans), max(end for _, end in spans)
    return whole == ((line, column), (end_line, end_column))


def _opcode(step: TracebackType) -> tuple[str, object]:
    """Return the instruction that raised, or passed on, the exception, and its argument."""
    for instruction in dis.get_instructions(step.tb_frame.f_code):
        if instruction.offset == step.tb_lasti:
            return instruction.opname, instruction.argval
    return "", None


def _lack(error: BaseException, steps: Sequence[TracebackType]) -> tuple[Lack | None, str]:
    """Return what is missing, if that is the cause, and its name."""
    if isinstance(error, Unsupported):
        return error.lack, error.missing
    name = _missing_in_numpy(error, steps)
    return (Lack.NUMPY_NAME, name) if name else (None, "")


def _missing_in_numpy(error: BaseException, steps: Sequence[TracebackType]) -> str:
    """Return the name that NumPy lacks, if that is the cause: `numpy.float`; else ""."""
    last = steps[-1]
    frame = last.tb_frame
    module = str(frame.f_globals.get("__name__"))
    if isinstance(error, AttributeError) and frame.f_code.co_name == "__getattr__":
        name = frame.f_locals.get(next(iter(frame.f_code.co_varnames), ""))
        return f"{module}.{name}" if module.partition(".")[0] == "numpy" else ""
    if isinstance(error, ImportError) and str(error.name).partition(".")[0] == "numpy":
        opcode, name = _opcode(last)
        return f"{error.name}.{name}" if opcode == "IMPORT_FROM" else ""
    return ""
