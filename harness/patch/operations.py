"""The usual names of ops in engines: `@@ op:add @@` matches `__add__`, `Add` or `add_backward`.

A name may be the op's alone, in any case, or combined with a word for the part of the engine that
implements it (`AddBackward`, `_add_vjp`, `grad_add`, `EWiseAdd`). Other combinations do not count:
`add_module` and `AddScalar` are not the op `add`.
"""

from __future__ import annotations

import re
from functools import cache

OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": ("add", "plus", "addition"),
    "sub": ("sub", "subtract", "minus", "subtraction"),
    "mul": ("mul", "multiply", "times", "multiplication"),
    "div": ("div", "truediv", "divide", "division", "true_divide", "truedivide"),
    "neg": ("neg", "negate", "negative"),
    "pow": ("pow", "power"),
    "matmul": ("matmul", "mm", "dot", "mat_mul"),
    "exp": ("exp", "exponential"),
    "log": ("log", "ln"),
    "sqrt": ("sqrt", "square_root"),
    "abs": ("abs", "absolute"),
    "tanh": ("tanh",),
    "sigmoid": ("sigmoid", "logistic"),
    "relu": ("relu", "re_lu"),
    "sum": ("sum", "summation", "reduce_sum"),
    "mean": ("mean", "average", "reduce_mean"),
    "max": ("max", "amax", "reduce_max"),
    "softmax": ("softmax",),
    "transpose": ("transpose", "permute", "t"),
    "reshape": ("reshape", "view"),
    "where": ("where",),
}
"""Our name of an op, and its names in engines."""

_IN_FRONT = r"(?:(?:grad|vjp|backward|ewise|elementwise|tensor|d)_?)?"
_BEHIND = r"(?:(?:_?(?:backward|grad|vjp|op|operation|function|fn|node|broadcasted|tensor))+\d*)?"


def is_operation(name: str, op: str) -> bool:
    """Whether a definition of that name implements the op, as a method, class or rule."""
    return _pattern(op).fullmatch(name) is not None


@cache
def _pattern(op: str) -> re.Pattern[str]:
    names = "|".join(OPERATIONS[op])
    return re.compile(rf"_*{_IN_FRONT}(?:{names}){_BEHIND}_*|__r(?:{names})__", re.IGNORECASE)
