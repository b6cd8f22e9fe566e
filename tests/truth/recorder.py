"""Run probes on a copy of minigrad that lies on disk, and record every number in it.

Imports nothing of the harness, so that a mistake in the harness cannot hide here:

    python -c "from tests.truth.recorder import main; main()" TREE < cases > records

`TREE` is the folder that contains `minigrad`. Each case runs in a fork of its own.
"""

import dataclasses
import os
import pickle
import random
import sys
import warnings
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

import numpy as np
from numpy.random import mtrand
from numpy.typing import NDArray

Numbers = list[NDArray[Any]]
"""All numbers in a value, as arrays, in order. Types, names and texts are left out."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A probe with its inputs."""

    source: str
    function: str
    kind: Literal["gradient", "steps", "module"]
    takes_lib: bool
    leaves: dict[str, NDArray[Any]]
    uniform: bool
    cotangent_seed: tuple[int, ...]
    global_seed: int
    changed: frozenset[tuple[str, str]] = frozenset()
    """The functions to watch, by file and qualified name."""


@dataclasses.dataclass
class Call:
    """A call of a watched function: the numbers that went in, came out, and were left behind."""

    function: tuple[str, str]
    arguments: Numbers
    result: Numbers
    arguments_after: Numbers
    raised: bool = False


@dataclasses.dataclass
class RuleCall:
    """A backward rule that ran: what it received, and what it passed to each operand."""

    op: str
    value: NDArray[Any]
    received: NDArray[Any]
    passed: list[NDArray[Any] | None]


@dataclasses.dataclass
class Record:
    """What was observed."""

    error: str | None = None
    """The type of the exception that ended the run."""
    observed: dict[str, NDArray[Any] | None] = dataclasses.field(default_factory=dict)
    """Everything that a learner could look at, by name."""
    shared: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    """The gradients that share memory, and with what."""
    generator_moved: bool = False
    calls: list[Call] = dataclasses.field(default_factory=list)
    rules: list[RuleCall] = dataclasses.field(default_factory=list)
    values: Numbers = dataclasses.field(default_factory=list)
    """All arrays and tensors that the engine's functions returned."""


def numbers(value: Any, depth: int = 5, seen: frozenset[int] = frozenset()) -> Numbers:
    """Return the numbers in a value: an array, a tensor with its gradient, an object's fields.

    A flag among the fields is not a number: if it steers wrongly, other numbers show it.
    """
    if isinstance(value, np.ndarray):
        return [np.array(value)] if value.dtype.kind in "biufc" else []
    if isinstance(value, bool | int | float | complex | np.generic):
        return [np.asarray(value)] if np.asarray(value).dtype.kind in "biufc" else []
    if depth == 0 or id(value) in seen or isinstance(value, str | bytes | type | CodeType):
        return []
    inner = seen | {id(value)}
    if isinstance(value, dict):
        items = [item for item in value.values() if not isinstance(item, bool)]
        return [n for item in items for n in numbers(item, depth - 1, inner)]
    if isinstance(value, list | tuple):
        return [n for item in value for n in numbers(item, depth - 1, inner)]
    if isinstance(getattr(value, "data", None), np.ndarray):
        gradient = getattr(value, "grad", None)
        return [*numbers(value.data), *(numbers(gradient) if gradient is not None else [])]
    if type(value).__module__.partition(".")[0] == "minigrad" and hasattr(value, "__dict__"):
        return numbers(vars(value), depth, inner)
    return []


