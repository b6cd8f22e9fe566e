"""In the child: try an engine that nobody has described, and find out how to speak to it.

Nothing goes by a project's name. How a tensor is made, read, walked back from and asked for its
gradient is whatever gives 2 x for the square of x; an un-broadcasting is whatever sums ones((4, 3))
to (3,); an accumulation style is what the gradient is before and after a second walk.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import msgspec
import numpy as np

from harness.confine import Limits
from harness.engine import Dialect
from harness.loader import load
from harness.run import Failure, NumericArray
from harness.spoken import Foreign, open_library
from harness.spoken.calling import takes_nothing
from harness.trial import message_of

Step = Literal["the import", "the class", "the tensors", "the accumulation", "the un-broadcasting"]

STEPS: tuple[Step, ...] = (
    "the import",
    "the class",
    "the tensors",
    "the accumulation",
    "the un-broadcasting",
)


class Survey(msgspec.Struct, frozen=True, tag="survey"):
    """All that a child needs to know to try an engine."""

    dialect: Dialect
    """What is said about it; an empty expression has to be found out."""
    name: str | None
    """The class or function that was named."""
    root: str
    sources: dict[str, str]
    limits: Limits = Limits(seconds=30.0, cpu_seconds=20)


class Reducer(msgspec.Struct, frozen=True):
    """A function of the engine that sums a gradient down to the shape of an operand."""

    module: str
    name: str
    """Qualified: `Tensor.unbroadcast`."""
    file: str
    line: int
    callers: dict[str, list[str]] = {}
    """By op: the functions that called it in a backward pass."""
    flaws: list[str] = []
    """What it gets wrong, each with a witness."""


class Surveyed(msgspec.Struct, frozen=True):
    """What a step found; the last frame of a step that failed says so."""

    step: Step
    dialect: Dialect
    name: str | None = None
    failure: Failure | None = None
    tried: list[str] = []
    """What did not work, where nothing did."""
    before: str = ""
    """A leaf's gradient before the first walk: none, zeros, number."""
    second: str = ""
    """What a second walk does to it: in place, rebound, replaced."""
    shares: bool = False
    """A gradient is stored as it arrives, and shares memory with another."""
    dtype: str = "float64"
    """What float64 is kept as."""
    padded: str = ""
    """How shapes are changed, where they are."""
    reducers: list[Reducer] = []
    ops: dict[str, list[str]] = {}
    """By op: the functions of the engine that run for it and for no other."""


