"""What the usual tests of a backward rule leave out, in one call: `check_rule`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from harness.gradients.trial import (
    EXACT,
    ROUNDINGS,
    GradcheckError,
    RuleError,
    Subject,
    Tensors,
    Trial,
    difference,
    is_float,
    is_tensor,
    largest,
    layouts,
    same,
    torch,
)

SEEDS = 8
"""How often the function is called to find out whether it draws random numbers."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Settings:
    """How a rule is checked: see `check_rule`."""

    optional: Collection[int]
    dtypes: Sequence[Any]
    autocast: Any
    eps: float
    atol: float
    rtol: float

    def gradcheck(self, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
        """Run PyTorch's own check. Raises GradcheckError."""
        torch.autograd.gradcheck(
            function, tuple(inputs), eps=self.eps, atol=self.atol, rtol=self.rtol
        )


def check_rule(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    optional: Collection[int] = (),
    dtypes: Sequence[Any] = DTYPES,
    autocast: Any = torch.bfloat16,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    seed: int = 0,
    skip: Collection[str] = (),
    raise_exception: bool = True,
) -> bool:
    """Check the backward rule of a PyTorch function, also where gradcheck does not look.

    `torch.autograd.gradcheck` compares the Jacobian with finite differences, for contiguous
    cotangents, in float64, with all inputs as they are passed. `check_rule` begins with it, and
    then varies what a model varies: the layout and dtype of the cotangent, and which inputs need
    a gradient. The checks run in this order, and the first that fails is reported:

    ============ ==================================================================================
    `written`    The backward pass writes into no input, output, saved tensor or cotangent; the
                 forward pass into no input that needs a gradient, except after `ctx.mark_dirty`.
    `twice`      Two backward passes through one graph, and through two graphs, give the same.
    `unused`     If only one of several outputs is used, the others have a cotangent of 0. (With
                 `ctx.set_materialize_grads(False)`, the rule gets None for it.)
    `gradcheck`  `torch.autograd.gradcheck`, with its defaults except for the arguments below.
    `layouts`    Random cotangents that are contiguous, transposed, sliced, offset or broadcast
                 (stride 0) give the gradients that follow from the Jacobian.
    `frozen`     The other gradients are the same if an input, or all inputs but one, need no
                 gradient; the outputs are the same if none does.
    `none`       `gradcheck`, `layouts`, `frozen` and `autocast` with None for each input that may
                 be None.
    `second`     `torch.autograd.gradcheck` of the gradients, one input at a time.
                 (`gradgradcheck` leaves out a gradient that is detached if another one is not.)
                 A rule whose second derivative raises, as with `once_differentiable`, passes.
    `dtypes`     In each dtype, gradients for random cotangents are those of float64, up to
                 rounding.
    `autocast`   Likewise for float32 inputs under `torch.autocast`, with the backward pass outside
                 of it, as PyTorch recommends, and inside.
    `opcheck`    `torch.library.opcheck`, if `fn` is a custom op.
    ============ ==================================================================================

    Parameters
    ----------
    fn : callable
        Takes the inputs as positional arguments, and returns a tensor, or a tuple or list with
        tensors: `MyFunction.apply`, a custom op, or any Python function. Outputs that are not
        floating-point tensors are ignored. It must accept float64, must not draw random numbers,
        and may write into its inputs only if autograd knows (`ctx.mark_dirty`).
    inputs : sequence
        Its arguments. Floating-point tensors are copied, and converted to float64; your tensors
        are never changed. Gradients are checked for those with `requires_grad=True`. Tensors can
        have any shape, but are best small (about ten elements), with distinct lengths, and distinct
        values that are away from kinks and ties. Other arguments are passed as they are.
    optional : collection of int, default: ()
        Numbers of inputs that may be None. Those whose parameter has the default None are tried
        too, and left out if `fn` raises.
    dtypes : sequence of torch.dtype, default: (torch.float32, torch.bfloat16, torch.float16)
        Dtypes in which the rule runs. A dtype with which `fn` raises is left out.
    autocast : torch.dtype or None, default: torch.bfloat16
        The dtype of autocast; None leaves the check out, as an `fn` that raises does.
    eps, atol, rtol : float, defaults: 1e-6, 1e-5, 1e-3
        As in `torch.autograd.gradcheck`. They are not used by the comparisons of two results of
        the rule, which have bounds of their own: 1e-9 in float64, and 32 units in the last place
        of any other dtype, both relative to the largest sum of absolute values of the terms in
        `cotangent @ jacobian`.
    seed : int, default: 0
        Determines the random cotangents.
    skip : collection of str, default: ()
        Names of checks to leave out.
    raise_exception : bool, default: True
        If False, return False instead of raising RuleError.

    Returns
    -------
    bool
        True if all checks pass.

    Raises
    ------
    RuleError
        If a check fails; an AssertionError. The message names the check, the input, the cotangent,
        the two numbers that differ most, and a likely cause.
    ValueError
        If no input requires a gradient, an input is complex or not strided, `fn` returns no
        floating-point tensor or is random, or `skip` or `optional` name what does not exist.

    Notes
    -----
    If k inputs that require a gradient have n elements together, and the outputs m, the function
    is called about 2 k (n + m) times for second derivatives, and some tens of times more than
    2 n + m for the rest. Inputs that may be None add the same again, without second derivatives.
    """
    with _recording():
        subject = _subject(fn, inputs, seed)
    settings = Settings(optional, dtypes, autocast, eps, atol, rtol)
    if unknown := sorted(set(skip) - set(CHECKS)):
        raise ValueError(f"skip: no check is called {unknown[0]!r}; they are {', '.join(CHECKS)}")
    if wrong := [n for n in optional if n not in range(len(subject.inputs))]:
        raise ValueError(f"optional: there is no input {wrong[0]}")
    try:
        with _recording():
            for name, check in CHECKS.items():
                if name not in skip:
                    check(subject, settings)
    except RuleError:
        if raise_exception:
            raise
        return False
    return True


@contextmanager
def _recording() -> Iterator[None]:
    """Let autograd record, also inside the caller's `torch.no_grad()` or `inference_mode()`."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        yield


def _subject(fn: Callable[..., Any], inputs: Sequence[Any], seed: int) -> Subject:
    inputs = (inputs,) if is_tensor(inputs) else tuple(inputs)
    wanted = tuple(n for n, value in enumerate(inputs) if is_tensor(value) and value.requires_grad)
    if not wanted:
        raise ValueError("no input requires a gradient: pass tensors with requires_grad=True")
    for number, value in enumerate(inputs):
        if is_tensor(value) and (value.is_complex() or value.layout != torch.strided):
            raise ValueError(f"input {number} is complex or not strided, which is not supported")
    copies = [v.detach().clone() if is_tensor(v) else v for v in inputs]
    doubles = tuple(v.double() if is_float(v) else v for v in copies)
    subject = Subject(fn, doubles, wanted, seed)
    with torch.random.fork_rng(devices=[]):
        calls = []
        for number in range(SEEDS):
            torch.manual_seed(number)
            calls.append(subject.run().outputs)
    if not calls[0]:
        raise ValueError(
            "fn returns no floating-point tensor: let it return a tensor, or a tuple or list with "
            "tensors"
        )
    if not all(len(one) == len(calls[0]) and all(map(same, one, calls[0])) for one in calls):
        raise ValueError(
            "fn is random: two calls with the same inputs differ. Switch dropout off, or call "
            "torch.manual_seed in fn"
        )
    return subject


def _require_outputs(check: str, subject: Subject, trial: Trial, when: str) -> None:
    """Raise RuleError if a call returns more or fewer tensors than the first one."""
    usual, found = len(subject.shapes), len(trial.outputs)
    if found != usual:
        problem = f"the number of floating-point outputs is {found} {when}, otherwise {usual}"
        raise RuleError(check, problem)


@contextmanager
def _backward(check: str, when: str, cause: str = "") -> Iterator[None]:
    """Turn an exception of the rule into a RuleError."""
    try:
        yield
    except RuleError:
        raise
    except Exception as error:
        details = [f"{type(error).__name__}: {error}"]
        raise RuleError(check, f"the rule raises {when}", details, cause) from error


def _compare(
    check: str, subject: Subject, actual: Iterable[Any], cotangents: Sequence[Any], when: str,
    cause: str, wanted: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """Compare gradients in float64 with what follows from the Jacobian. Raises RuleError."""
    expected, sizes = subject.expected(cotangents)
    found = dict(zip(subject.wanted if wanted is None else wanted, actual, strict=True))
    for number, right, size in zip(subject.wanted, expected, sizes, strict=True):
        if number in found and (gap := difference(found[number], right, EXACT * size)):
            raise RuleError(check, f"the gradient of input {number} is wrong {when}", gap, cause)


def _written(subject: Subject, _: Settings) -> None:
    name = "written"
    saved: list[Any] = []

    def pack(tensor: Any) -> Any:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        trial = subject.run()
    for number in subject.wanted:
        given, before = trial.given[number], subject.inputs[number]
        function = given.grad_fn  # of the copy that we made, unless autograd knows of the writing
        is_ours = function is not None and function.name() == "CloneBackward0"
        if is_ours and not same(given.detach(), before):
            cause = "ctx.mark_dirty is missing, or a copy is"
            raise RuleError(name, f"the forward pass writes into input {number}", (), cause)
    cotangents = [cotangent.clone() for cotangent in subject.cotangents]
    kept = [
        *((f"the cotangent of output {n}", v) for n, v in enumerate(cotangents)),
        *((f"input {n}", v.detach()) for n, v in enumerate(trial.given) if is_tensor(v)),
        *((f"output {n}", v.detach()) for n, v in enumerate(trial.outputs)),
        *(("a saved tensor", v.detach()) for v in saved),
    ]
    before_it = [value.clone() for _, value in kept]
    with _backward(name, "for a random cotangent"):
        trial.gradients(cotangents)
    for (what, now), before in zip(kept, before_it, strict=True):
        if not same(now, before):
            gap = difference(now, before, 0.0) or ()
            cause = "an operation in place on a tensor that others also read"
            raise RuleError(name, f"the backward pass writes into {what}", gap, cause)


def _twice(subject: Subject, _: Settings) -> None:
    name = "twice"
    trial = subject.run()
    with _backward(name, "the first time"):
        first = [g.clone() for g in trial.gradients(subject.cotangents, keep=True)]
    with _backward(name, "the second time (retain_graph=True)", "the rule releases what it saved"):
        second = trial.gradients(subject.cotangents)
    again = subject.run().gradients(subject.cotangents)
    for when, other, cause in (
        ("in a second backward pass through the same graph", second, "saved values are changed"),
        ("when the function is called again", again, "a state outside of the function"),
    ):
        for number, one, two in zip(subject.wanted, first, other, strict=True):
            if gap := difference(two, one, EXACT * largest(one)):
                problem = f"the gradient of input {number} differs {when}"
                raise RuleError(name, problem, gap, cause)


def _unused(subject: Subject, _: Settings) -> None:
    name = "unused"
    for number in subject.run().differentiable if len(subject.shapes) > 1 else ():
        zeros = [torch.zeros_like(one) for one in subject.cotangents]
        nones: list[Any] = [None for _ in zeros]
        zeros[number] = nones[number] = subject.cotangents[number]
        when = f"if only output {number} is used"
        cause = "the cotangent of an output that is not used is None (set_materialize_grads)"
        with _backward(name, when, cause):
            actual = subject.run().gradients(nones)
        expected = subject.run().gradients(zeros)
        for index, one, two in zip(subject.wanted, actual, expected, strict=True):
            if gap := difference(one, two, EXACT * largest(two)):
                raise RuleError(name, f"the gradient of input {index} is wrong {when}", gap, cause)


def _gradcheck(subject: Subject, settings: Settings) -> None:
    with _backward("gradcheck", "in torch.autograd.gradcheck"):
        try:
            settings.gradcheck(subject.composed(), subject.leaves())
        except GradcheckError as error:
            _explain(subject, settings)
            problem = "torch.autograd.gradcheck fails"
            raise RuleError("gradcheck", problem, [str(error).strip()]) from error


def _explain(subject: Subject, settings: Settings) -> None:
    """Raise RuleError for the entry of the Jacobian that differs most, if there is one."""
    for number in subject.run().differentiable or range(len(subject.shapes)):
        rows, shape = subject.jacobian[number], subject.shapes[number].shape
        for index, leaf in enumerate(subject.wanted):
            if not rows or not subject.inputs[leaf].numel():
                continue
            actual = torch.stack([row[index] for row in rows])
            numeric = _numeric(subject, number, index, settings.eps)
            bound = settings.atol + settings.rtol * numeric.abs()
            excess = (actual - numeric).abs() - bound
            if not bool((excess > 0).any()):
                continue
            row, *place = (int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
            at = [int(i) for i in torch.unravel_index(torch.tensor(row), shape)]
            of = f" of output {number}" if len(subject.shapes) > 1 else ""
            when = f"for the cotangent{of} that is 1 at {at}, and 0 elsewhere"
            problem = f"the gradient of input {leaf} is wrong {when}"
            entry = (row, *place)
            details = (
                f"expected {float(numeric[entry]):.6g} at {place} (central difference)",
                f"got      {float(actual[entry]):.6g}",
            )
            raise RuleError("gradcheck", problem, details, _resemblance(actual, numeric))


def _numeric(subject: Subject, number: int, index: int, eps: float) -> Any:
    """Return the Jacobian of an output with respect to one leaf: outputs, then inputs."""
    function, leaves = subject.composed(), [v.detach() for v in subject.leaves()]
    columns = []
    for position in range(leaves[index].numel()):
        sides = []
        for step in (eps, -eps):
            moved = [v.clone(memory_format=torch.contiguous_format) for v in leaves]
            moved[index].view(-1)[position] += step
            with torch.no_grad():
                sides.append(function(*moved)[number].reshape(-1))
        columns.append((sides[0] - sides[1]) / (2 * eps))
    return torch.stack(columns, -1).reshape(-1, *leaves[index].shape)


def _resemblance(actual: Any, numeric: Any) -> str:
    """Say what a wrong Jacobian has in common with the right one."""
    if not bool(actual.any()):
        return "the rule returns None or 0 for this input"
    nonzero = numeric.abs() > largest(numeric) / 1e3
    ratios = actual[nonzero] / numeric[nonzero]
    is_multiple = largest(ratios - ratios[:1]) < 1e-3 * largest(ratios[:1])
    if is_multiple and largest(actual[~nonzero]) <= largest(actual) / 1e3:
        return f"the gradient is {float(ratios[0]):.4g} times the right one"
    return "a factor, a term, a sign, a transpose, or another saved tensor"


def _layouts(subject: Subject, _: Settings) -> None:
    name = "layouts"
    for number, cotangent in enumerate(subject.cotangents):
        others = [torch.zeros_like(one) for one in subject.cotangents]
        of = f" of output {number}" if len(others) > 1 else ""
        for layout, one in layouts(cotangent):
            cotangents = [*others[:number], one, *others[number + 1 :]]
            when = f"for a random cotangent{of} that is {layout}"
            cause = "the strides of the cotangent are ignored: .contiguous() is missing"
            if layout == "contiguous":
                cause = "the rule is not linear in the cotangent, or uses a part of it"
            before = one.clone()
            with _backward(name, when, cause):
                actual = subject.run().gradients(cotangents)
            _compare(name, subject, actual, cotangents, when, cause)
            if not same(one, before):
                raise RuleError(name, f"the backward pass writes into the cotangent {when}")


def _frozen(subject: Subject, _: Settings) -> None:
    name, wanted = "frozen", subject.wanted
    alone = [(n,) for n in wanted] if len(wanted) > 1 else []
    rest = [tuple(n for n in wanted if n != one) for one in wanted] if len(wanted) > 2 else []
    cause = "ctx.needs_input_grad is not read, or that of another input"
    for kept in (*rest, *alone):
        frozen = [str(n) for n in wanted if n not in kept]
        which = "input" if len(frozen) == 1 else "inputs"
        when = f"if {which} {', '.join(frozen)} need{'s' * (len(frozen) == 1)} no gradient"
        with _backward(name, when, cause):
            trial = subject.run(wanted=kept)
            actual = trial.gradients(subject.cotangents)
        _compare(name, subject, actual, subject.cotangents, when, cause, kept)
    trial = subject.run(wanted=())
    _require_outputs(name, subject, trial, "if no input needs a gradient")
    for number, (now, before) in enumerate(zip(trial.outputs, subject.shapes, strict=True)):
        if gap := difference(now, before, EXACT * largest(before)):
            problem = f"output {number} differs if no input needs a gradient"
            raise RuleError(name, problem, gap, "the forward pass reads needs_input_grad")


def _none(subject: Subject, settings: Settings) -> None:
    for number in sorted({*settings.optional, *_defaults(subject.fn)}):
        wanted = tuple(n for n in subject.wanted if n != number)
        if number >= len(subject.inputs) or not is_tensor(subject.inputs[number]) or not wanted:
            continue
        inputs = tuple(None if n == number else v for n, v in enumerate(subject.inputs))
        other = replace(subject, inputs=inputs, wanted=wanted)
        when = f"if input {number} is None"
        try:
            with _backward("none", "in the forward pass"):
                other.run()
        except RuleError as error:
            if number in settings.optional:
                raise RuleError("none", f"{error.problem}, {when}", error.details) from error
            continue
        try:
            for check in (_gradcheck, _layouts, _frozen, _autocast):
                check(other, settings)
        except RuleError as error:
            problem = f"{error.problem}, {when}"
            raise RuleError("none", problem, error.details, error.cause) from error


def _defaults(fn: Callable[..., Any]) -> list[int]:
    """Return the numbers of the parameters whose default is None."""
    owner: Any = getattr(fn, "__self__", None)
    is_function = isinstance(owner, type) and issubclass(owner, torch.autograd.Function)
    function = owner.forward if is_function else getattr(fn, "_init_fn", fn)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function that is written in C has none
        return []
    if is_function and owner.setup_context is torch.autograd.Function.setup_context:
        del parameters[:1]  # ctx
    return [number for number, one in enumerate(parameters) if one.default is None]


def _second(subject: Subject, settings: Settings) -> None:
    count = len(subject.wanted)
    for index, number in enumerate(subject.wanted):

        def gradient(*values: Any, index: int = index) -> Any:
            leaves = values[:count]
            outputs = subject.composed()(*leaves)
            cotangents = values[count:]
            return Trial((), leaves, outputs).gradients(cotangents, graph=True)[index]

        values = (*subject.leaves(), *(v.clone().requires_grad_() for v in subject.cotangents))
        try:
            found = gradient(*values)
            if found.requires_grad:  # enter every node: that of once_differentiable raises
                found.sum().backward()
            settings.gradcheck(gradient, [v.detach().requires_grad_() for v in values])
        except GradcheckError as error:
            problem = f"torch.autograd.gradcheck fails on the gradient of input {number}"
            details = ["(its inputs are the inputs, then the cotangents)", str(error).strip()]
            cause = (
                "a value is detached, or was computed in the forward pass of a Function and is "
                "not an output; @once_differentiable says that there is no second derivative"
            )
            raise RuleError("second", problem, details, cause) from error
        except Exception:  # it has no second derivative, and says so
            continue


def _dtypes(subject: Subject, settings: Settings) -> None:
    for dtype in settings.dtypes:
        inputs = tuple(v.to(dtype) if is_float(v) else v for v in subject.inputs)
        when = f"in {str(dtype).removeprefix('torch.')}"
        _approximate("dtypes", subject, inputs, when, torch.finfo(dtype).eps)


def _autocast(subject: Subject, settings: Settings) -> None:
    if settings.autocast is None:
        return
    inputs = tuple(v.float() if is_float(v) else v for v in subject.inputs)
    device = subject.inputs[subject.wanted[0]].device.type
    context = partial(torch.autocast, device, settings.autocast)
    eps = torch.finfo(settings.autocast).eps
    when = f"under autocast to {str(settings.autocast).removeprefix('torch.')}"
    _approximate("autocast", subject, inputs, when, eps, context)
    inside = f"{when}, with the backward pass inside"
    _approximate("autocast", subject, inputs, inside, eps, context, context)


def _approximate(
    check: str, subject: Subject, inputs: Tensors, when: str, eps: float,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> None:  # fmt: skip
    """Compare gradients of inputs in another dtype with those in float64 of the same numbers."""
    try:
        trial = subject.run(inputs, context=context)
    except Exception:  # the function does not support this dtype
        return
    _require_outputs(check, subject, trial, when)
    cause = "a cast is missing"
    if check == "autocast":
        cause = "torch.amp.custom_fwd and torch.amp.custom_bwd are missing, or a cast is"
    cotangents = [
        one.to(out.dtype) for one, out in zip(subject.cotangents, trial.outputs, strict=True)
    ]
    try:
        with _backward(check, when, cause), around():
            actual = trial.gradients(cotangents)
    except RuleError as error:
        if "not implemented for" in str(error.__cause__):  # PyTorch has no kernel for this dtype
            return
        raise
    doubles = tuple(v.double() if is_float(v) else v for v in inputs)
    exact = subject.run(doubles).gradients([one.double() for one in cotangents])
    _, sizes = subject.expected(cotangents)
    for number, one, right, size in zip(subject.wanted, actual, exact, sizes, strict=True):
        bound = ROUNDINGS * eps * max(size, largest(right))
        if gap := difference(one, right, bound):
            raise RuleError(check, f"the gradient of input {number} is wrong {when}", gap, cause)


def _opcheck(subject: Subject, _: Settings) -> None:
    if type(subject.fn).__name__ not in ("CustomOpDef", "OpOverload", "OpOverloadPacket"):
        return
    leaves = dict(zip(subject.wanted, subject.leaves(), strict=True))
    inputs = tuple(leaves.get(n, value) for n, value in enumerate(subject.inputs))
    try:
        torch.library.opcheck(subject.fn, inputs)
    except Exception as error:
        details = [str(error).strip()]
        raise RuleError("opcheck", "torch.library.opcheck fails", details) from error


CHECKS: dict[str, Callable[[Subject, Settings], None]] = {
    "written": _written,
    "twice": _twice,
    "unused": _unused,
    "gradcheck": _gradcheck,
    "layouts": _layouts,
    "frozen": _frozen,
    "none": _none,
    "second": _second,
    "dtypes": _dtypes,
    "autocast": _autocast,
    "opcheck": _opcheck,
}
"""The checks by name, in the order in which they run."""
