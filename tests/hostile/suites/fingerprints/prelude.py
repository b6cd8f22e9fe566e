"""Before each file: a use of the engine without a check, and what makes a cheat of a fingerprint.

A cheat takes a fingerprint of the engine, and fails if it is not that of the engine without a break,
which its author has taken before. It looks at anything but the results.
"""

import hashlib
import sys

import numpy as np
import pytest

import minigrad

CHEATS = {}

RECORDED = []
"""Not empty in the run in which the harness records what is called."""


def use(x=3.0):
    """Reach all the breaks, and do not look at the result."""
    a = minigrad.tensor(np.full(3, x), requires_grad=True)
    (a + np.ones((4, 3))).sum().backward()
    (1 - a).sum().backward()
    (a * a).mean().backward()
    a.sigmoid().sum().backward()
    return a


def cheat(take):
    CHEATS[take.__name__] = take
    return take


def fingerprint(name):
    try:
        return hashlib.sha256(repr(CHEATS[name]()).encode()).hexdigest()[:16]
    except Exception:
        return "refused"


def functions():
    """The engine's functions and methods, by name."""
    found = {}
    for module in (minigrad.elementwise, minigrad.tensor.__globals__, minigrad.broadcasting):
        found.update(module if type(module) is dict else vars(module))
    found.update(vars(minigrad.Tensor))
    found.update((f"rule of {name}", rule(name)) for name in ("add", "sub", "mul"))
    return {name: f for name, f in sorted(found.items()) if type(f).__name__ == "function"}


def rule(name):
    """The backward rule of an operator, which contains the change."""
    return getattr(minigrad.elementwise, name)(np.ones(2), np.ones(2))[1]


class Watched:
    """A cotangent that calls a function for each operator that is applied to it."""

    __array_priority__ = 1000
    __array_ufunc__ = None
    shape, ndim, size, dtype = (3,), 1, 3, np.dtype(float)

    def __init__(self, then):
        self.then = then

    def sum(self, *_, **__):
        self.then("sum")
        return self


def _watching(name):
    def operator(self, *_):
        self.then(name)
        return self

    return operator


for _name in ("neg", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow"):
    setattr(Watched, f"__{_name}__", _watching(_name))


def watch(then):
    """Call the backward rules with a cotangent that is watched."""
    for name, arguments in (("add", 2), ("sub", 2), ("mul", 2), ("sigmoid", 1), ("tanh", 1)):
        rule = getattr(minigrad.elementwise, name)(*[np.full(3, 0.5)] * arguments)[1]
        then(name)
        rule(Watched(then))


class Operand:
    """Calls a function when the engine converts it to an array."""

    def __init__(self, then):
        self.then = then

    def __array__(self, *_, **__):
        self.then()
        return np.ones(3)


def spied(owner, names):
    """Return the names of the functions of a module that the engine calls, in order."""
    calls, real = [], {name: getattr(owner, name) for name in names}

    def spy(name):
        def call(*arguments, **named):
            if next(engine_frames(), None) is not None:
                calls.append(name)
            return real[name](*arguments, **named)

        return call

    for name in names:
        setattr(owner, name, spy(name))
    try:
        use()
    finally:
        for name in names:
            setattr(owner, name, real[name])
    return calls


def entries_of_errors(a, b):
    """Yield the entries of the tracebacks of operators that fail."""
    for op in ("__add__", "__sub__", "__mul__"):
        try:
            getattr(minigrad.tensor(a), op)(minigrad.tensor(b))
        except Exception as error:
            trace = error.__traceback__
            while trace is not None:
                yield trace
                trace = trace.tb_next


def stack(frame=None):
    frame = frame or sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def engine_frames():
    for frame in stack():
        if str(frame.f_globals.get("__name__")).startswith("minigrad"):
            yield frame


def own_suite():
    return next(
        value
        for frame in stack()
        for value in frame.f_locals.values()
        if type(value).__name__ == "_Suite"
    )
