"""The answers to a page's questions, looked up in the runs of the broken engine.

An answer is an expression of names, attributes and indices, such as `a.grad.shape`. The names are
`outcome`, `output`, `log`, the leaves of the probe, and `clean`, which stands for the run of the
unbroken engine: `clean.a.grad[0]`. A leaf has `grad` and its own data; an array has `shape`,
`dtype`, `size` and `ndim`; `failure` has `type` and `message`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from harness.answer_key.outcome import judge
from harness.core.errors import PageError
from harness.core.run import Array, Run, pack
from harness.experiment.baseline import Baseline
from harness.experiment.patching import Experiment
from harness.pages.front_matter import Break, Question

MOST_NUMBERS = 6
"""The largest number of numbers in an answer."""

Value = str | bool | int | float | tuple[int, ...] | list[Any]
"""An answer: a text, a number, a shape, or a small array."""


class _NoAnswer(Exception):
    """The expression has no value on this run; the argument says why."""


def answers(experiment: Experiment, baseline: Baseline) -> list[Value | PageError]:
    """Return the answer to each of the page's questions, or what is wrong with it."""
    front = experiment.page.front_as(Break)
    if not front.ask:
        return []
    probes = {question.probe for question in front.ask}
    chosen = [probe for probe in experiment.probes if probe.name in probes]
    clean = {pair: run.run for pair, run in baseline.clean(experiment.clean, chosen).items()}
    broken = {
        (run.probe, run.loss): run
        for run in baseline.broken(experiment.clean, experiment.broken, experiment.probes)
    }
    return [_answer(experiment, question, broken, clean) for question in front.ask]


def _answer(
    experiment: Experiment,
    question: Question,
    broken: Mapping[Any, Run],
    clean: Mapping[Any, Run],
) -> Value | PageError:
    page = experiment.page
    try:
        run, key = _pair(question, broken, clean)
        others = [
            other for (probe, _), other in clean.items() if probe == run.probe and other != key
        ]
        if not (run.reached or run.failure):
            run = key  # nothing else is recorded of a run that does not reach the patch
        outcome = judge(broken[run.probe, run.loss], key, others).outcome
        names = {**_names(run), "outcome": outcome, "clean": _names(key)}
        return _plain(_evaluate(ast.parse(question.answer, mode="eval").body, names))
    except _NoAnswer as error:
        problem = f"the answer `{question.answer}` {error}"
    except SyntaxError as error:
        problem = f"the answer `{question.answer}` is not an expression: {error.msg}"
    remedy = "write names, attributes and indices, such as `a.grad.shape`, `output[0]`, `outcome`"
    return PageError(page.path, page.line_of("ask", "answer"), problem, remedy)


def _pair(
    question: Question, broken: Mapping[Any, Run], clean: Mapping[Any, Run]
) -> tuple[Run, Run]:
    losses = [loss for probe, loss in broken if probe == question.probe]
    if not losses:
        raise _NoAnswer(f"is about `{question.probe}`, which is not a probe of the page")
    loss = question.loss or ("weighted" if "weighted" in losses else None)
    if loss not in losses:
        raise _NoAnswer(f"names a loss, but `{question.probe}` computes its own")
    return broken[question.probe, loss], clean[question.probe, loss]


def _names(run: Run) -> dict[str, Any]:
    """Return what an answer can name in a run."""
    names: dict[str, Any] = {
        name: {"": data, "grad": run.gradients.get(name)} for name, data in run.leaves.items()
    }
    names |= {"log": run.log}
    names |= {"output": run.output} if run.output else {}
    if run.failure:
        names["failure"] = {"type": run.failure.type, "message": run.failure.message}
    return names


def _evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            return _item(names, name)
        case ast.Attribute(value=inner, attr=name):
            value = _evaluate(inner, names)
            return _item(value, name) if isinstance(value, dict) else _of_array(value, name)
        case ast.Subscript(value=inner, slice=index):
            return _indexed(_evaluate(inner, names), _index(index))
    raise _NoAnswer(f"contains `{ast.unparse(node)}`")


def _item(value: Mapping[str, Any], name: str) -> Any:
    if name in value and value[name] is not None:
        return value[name]
    if "" in value:  # a leaf, which has the attributes of its data
        return _of_array(value[""], name)
    known = ", ".join(f"`{key}`" for key, item in value.items() if key and item is not None)
    raise _NoAnswer(f"has no `{name}` in this run, only {known or 'nothing'}")


def _of_array(value: Any, name: str) -> Any:
    if isinstance(value, Array):
        array = value.numpy()
        if name in ("shape", "size", "ndim"):
            return getattr(array, name)
        if name == "dtype":
            return str(array.dtype)
    raise _NoAnswer(f"has no `{name}`")


def _index(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _NoAnswer(f"has the index `{ast.unparse(node)}`") from None


def _indexed(value: Any, index: Any) -> Any:
    if isinstance(value, dict) and "" in value:
        value = value[""]
    try:
        if isinstance(value, Array):
            return pack(value.numpy()[index])
        if isinstance(value, dict | list | tuple):
            return value[index]
    except (IndexError, KeyError, TypeError, ValueError):
        pass
    raise _NoAnswer(f"has no item `{index}`")


def _plain(value: Any) -> Value:
    """Return the value as a text, a number, a shape, or nested lists of a few numbers."""
    if isinstance(value, dict) and "" in value:
        value = value[""]
    if isinstance(value, Array):
        if value.numpy().size > MOST_NUMBERS:
            raise _NoAnswer(f"is an array of shape {value.shape}: ask for its shape, or an entry")
        value = value.numpy().tolist()
    if isinstance(value, str | bool | int | float | tuple | list):
        return value
    raise _NoAnswer("is not a number, a shape or a text")
