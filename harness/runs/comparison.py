"""Two versions of a function, run on the arguments of every call that tests make.

The code is compiled with both versions (see `harness.grade.reasons`). A call of a changed function
arrives here. The clean version runs first, twice: if it gives other numbers the second time, the
call cannot be measured. Whatever it has written is undone, then the changed version runs, and its
result is returned. What is compared are the numbers that a call returns or writes, up to rounding;
types and other objects do not count.

A function that a changed function has returned, such as the backward rule of an op, is compared
with the one that the clean version has returned. A rule that keeps numbers in a context (`ctx` or
`self`) is compared with the same rule on the context that the clean version has left.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType, FunctionType
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from harness.core.rounding import largest, summed_to, wrong_entries
from harness.core.run import NumericArray
from harness.core.vocabulary import VARIATIONS, Variation
from harness.runs.facts import NOT_RUN, Fact, PropertyKind, facts_of
from harness.runs.heap import (
    CannotCompare,
    Heap,
    Numbers,
    arrays_in,
    attributes,
    copied,
    holders,
    is_tensor,
    numbers_in,
)
from harness.runs.kept import (
    Absorption,
    containers_of_callers,
    is_only_broadcast,
    needed_by_node,
    needed_by_operands,
    node_of_rule,
    operands_of,
)
from harness.runs.variations import Target, closure, varied

COMPARE, CHANGED = "__breaklab_compare__", "__breaklab_changed__"
"""The builtins that compiled code calls: at each call, and where the versions differ."""

Role = Literal["changed", "inner", "rule", "forward"]
"""A function whose code differs; one inside it; the rule that uses what it saves; one whose code
differs, and which saves something for a rule."""

MOST_CALLS, MOST_TRIES, MOST_IN_A_TEST = 200, 6, 10_000
"""The number of calls that are measured, that are repeated with other numbers, and that are looked
at in one test."""

MOST_FACTS, LONGEST_FACT = 200, 80
"""The number of properties that calls may share, and the length of an argument's name there."""

_COTANGENT = re.compile(r"returned(?:\[(\d+)\])?")
"""The name of what a rule returns: the cotangent of its only operand, or of one of several."""

CommonFact = tuple[PropertyKind, Annotated[str, msgspec.Meta(max_length=LONGEST_FACT)]]


class CallComparison(msgspec.Struct):
    """What the calls of the changed functions show; read from a process, it may be forged."""

    calls: Annotated[int, msgspec.Meta(ge=0, le=MOST_CALLS)] = 0
    """The number of calls that were measured."""
    forwards: Annotated[int, msgspec.Meta(ge=0, le=MOST_CALLS)] = 0
    """The number of calls that only saved something for a rule; a larger number is not counted."""
    unmeasured: bool = False
    """Whether some calls could not be measured."""
    more: bool = False
    """Whether there were more than can be measured."""
    wrong_test: int | None = None
    """The first test in which a call gives a wrong number, and the number of the call there."""
    wrong_call: Annotated[int, msgspec.Meta(ge=0, le=MOST_IN_A_TEST)] = 0
    common: Annotated[set[CommonFact], msgspec.Meta(max_length=MOST_FACTS)] | None = None
    """The properties that all calls share, each with the name of an argument, or none.

    If some calls run the changed code, only they count."""
    reveals: set[Variation] = set()
    """In which ways other arguments of some call show a wrong number."""
    cotangents: set[str] = set()
    """The arguments that are cotangents."""
    written: set[str] = set()
    """The arrays that calls write."""
    counts: set[str] = set()
    """The arguments that are whole numbers, such as an axis: they are not changed."""


@dataclass(frozen=True)
class _Side:
    """A version of a function, ready to be called."""

    run: Callable[[], Any]
    roots: Mapping[str, Any]
    """What it can reach."""
    heap: Heap