def survey(task: Survey) -> Iterator[Surveyed]:
    """Do the steps in order, up to the first that fails."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    explorer = _Explorer(task)
    for step, take in zip(
        STEPS,
        (explorer.load, explorer.choose, explorer.speak, explorer.accumulate, explorer.reduce),
        strict=True,
    ):
        try:
            yield take()
        except BaseException as error:
            failure = Failure(step, type(error).__name__, message_of(error))
            yield Surveyed(step, explorer.dialect, explorer.name, failure, explorer.tried)
            return


class NothingWorked(Exception):
    """All that could be thought of was tried."""


class _Explorer:
    """What is known so far."""

    def __init__(self, task: Survey) -> None:
        self.task, self.dialect, self.name = task, task.dialect, task.name
        self.tried: list[str] = []
        self.module: Any = None
        self.library: Any = None
        self.shape = (2, 3)

    # ----- The import and the class -----

    def load(self) -> Surveyed:
        sys.path.insert(0, self.task.root)
        self.module = load(self.dialect.module, Path(self.task.root), self.task.sources)
        return Surveyed("the import", self.dialect, self.name)

    def choose(self) -> Surveyed:
        """The class of tensors, or the function that differentiates."""
        if self.name is None:
            self.name = self._guess()
        found: Any = self.module
        for part in self.name.split("."):
            found = getattr(found, part, None)
        if found is None or not callable(found):
            there = ", ".join(_classes(self.module)) or "none"
            raise NothingWorked(f"`{self.name}` is not there; classes with a backward: {there}")
        self.target = found
        return Surveyed("the class", self.dialect, self.name)

    def _guess(self) -> str:
        classes = _classes(self.module)
        for name in (*classes, *FUNCTIONAL):
            if name in classes or callable(getattr(self.module, name, None)):
                return name
        raise NothingWorked("no class with a backward, and none of " + ", ".join(FUNCTIONAL))

    # ----- How to speak -----

    def speak(self) -> Surveyed:
        if not inspect.isclass(self.target):
            ways = (self._function, self._arrays, self._numbers)
        elif any(hasattr(self.target, name) for name in OF_ARRAYS):
            ways = (self._arrays, self._numbers)
        else:  # one of numbers may take an array as well, and not know what to do with its shape
            ways = (self._numbers, self._arrays)
        for way in ways:
            if found := way():
                self.dialect = found
                break
        else:
            raise NothingWorked(self._why())
        self.dialect = replace(self.dialect, functions=self._modules_of_functions())
        self.library = open_library(self.dialect, self.module)
        padded, dtype = self._storage()
        return Surveyed("the tensors", self.dialect, self.name, padded=padded, dtype=dtype)

    def _why(self) -> str:
        """Why nothing worked, where that can be seen."""
        for name, value in vars(self.module).items():
            if isinstance(value, type) and hasattr(value, "__enter__") and _walks(value):
                walk = _walks(value)[0]
                return (
                    f"it records only inside `with {name}()`, and walks back by `{name}.{walk}`: "
                    "probes compute without such a block, so an engine with a tape is out of reach"
                )
        return "no way was found to make a tensor, walk back and read its gradient"

    def _arrays(self) -> Dialect | None:
        """With an array of two axes; with three where an engine adds one of its own to those."""
        return self._arrays_of((2, 3)) or self._arrays_of((2, 3, 4))

    def _arrays_of(self, shape: tuple[int, ...]) -> Dialect | None:
        self.shape = shape
        x, cotangent = _drawn(shape), _drawn(shape, 1)
        top = self.dialect.module.partition(".")[0]
        modules = {"": self.module, f"{top}.": sys.modules.get(top)}
        for leaf in _leaves(self.dialect.leaf, self.name, self.target, modules):
            made = self._try(leaf, data=x.copy())
            if made is None:
                continue
            for value in _values(self.dialect.value, made):
                if not _is(self._try(value, t=made), x):
                    continue
                found = self._walk(leaf, value, x, cotangent)
                if found:
                    return found
        return None

    def _walk(
        self, leaf: str, value: str, x: NumericArray, cotangent: NumericArray
    ) -> Dialect | None:
        for backward in _backwards(self.dialect.backward, leaf, self.target, self.module):
            for use, slope in (("t * t", 2 * x), ("t + t", np.full_like(x, 2.0))):
                t = self._try(leaf, data=x.copy())
                y = self._try(use, t=t)
                if y is None or not self._does(backward, t=y, cotangent=cotangent.copy()):
                    continue
                for gradient in _gradients(self.dialect.gradient, t, value):
                    if _is(self._try(gradient, t=t), slope * cotangent):
                        self.tried = []
                        guarded = _guarded(gradient)
                        return replace(
                            self.dialect,
                            leaf=leaf,
                            value=value,
                            gradient=guarded,
                            backward=backward,
                            kind="arrays",
                        )
        return None

    def _numbers(self) -> Dialect | None:
        for leaf in _leaves(self.dialect.leaf, self.name, self.target, {}):
            a, b = self._try(leaf, data=3.0), self._try(leaf, data=-2.0)
            if a is None or b is None:
                continue
            for value in _values(self.dialect.value, a):
                if not _is(self._try(value, t=a), np.array(3.0)):
                    continue
                for method in _walks(self.target):
                    backward = self.dialect.backward or f"t.{method}()"
                    a, b = self._try(leaf, data=3.0), self._try(leaf, data=-2.0)
                    y = self._try("t * u + t * t", t=a, u=b)
                    if y is None or not self._does(backward, t=y):
                        continue
                    for gradient in _gradients(self.dialect.gradient, a, value):
                        if _is(self._try(gradient, t=a), np.array(4.0)):
                            self.tried = []
                            return replace(
                                self.dialect,
                                leaf=leaf,
                                value=value,
                                gradient=gradient,
                                backward=backward,
                                kind="scalars",
                            )
        return None

    def _function(self) -> Dialect | None:
        x, cotangent = _drawn((3,)), _drawn((3,), 1)
        for pull in _pulls(self.name or ""):
            try:
                output, back = self._say(pull, function=lambda t: t * t, data=x.copy())
                arrived = back(cotangent)
            except BaseException as error:
                self._note(pull, error)
                continue
            if _is(output, x * x) and _is(arrived, 2 * x * cotangent):
                self.tried = []
                unused = {"leaf": "data", "value": "t", "gradient": "t", "backward": "t"}
                return replace(self.dialect, **unused, pull=pull, kind="functional")
        return None

    def _modules_of_functions(self) -> tuple[str, ...]:
        """Those of the package's modules that define what probes call by a function."""
        said = list(self.dialect.functions)
        if self.dialect.kind == "functional":
            top = self.dialect.module.partition(".")[0]
            said += [name for name in (f"{top}.numpy",) if _imports(name)]
        for file, text in self.task.sources.items():
            if _DEFINES.search(text):
                name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                if name not in said and _imports(name):
                    said.append(name)
        return tuple(said)

    def _storage(self) -> tuple[str, str]:
        """How shapes and dtypes are changed by storing them."""
        changed = []
        dtype = "float64"
        for shape in ((), (3,), (2, 3)):
            try:
                stored = self.library.value(self.library.leaf(_drawn(shape)))
            except BaseException:
                changed.append(f"{shape} is refused")
                continue
            dtype = str(stored.dtype)
            if stored.shape != shape:
                changed.append(f"{shape} is stored as {stored.shape}")
        return "; ".join(changed), dtype

    # ----- How gradients are added up -----

    def accumulate(self) -> Surveyed:
        said = Surveyed("the accumulation", self.dialect, self.name)
        if self.dialect.kind == "functional":
            return said
        library: Foreign = self.library
        x, cotangent = _drawn(self.shape), _drawn(self.shape, 1)
        leaf = library.leaf(x)
        before = _state(self._raw(leaf))
        first = self._second_walk(leaf, cotangent)
        once = None if first is None else np.array(first, copy=True)
        again = self._second_walk(leaf, cotangent)
        second = ""
        if first is not None and again is not None and once is not None:
            same = np.shares_memory(np.asarray(first), np.asarray(again))
            doubled = _is(again, 2 * once)
            second = ("in place" if same else "rebound") if doubled else "replaced"
        return msgspec.structs.replace(said, before=before, second=second, shares=self._shares())

    def _raw(self, leaf: Any) -> Any:
        held = leaf.held
        first = held.flat[0] if self.dialect.kind == "scalars" else held
        place = self.dialect.gradient.removeprefix("None if t.grad is None else ")
        attribute = re.match(r"t\.(\w+)", place)
        return getattr(first, attribute[1], None) if attribute else None

    def _second_walk(self, leaf: Any, cotangent: NumericArray) -> Any:
        self.library.backward(leaf * leaf, cotangent.copy())
        return self.library.gradient(leaf)

    def _shares(self) -> bool:
        a, b = (self.library.leaf(_drawn(self.shape, seed)) for seed in (0, 1))
        given = _drawn(self.shape, 2)
        try:
            self.library.backward(a + b, given)
            one, other = self.library.gradient(a), self.library.gradient(b)
        except BaseException:
            return False
        held = [each for each in (one, other) if each is not None]
        return len(held) == 2 and bool(
            np.shares_memory(held[0], held[1]) or np.shares_memory(held[0], given)
        )

    # ----- How it reduces what broadcasting has stretched -----

    def reduce(self) -> Surveyed:
        found = [each for each in self._candidates() if each is not None]
        calls = {op: self._calls(op) for op in OPS}
        reducers = []
        for code, reducer in found:
            callers = {
                op: sorted({caller for called, caller in pairs if called is code and caller})
                for op, pairs in calls.items()
            }
            used = {op: names for op, names in callers.items() if names}
            reducers.append(msgspec.structs.replace(reducer, callers=used))
        return Surveyed(
            "the un-broadcasting",
            self.dialect,
            self.name,
            reducers=sorted(reducers, key=lambda each: (not each.callers, each.file, each.line)),
            ops=_only(calls),
        )

    def _candidates(self) -> Iterator[tuple[Any, Reducer]]:
        """The functions that sum ones((4, 3)) to (3,), whatever they are called."""
        seen = set()
        files = {str(Path(self.task.root) / file): file for file in self.task.sources}
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) not in files:
                continue
            for owner, name, function in _functions(module):
                code = getattr(inspect.unwrap(function), "__code__", None)
                if code is None or code in seen or code.co_filename not in files:
                    continue
                seen.add(code)
                if "sum" not in _names_in(code) and "reduce" not in _names_in(code):
                    continue
                how = _reduces(function, self.library)
                if how is None:
                    continue
                yield (
                    code,
                    Reducer(
                        module=module.__name__,
                        name=f"{owner}.{name}" if owner else name,
                        file=files[code.co_filename],
                        line=code.co_firstlineno,
                        flaws=_flaws(how),
                    ),
                )

    def _calls(self, op: str) -> list[tuple[Any, str]]:
        """The engine's code that runs for an op, forward and back, with who called it."""
        root, calls = self.task.root, []

        def watch(frame: Any, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(root):
                caller = frame.f_back.f_code if frame.f_back else None
                inside = caller is not None and caller.co_filename.startswith(root)
                calls.append((frame.f_code, caller.co_qualname if inside else ""))

        use = OPS[op]
        try:
            leaves = {"a": _drawn((4, 3)), "b": np.abs(_drawn((3,), 1)) + 1.0}
            made = {name: self.library.leaf(data) for name, data in leaves.items()}
            sys.setprofile(watch)
            try:
                output = self.library.call(use, (), made)
                self.library.backward(output, np.ones((4, 3)))
            finally:
                sys.setprofile(None)
        except BaseException:
            return []
        return calls

    # ----- Trying -----

    def _say(self, expression: str, **given: Any) -> Any:
        top = self.module.__name__.partition(".")[0]
        names = {"np": np, top: sys.modules[top], **vars(self.module)}
        return eval(expression, names, given)  # noqa: S307  it is tried in the sandbox

    def _try(self, expression: str, **given: Any) -> Any:
        if any(each is None for each in given.values()):
            return None
        try:
            return self._say(expression, **given)
        except BaseException as error:
            self._note(expression, error)
            return None

    def _does(self, expression: str, **given: Any) -> bool:
        try:
            self._say(expression, **given)
        except BaseException as error:
            self._note(expression, error)
            return False
        return True

    def _note(self, expression: str, error: BaseException) -> None:
        said = f"{expression}: {type(error).__name__}: {message_of(error)}"
        if said not in self.tried and len(self.tried) < 40:
            self.tried.append(said[:200])


MAKERS = ("tensor", "variable", "Variable", "parameter", "Parameter", "array", "as_tensor")
USUAL = ("Tensor", "Variable", "Value", "Var", "Node", "Parameter")
OF_ARRAYS = ("shape", "sum", "reshape", "T", "transpose", "__matmul__", "matmul", "ndim")
FUNCTIONAL = ("make_vjp", "vjp", "value_and_grad", "grad")

OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}

