"""Calling an engine by names that differ from PyTorch's, and where an exception comes from."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from inspect import Parameter
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

import numpy as np

import harness
from harness.core.run import FailureOrigin, Raiser
from harness.core.vocabulary import Lack
from harness.engines.library import CODE_OF
from harness.engines.loading import file_of, file_with
from harness.engines.offers import offers, unanswered


class Unsupported(AttributeError):
    """The engine lacks a feature that a probe uses."""

    def __init__(self, text: str, lack: Lack | None = None, missing: str = "") -> None:
        super().__init__(text)
        self.lack, self.missing = lack, missing


class NestedTensor(TypeError):
    """The data of an engine's tensor is another tensor of the engine instead of a number."""

    def __init__(self, tensor: Any) -> None:
        name = type(tensor).__name__
        super().__init__(f"the data of a `{name}` that it computes is a `{name}`, not a number")


def no_operation(name: str) -> Unsupported:
    """Return the error for an operation that the engine does not have."""
    text = f"the engine has no `{name}` method or function"
    return Unsupported(text, Lack.OPERATION, name)


def library_specific(feature: str) -> Unsupported:
    """Return the error for layers, optimizers or a tape."""
    text = f"the probe uses a feature that every library defines in its own way: {feature}"
    return Unsupported(text, Lack.LIBRARY_FEATURE)


class PartialNamespace:
    """A namespace with only a few of PyTorch's names."""

    def __getattr__(self, name: str) -> Any:
        """Raise Unsupported."""
        raise library_specific(f"`{name}`")


# ----- Functions whose names and arguments differ from PyTorch's: `axis` for `dim` -----

ALIASES: dict[str, tuple[str, ...]] = {
    "abs": ("absolute", "__abs__", "Abs"),
    "add": ("__add__",),
    "amax": ("max",),
    "amin": ("min",),
    "cat": ("concatenate", "concat"),
    "clamp": ("clip",),
    "div": ("__truediv__", "divide", "truediv"),
    "exp": ("Exp",),
    "expand": ("broadcast_to",),
    "gelu": ("GELU", "Gelu"),
    "log": ("ln", "Log"),
    "matmul": ("__matmul__", "dot"),
    "movedim": ("moveaxis",),
    "mul": ("__mul__", "multiply"),
    "neg": ("__neg__", "negative"),
    "permute": ("transpose",),
    "pow": ("__pow__", "power"),
    "relu": ("ReLU", "Relu"),
    "sigmoid": ("logistic", "Sigmoid"),
    "softmax": ("Softmax",),
    "sqrt": ("Sqrt",),
    "sub": ("__sub__", "subtract"),
    "T": ("transpose", "t"),
    "tanh": ("Tanh",),
    "unsqueeze": ("expand_dims",),
    "view": ("reshape",),
}
"""PyTorch's name for an op, and other names with the same meaning."""

OPERATORS: dict[str, tuple[str, ...]] = {
    "add": ("add",),
    "sub": ("sub", "subtract"),
    "mul": ("mul", "multiply"),
    "truediv": ("div", "divide", "truediv"),
    "pow": ("pow", "power"),
    "matmul": ("matmul", "dot"),
}
"""An operator, and the function to call if the engine does not overload it."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes", "dims"),
    "keepdim": ("keepdims", "keep_dims"),
    "axis": ("dim", "axes", "dims"),
    "keepdims": ("keepdim", "keep_dims"),
    "min": ("a_min", "min_val", "low", "lo"),
    "max": ("a_max", "max_val", "high", "hi"),
}
"""A keyword argument, and other names with the same meaning."""


ACTIVATIONS = {"relu", "sigmoid", "tanh", "gelu", "silu", "softplus", "softmax"}
"""What `t.activation("tanh")` may be given."""

ACTIVATES = ("activation", "activate", "apply_activation")


def is_op(function: Any) -> bool:
    """Whether something computes an op: a function, or a class that `op_of` can use."""
    if not _makes_instances(function):
        return callable(function)
    return _is_tensor_class(function) or _has_apply(function) or _makes_functions(function)


def op_of(function: Any) -> Any:
    """Return what computes an op, a function or what a class has in its place.

    Instances of a class with arithmetic are tensors: `Exp(t)`. Another class has a method `apply`,
    or instances that are called: `tanh()(t)`.
    """
    if not _makes_instances(function) or _is_tensor_class(function):
        return function
    return attribute_of(function, "apply") or function().__call__


def _makes_instances(function: Any) -> bool:
    """Whether something is a class that is called to make an instance.

    The class of a class may say otherwise: `exp` of mygrad is a class, and `exp(t)` a tensor.
    """
    return isinstance(function, type) and type(function).__call__ is type.__call__


def _is_tensor_class(kind: type) -> bool:
    return hasattr(kind, "__add__")


def _has_apply(kind: type) -> bool:
    return callable(attribute_of(kind, "apply"))


def _makes_functions(kind: type) -> bool:
    return takes_nothing(kind) and any("__call__" in vars(owner) for owner in kind.__mro__)


def call_engine(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function or an operator of the engine.

    An exception without a deeper frame is about the call itself: the engine does not overload the
    operator, or does not take these arguments: see `origin_of`.
    """
    return function(*arguments, **options)


