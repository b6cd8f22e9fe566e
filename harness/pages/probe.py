"""Probes: small programs on an engine, read without being run.

A probe is a plain function in a shared file (`breaks/probes/*.py`) or in a page's `python` block.
Its arguments are its leaves; the default says what a leaf holds, an annotation its dtype:

    def add_new_axis(a=(3,), b=(4, 3)):        # a tuple is a shape, drawn from a fixed seed
        '''What the probe exercises, in a line.'''
        return a + b                           # a gradient probe returns its output

    def train(lib, x=[[0.0], [1.0]]):          # a list is the values; `lib` is the engine's module
        '''...'''
        yield {"loss": ..., "weight": ...}     # a probe of steps yields what one would log

    def module_norm(lib, x: np.float32 = (8, 3)):   # float64 unless a NumPy dtype is named
        '''...'''
        return lib.nn.BatchNorm1d(3)           # a module probe returns a layer, `x` is its input

The name may declare a property that can be checked without an answer key: a correct engine must
refuse `refuse_...`, and in `causal_...` the output up to a time (axis -2) depends only on the first
leaf up to that time. With an argument `resume_at=3`, a probe of steps saves at that step and
resumes with new objects; with None it does not, and the log is the same. In a log, a key with a dot
(`optimizer.m`) is an object's state.

Names that start with an underscore are helpers, not probes. The same text runs on every engine.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeGuard

import msgspec

from harness.core.errors import PageError, Sentence, as_message
from harness.core.message import message
from harness.core.vocabulary import LOSSES, Loss

ProbeKind = Literal["gradient", "steps", "module", "test"]
"""A test is an invariant, or a function of an exercise's suite: it has no leaves, and passes unless
it raises."""

DTYPES = ("float64", "float32", "float16", "int64", "int32")
"""The dtypes that a leaf may be annotated with, as `np.float32`."""


REFUSED = "refuse-"
"""The start of the name of a probe that a correct engine must refuse."""

EMULATED = {"_power": "pow"}
"""Helpers of the shared probes that compute an op with others on minigrad, which lacks it."""

SHOWN = 50
"""The most characters to show of a line that is not Python: it has to fit a narrow window."""


@dataclass(frozen=True)
class Leaf:
    """A named input that requires a gradient: drawn with a shape, or with fixed values."""

    name: str
    shape: tuple[int, ...] | None
    values: list[Any] | float | None
    dtype: str = "float64"


@dataclass(frozen=True)
class Probe:
    """A probe's text, and its properties that do not require running it."""

    name: str
    doc: str
    kind: ProbeKind
    leaves: tuple[Leaf, ...]
    function: str
    source: str
    """The whole Python text that defines it, helpers included."""
    path: str
    line: int
    """Where `source` starts in the file at `path` (1-based)."""
    takes_lib: bool = False
    resume_at: int | None = None
    """The step at which it saves and resumes."""
    seed: int | None = None
    """The seed of the generator that an invariant takes."""
    shared: bool = False
    """Whether it is one of the bundled catalogue's shared probes, not of a page or a person."""

    @cached_property
    def identity(self) -> bytes:
        """A digest of everything that the probe's runs depend on.

        `line` and `path` appear only in tracebacks, and `doc` has no effect at all.
        """
        facts = (self.name, self.kind, self.source, self.leaves, self.resume_at, self.seed)
        return hashlib.sha256(msgspec.json.encode(facts)).digest()

    @property
    def refused(self) -> bool:
        """Whether a correct engine has to refuse the probe."""
        return self.name.startswith(REFUSED)

    @property
    def causal(self) -> bool:
        """Whether the output up to a time depends only on the first leaf up to that time."""
        return self.name.startswith("causal-")

    @property
    def retains_graph(self) -> bool:
        """Whether it asks a backward pass to keep the graph for another one."""
        keywords = [node.arg for node in self._body if isinstance(node, ast.keyword)]
        return "retain_graph" in keywords

    @property
    def is_arithmetic(self) -> bool:
        """Whether it computes one output from its leaves with nothing but `+ - * / **`."""
        operators = ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop
        plain = ast.Name, ast.Constant, ast.expr_context, ast.Return, ast.Assign, ast.Expr
        return self.kind == "gradient" and all(
            (isinstance(node, (*operators, *plain)) and not isinstance(node, ast.MatMult))
            or (isinstance(node, ast.Call) and ast.unparse(node.func) in EMULATED)
            for node in self._body
        )

    @property
    def emulated(self) -> str:
        """The op that minigrad computes with others in this probe; empty for most probes."""
        calls = (ast.unparse(node.func) for node in self._body if isinstance(node, ast.Call))
        return next((EMULATED[name] for name in calls if name in EMULATED), "")

    @property
    def losses(self) -> tuple[Loss | None, ...]:
        """The losses to run with; a probe of steps computes its own (None)."""
        return LOSSES if self.kind == "gradient" else (None,)

    @property
    def brings_numbers(self) -> bool:
        """Whether its text uses anything besides leaves, own variables, builtins, plain numbers.

        Then an array or a layer may have another dtype than the leaves, and promote the output.
        """
        names = [node for node in self._body if isinstance(node, ast.Name)]
        own = {leaf.name for leaf in self.leaves} | set(dir(builtins))
        own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        return any(node.id not in own for node in names)

    @cached_property
    def numbers(self) -> frozenset[float]:
        """The numbers in its text, and how often it uses each of its names."""
        uses = Counter(node.id for node in self._body if isinstance(node, ast.Name))
        constants = [node.value for node in self._body if isinstance(node, ast.Constant)]
        numbers = [value for value in constants if isinstance(value, int | float)]
        return frozenset(map(float, [*(n for n in numbers if abs(n) < 1e300), *uses.values()]))

    @property
    def brings_non_finite(self) -> bool:
        """Whether its text contains a NaN or an infinity."""
        for node in self._body:
            match node:
                case ast.Attribute(attr=word) | ast.Name(id=word) | ast.Constant(value=str(word)):
                    if word.strip("+-").lower() in ("nan", "inf"):
                        return True
        return False

    @cached_property
    def code(self) -> str:
        """The text of its own function, without its helpers."""
        return next(
            (
                "\n".join(self.source.splitlines()[node.lineno - 1 : node.end_lineno])
                for node in ast.parse(self.source).body
                if isinstance(node, ast.FunctionDef) and node.name == self.function
            ),
            self.source,
        )

    @cached_property
    def formula(self) -> str:
        """What it computes, such as `(3,) + (4, 3)`; empty if that is more than an expression.

        Random leaves that are used once are written as their shapes.
        """
        match [node for node in self._body if isinstance(node, ast.stmt)]:
            case [ast.Return(value=ast.expr() as value)]:
                text = ast.unparse(value)
            case _:
                return ""
        tree = ast.parse(text, mode="eval")  # a copy
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        uses = Counter(node.id for node in names)
        shapes = {leaf.name: str(leaf.shape) for leaf in self.leaves if leaf.shape is not None}
        if all(uses[name] == 1 for name in shapes):
            for node in names:
                node.id = shapes.get(node.id, node.id)
        return ast.unparse(tree)

    @property
    def _body(self) -> Sequence[ast.AST]:
        """Everything in its body, except its docstring and its arguments."""
        return _bodies(self.source).get(self.function, ())


