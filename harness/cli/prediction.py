"""The learner's predictions: made before the report is shown, and answered one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.padding import Padding
from rich.text import Text

from harness.core.report import PredictionReport, QuestionReport, Report, RunReport
from harness.core.vocabulary import OUTCOMES, Loss, Outcome
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.language import ENGLISH, Language
from harness.report.pages import show_markdown
from harness.report.terminal import Screen, outcome_text
from harness.report.view import reason_here

if TYPE_CHECKING:
    from harness.training.comparison import TrainingReport

Item = TypeVar("Item")

# ----- What a typed answer means: an outcome, or the answer to a question of a page -----

CHOICES: tuple[Outcome, ...] = (
    "silent-corruption",
    "crash",
    "disguised-correct",
    "not-reached",
)
"""The outcomes that a learner may predict; the others do not depend on the probe."""


def read_prediction(answer: str, say: Language = ENGLISH) -> Outcome | None:
    """Return the outcome that an answer names, in full or by its first letters; None if empty.

    The names in the language come first, and the English ones are accepted too. Raises ValueError,
    with the remedy, for anything else.
    """
    word = answer.strip().lower()
    if not word:
        return None
    for names in ({say(outcome): outcome for outcome in CHOICES}, {name: name for name in CHOICES}):
        for name, outcome in names.items():
            if name.startswith(word):
                return outcome
    letters = ", ".join(say(outcome)[0] for outcome in CHOICES)
    raise ValueError(say("Type one of {letters}; ? shows the code", letters=letters))


def one_of(choices: Iterable[str], say: Language) -> str:
    """Return choices as `a, b or c`."""
    *first, last = choices
    return say("{first} or {next}", first=", ".join(first), next=last)


def names_a_choice(typed: str, choices: Sequence[str], say: Language = ENGLISH) -> bool:
    """Whether what was typed means one of the choices: its text, or its number."""
    return any(
        is_right(typed, QuestionReport("", None, "", choice, "", list(choices)), say)
        for choice in choices
    )


def is_right(typed: str, question: QuestionReport, say: Language = ENGLISH) -> bool:
    """Whether what was typed means the observed answer.

    Numbers are compared to three significant digits, and may be fractions such as 1/3; spaces and
    brackets do not matter. A choice may be named by its number, unless the choices are numbers.
    """
    answer, choices = question.answer or "", question.choices
    if choices and not are_numbers(choices) and typed.isdecimal():
        numbered = {str(number): choice for number, choice in enumerate(choices, start=1)}
        return numbered.get(typed) == answer
    if answer in OUTCOMES:
        try:
            return read_prediction(typed, say) == answer
        except ValueError:
            return _plain(typed) == _plain(say(answer))
    if _plain(typed) in (_plain(answer), _plain(say(answer))):
        return True
    numbers = _numbers(typed)
    return numbers is not None and numbers == _numbers(answer)


def are_numbers(choices: Sequence[str]) -> bool:
    """Whether the choices are numbers, so that they cannot be numbered."""
    return any(choice.lstrip("-").isdecimal() for choice in choices)


def numbered(choices: Sequence[str], say: Language) -> Iterator[str]:
    """Yield the choices in the language, each after its number unless they are numbers."""
    for number, choice in enumerate(choices, start=1):
        yield say(choice) if are_numbers(choices) else f"{number}  {say(choice)}"


def is_number(text: str) -> bool:
    """Whether a text is one finite number, as it may be typed."""
    try:
        return math.isfinite(_number(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        return False


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text).casefold()


def _numbers(text: str) -> list[str] | None:
    """Return the numbers of a list or a shape, to three significant digits; None for other text."""
    parts = re.split(r"[\s,]+", re.sub(r"[\[\]()]", " ", text).strip(" ,"))
    try:
        return [f"{_number(part):.3g}" for part in parts if part]
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def _number(text: str) -> float:
    return float(Fraction(text)) if re.fullmatch(r"[-+]?\d{1,9}/\d{1,9}", text) else float(text)


# ----- A page with probes -----

CODE = "?"
"""What to type to see the probe's code."""


class Asked(Protocol):
    """A question of a page: its answer is an expression, or what was observed."""

    @property
    def probe(self) -> str:
        """The probe that it is about."""

    @property
    def loss(self) -> Loss | None:
        """The loss of the run that it is about."""

    @property
    def question(self) -> str:
        """Its text."""

    @property
    def answer(self) -> str | None:
        """An expression on the run, or its value."""

    @property
    def choices(self) -> Sequence[str]:
        """The answers to choose from; empty if any may be typed."""


