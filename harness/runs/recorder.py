"""What a run executes: the trail of the changed functions, and which functions are called.

The trail holds the numbers that each call of a changed function received and returned. A fault has
*infected* a run if a changed function, given the same numbers as in the unpatched engine, returns
or writes other ones (see `harness.answer_key.stage`). Only numbers count: a list and a tuple, an
int and an equal float, a graph with another node are the same. Both engines are compiled with calls
of the recorder around the bodies of these functions (see `harness.engines.instrumentation`), so
nothing is evaluated twice.

If the engine records its backward walks, `harness.answer_key.walks` adds what each node received
and passed on to operands that need it. Then calls inside a backward rule, which are marked as
`INNER`, do not count: a rule may also return a number that nobody uses.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from harness.core.run import INNER, MORE, Digest, Part, PartValue
from harness.core.site import HOOKS, Hooks
from harness.engines.instrumentation import INSIDE
from harness.engines.loading import CallEdge, file_of
from harness.patch.side import quiet_parse
from harness.runs.digests import CALLS, DEPTH, NumbersDigest, add_digest

FEW_CALLS = 50
"""The same if many tests are recorded."""

BUDGET = 50_000
"""The number of parts that are digested in a run. Runs that are equal up to there reach it at
the same place; after it, calls are only counted."""


MOST_VALUES = 64
"""The number of values of a changed expression that are recorded."""

FEW_NUMBERS = 12
"""The most numbers of an array that are recorded one by one."""


class Recorder:
    """Records which sites are executed since the last `clear`, and the calls around them."""

    def __init__(self, calls: int = CALLS) -> None:
        self.most = calls
        self.executed: set[int] = set()
        self.trail: dict[str, Digest] = {}
        self.parts: dict[str, Part] = {}
        self.counts: Counter[str] = Counter()
        self.calls: list[_RecordedCall] = []
        self.digested = 0
        self.paused = False

    def install(self, hooks: Hooks = HOOKS) -> None:
        """Define the builtins that instrumented code calls, for each hook that records anything."""
        setattr(builtins, HOOKS.marker, self.mark)
        if hooks.call:
            setattr(builtins, HOOKS.call, self.call)
            setattr(builtins, HOOKS.value, self.value)
            setattr(builtins, HOOKS.locals, locals)
        if hooks.part:
            setattr(builtins, hooks.part, self.part)

    def clear(self) -> None:
        """Discard everything, and continue recording."""
        self.paused = False
        self.executed.clear()
        self.trail.clear()
        self.parts.clear()
        self.counts.clear()
        self.calls.clear()
        self.digested = 0

    def mark(self, site: int) -> bool:
        """Record that a site is about to be executed."""
        if not self.paused:
            self.executed.add(site)
        return True

    def call(self, name: str, variables: Mapping[str, Any]) -> _RecordedCall:
        """Begin a call with these arguments and variables of enclosing functions."""
        return _RecordedCall(self, name, {} if self.paused else dict(variables))

    def value(self, call: _RecordedCall | None, value: Any) -> Any:
        """Record that the innermost call returns `value`; return the value.

        A lambda passes its own `call`, which ends here.
        """
        if call is not None:
            call.returned = value
            self.end(call)
        elif self.calls:
            self.calls[-1].returned = value
        return value

    def part(self, key: str, text: str, other: str, value: Any) -> Any:
        """Record a value of a changed expression, and return it."""
        if not self.paused:
            part = self.parts.get(key) or Part(text, other, [], 0)
            if part.count < MOST_VALUES:
                names = sys._getframe(1).f_locals
                is_other = names.get(other, _MISSING) is value
                part.values.append(_part_value(value, is_other=is_other))
            self.parts[key] = Part(text, other, part.values, part.count + 1)
        return value

    def begin(self, call: _RecordedCall) -> str | None:
        """Record what a call receives; return its key, or None if it is not recorded."""
        if self.paused:
            return None
        if self.digested >= BUDGET:
            add_digest(self.trail, f"{call.name}#{MORE} in", Digest(1))
            return None
        name = INNER + call.name if INSIDE in call.name or _is_in_rule() else call.name
        number, self.counts[name] = self.counts[name], self.counts[name] + 1
        key = f"{name}#{number if number < self.most else MORE}"
        call.before = self.note(f"{key} in", {"": call.given}, number, exact=True)
        return key

    def end(self, call: _RecordedCall) -> None:
        """Record what a call returns, and what it has written."""
        if call.key is None or self.paused:
            return
        after = self.note(f"{call.key} out", {"": call.given, "returned": call.returned})
        if call.before and after.projection == call.before.projection:
            self.trail[f"{call.key} idle"] = Digest(0)

    def note(self, key: str, value: Any, number: int = 0, *, exact: bool = False) -> Digest:
        """Add the numbers in a value; with `exact`, other constants count as well."""
        numbers = NumbersDigest(exact=exact)
        # An attribute may raise, or the stack may be exhausted.
        with contextlib.suppress(Exception):
            numbers.add(value, 0.0 if number < self.most else float(number % 1009), DEPTH)
        self.digested += numbers.parts
        add_digest(self.trail, key, numbers.digest)
        return numbers.digest


class _RecordedCall:
    """A call of an instrumented function, as a context."""

    def __init__(self, recorder: Recorder, name: str, given: Mapping[str, Any]) -> None:
        self.recorder, self.name, self.given = recorder, name, given
        self.returned: Any = None
        self.before: Digest | None = None
        self.key = recorder.begin(self)

    def __enter__(self) -> None:
        self.recorder.calls.append(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        calls = self.recorder.calls
        if calls and calls[-1] is self:
            calls.pop()
        if kind is None:
            self.recorder.end(self)


def _part_value(value: Any, *, is_other: bool) -> PartValue:
    """Return a value as it is shown and compared; of a tensor, its numbers."""
    digest = NumbersDigest(exact=True)
    try:
        digest.add(value, 0.0, DEPTH)
        shown = value if isinstance(value, _ARRAYS) else getattr(value, "data", value)
        if not isinstance(shown, (*_ARRAYS, float)):
            text = repr(shown) if isinstance(shown, _SHOWN) else ""
            text = text if len(text) <= _LONG else ""
            return PartValue(digest.digest, None, text=text, is_other=is_other)
        array = np.asarray(shown)
        if array.dtype.kind not in "iuf":  # the values of a mask explain nothing without its use
            return PartValue(digest.digest, None)
        numbers = array.ravel()[:1] if array.size and np.ptp(array) == 0 else array.ravel()
        first = numbers[:FEW_NUMBERS].astype(float).tolist()
        return PartValue(
            digest.digest,
            array.shape,
            first,
            dtype="" if isinstance(shown, float) else array.dtype.name,
            is_tensor=shown is not value,
            is_other=is_other,
        )
    except Exception:  # what the engine's own objects raise says nothing
        return PartValue(digest.digest, None)


_ARRAYS = (np.ndarray, np.generic)

_SHOWN = (bool, int, str, list, tuple, NoneType)

_MISSING = object()

_LONG = 40
"""The length of the text of a value that is not shown."""


def _is_in_rule() -> bool:
    """Whether a function that another function of the engine defines is being called."""
    frame = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        is_inner = "<locals>" in code.co_qualname and not code.co_name.startswith("<")
        if is_inner and code.co_name not in _WALKING and file_of(frame):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


_WALKING = ("multiply", "rounded")
"""Nested functions that are not rules: one of the walk, and one around the losses."""

# ----- Functions -----
#
# Until a changed engine executes a changed function, it behaves like the clean one. So if the clean
# run calls no function that differs, the other run need not be made.

Sources = Mapping[str, str]
"""The text of an engine's files, by their path below the root."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def changed_functions(root: Path, before: Sources, after: Sources) -> set[str] | None:
    """Return the functions in `before` that differ in `after`, as `called_functions` names them.

    A function and those inside it count as one. None if code outside functions differs, since the
    import executes it. New functions do not count: an old one has to be changed to call them.
    """
    changed: set[str] = set()
    for file, text in before.items():
        if text == after.get(file):
            continue
        if file not in after:
            return None
        (functions, rest), (others, other_rest) = _parts(text), _parts(after[file])
        if rest != other_rest:
            return None
        for name, versions in functions.items():
            if [dump for dump, _ in versions] != [dump for dump, _ in others.get(name, [])]:
                short = name.rpartition(".")[2]
                changed |= {f"{root / file}:{line}:{short}" for _, line in versions}
    return changed


@lru_cache(maxsize=64)
def _parts(text: str) -> tuple[dict[str, list[tuple[str, int]]], str]:
    """Return the functions of a file, and everything else as one text.

    Each dotted name has the text and the first line of its functions; several may share a name.
    """
    tree = quiet_parse(text)
    functions: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, node in _take_functions(tree, ""):
        line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        functions[name].append((ast.dump(node), line))
    return functions, ast.dump(tree)


def _take_functions(
    scope: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, FunctionNode]]:
    """Remove the functions from a module or a class, and yield them; those inside them stay."""
    rest = []
    for node in scope.body:
        if isinstance(node, FunctionNode):
            yield f"{prefix}{node.name}", node
            continue
        rest.append(node)
        if isinstance(node, ast.ClassDef):
            yield from _take_functions(node, f"{prefix}{node.name}.")
    scope.body = rest


def called_functions(calls: Sequence[CallEdge] | None) -> list[str] | None:
    """Return the names of the functions that were called; None if that is not known."""
    if calls is None:
        return None
    codes = {code for code, _ in calls}
    return sorted({f"{c.co_filename}:{c.co_firstlineno}:{c.co_name}" for c in codes})