@lru_cache(maxsize=1024)
def read_probes(text: str, path: str, line: int = 1) -> tuple[Probe, ...]:
    """Return the probes that a Python text defines, in order.

    Raises PageError, with the line in the file at `path`, for text that is not Python and for
    functions that are not probes.
    """
    module = parse_python(text, path, line, "probe")
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    return tuple(
        _read_probe(function, text, path, line)
        for function in functions
        if not function.name.startswith("_")
    )


def parse_python(text: str, path: str, line: int, what: str) -> ast.Module:
    """Return the syntax tree of a text that starts at `line` of the file at `path`.

    Raises PageError, with the line, for text that is not Python, or is nested too deeply; the
    message calls the text `what`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about "\d" in a string
            return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise not_python(error, text, path, line, what) from None
    except (RecursionError, MemoryError):  # which one is raised depends on the code
        problem, remedy = (
            message("the {what} is nested too deeply to be read", what=as_message(what)),
            "write it with less nesting",
        )
        raise PageError(path, line, problem, remedy) from None


def not_python(
    error: SyntaxError | ValueError, text: str, path: str, line: int, what: str
) -> PageError:
    """Return the error about a text that is not Python: the line, with a caret if it is known.

    The arguments after the error are those of `parse_python`.
    """
    at, reason = getattr(error, "lineno", None) or 1, getattr(error, "msg", str(error))
    lines = text.split("\n")
    code = _with_caret(lines[min(at, len(lines)) - 1], getattr(error, "offset", None))
    problem = message(
        "the {what} is not Python: {error}\n{code}",
        what=as_message(what),
        error=reason,
        code=code,
    )
    return PageError(path, line + at - 1, problem, "correct the code at that line")


def _with_caret(code: str, column: int | None) -> str:
    """Return a line of code, with a caret below the column (1-based) if it is known."""
    line = code.rstrip()
    start = len(line) - len(line.lstrip())
    if not column:
        return f"    {line[start:][:SHOWN]}"
    caret = max(column - 1, start)
    start = max(start, caret - SHOWN + 1)
    return f"    {line[start:][:SHOWN]}\n    {' ' * (caret - start)}^"


def _read_probe(function: ast.FunctionDef, text: str, path: str, line: int) -> Probe:
    def mistake(problem: Sentence, remedy: Sentence) -> PageError:
        return PageError(path, line + function.lineno - 1, problem, remedy)

    doc = plain(ast.get_docstring(function) or "")
    if not doc.strip():
        raise mistake(
            message("the probe `{function}` has no docstring", function=function.name),
            "write in one line what it exercises, for the learner",
        )
    spec = function.args
    if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs:
        raise mistake(
            message(
                "the probe `{function}` takes more than plain arguments", function=function.name
            ),
            "write each leaf as `name=(shape)` or `name=[values]`",
        )
    first_leaf = len(spec.args) - len(spec.defaults)
    bare = [argument.arg for argument in spec.args[:first_leaf]]
    if bare not in ([], ["lib"]):
        raise mistake(
            message(
                "the leaf `{leaf}` of `{function}` has no shape and no values",
                leaf=next(name for name in bare if name != "lib"),
                function=function.name,
            ),
            "write `name=(4, 3)` for a drawn leaf, `name=[1.0, 2.0]` for fixed values",
        )
    leaves, resume_at = [], None
    for argument, default in zip(spec.args[first_leaf:], spec.defaults, strict=True):
        if argument.arg == "resume_at" and isinstance(default, ast.Constant):
            resume_at = default.value if _is_whole(default.value) else None
            continue
        leaf = _read_leaf(argument.arg, default)
        if leaf is None:
            raise mistake(
                message(
                    "the leaf `{leaf}` of `{function}` is neither a shape nor values",
                    leaf=argument.arg,
                    function=function.name,
                ),
                "write a tuple of lengths, `(4, 3)`, or a list of floats, `[1.0, 2.0]`",
            )
        dtype = _read_dtype(argument.annotation)
        if dtype is None:
            raise mistake(
                message(
                    "the leaf `{leaf}` of `{function}` is annotated with something that is not "
                    "a dtype",
                    leaf=argument.arg,
                    function=function.name,
                ),
                message(
                    "write `{leaf}: np.float32 = ...`; the dtypes are {dtypes}",
                    leaf=argument.arg,
                    dtypes=", ".join(DTYPES),
                ),
            )
        leaves.append(replace(leaf, dtype=dtype))
    kind = _kind(function)
    if kind == "module" and len(leaves) != 1:
        raise mistake(
            message(
                "the probe `{function}` has {count} leaves",
                function=function.name,
                count=len(leaves),
            ),
            "give a module probe one leaf, the input of the layer that it returns",
        )
    return Probe(
        name=function.name.replace("_", "-"),
        doc=doc,
        kind=kind,
        leaves=tuple(leaves),
        function=function.name,
        source=text,
        path=path,
        line=line,
        takes_lib=bool(bare),
        resume_at=resume_at,
    )


def _read_leaf(name: str, default: ast.expr) -> Leaf | None:
    """Return the leaf that a default value describes; None if it describes none."""
    try:
        value = ast.literal_eval(default)
        if isinstance(value, tuple):
            whole = all(_is_whole(n) and n >= 0 for n in value)
            return Leaf(name, shape=value, values=None) if whole else None
        if isinstance(value, list | float | int):
            return Leaf(name, shape=None, values=value) if _is_rectangular(value) else None
    except (ValueError, TypeError):  # not a literal, or a set or dict with unhashable items
        pass
    return None


def _is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number that an array can hold."""
    return type(value) is int and -(2**63) <= value < 2**63


