"""What a page says, beside the runs of its break: claims, an assertion, questions, explanations.

Each claim about a diagnostic is compared with the verdicts; the assertion is evaluated on silent
runs; the answers to questions are looked up; and the page is quoted where its outcomes hold.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness.core.errors import PageError
from harness.core.message import joined, message, visible
from harness.core.report import ClaimReport, QuestionReport, RunReport
from harness.core.run import CREATED, Array, Run, pack
from harness.core.vocabulary import Loss, Outcome
from harness.experiment.description import JudgedRun
from harness.experiment.patching import Experiment
from harness.pages.checks import invariant_of
from harness.pages.front_matter import Advice, Question
from harness.pages.page import Page
from harness.pages.probe import parse_python

# ----- Claims -----


def compare_claims(
    page: Page, variant: str | None, diagnostics: Collection[str], runs: Sequence[RunReport]
) -> list[ClaimReport]:
    """Return each claim that the page makes for this variant, with what was observed.

    `caught_by`: an alarm on at least one run. `missed_by`: at least one run judged (of a break: a
    wrong one), and never an alarm. Nothing is compared unless all of the page's probes ran.

    Raises PageError for a claim about a diagnostic that does not exist.
    """
    claims = page.claims.get(variant)
    stated = {name for table in page.expect.values() for name in table}
    if claims is None or not {run.probe for run in runs} >= stated:
        return []
    reports = []
    for claim, names in (("caught_by", claims.caught_by), ("missed_by", claims.missed_by)):
        for name in names:
            if name not in diagnostics:
                raise PageError(
                    page.path,
                    1,
                    message(
                        "key `diagnostics.{claim}` names an unknown diagnostic `{name}`",
                        claim=claim,
                        name=name,
                    ),
                    message("the diagnostics are {names}", names=", ".join(sorted(diagnostics))),
                )
            is_silent = any(name in silent_on(run, page.front.kind) for run in runs)
            reports.append(_compare_claim(name, claim, runs, is_silent))
    return reports


def silent_on(run: RunReport, kind: str) -> list[str]:
    """Return the diagnostics that raised no alarm on a run and may be in `missed_by`.

    A break is missed only where something is wrong; on a correct engine, any run counts.
    """
    return run.missed_by if kind == "break" else run.no_alarm


def _compare_claim(
    name: str, claim: str, runs: Sequence[RunReport], is_silent: bool
) -> ClaimReport:
    catches = [
        message("{probe}: {alarm}", probe=run.probe, alarm=run.alarms[name])
        for run in runs
        if name in run.caught_by
    ]
    if not catches and not any(name in run.no_alarm for run in runs):
        declined = dict.fromkeys(run.declined[name] for run in runs if name in run.declined)
        skipped = dict.fromkeys(run.skipped[name] for run in runs if name in run.skipped)
        if declined:
            evidence = message("declined: {reason}", reason=joined(declined))
        elif skipped:
            evidence = joined(skipped)
        else:
            evidence = message("it judged no run that reaches the patched code")
        return ClaimReport(name, claim, None, evidence)
    agrees = bool(catches) if claim == "caught_by" else is_silent and not catches
    if catches:
        evidence = catches[0]
    elif is_silent or claim == "caught_by":
        count = sum(name in run.no_alarm for run in runs)
        evidence = message("no alarm in the {count} runs that it judged", count=count)
    else:
        evidence = message("nothing is wrong in any run that it judged")
    return ClaimReport(name, claim, agrees, evidence)


# ----- What the page's assertion cannot see -----


def blind_probes(assertion: str, silent: Iterable[JudgedRun]) -> list[str]:
    """Return the probes of silent runs on which an assertion about any leaf holds all the same.

    It is about any leaf if it compares nothing but gradients, shapes and dtypes of leaves, like
    `assert x.grad.shape == x.shape`: then it is evaluated for every leaf of a run for which it
    holds on the unbroken engine. Other assertions are about the program of the page's invariant,
    and not about its probes; then nothing is returned, and neither are probes that keep a log.
    """
    holds = dict[str, bool]()
    for judged in silent:
        run, clean = judged.run, judged.clean.run
        checked = [name for name in run.leaves if _holds(assertion, clean, name)]
        if checked:
            all_hold = all(_holds(assertion, run, name) for name in checked)
            holds[run.probe] = holds.get(run.probe, True) and all_hold
    return [probe for probe, blind in holds.items() if blind]


def _holds(assertion: str, run: Run, leaf: str) -> bool:
    """Whether an assertion holds if each name in it stands for this leaf of the run."""
    (statement,) = ast.parse(assertion).body
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[operator], comparators=[right])):
            try:
                first, second = _value(left, run, leaf), _value(right, run, leaf)
            except LookupError:
                return False
            match operator, second:
                case ast.Eq(), _:
                    return first == second
                case ast.IsNot(), None:
                    return first is not None
    return False


def _value(node: ast.expr, run: Run, leaf: str) -> object:
    """Return a shape, a dtype, a gradient or None; raises LookupError for anything else."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Tuple(elts=items):
            return tuple(_value(item, run, leaf) for item in items)
        case ast.Attribute(value=ast.Name(), attr="grad"):
            return run.gradients[leaf]
        case ast.Attribute(value=owner, attr="shape" | "dtype" as name):
            array = run.leaves[leaf] if isinstance(owner, ast.Name) else _value(owner, run, leaf)
            if isinstance(array, Array):
                return getattr(array, name)
    raise LookupError