@dataclass(frozen=True)
class _Pair:
    """A function that the changed version has left, and that of the clean version."""

    changed: FunctionType
    clean: FunctionType
    kept: object
    """What they belong to, so that no `id` is used again."""


@dataclass(frozen=True)
class _Outcome:
    numbers: Numbers
    raised: str


class Comparer:
    """Compares the calls of one process."""

    def __init__(self) -> None:
        self.result = CallComparison()
        self.test = -1
        self._number = 0
        self._inside = False
        self._is_changed = True
        self._has_run = False
        self._partners: dict[frozenset[int], list[_Pair]] = {}
        self._contexts: dict[int, tuple[Any, Mapping[str, Any], Any]] = {}

    def install(self) -> None:
        """Define the builtins."""
        setattr(builtins, COMPARE, self.call)
        setattr(builtins, CHANGED, self._version)

    def is_decided(self) -> bool:
        """Whether more calls cannot change the result."""
        return self.result.wrong_test is not None or self._is_full()

    def _is_full(self) -> bool:
        """Whether there was another call after those that can be measured."""
        return self.result.more and self.result.calls >= MOST_CALLS

    def _version(self) -> bool:
        """Return which version runs, where the two differ."""
        self._has_run = True
        return self._is_changed

    @contextlib.contextmanager
    def during(self, test: int) -> Iterator[None]:
        """Run a test in this context."""
        self.test, self._number = test, 0
        yield

    def call(
        self,
        body: FunctionType,
        role: Role,
        names: Sequence[str],
        values: Sequence[Any],
        cotangents: Sequence[str],
        optional: Sequence[str],
        operands: Sequence[str],
    ) -> Any:
        """Return what the changed version of a function returns; compare it with the clean one."""
        if self._inside or self.result.wrong_test is not None:
            return body(*values)
        if self.result.calls >= MOST_CALLS or self._number >= MOST_IN_A_TEST:
            self.result.more = True
            return body(*values)
        self._number += 1
        self.result.cotangents.update(cotangents)
        arguments = dict(zip(names, values, strict=True))
        frame = sys._getframe(1)
        call = _Call(self, body, role, arguments, cotangents, optional, operands, frame)
        self._inside = True
        sides: Sequence[_Side] = ()
        try:
            try:
                sides = call.prepare()
                self._has_run = False
                clean = call.run_clean(sides)
                is_idle = role == "changed" and not self._has_run
                # Once calls have nothing in common, they never will.
                common = call.facts() if self.result.common != set() else set()
                if is_idle:
                    common = {NOT_RUN, *(fact for fact in common if fact[0] == "none")}
                reveals = call.reveals(sides, clean)
            except Exception:  # an object may refuse to be looked at, or to be called again
                with contextlib.suppress(Exception):
                    _restore(sides)
                self.result.unmeasured = True
                return body(*values)
            return call.run_changed(sides, clean, common, reveals)
        finally:
            self._inside = False

    def note_forward(self) -> None:
        """Note a call that gives the right numbers, and saves some for a rule."""
        self.result.forwards = min(self.result.forwards + 1, MOST_CALLS)
        self._number -= 1

    def note(self, is_right: bool, common: set[Fact], reveals: set[Variation]) -> None:
        """Note a call that was measured."""
        result = self.result
        result.calls += 1
        if not is_right:
            result.wrong_test, result.wrong_call = self.test, self._number
        if result.common is None or (NOT_RUN in result.common and NOT_RUN not in common):
            result.common = common
        elif NOT_RUN in result.common or NOT_RUN not in common:
            result.common = result.common & common
        result.reveals |= reveals