@dataclass(frozen=True)
class _Prompt:
    """One thing to predict: an outcome, or the answer to a question of the page."""

    probe: Probe
    loss: Loss | None = None
    """None for all losses of the probe."""
    question: Asked | None = None
    others: bool = False
    """Whether the page asks more about this probe; then the answer shows no numbers."""

    @property
    def is_outcome(self) -> bool:
        """Whether the answer is an outcome."""
        return self.question is None or _asks_for_outcome(self.question)


def _asks_for_outcome(question: Asked) -> bool:
    return question.answer == "outcome" or question.answer in OUTCOMES


def meaning(outcome: Outcome, say: Language = ENGLISH) -> str:
    """Return the meaning of an outcome in a few words; empty if no run can have it."""
    return {
        "silent-corruption": say("a wrong number or shape, and no error"),
        "crash": say("an error"),
        "disguised-correct": say("the changed code runs, and the result is right"),
        "not-reached": say("the changed code never runs"),
        "convention": say("another valid choice at a kink"),
    }.get(outcome, "")


def predict(
    console: Screen,
    page: Page,
    probes: Sequence[Probe],
    questions: Sequence[Asked],
    observe: Callable[[], Report],
    show_change: Callable[[], None] = lambda: None,
) -> Iterator[PredictionReport]:
    """Ask for the outcome of each probe and the page's questions, and answer each at once.

    Yields each prediction as soon as it is answered; the end of the input skips the rest.
    `observe` waits for the outcomes, and `show_change` prints the code around the change.
    """
    say, items = console.say, list(_prompts(page, probes, questions))
    _show_legend(console)
    explained: set[Outcome] = set(CHOICES)

    def ask(number: int, item: _Prompt) -> str:
        _show_prompt(console, item, f"{number}/{len(items)}")
        return _typed(console, item, show_change)

    for item, typed in _each_typed(console, items, ask):
        prediction, answer = _answered(page, item, typed, observe(), say)
        console.print(Padding(answer, (0, 0, 0, 2)))
        actual = prediction.actual
        for outcome in OUTCOMES:
            if item.is_outcome and outcome == actual and outcome not in explained:
                explained.add(outcome)
                console.print(f"  {say(outcome)}: {meaning(outcome, say)}")
        yield prediction


def _prompts(page: Page, probes: Sequence[Probe], questions: Sequence[Asked]) -> Iterator[_Prompt]:
    """Yield what to ask: each probe's outcome, for each loss if the page says they differ;
    then the page's questions about it.
    """
    for probe in probes:
        own = [question for question in questions if question.probe == probe.name]
        last = probe.losses[-1]
        outcomes = {q.loss or last: q for q in own if _asks_for_outcome(q)}
        numbers = [question for question in own if not _asks_for_outcome(question)]
        stated = {page.expected(None, probe.name, loss) for loss in probe.losses}
        if max(len(stated), len(outcomes)) > 1:
            for loss in probe.losses:
                yield _Prompt(probe, loss, outcomes.get(loss), others=bool(numbers))
        else:
            asked = next(iter(outcomes.values()), None)
            yield _Prompt(probe, None, asked, others=bool(numbers))
        for question in numbers:
            yield _Prompt(probe, question.loss, question)


def _show_legend(console: Screen) -> None:
    say = console.say
    console.print(Text(say("What do you predict?"), "bold"))
    for outcome in CHOICES:
        console.print(f"  {say(outcome)[0]}  {say(outcome)}: {meaning(outcome, say)}")
    console.print(say("Enter skips a question; ? shows the code; Ctrl-D skips the rest."))


def _show_prompt(console: Screen, item: _Prompt, number: str) -> None:
    say = console.say
    doc = say(item.probe.doc.splitlines()[0])
    loss = {
        None: "",
        "uniform": say("The loss is the sum of the output."),
        "weighted": say("The loss is a weighted sum of the output."),
    }[item.loss]
    text = say(item.question.question) if item.question else f"{doc} {loss}".rstrip()
    console.print(Text.assemble(f"\n{number}  ", (item.probe.name, "bold")))
    console.print(Padding(Text(text), (0, 0, 0, 2)))
    if item.question and not item.is_outcome:
        _show_choices(console, item.question)


def _show_choices(console: Screen, question: Asked) -> None:
    for choice in numbered(question.choices, console.say):
        console.print(Text(f"    {choice}"))


def _each_typed(
    console: Screen, items: Iterable[Item], ask: Callable[[int, Item], str]
) -> Iterator[tuple[Item, str]]:
    """Yield each item that is answered, with what was typed; the end of the input skips the rest.

    `ask` takes the number of an item, from 1, and the item; what it returns is empty for an item
    that is skipped.
    """
    for number, item in enumerate(items, start=1):
        try:
            typed = ask(number, item)
        except EOFError:
            console.print(f"\n{console.say('The other questions are skipped.')}")
            break
        if typed:
            yield item, typed
    console.print()