# ----- The answers to a page's questions -----
#
# An answer is an expression of names, attributes and indices, such as `a.grad.shape`. The names are
# `outcome`, `output`, `log`, the leaves of the probe, and `clean`, which stands for the run of the
# unbroken engine: `clean.a.grad[0]`. A leaf has `grad` and its own data; an array has `shape`,
# `dtype`, `size` and `ndim`; `failure` has `type` and `message`. No code of the page is executed.

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
        run, clean, outcome = (
            judged[loss].run,
            judged[loss].clean.run,
            judged[loss].judgement.outcome,
        )
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


# ----- What a report may quote -----
#
# A page's `why` and `beware` are true of engines on which its outcomes are as stated. They are
# quoted if the runs that are shown end so. On a variant for which the page has no text of its own,
# all of its probes must have run. On a foreign engine nothing is quoted: the texts name numbers and
# checks of the page's engine, and equal outcomes do not prove these.

End = tuple[str, Loss | None, Outcome]
"""A probe, its loss, and the outcome."""


def quotable(experiment: Experiment, ends: Iterable[End]) -> dict[str, object]:
    """Return the fields `why`, `beware`, `invariant`, `test` and `unexplained` of the report."""
    page, ends = experiment.page, list(ends)
    if experiment.foreign:
        return {"why": "", "beware": "", "invariant": "", "test": "", "unexplained": None}
    subject, advice = page.advice_on(experiment.variant)
    stated = [
        (outcome, expected)
        for probe, loss, outcome in ends
        if (expected := page.expected(subject, probe, loss))
    ]
    unlike = sum(outcome != expected for outcome, expected in stated)
    complete = subject == experiment.variant or (
        {probe for probe, _, _ in ends} >= page.expect[None].keys()
    )
    quoted = bool(stated) and not unlike and complete
    noticeable = (quoted and subject is None) or any(
        outcome == "silent-corruption" for _, _, outcome in ends
    )
    shown = advice if quoted else Advice()
    return {
        "why": shown.why,
        "beware": shown.beware,
        "invariant": page.assertion if noticeable else "",
        "test": invariant.pasted() if noticeable and (invariant := invariant_of(page)) else "",
        "unexplained": (unlike, len(stated)) if unlike and advice.why else None,
    }