def pull_back(pull: Callable[..., Any], cotangent: Any) -> Any:
    """Call a VJP, which is the backward pass of a functional engine."""
    return pull(cotangent)


def call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    options: dict[str, Any],
    has_implied_axis: Callable[[], bool] = bool,
) -> Any:
    """Call a function with its own names for the options, and with a shape in the form it takes.

    If that raises TypeError or AttributeError, other forms of the call are tried: an axis by
    keyword, and none if `has_implied_axis` says that the function can do without it. If all fail,
    raises the error of the first form that came furthest; TypeError if the function does not take
    these arguments.
    """
    enter = _call_ours if _is_ours(function) else call_engine
    parameters = parameters_of(function)
    if parameters is None:
        return enter(function, *arguments, **_with_numpy_names(options))
    failures: list[Exception] = []
    for some, others in _forms(arguments, options, parameters, has_implied_axis):
        try:
            return enter(function, *some, **others)
        except (TypeError, AttributeError) as error:
            failures.append(error)
    raise max(failures, key=_depth)


def _forms(
    arguments: Sequence[Any],
    options: dict[str, Any],
    parameters: Mapping[str, Parameter],
    has_implied_axis: Callable[[], bool],
) -> Iterator[tuple[Sequence[Any], dict[str, Any]]]:
    """Yield the forms of a call, the likeliest first."""
    renamed = {_own_name(name, parameters): option for name, option in options.items()}
    is_open = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    if is_open:
        renamed = _with_numpy_names(renamed)  # it probably passes them on to NumPy
    fitted, renamed = _fitted(arguments, renamed, parameters)
    arranged = _arrange_shape(fitted, _positional(parameters)[1])
    yield arranged, renamed
    first = _first_trailing_axis(arranged)
    axes = tuple(arranged[first:])
    if len(axes) > 1:
        yield [*arranged[:first], axes], renamed
    if is_open and options and renamed != options:
        yield arguments, options
    if is_open and axes:
        axis = axes[0] if len(axes) == 1 else axes
        yield from (
            (arranged[:first], {**options, name: axis}) for name in ("dim", "axis", "shape")
        )
    if len(axes) == 1 and has_implied_axis():
        yield arranged[:first], renamed


def _depth(error: Exception) -> int:
    """Return how many frames an exception passed through."""
    return sum(1 for _ in _steps(error.__traceback__))


def _is_ours(function: Callable[..., Any]) -> bool:
    """Whether the adapter made a function, or borrows it from NumPy."""
    if isinstance(function, partial):
        return not file_with(getattr(function.func, "__globals__", {}))
    return isinstance(getattr(function, "__self__", None), np.ndarray)


def _call_ours(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of the adapter: an exception without a deeper frame is our limitation."""
    return function(*arguments, **options)


def takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def parameters_of(function: Any) -> Mapping[str, Parameter] | None:
    """Return a function's parameters by name; None without a signature, as for one written in C."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def positional(function: Callable[..., Any]) -> tuple[int, float]:
    """Return the least and the largest number of positional arguments; (0, inf) if unknown."""
    parameters = parameters_of(function)
    return (0, math.inf) if parameters is None else _positional(parameters)


def _positional(parameters: Mapping[str, Parameter]) -> tuple[int, float]:
    kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    named = [p for p in parameters.values() if p.kind in kinds]
    required = sum(p.default is Parameter.empty for p in named)
    variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters.values())
    return required, math.inf if variadic else len(named)


def attributes_of(thing: Any) -> list[str]:
    """The names of an object's attributes, even if its `__dir__` fails."""
    try:
        return dir(thing)
    except Exception:  # a custom `__dir__` may fail in any way
        classes = thing.__mro__ if isinstance(thing, type) else (*type(thing).__mro__, thing)
        names = {name for owner in classes for name in getattr(owner, "__dict__", ())}
        return sorted(name for name in names if isinstance(name, str))


def attribute_of(thing: Any, name: str) -> Any:
    """An attribute, or None if it is missing or a custom `__getattr__` fails."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _with_numpy_names(options: dict[str, Any]) -> dict[str, Any]:
    numpy_names = {"dim": "axis", "keepdim": "keepdims"}
    return {numpy_names.get(name, name): option for name, option in options.items()}


def _own_name(name: str, parameters: Mapping[str, Parameter]) -> str:
    if name in parameters:
        return name
    return next((alias for alias in ARGUMENTS.get(name, ()) if alias in parameters), name)


def _fitted(
    arguments: Sequence[Any], options: dict[str, Any], parameters: Mapping[str, Parameter]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Pass an axis by keyword if the function requires that, or by position if its name differs."""
    most = _positional(parameters)[1]
    keywords = [name for name, p in parameters.items() if p.kind is Parameter.KEYWORD_ONLY]
    if most < len(arguments) <= most + len(keywords):
        most = int(most)
        return arguments[:most], dict(zip(keywords, arguments[most:], strict=False)) | options
    variadic = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [name for name in options if name not in parameters]
    is_axis = len(unknown) == 1 and unknown[0] in ("dim", "axis")
    if is_axis and not variadic and len(arguments) < most < math.inf:
        rest = {name: option for name, option in options.items() if name not in unknown}
        return [*arguments, options[unknown[0]]], rest
    return arguments, options