@dataclass
class _Call:
    """One call, while it is compared."""

    comparer: Comparer
    body: FunctionType
    role: Role
    arguments: dict[str, Any]
    cotangents: Sequence[str]
    optional: Sequence[str]
    """The arguments that may explain the same numbers by being None."""
    operands: Sequence[str]
    """The parameters of the function, and of those around it."""
    frame: FrameType
    """The frame of the function that is called."""
    result: Any = None
    error: BaseException | None = None
    """What the version that ran last has returned or raised."""
    clean_result: Any = None
    partner: Callable[..., Any] | None = None
    """The function of the clean version that is called instead of `body`."""
    discards: bool = False
    """Whether only numbers differ that the engine discards, since an operand needs no gradient."""
    saved: tuple[Mapping[str, Any], Any] | None = None
    """What the clean version has saved in its context: attributes, and tensors of PyTorch."""

    def prepare(self) -> tuple[_Side, _Side]:
        """Return the clean and the changed side."""
        values = list(self.arguments.values())
        changed_roots = {**self.arguments, **closure(self.body)}
        clean_roots, clean = dict(changed_roots), lambda: self.body(*values)
        if self.role == "inner":
            clean, own = self._partner(values)
            clean_roots |= own
        elif self.role == "rule" or (self.role == "changed" and self._context(values)):
            others = [self._clean_context(values), *values[1:]]
            clean_roots = dict(zip(self.arguments, others, strict=True)) | closure(self.body)
            clean = lambda: self.body(*others)  # noqa: E731  one of three
        shared = dict(_sources_of_chance())
        variables = self.body.__globals__
        heap = other = Heap({**changed_roots, **shared}, variables)
        if any(clean_roots[name] is not changed_roots.get(name) for name in clean_roots):
            other = Heap({**clean_roots, **shared}, variables)
        return (
            _Side(clean, clean_roots, other),
            _Side(lambda: self.body(*values), changed_roots, heap),
        )

    # ----- Running -----

    def run_clean(self, sides: tuple[_Side, _Side]) -> _Outcome:
        """Run the clean version twice, and return its outcome. Raises CannotCompare."""
        clean = sides[0]
        outcome = self._run(clean, changed=False)
        self.clean_result = self.result
        self._keep()
        _restore(sides)
        if self.error is not None and not isinstance(self.error, Exception):
            raise CannotCompare
        again = self._run(clean, changed=False)
        _restore(sides)
        if not self._agree(again, outcome, sides):
            raise CannotCompare
        return outcome

    def run_changed(
        self,
        sides: tuple[_Side, _Side],
        clean: _Outcome,
        common: set[Fact],
        reveals: set[Variation],
    ) -> Any:
        """Run the changed version, note whether it agrees, and return its result or raise."""
        try:
            outcome = self._run(sides[1], changed=True)
            is_right = self._agree(outcome, clean, sides)
            self._pair()
        except CannotCompare:
            self.comparer.result.unmeasured = True
        else:
            if is_right and self.role == "forward":
                self.comparer.note_forward()
            else:
                needed: set[Variation] = {"needed"} if self.discards else set()
                self.comparer.note(is_right, common, reveals | needed)
        if self.error is not None:
            raise self.error
        return self.result

    def _run(self, side: _Side, *, changed: bool) -> _Outcome:
        """Run a side; raises CannotCompare if its numbers cannot be read."""
        self.comparer._is_changed, self.result, self.error = changed, None, None
        try:
            self.result = side.run()
        except BaseException as error:
            self.error = error
        finally:
            self.comparer._is_changed = True
        returned = numbers_in(self.result, "returned")
        written = side.heap.written()
        if self.role == "forward" and self.arguments:  # what it saves is compared where it is used
            own = next(iter(self.arguments))
            written = {k: v for k, v in written.items() if not k.startswith(f"{own}.")}
        return _Outcome({**written, **returned}, type(self.error).__name__ if self.error else "")

    def _agree(
        self,
        actual: _Outcome,
        expected: _Outcome,
        sides: tuple[_Side, _Side],
        frozen: int | None = None,
    ) -> bool:
        """Whether two outcomes have the same numbers; one input may need no gradient."""
        if actual.raised or expected.raised:
            return actual.raised == expected.raised
        before, discarded = sides[0].heap.before, self._discarded_by_torch(frozen)
        scale = largest(*(array for array in before.values() if array.dtype.kind in "fc"))
        wrong, discards = [], False
        for name in {**actual.numbers, **expected.numbers}:
            one, other = (side.numbers.get(name, before.get(name)) for side in (actual, expected))
            if one is not None and other is not None:
                if self._needed is not None:
                    one, other = _summed_alike(one, other)
                if one.shape == other.shape and not wrong_entries(one, other, scale=scale).any():
                    continue
                if self._is_absorbed(name, one, other):
                    continue
            if not name.startswith(discarded) and not self._is_update(name, sides):
                wrong.append(name)
            elif one is not None and other is not None:
                discards = frozen is None
        found = self.result
        if wrong and isinstance(found, list) and found and sides[1].heap.holds_all(found):
            raise CannotCompare  # they are only in another order, such as the nodes of a graph
        if wrong and not all(name.startswith(self._discarded()) for name in wrong):
            return False
        self.discards |= discards or bool(wrong)
        return True

    def _is_absorbed(self, name: str, actual: NumericArray, expected: NumericArray) -> bool:
        """Whether a cotangent differs in its shape only, and the next rules broadcast it."""
        place, found = _COTANGENT.fullmatch(name), node_of_rule(self.frame)
        if not (place and found and found[1] and is_only_broadcast(actual, expected)):
            return False
        if attributes(found[0]).get("grad") is not None:  # the engine keeps all of them
            return False
        operands, position = operands_of(found[0]), int(place[1] or 0)
        return position < len(operands) and Absorption(self._run_rule).holds(
            operands[position], actual, expected
        )

    def _run_rule(self, rule: Callable[..., Any], cotangent: NumericArray, changed: bool) -> Any:
        """Call the rule of another node, and undo what it has written."""
        heap = Heap({"rule": rule})
        self.comparer._is_changed = changed
        try:
            return rule(cotangent)
        finally:
            self.comparer._is_changed = True
            heap.restore()

    def _is_update(self, name: str, sides: tuple[_Side, _Side]) -> bool:
        """Whether an argument was updated in place and returned, and nobody else holds it.

        Then what is returned shows whether the numbers are right. The caller that passes the array
        to be updated may hold it in one place.
        """
        array = self.arguments.get(name)
        if array is not self.result or not isinstance(array, np.ndarray) or array.base is not None:
            return False
        own: list[object] = [self.__dict__, self.arguments, *(side.roots for side in sides)]
        own += [side.heap for side in sides]
        return holders(array, own, self.arguments, containers_of_callers(self.frame)) < 2

    @property
    def _needed(self) -> Sequence[bool] | None:
        """Which inputs need a gradient, as a context of PyTorch says; None without one."""
        return getattr(next(iter(self.arguments.values()), None), "needs_input_grad", None)

    def _discarded_by_torch(self, frozen: int | None) -> tuple[str, ...]:
        """Return the beginnings of the names of gradients that PyTorch discards."""
        needed = enumerate(self._needed or ())
        return tuple(f"returned[{i}]" for i, one in needed if not one or i == frozen)

    def _discarded(self) -> tuple[str, ...]:
        """Return the beginnings of the names of cotangents of operands that need no gradient.

        Raises CannotCompare if a rule called the function, and discards some of its cotangents:
        the one that the function has computed may be among them.
        """
        reachable = {**self.arguments, **closure(self.body)}
        names = [
            f"{name}.grad"
            for name, value in reachable.items()
            if getattr(value, "requires_grad", None) is False
        ]
        needed, is_rule = needed_by_node(self.frame) or ((), True)
        if not is_rule and not all(needed):
            raise CannotCompare
        if not needed and self.cotangents:  # a rule that is called with the node
            found = map(needed_by_operands, self.arguments.values())
            needed = next((one for one in found if one), ())
        if isinstance(self.result, tuple | list) and len(self.result) == len(needed):
            names += [f"returned[{i}]" for i, one in enumerate(needed) if not one]
        return tuple(names)

    # ----- What is common, and what would reveal a difference -----

    def facts(self) -> set[Fact]:
        """Return the properties of the arguments."""
        operands = [name for name in self.operands if name not in self.cotangents]
        facts = facts_of({**self.arguments, **closure(self.body)}, operands)
        if not all(self._needed or (needed_by_node(self.frame) or ((), True))[0]):
            facts.add(("no-gradient", ""))
        telling = [
            (kind, name)
            for kind, name in sorted(facts)
            if len(name) <= LONGEST_FACT and (kind != "none" or name in self.optional)
        ]
        return set(telling[:MOST_FACTS])

    def reveals(self, sides: tuple[_Side, _Side], clean: _Outcome) -> set[Variation]:
        """Return in which ways other arguments would show a difference."""
        done = self.comparer.result
        if self.role == "forward":  # what it saves shows in the rule
            return set()
        done.written |= {name for name in clean.numbers if not name.startswith("returned")}
        if done.calls >= MOST_TRIES:
            return set()
        done.counts |= {
            label
            for name, value in {**self.arguments, **closure(self.body)}.items()
            if name not in self.cotangents
            for label, part in arrays_in(value, name)
            if label not in self.cotangents and copied(part).dtype.kind in "iu"
        }
        found: set[Variation] = set()
        for kind in VARIATIONS:
            if kind not in done.reveals:
                with contextlib.suppress(Exception):  # it may refuse other arguments
                    if any(self._differ_on(sides, kind, i) for i in self._choices(kind)):
                        found.add(kind)
                _restore(sides)
        return found

    def _choices(self, kind: Variation) -> Sequence[int]:
        """Return the numbers of the variations of a kind."""
        if kind == "frozen":
            needed = self._needed or ()
            return [i for i, one in enumerate(needed) if one] if sum(map(bool, needed)) > 1 else []
        if kind == "needed":
            return []
        return [0] if kind != "graph" or self._needed is not None else []

    def _differ_on(self, sides: tuple[_Side, _Side], kind: Variation, number: int) -> bool:
        """Whether the versions differ on other arguments."""
        outcomes = []
        for changed, side in ((False, sides[0]), (True, sides[1])):
            given = {name: side.roots.get(name, value) for name, value in self.arguments.items()}
            free = [name for name in given if name in self.cotangents]
            given |= {name: float(given[name]) for name in free if type(given[name]) is int}
            free = free or [name for name in given if name not in ("ctx", "self", "cls")]
            runner = self.partner if self.partner and not changed else self.body
            written = self.comparer.result.written
            run = varied(kind, number, given, free, self._targets(), side.roots, written)
            outcome = self._run(replace(side, run=partial(run, runner)), changed=changed)
            outcomes.append(outcome)
            _restore(sides)
        clean, other = outcomes
        frozen = number if kind == "frozen" else None
        return not clean.raised and not self._agree(other, clean, sides, frozen)

    def _targets(self) -> list[Target]:
        """Return the attributes in which a rule without parameters finds its cotangent."""
        found = []
        for expression in self.cotangents:
            first, *names = expression.split(".")
            owner = closure(self.body).get(first)
            for name in names[:-1]:
                owner = getattr(owner, name, None)
            found += [Target(owner, name) for name in names[-1:]]
        return [target for target in found if target.is_free]

    # ----- Functions and contexts that a changed function leaves -----

    def _partner(self, values: Sequence[Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
        pairs = self.comparer._partners.get(_cells(self.body), ())
        found = next((one for one in pairs if _contains(one.changed, self.body)), None)
        if found is None:
            raise CannotCompare
        self.partner = partner = found.clean
        own, theirs = closure(partner), closure(self.body)
        for name, value in own.items():  # an op's result gets its gradient after the op has run
            gradient = getattr(theirs.get(name), "grad", None)
            if gradient is not None and theirs[name] is not value and hasattr(value, "grad"):
                value.grad = copy.copy(gradient)
        return lambda: partner(*values), own

    def _pair(self) -> None:
        """Note which functions and contexts of the two versions belong together."""
        if self.role == "forward" and self.arguments and self.saved is not None:
            context = next(iter(self.arguments.values()))
            self.comparer._contexts[id(context)] = (context, *self.saved)
        ours = dict(_functions_in(self.clean_result, "returned"))
        theirs = dict(_functions_in(self.result, "returned"))
        for name, function in theirs.items():
            if name in ours:
                pair = _Pair(function, ours[name], (self.clean_result, self.result))
                self.comparer._partners.setdefault(_cells(function), []).insert(0, pair)

    def _keep(self) -> None:
        """Remember what the clean version has saved in its context."""
        if self.role == "forward" and self.arguments:
            context = next(iter(self.arguments.values()))
            own = dict(getattr(context, "__dict__", {}))
            self.saved = own, getattr(context, "to_save", None)

    def _context(self, values: Sequence[Any]) -> Any:
        """Return what the clean version has saved in the first argument; None if not known."""
        return self.comparer._contexts.get(id(values[0])) if values else None

    def _clean_context(self, values: Sequence[Any]) -> Any:
        """Return a context as the clean version has left it. Raises CannotCompare."""
        found = self._context(values)
        if found is None:
            raise CannotCompare
        context, saved, tensors = found
        if hasattr(context, "needs_input_grad"):
            return _TorchContext(context, saved, tensors)
        clean = copy.copy(context)
        clean.__dict__.update(saved)
        return clean


class _TorchContext:
    """A context of PyTorch with other saved values."""

    def __init__(self, context: Any, saved: Mapping[str, Any], tensors: Sequence[Any]) -> None:
        self.__dict__.update(saved)
        self.__dict__["_breaklab"] = context, tensors

    def __getattr__(self, name: str) -> Any:
        context, tensors = self.__dict__["_breaklab"]
        return tuple(tensors or ()) if name == "saved_tensors" else getattr(context, name)


def _restore(sides: Sequence[_Side]) -> None:
    heaps = [side.heap for side in sides]
    for heap in heaps[:1] if heaps[:1] == heaps[1:] else heaps:  # often, both sides share one
        heap.restore()


def _cells(function: Any) -> frozenset[int]:
    """Return the variables of enclosing functions: the body of a function has the same."""
    return frozenset(map(id, function.__closure__ or ()))


def _contains(function: FunctionType, body: FunctionType) -> bool:
    return any(constant is body.__code__ for constant in function.__code__.co_consts)


BODY = "__breaklab_body__"
"""The name of the function inside a function that contains its statements."""


def _sources_of_chance() -> Iterator[tuple[str, Any]]:
    """Yield the generators of random numbers that every function can reach."""
    yield "random", random._inst
    yield "numpy.random", np.random.mtrand._rand
    yield "torch.random", getattr(sys.modules.get("torch"), "default_generator", None)


def _functions_in(value: Any, label: str, depth: int = 3) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions in a value and its parts."""
    if isinstance(value, FunctionType):
        yield label, value
    elif depth and isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _functions_in(item, f"{label}[{i}]", depth - 1)
    elif depth and not isinstance(value, type) and not is_tensor(value):
        for name, item in list(getattr(value, "__dict__", {}).items()):
            if isinstance(item, FunctionType | list | tuple):
                yield from _functions_in(item, f"{label}.{name}", depth - 1)


# ----- Comparing -----


def _summed_alike(one: NumericArray, other: NumericArray) -> tuple[NumericArray, NumericArray]:
    """Return two gradients of one shape if one is the other, summed: PyTorch sums gradients."""
    if one.size < other.size:
        return one, summed_to(one.shape, other)
    return summed_to(other.shape, one), other
