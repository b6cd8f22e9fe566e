"""Before each cheat: a use of the engine without a check, and functions that inspect its code."""

import gc
import sys
import types
from pathlib import Path

import numpy as np

import minigrad

FOLDER = Path(minigrad.__file__).parent


def use():
    """Reach both breaks, and do not look at the result."""
    a = minigrad.tensor(np.ones(3), requires_grad=True)
    (a + np.ones((4, 3))).sum().backward()
    (1 - a).sum().backward()


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def key(code):
    return tuple((inner.co_qualname, inner.co_code) for inner in codes(code))


def with_nested(code):
    return {key(inner) for inner in codes(code)}


ON_DISK = set().union(
    *(with_nested(compile(file.read_text(), str(file), "exec")) for file in FOLDER.rglob("*.py"))
)


def loaded():
    """The code of all functions of the engine; none, since it is refused."""
    gc.unfreeze()  # otherwise, objects from before the fork are not listed
    try:
        functions = [item for item in gc.get_objects() if type(item) is types.FunctionType]
    except TypeError:
        return []
    found = [function.__code__ for function in functions]
    return [key(code) for code in found if code.co_filename.startswith(str(FOLDER))]


def message():
    """The sealed message that this run has replaced code with; empty on the engine itself."""
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == "RunRequest":
                return value.changed
        frame = frame.f_back
    return b""


def changed():
    """Whether some function is not what its file says."""
    return bool(message())