_DEFINES = re.compile(
    r"^(?:def|class) (?:relu|sigmoid|softmax|log_softmax|exp|tanh|sum|mean|where|cat|concatenate)\b",
    re.M,
)


def _classes(module: ModuleType) -> list[str]:
    """The classes of a module from which one can walk back."""
    found = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and not name.startswith("_") and _walks(value, strict=True)
    ]
    places = {name: place for place, name in enumerate(USUAL)}
    return sorted(found, key=lambda name: (places.get(name, len(places)), name))


def _walks(target: Any, *, strict: bool = False) -> list[str]:
    """The methods that may be the walk back."""
    names = [name for name in dir(target) if not name.startswith("__")]
    likely = [name for name in names if re.search(r"backward|backprop|backpass", name)]
    found = sorted(likely, key=lambda name: (name != "backward", name.startswith("_"), name))
    if strict:
        return [name for name in found if not name.startswith("_")]
    return found or [name for name in names if re.search(r"back|grad", name)]


def _drawn(shape: tuple[int, ...], seed: int = 0) -> NumericArray:
    return np.asarray(np.random.default_rng((20, seed)).standard_normal(shape))


def _is(found: Any, wanted: Any) -> bool:
    """Equal as far as float32 can tell, in shape too."""
    try:
        seen = np.asarray(found, float)
    except Exception:  # what pretends to be an array may fail in any way
        return False
    return seen.shape == np.shape(wanted) and bool(np.allclose(seen, wanted, 1e-4, 1e-5))