def plain(text: str) -> str:
    """Return the text with escapes for unpaired surrogates, which cannot be encoded."""
    return text.encode("utf-8", "backslashreplace").decode()


def _read_dtype(annotation: ast.expr | None) -> str | None:
    """Return the dtype that an annotation such as `np.float32` names; None if it names none."""
    match annotation:
        case None:
            return "float64"
        case ast.Attribute(attr=name) if name in DTYPES:
            return name
    return None


def _kind(function: ast.FunctionDef) -> ProbeKind:
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
        return "steps"
    return "module" if function.name.startswith("module_") else "gradient"


@lru_cache(maxsize=256)
def _bodies(source: str) -> dict[str, Sequence[ast.AST]]:
    """Return the nodes of each function's body, cached: it is needed for each probe and run."""
    return {
        function.name: [node for statement in function.body[1:] for node in ast.walk(statement)]
        for function in ast.parse(source).body
        if isinstance(function, ast.FunctionDef)
    }


def _is_rectangular(value: object) -> bool:
    """Whether the value is a number, or a list of numbers or of lists with one shape."""

    def shape(part: object) -> tuple[int, ...] | None:
        if type(part) is float or _is_whole(part):
            return ()
        if not isinstance(part, list):
            return None
        shapes = {shape(element) for element in part}
        inner = shapes.pop() if len(shapes) == 1 else (() if not part else None)
        return None if inner is None else (len(part), *inner)

    return shape(value) is not None