def _arrange_shape(arguments: Sequence[Any], most: float) -> Sequence[Any]:
    """A shape or an order of axes as one tuple or as separate arguments, whichever is accepted."""
    are_integers = [isinstance(argument, int) for argument in arguments]
    first = are_integers.index(True) if True in are_integers else len(arguments)
    if len(arguments) > most and all(are_integers[first:]):
        return [*arguments[:first], tuple(arguments[first:])]
    last = arguments[-1] if arguments else None
    if most == math.inf and isinstance(last, tuple) and all(isinstance(axis, int) for axis in last):
        return [*arguments[:-1], *last]
    return arguments


def _first_trailing_axis(arguments: Sequence[Any]) -> int:
    """Return where the integers, or a tuple of integers, at the end of the arguments begin."""
    first = len(arguments)
    while first and isinstance(arguments[first - 1], int):
        first -= 1
    is_tuple = first and first == len(arguments) and isinstance(arguments[-1], tuple)
    return first - 1 if is_tuple and all(isinstance(n, int) for n in arguments[-1]) else first


# ----- Where an exception comes from: the engine under test, breaklab's adapter, or the probe -----
#
# It is decided in the child, from the frames that the exception passed through and the instruction
# that raised it, and never from its text.

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
    function, arguments, options = _operation(steps)
    if isinstance(error, NestedTensor):
        raiser = "result"
    elif raiser == "call" and isinstance(error, TypeError):
        method = unanswered(function, arguments)
        raiser, at = ("engine", _start(method)) if method else (raiser, at)
    backward, leaf = _is_in_backward(steps), _is_in_leaf(steps)
    if backward:
        accepted = _has_begun(steps)
    else:
        is_offered = raiser == "engine" and offers(function, arguments, options)
        accepted = is_offered and not (place and _is_in_assertion(place))
    return FailureOrigin(raiser, *at, backward, leaf, accepted, *_lack(error, steps))


def _is_in_assertion(step: TracebackType) -> bool:
    """Whether an `assert` was being executed: the value that it checks has an unexpected form."""
    text = "".join(linecache.getlines(step.tb_frame.f_code.co_filename))
    return any(first <= step.tb_lineno <= last for first, last in _assertions(text))


@lru_cache(maxsize=64)
def _assertions(text: str) -> list[tuple[int, int]]:
    """Return the first and the last line of each `assert` in a file's text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    return [(node.lineno, node.end_lineno or node.lineno) for node in nodes]


def _has_begun(steps: Sequence[TracebackType]) -> bool:
    """Whether the engine's backward pass had called something, or was in or after a loop."""
    own = [
        step
        for step in steps
        if file_of(step.tb_frame) and not step.tb_frame.f_code.co_filename.startswith(CODE_OF)
    ]
    return len(own) > 1 or any(
        instruction.argval <= step.tb_lasti and instruction.argval < instruction.offset
        for step in own
        for instruction in dis.get_instructions(step.tb_frame.f_code)
        if instruction.opcode in _JUMPS
    )


_JUMPS = {*dis.hasjrel, *dis.hasjabs}


def _operation(steps: Sequence[TracebackType]) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """Return the last function of the engine that was called, its arguments and its options."""
    frames = [step.tb_frame for step in steps if step.tb_frame.f_code is call_engine.__code__]
    names = frames[-1].f_locals if frames else {}
    return names.get("function"), names.get("arguments", ()), names.get("options", {})


def _start(method: FunctionType) -> tuple[str, int, str, str]:
    """Return the place at which a method begins, as `_place` does."""
    code = method.__code__
    return file_with(method.__globals__) or "", code.co_firstlineno, code.co_qualname, ""


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


def _is_in_leaf(steps: Sequence[TracebackType]) -> bool:
    """Whether the engine was making a leaf, before or in the forward pass."""
    return any(step.tb_frame.f_code.co_filename.startswith(f"{CODE_OF}leaf") for step in steps)


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
        is_numpy = module.partition(".")[0] == "numpy" and not hasattr(np, str(name))
        return f"{module}.{name}" if is_numpy else ""
    if isinstance(error, ImportError) and str(error.name).partition(".")[0] == "numpy":
        opcode, name = _opcode(last)
        return f"{error.name}.{name}" if opcode == "IMPORT_FROM" else ""
    return ""