def _state(gradient: Any) -> str:
    if gradient is None:
        return "none"
    if isinstance(gradient, int | float):
        return "number"
    return "zeros" if np.shape(getattr(gradient, "data", gradient)) else "number"


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except BaseException:
        return False
    return True


# ----- What may be said -----


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _leaves(said: str, name: str | None, target: Any, modules: dict[str, Any]) -> list[str]:
    """The class itself, then functions that may make one of it."""
    if said:
        return [said]
    makers = {name: target} | {
        f"{prefix}{maker}": found
        for prefix, module in modules.items()
        for maker in MAKERS
        if callable(found := getattr(module, maker, None)) and found is not target
    }
    return [form for spelled, maker in makers.items() for form in _calls_of(spelled, maker)]


def _calls_of(name: str | None, maker: Any) -> list[str]:
    flags = []
    for each in _parameters(maker):
        if "grad" in each.lower() and each.lower() not in ("grad", "grad_fn", "gradient"):
            flags.append(f"{each}=True")
        if "const" in each.lower():
            flags.append(f"{each}=False")
    ends = [*(f", {flag}" for flag in flags), ""]
    return [f"{name}({data}{end})" for data in ("data", "data.tolist()") for end in ends]


def _values(said: str, t: Any) -> list[str]:
    if said:
        return [said]
    usual = ["data", "value", "val", "array", "values", "_data", "_value", "item()", "numpy()"]
    usual += ["tolist()"]
    forms = [f"t.{name}" for name in usual if hasattr(t, name.removesuffix("()"))]
    own = vars(t) if hasattr(t, "__dict__") else {}
    forms += [f"t.{name}" for name in own if f"t.{name}" not in forms]
    return [*forms, *(f"{form}.data" for form in forms[:3])]