def read_answer(
    console: Screen,
    check: Callable[[str], None],
    show: Callable[[], None] | None = None,
    prompt: str | Text = "  > ",
) -> str:
    """Return what is typed, once `check` accepts it; empty if the question is skipped.

    `check` raises ValueError, with the remedy, for what cannot be an answer. `?` calls `show`, if
    it is given. Raises EOFError at the end of the input.
    """
    while True:
        typed = console.input(prompt).strip()
        if typed == CODE and show:
            show()
            continue
        if not typed:
            return ""
        try:
            check(typed)
        except ValueError as error:
            console.print(Padding(Text(str(error)), (0, 0, 0, 2)))
            continue
        return typed


MOST_NUMBERS = 20
"""The most numbers of a leaf that are printed."""


def show_probe(console: Screen, probe: Probe) -> None:
    """Print the code of a probe, and the numbers of the leaves that it asks for by shape."""
    import numpy as np  # only `?` needs it, and the next module; both are slow to import

    from harness.runs.trial import draw

    console.print(Padding(Text(probe.code), (0, 0, 0, 4)))
    console.print()
    values = draw(probe)
    drawn = [leaf for leaf in probe.leaves if leaf.shape is not None]
    if not drawn:
        return
    console.print(Padding(Text(console.say(_DRAWN, shape=drawn[0].shape)), (0, 0, 0, 2)))
    for leaf in drawn:
        numbers = values[leaf.name]
        text = console.say("numbers of shape {shape}", shape=leaf.shape)
        if numbers.size <= MOST_NUMBERS:
            text = np.array2string(
                numbers, separator=", ", formatter={"float_kind": "{:.4g}".format}
            )
        label = f"{leaf.name} = "
        lines = text.replace("\n", "\n" + " " * len(label))
        console.print(Padding(Text(f"{label}{lines}"), (0, 0, 0, 4)))
    console.print()


_DRAWN = "A leaf that is given by its shape, such as {shape}, has fixed random numbers:"


def check_answer(typed: str, question: Asked, say: Language) -> None:
    """Raise ValueError, with the remedy, for what cannot be the answer to a question."""
    if question.choices:
        if not names_a_choice(typed, question.choices, say):
            raise ValueError(say("Type one of the answers; ? shows the code"))
    elif _asks_for_outcome(question):
        read_prediction(typed, say)
    elif _asks_for_numbers(question) and not (_numbers(typed) or _plain(typed) in _words(say)):
        raise ValueError(
            say("Type one or more numbers, such as 3, 1/3 or [1, 2]; ? shows the code")
        )


def _asks_for_numbers(question: Asked) -> bool:
    """Whether the answer consists of numbers: a shape, too, but not a dtype or an error."""
    if isinstance(question, QuestionReport):
        return bool(_numbers(question.answer or ""))
    return not re.search(r"\.(dtype|type|message)$", question.answer or "")


def _words(say: Language) -> set[str]:
    """Return what may be the answer instead of a number."""
    return {_plain(word) for name in ("()", "none", "true", "false") for word in (name, say(name))}


def _typed(console: Screen, item: _Prompt, show_change: Callable[[], None]) -> str:
    """Return what is typed, once it can be read; empty if the question is skipped."""

    def check(typed: str) -> None:
        if item.question is None or item.is_outcome:
            read_prediction(typed, console.say)
        else:
            check_answer(typed, item.question, console.say)

    def show() -> None:
        show_probe(console, item.probe)
        show_change()

    return read_answer(console, check, show)


def _answered(
    page: Page, item: _Prompt, typed: str, report: Report, say: Language
) -> tuple[PredictionReport, Text]:
    """Return the prediction with what was observed, and the answer to show."""
    if item.question and not item.is_outcome:
        return _answered_question(page, item, item.question.question, typed, report, say)
    runs = [
        run for run in report.runs if run.probe == item.probe.name and item.loss in (None, run.loss)
    ]
    predicted = read_prediction(typed, say)
    assert predicted is not None
    fitting = [run for run in runs if run.outcome == predicted]
    run = next(iter([*fitting, *reversed(runs)]), None)
    if run is None:
        prediction = PredictionReport(
            page.id, item.probe.name, item.loss, predicted, "", right=False
        )
        return prediction, Text(say("This probe cannot be judged here; see the report."))
    prediction = PredictionReport(
        page.id, item.probe.name, item.loss, predicted, run.outcome, right=bool(fitting)
    )
    reason = _reason(item, run, report, say)
    return prediction, Text.assemble(
        mark(right=bool(fitting), say=say),
        outcome_text(run.outcome, say),
        f"  {reason}" if reason else "",
    )