class _Recorder:
    """Records one case; see `Record`."""

    def __init__(self, tree: str, case: Case) -> None:
        import minigrad

        self.tree, self.case, self.library = str(Path(tree, "minigrad")), case, minigrad
        self.record, self.made, self.leaves = Record(), [], {}
        self.open: dict[FrameType, Call] = {}

    def run(self) -> Record:
        initialise = self.library.Tensor.__init__

        def noting(tensor: Any, *arguments: Any, **options: Any) -> None:
            initialise(tensor, *arguments, **options)
            self.made.append(tensor)

        backward = self.library.Tensor.backward

        def watched(tensor: Any, *arguments: Any, **options: Any) -> None:
            sys.setprofile(None)
            self._wrap_rules(tensor)
            sys.setprofile(self._profile)
            backward(tensor, *arguments, **options)

        self.library.Tensor.__init__, self.library.Tensor.backward = noting, watched
        before = repr(mtrand.get_bit_generator().state)
        try:
            getattr(self, f"_{self.case.kind}")()
        except Exception as error:
            self.record.error = type(error).__name__
        finally:
            sys.setprofile(None)
        self.record.generator_moved = repr(mtrand.get_bit_generator().state) != before
        return self.record

    def _profile(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.tree):
            return
        key = (os.path.relpath(code.co_filename, self.tree), code.co_qualname)
        if event == "call":
            if key in self.case.changed:
                self.open[frame] = Call(key, self._arguments(frame), [], [])
            return
        if isinstance(value, np.ndarray) or isinstance(getattr(value, "data", None), np.ndarray):
            self.record.values += numbers(value)
        elif isinstance(value, tuple):
            self.record.values += [n for n in numbers(value, 2) if n.ndim]
        if call := self.open.pop(frame, None):
            call.result, call.arguments_after = numbers(value), self._arguments(frame)
            self.record.calls.append(call)

    def _arguments(self, frame: FrameType) -> Numbers:
        code = frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & 4) + bool(code.co_flags & 8)
        return [n for name in code.co_varnames[:count] for n in numbers(frame.f_locals.get(name))]

    def _call(self) -> Any:
        names: dict[str, Any] = {"__name__": "probes"}
        exec(self.case.source, names)  # noqa: S102  a probe is code
        arguments = (self.library,) if self.case.takes_lib else ()
        leaf = self.library.Tensor
        self.leaves = {
            name: leaf(data.copy(), requires_grad=True) for name, data in self.case.leaves.items()
        }
        self.made.clear()
        sys.setprofile(self._profile)
        return names[self.case.function](*arguments, **self.leaves)

    def _observe(self, label: str, value: Any) -> None:
        value = getattr(value, "data", value) if not isinstance(value, np.ndarray) else value
        self.record.observed[label] = None if value is None else np.array(value)

    def _observe_leaves(self, label: str) -> None:
        """Observe the gradients of the probe's own leaves; one of zeros is as good as none."""
        for name, leaf in self.leaves.items():
            if leaf.grad is not None and np.any(leaf.grad):
                self._observe(f"{label}{name}.grad", leaf.grad)

    def _observe_made(self, label: str) -> None:
        for position, tensor in enumerate(self.made):
            if tensor.grad is not None:
                self._observe(f"{label}the gradient of tensor {position}", tensor.grad)
                self._observe(f"{label}the data of tensor {position}", tensor.data)

    def _gradient(self) -> None:
        output = self._call()
        value = np.asarray(getattr(output, "data", output))
        self._observe("the output", value)
        shape = np.shape(value)
        generator = np.random.default_rng(self.case.cotangent_seed)
        drawn = np.ones(shape) if self.case.uniform else generator.standard_normal(shape)
        cotangent = np.asarray(drawn).astype(value.dtype)
        kept = cotangent.copy()
        output.backward(cotangent)
        sys.setprofile(None)
        for name, tensor in self.leaves.items():
            self._observe(f"{name}.grad", tensor.grad)
            self._observe(f"{name} afterwards", tensor.data)
        if not np.array_equal(kept, cotangent, equal_nan=True):
            self._observe("the cotangent afterwards", cotangent)
        self._observe_made("")
        own = {f"{name}.grad": tensor.grad for name, tensor in self.leaves.items()}
        others = {name: tensor.data for name, tensor in self.leaves.items()}
        others |= {"the cotangent": cotangent, "the output": value}
        for name, gradient in own.items():
            for other, array in (own | others).items():
                if other > name or other in others:
                    both = gradient is not None and array is not None
                    if both and other != name and np.shares_memory(gradient, array):
                        self.record.shared.add((name, other))

    def _wrap_rules(self, output: Any) -> None:
        """Let each rule of the graph below `output` record what it receives and passes on."""
        pending, done = [output], set()
        while pending:
            node = pending.pop()
            if id(node) in done or getattr(node, "vjp", None) is None:
                continue
            done.add(id(node))
            if not hasattr(node.vjp, "watched"):
                node.vjp = self._recording(node)
            pending += node.parents

    def _recording(self, node: Any) -> Any:
        rule, op, value = node.vjp, node.op, np.array(node.data)
        used = [parent.requires_grad for parent in node.parents]

        def recording(g: Any) -> Any:
            received, before = np.array(g), len(self.record.calls)
            passed = rule(g)
            copies = [None if item is None else np.array(item) for item in passed]
            self.record.rules.append(RuleCall(op, value, received, copies))
            if len(self.record.calls) > before:  # of these, what no operand needs, nothing uses
                needed = [item for item, wanted in zip(passed, used, strict=False) if wanted]
                given, after = numbers([received, value]), numbers([g, node.data])
                call = Call((op, "the rule"), given, numbers(needed), after)
                self.record.calls[before:] = [call]
            return passed

        recording.watched = True
        return recording

    def _steps(self) -> None:
        for step, snapshot in enumerate(self._call()):
            for name, value in snapshot.items():
                self._observe(f"step {step}: {name}", value)
            self._observe_leaves(f"step {step}: ")
        sys.setprofile(None)
        self._observe_leaves("at the end: ")
        self._observe_made("")

    def _module(self) -> None:
        ((_, x),) = self.case.leaves.items()
        layer = self._call()
        runs = ("train", x), ("eval", x), ("eval", x), ("eval", x[:1]), ("train", x)
        for number, (mode, data) in enumerate(runs):
            getattr(layer, mode)()
            value = layer(self.library.Tensor(data.copy(), requires_grad=True))
            self._observe(f"call {number}", value)
            for name, state in layer.state_dict().items():
                self._observe(f"call {number}: {name}", state)
            flags = [bool(getattr(part, "training", False)) for part in layer.modules()]
            self._observe(f"call {number}: training", np.array(flags))


def main() -> None:
    """Read cases from standard input, and write their records to standard output."""
    tree = sys.argv[1]
    cases: list[Case] = pickle.load(sys.stdin.buffer)
    warnings.simplefilter("ignore")
    sys.path.insert(0, tree)
    seed = cases[0].global_seed
    mtrand.set_bit_generator(np.random.PCG64(seed))
    random.seed(seed)
    import minigrad

    assert Path(minigrad.__file__).parent == Path(tree, "minigrad")
    sys.stdout.buffer.write(pickle.dumps([_in_fork(tree, case) for case in cases]))


def _in_fork(tree: str, case: Case) -> Record:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        random.seed(case.global_seed)
        with os.fdopen(writer, "wb") as stream:
            stream.write(pickle.dumps(_Recorder(tree, case).run()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else Record(error="the process ended")