def _gradients(said: str, t: Any, value: str) -> list[str]:
    if said:
        return [said]
    own = [n for n in dir(t) if re.search(r"grad|adj|deriv|cotan", n.lower()) and n[:2] != "__"]
    names = sorted(own, key=lambda name: (name != "grad", name.startswith("_"), name))
    within = value.removeprefix("t")
    forms = []
    for name in names:
        try:
            called = callable(getattr(t, name))
        except Exception:
            continue
        if called and (re.search("backward|zero", name) or not takes_nothing(getattr(t, name))):
            continue
        place = f"t.{name}()" if called else f"t.{name}"
        forms += [place, f"{place}{within}"]
    return forms


def _guarded(gradient: str) -> str:
    """None stays None, where the gradient is inside of something."""
    place = re.match(r"(t\.\w+)(?:\.|\()", gradient)
    if place is None or gradient.startswith(f"{place[1]}()"):
        return gradient
    return f"None if {place[1]} is None else {gradient}"


def _backwards(said: str, leaf: str, target: Any, module: ModuleType) -> list[str]:
    if said:
        return [said]
    asks = re.sub(r"\bdata\b", "cotangent", leaf)
    forms = []
    for constant in dict.fromkeys((re.sub(r", \w+=\w+\)$", ")", asks), asks)):
        forms += _with_constant(constant, target, module)
    return forms


def _with_constant(constant: str, target: Any, module: ModuleType) -> list[str]:
    forms = []
    for method in _walks(target):
        forms += [f"t.{method}(cotangent)", f"t.{method}({constant})"]
        for each in _parameters(getattr(target, method)):
            if re.search(r"grad|seed|cotangent|upstream|dy|dout", each.lower()):
                forms += [f"t.{method}({each}=cotangent)", f"t.{method}({each}={constant})"]
        weighed = f"(t * {constant})"
        forms += [
            f"{weighed}.sum().{method}()",
            f"{weighed}.{method}()",
            f"sum({weighed}).{method}()" if callable(getattr(module, "sum", None)) else "",
        ]
    for name in dir(module):
        if "backward" in name and inspect.isfunction(getattr(module, name)):
            forms += [f"{name}(t, cotangent)", f"{name}((t * {constant}).sum())"]
    return list(filter(None, forms))