def _reason(item: _Prompt, run: RunReport, report: Report, say: Language) -> str:
    """Return why the run ends this way on its input, unless that answers another question."""
    asked = item.question.question if item.question else ""
    because = next((q.because for q in report.questions if asked and q.question == asked), "")
    if because or (item.others and run.outcome == "silent-corruption"):
        return say(because)
    return reason_here(run, report, say, "" if item.probe.takes_lib else item.probe.formula)


def _answered_question(
    page: Page, item: _Prompt, text: str, typed: str, report: Report, say: Language
) -> tuple[PredictionReport, Text]:
    question = next(entry for entry in report.questions if entry.question == text)
    right = is_right(typed, question, say)
    prediction = PredictionReport(
        page.id, item.probe.name, question.loss, typed, question.answer or "", right, text
    )
    reason = f"  {say(question.because)}" if question.because else ""
    answer = say(question.answer or "")
    return prediction, Text.assemble(mark(right=right, say=say), (answer, "bold"), reason)


def mark(*, right: bool, say: Language) -> tuple[str, str]:
    """Return the word for a right or a wrong answer, and its style."""
    return (f"{say('right')}: ", "bold green") if right else (f"{say('wrong')}: ", "bold red")


# ----- A myth, whose program prints the answers -----


def predict_output(
    console: Screen,
    page: str,
    questions: Sequence[QuestionReport],
    show_program: Callable[[], None],
) -> Iterator[PredictionReport]:
    """Ask what a program prints, and answer each question at once.

    Yields each prediction as soon as it is answered; the end of the input skips the rest.
    """
    say = console.say
    console.print(Text(say("What do you predict?"), "bold"))
    console.print(say("Enter skips a question; ? shows the code; Ctrl-D skips the rest."))

    def ask(number: int, asked: QuestionReport) -> str:
        console.print(Text(f"\n{number}/{len(questions)}"))
        show_markdown(console, say(asked.question), 2, 0)
        _show_choices(console, asked)
        check = partial(check_answer, question=asked, say=say)
        return read_answer(console, check, show_program)

    for asked, typed in _each_typed(console, questions, ask):
        right, actual = is_right(typed, asked, say), asked.answer or ""
        answer = Text.assemble(mark(right=right, say=say), (say(actual), "bold"))
        console.print(Padding(answer, (0, 0, 0, 2)))
        if asked.because:
            show_markdown(console, say(asked.because), 2, 0)
        yield PredictionReport(page, asked.probe, None, typed, actual, right, asked.question)


# ----- A page with a recipe -----


def ask_moves(console: Screen, metrics: Sequence[str]) -> dict[str, str]:
    """Prompt for how each metric moves; end of input skips the rest."""
    say, moves = console.say, {"l": "lower", "h": "higher", "s": "same"}
    console.print(Text(say("What do you predict?"), "bold"))
    choices = " · ".join(f"{letter} {say(word)}" for letter, word in moves.items())
    console.print(f"  {choices}; {say('Enter skips a metric; Ctrl-D skips the rest')}")

    def ask(_: int, metric: str) -> str:
        return _ask_move(console, metric, moves)

    return {metric: moves[letter] for metric, letter in _each_typed(console, metrics, ask)}


def _ask_move(console: Screen, metric: str, moves: Mapping[str, str]) -> str:
    """Return the first letter of a direction; empty if the metric is skipped."""
    say = console.say

    def check(typed: str) -> None:
        if not _move(typed, moves, say):
            raise ValueError(say("Type {choices}", choices=one_of(moves, say)))

    typed = read_answer(console, check, prompt=Text(f"  {metric} > "))
    return _move(typed, moves, say) if typed else ""


def _move(typed: str, moves: Mapping[str, str], say: Language) -> str:
    """Return the letter of a direction that is named by its letter or its word; else empty."""
    word = typed.lower()
    named = (k for k, name in moves.items() if word == k or word in (name, say(name).lower()))
    return next(named, "")


def scored_moves(
    page: Page, predictions: Mapping[str, str], report: TrainingReport
) -> list[PredictionReport]:
    """Return the predictions of how metrics move, with what was observed."""
    observed = {item.metric: item.verdict for item in report.metrics}
    return [
        PredictionReport(
            page.id, name, None, move, observed.get(name, ""), observed.get(name) == move
        )
        for name, move in predictions.items()
    ]


def show_score(console: Screen, predictions: Sequence[PredictionReport]) -> None:
    """Show each prediction of a metric, and how many were right."""
    say = console.say
    console.print(Text(f"\n{say('Your predictions')}", "bold"))
    for prediction in predictions:
        line = f"{prediction.probe}: {say(prediction.predicted)}"
        console.print(Text.assemble("  ", mark(right=prediction.right, say=say), line))
    count = sum(prediction.right for prediction in predictions)
    console.print(f"  {say('{count} of {total} right', count=count, total=len(predictions))}\n")
