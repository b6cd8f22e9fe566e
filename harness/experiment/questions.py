"""The answers to a page's questions, looked up in the runs of the broken engine.

An answer is an expression of names, attributes and indices, such as `a.grad.shape`. The names are
`outcome`, `output`, `log`, the leaves of the probe, and `clean`, which stands for the run of the
unbroken engine: `clean.a.grad[0]`. A leaf has `grad` and its own data; an array has `shape`,
`dtype`, `size` and `ndim`; `failure` has `type` and `message`. No code of the page is executed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from typing import Any

from harness.core.errors import PageError
from harness.core.report import QuestionReport
from harness.core.run import CREATED, Array, Run, pack
from harness.core.vocabulary import visible
from harness.experiment.description import JudgedRun
from harness.pages.front_matter import Question
from harness.pages.probe import parse_python

MOST_NUMBERS = 6
"""The largest number of numbers in an answer."""

LONGEST = 100
"""The largest number of characters of an answer."""


class _NoAnswer(Exception):
    """The expression has no value on this run; the argument says why."""


def answer_question(question: Question, runs: Iterable[JudgedRun]) -> QuestionReport:
    """Return the question with its answer, or with the problem of its expression.

    Without a loss, a question about a probe that has losses is about the weighted one.
    """
    judged = {item.run.loss: item for item in runs if item.run.probe == question.probe}
    loss = question.loss or ("weighted" if "weighted" in judged else None)
    answer = problem = None
    try:
        if not judged:
            raise _NoAnswer(f"is about `{question.probe}`, which is not a probe of the page")
        if loss not in judged:
            raise _NoAnswer(f"names a loss, but `{question.probe}` computes its own")
        run, clean, outcome = judged[loss].run, judged[loss].key.run, judged[loss].judgement.outcome
        if not (run.reached or run.failure):
            run = clean  # nothing else is recorded of a run that does not reach the patch
        names = {**_names(run), "outcome": outcome, "clean": _names(clean)}
        answer = _shown(_evaluate(_parse(question.answer), names))
        if question.choices and answer not in question.choices:
            raise _NoAnswer(f"is {answer}, which is not one of the choices")
    except _NoAnswer as error:
        problem = f"the answer `{question.answer}` {error}"
    return QuestionReport(
        probe=question.probe,
        loss=loss,
        question=question.question,
        answer=answer,
        because=question.because,
        choices=list(question.choices),
        problem=problem,
    )


def _parse(text: str) -> ast.expr:
    try:
        body = parse_python(text, "", 1, "answer").body
    except PageError as error:
        raise _NoAnswer(f"cannot be read: {error.problem}") from None
    match body:
        case [ast.Expr(value=expression)]:
            return expression
    raise _NoAnswer("is not an expression")


def _names(run: Run) -> dict[str, Any]:
    """Return what an answer can name in a run; the key "" of a leaf is its own data."""
    names: dict[str, Any] = {}
    for name, data in run.leaves.items():
        leaf = {"": data, "grad": run.gradients.get(name)}
        if match := CREATED.fullmatch(name):  # `Linear[0].weight.grad`, `tensor[0].grad`
            made = names.setdefault(match[1], {}).setdefault(int(match[2]), {})
            made.update({match[3]: leaf} if match[3] else leaf)
        else:
            names[name] = leaf
    names["log"] = run.log or None
    names["output"] = run.output
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
    raise _NoAnswer(f"contains `{ast.unparse(node)}`, which is not allowed")


def _item(value: Mapping[str, Any], name: str) -> Any:
    if value.get(name) is not None:
        return value[name]
    if "" in value and name != "grad":  # a leaf has the attributes of its data
        return _of_array(value[""], name)
    known = ", ".join(f"`{key}`" for key, item in value.items() if key and item is not None)
    raise _NoAnswer(f"asks for `{name}`, but this run has only {known or 'its data'}")


def _of_array(value: Any, name: str) -> Any:
    if isinstance(value, Array):
        array = value.numpy()
        if name in ("shape", "size", "ndim"):
            return getattr(array, name)
        if name == "dtype":
            return str(array.dtype)
    raise _NoAnswer(f"asks for `{name}`, which is unknown there")


def _index(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _NoAnswer(f"has the index `{ast.unparse(node)}`, which is not a number") from None


def _indexed(value: Any, index: Any) -> Any:
    value = _data(value)
    try:
        if isinstance(value, Array):
            return pack(value.numpy()[index])
        if isinstance(value, dict | list | tuple):
            return value[index]
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        pass
    raise _NoAnswer(f"has no item `{index}`")


def _data(value: Any) -> Any:
    """Return the data of a leaf, and any other value itself."""
    return value[""] if isinstance(value, dict) and "" in value else value


def _shown(value: Any) -> str:
    """Return a text, a number, a shape or a few numbers as text."""
    value = _data(value)
    if isinstance(value, Array):
        if math.prod(value.shape) > MOST_NUMBERS:
            raise _NoAnswer(f"is an array of shape {value.shape}: ask for its shape, or an entry")
        return _number(value.numpy().tolist())
    if isinstance(value, str | int | tuple):
        text = visible(str(value))
        if len(text) > LONGEST:
            raise _NoAnswer(f"has {len(text)} characters")
        return text
    raise _NoAnswer("is not a number, a shape or a text")


def _number(value: Any) -> str:
    """Return a number, or nested lists of numbers, with three significant digits."""
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