def _pulls(name: str) -> list[str]:
    one = "(lambda out, back: (out, lambda c: back(c)[0]))"
    return [
        f"{name}(function)(data)[::-1]",
        f"{name}(function)(data)",
        f"{name}(function, data)[::-1]",
        f"{name}(function, data)",
        f"{one}(*{name}(function, data))",
        f"{one}(*{name}(function, data)[::-1])",
        f"(function(data), lambda c: {name}(lambda t: (function(t) * c).sum())(data))",
        f"(function(data), lambda c: {name}(lambda t: (function(t) * c).sum())(data)[1])",
    ]


# ----- Un-broadcasting by behaviour -----


def _functions(module: ModuleType) -> Iterator[tuple[str, str, Any]]:
    """The functions of a module and those on its classes, with the class's name."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value):
            yield "", name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for each in list(vars(value)):
                found = inspect.getattr_static(value, each)
                if isinstance(found, staticmethod | classmethod):
                    yield value.__name__, each, getattr(value, each)
                elif inspect.isfunction(found) and not each.startswith("__"):
                    yield value.__name__, each, _on_blank(value, found)


def _on_blank(owner: type, function: Any) -> Any:
    """A method as a function: called on an instance that was never initialised."""

    def call(*given: Any) -> Any:
        return function(object.__new__(owner), *given)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _names_in(code: Any) -> set[str]:
    inner = [const for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*(_names_in(each) for each in inner))


Reduce = Callable[[NumericArray, tuple[int, ...]], Any]


def _reduces(function: Any, library: Any) -> Reduce | None:
    """How to call it so that it sums down to a shape; None where it does not."""
    opened: Callable[[Any], Any] = library.open
    ways: Sequence[Reduce] = (
        lambda g, shape: function(g, shape),
        lambda g, shape: function(g, np.zeros(shape)),
        lambda g, shape: function(shape, g),
        lambda g, shape: function(np.zeros(shape), g),
        lambda g, shape: function(g, opened(library.leaf(np.zeros(shape)))),
        lambda g, shape: function(opened(library.leaf(g)), shape),
        lambda g, shape: function(opened(library.leaf(g)), opened(library.leaf(np.zeros(shape)))),
        lambda g, shape: function(g, (shape, len(shape), g.dtype, False)),
        lambda g, shape: function(g, shape, g.shape),
        lambda g, shape: function(g, g.shape, shape),
    )
    for way in ways:

        def plain(g: NumericArray, shape: tuple[int, ...], way: Reduce = way) -> Any:
            made = way(g, shape)
            return np.asarray(made) if library.is_plain(made) else library.value(library.wrap(made))

        try:
            summed = plain(np.ones((4, 3)), (3,))
            kept = plain(np.ones((2, 3)), (2, 3))
        except BaseException:
            continue
        if _is(summed, np.full(3, 4.0)) and _is(kept, np.ones((2, 3))):
            return plain
    return None


def _flaws(reduce: Reduce) -> list[str]:
    """The shapes that it gets wrong."""
    flaws = []
    for given, wanted in (
        ((4, 3), (1, 3)),
        ((4, 3), (4, 1)),
        ((2, 4, 3), (3,)),
        ((2, 4, 3), (4, 1)),
        ((1, 3), (3,)),
        ((1, 3), (1, 3)),
        ((4, 3), ()),
    ):
        g = np.arange(float(np.prod(given))).reshape(given)
        right = _summed(g, wanted)
        try:
            seen = reduce(g, wanted)
        except BaseException as error:
            flaws.append(f"{given} to {wanted}: {type(error).__name__}: {message_of(error)}")
            continue
        if seen.shape != wanted:
            flaws.append(f"{given} to {wanted}: the result has shape {seen.shape}")
        elif not np.allclose(seen, right):
            flaws.append(f"{given} to {wanted}: wrong sums")
    return flaws


def _summed(g: NumericArray, shape: tuple[int, ...]) -> NumericArray:
    """What every un-broadcasting should give: sums over created, then over stretched axes."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return np.asarray(g.sum(stretched, keepdims=True))


def _only(calls: dict[str, list[tuple[Any, str]]]) -> dict[str, list[str]]:
    """The functions that one op runs and no other does."""
    ran = {op: {code.co_qualname for code, _ in pairs} for op, pairs in calls.items()}
    return {
        op: sorted(names - set().union(*(n for other, n in ran.items() if other != op)))
        for op, names in ran.items()
    }
