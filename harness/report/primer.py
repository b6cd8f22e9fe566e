"""Page 0, in steps that a terminal or an HTML file draws: what to read, and what to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.padding import Padding
from rich.text import Text

from harness.learn import primer
from harness.learn.primer import FIRST, LINES, SLIPS, Pass, Result
from harness.learn.progress import PRIMER_QUESTIONS
from harness.report.language import Language
from harness.report.pages import show_markdown
from harness.report.terminal import Screen, columns, show_code
from harness.report.view import STYLES

SlipPages = Mapping[str, tuple[int, str]]
"""By the letter of a slip: the number and the id of the track's page about it."""

# ----- What is shown -----


@dataclass(frozen=True)
class Prose:
    """Markdown."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines of Python, or of a change in it."""

    text: str
    language: str = "python"


@dataclass(frozen=True)
class Table:
    """Rows below a heading for each column; without headings, the first column is a label."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Graph:
    """The graph of the first program: its values, or the gradients that were sent back."""

    run: Pass
    gradients: bool = False
    hides_output: bool = False
    """Whether the value of the output is left out, since it is asked for."""


Part = Prose | Code | Table | Graph


@dataclass(frozen=True)
class Question:
    """What is asked at the end of a step."""

    name: str
    """One of `PRIMER_QUESTIONS`."""
    text: str
    answer: str
    because: str
    choices: tuple[str, ...] = ()
    """The possible answers; if there are none, a number is asked for."""
    mistakes: Mapping[str, str] = field(default_factory=dict)
    """What is behind some wrong answers."""


@dataclass(frozen=True)
class Step:
    """A screen of page 0."""

    heading: str
    parts: tuple[Part, ...]
    question: Question | None = None
    after: tuple[Part, ...] = ()
    """What is shown after the answer."""


def title(say: Language) -> str:
    """Return the title of page 0."""
    return say("An engine in {count} lines", count=LINES)


def introduction(say: Language) -> str:
    """Return what page 0 is about, in Markdown."""
    return say(
        "An autodiff engine computes a result, and then how much the result changes with each "
        "input. Here is a whole engine, in {count} lines of Python. Type three numbers that you "
        "can work out in your head; then put three bugs into it.",
        count=LINES,
    )


def steps(pages: SlipPages, say: Language) -> tuple[Step, ...]:
    """Return page 0; its last step refers to the pages about its slips."""
    clean = primer.run(FIRST)
    ways = _value(clean, say), _rule(clean, say), _way_back(clean, say)
    return (*ways, _slips(clean, say), _minigrad(pages, say))


def _value(clean: Pass, say: Language) -> Step:
    x, s, y = clean.nodes
    text = say(
        "A `Value` is a number, `data`, that remembers the values it was computed from, its "
        "`parents`. The `tape` lists all values in the order in which they were computed. A value "
        "without parents is a *leaf*: it is an input."
    )
    question = Question(
        PRIMER_QUESTIONS[0],
        say("What is the value of `y`?"),
        number(y.data),
        f"{number(x.data)} * {number(x.data)} + {number(x.data)} = "
        f"{number(s.data)} + {number(x.data)} = {number(y.data)}",
        mistakes={number(s.data): say("That is `s`; `x` is still to be added.")},
    )
    return Step(
        say("A number that remembers where it comes from"),
        (
            Code(primer.VALUE),
            Prose(text),
            Prose(say("This program computes `x*x + x`, in two steps:")),
            Code(FIRST.code),
            Graph(clean, hides_output=True),
        ),
        question,
    )


def _rule(clean: Pass, say: Language) -> Step:
    x, s, _ = clean.nodes
    text = say(
        "The *gradient* of a value says how much `y` changes with it: with a gradient of 5, `y` "
        "changes 5 times as fast as the value. Gradients are computed from `y` back to the leaves. "
        "For this, each operation has a *rule*. The rule receives the gradient of the result, the "
        "*upstream gradient* `g`, and returns one gradient for each operand."
    )
    rules = say(
        "A sum changes as fast as either operand, so its rule returns `g` for both. A product "
        "`a * b` changes `b` times as fast as `a`, so its rule multiplies `g` by the *other* "
        "operand."
    )
    question = Question(
        PRIMER_QUESTIONS[1],
        say(
            "At `s = x * x`, where `x` is {x}, the upstream gradient is {g}. Which number does the "
            "rule return for its left operand?",
            x=number(x.data),
            g=number(s.grad),
        ),
        number(s.sent[0]),
        say(
            "{g} * {x}: the upstream gradient times the other operand, which is `x` too.",
            g=number(s.grad),
            x=number(x.data),
        ),
        mistakes={
            number(s.data): say("That is the value of `s`, not a gradient."),
            number(sum(s.sent)): say("That is what both operands receive together."),
        },
    )
    return Step(
        say("A rule for each operation"),
        (Code(primer.OPERATIONS), Prose(text), Prose(rules)),
        question,
    )


STEP = 0.001
"""How far `x` is moved to check its gradient."""


def _way_back(clean: Pass, say: Language) -> Step:
    x, s, y = clean.nodes
    text = say(
        "`backward` begins with the gradient of `y` itself, which is 1, and goes through the tape "
        "from its end. Each value passes on what its rule returns, and its parents *add* that to "
        "their gradients:"
    )
    rows = [
        (f"{node.name}.grad", number(node.grad), _sent(node, say)) for node in reversed(clean.nodes)
    ]
    rows[-1] = (rows[-1][0], "?", say("{name} is a leaf", name=x.name))
    parts = [*s.sent, y.sent[1]]
    question = Question(
        PRIMER_QUESTIONS[2],
        say("What is `x.grad` at the end?"),
        number(x.grad),
        say(
            "{sum} = {total}: `x` is used three times, and every use counts.",
            sum=" + ".join(map(number, parts[::-1])),
            total=number(x.grad),
        ),
        mistakes={
            number(s.sent[0]): say("That is only one of the gradients that arrive at `x`."),
            number(sum(s.sent)): say("That leaves out what arrives from `s + x`."),
            number(s.sent[0] + y.sent[1]): say("That counts only one operand of `x * x`."),
        },
    )
    low, high = x.data - STEP, x.data + STEP
    check = say(
        "Check it without any engine: at `x` = {high}, `x*x + x` is {more}, and at {low} it is "
        "{less}. The difference, {difference}, divided by {width} is {slope}.",
        high=_digits(high),
        low=_digits(low),
        more=_digits(primer.value_at(high)),
        less=_digits(primer.value_at(low)),
        difference=_digits(primer.value_at(high) - primer.value_at(low)),
        width=_digits(2 * STEP),
        slope=_digits((primer.value_at(high) - primer.value_at(low)) / (2 * STEP)),
    )
    return Step(
        say("The way back"),
        (Code(primer.BACKWARD), Prose(text), Table(("", "", say("passes on")), rows)),
        question,
        (Graph(clean, gradients=True), Prose(check)),
    )


def _sent(node: primer.Node, say: Language) -> str:
    """Return what a value passes on to each parent; that it is a leaf if it has none."""
    if not node.parents:
        return say("{name} is a leaf", name=node.name)
    pairs = zip(node.sent, node.parents, strict=True)
    texts = [say("{gradient} to {name}", gradient=number(g), name=name) for g, name in pairs]
    return ", ".join(texts)


def _slips(clean: Pass, say: Language) -> Step:
    names = {
        "a": say("forgets that gradients are added"),
        "b": say("multiplies by the operand itself instead of the other one"),
        "c": say("forgets the upstream gradient"),
    }
    changes: list[Part] = []
    for slip in SLIPS:
        changes += [
            Prose(f"**{slip.letter}** {names[slip.letter]}"),
            Code(f"- {slip.old}\n+ {slip.new}\n", "diff"),
        ]
    results = primer.results()
    first = results[0]
    wrong = [slip.letter for slip in SLIPS if not first.is_hidden(slip.letter)]
    question = Question(
        PRIMER_QUESTIONS[3],
        say(
            "Without them, `x.grad` is {gradient}. Which one changes this number?",
            gradient=number(clean["x"].grad),
        ),
        ", ".join(wrong),
        say(
            "{wrong} gives {number}: only the gradient that arrived last is left. In `x * x` both "
            "operands are equal, so b changes nothing; its upstream gradient is 1, so c does not "
            "either.",
            wrong=", ".join(wrong),
            number=_gradients(first.broken[wrong[0]]),
        ),
        tuple(slip.letter for slip in SLIPS),
    )
    lessons = say(
        "All three are bugs, and each ran in every program. A bug is *hidden* (=) where the result "
        "is right all the same. A wrong number without an error is a *silent corruption* (≠). An "
        "error would be a *crash*. None of this is a property of the bug alone: it belongs to a "
        "bug *and an input*. `p*q` shows what equal operands hide, and `x*x*x` has an upstream "
        "gradient that is not 1."
    )
    return Step(
        say("Now put a bug into it"),
        (Prose(say("Here are three bugs, each in one line:")), *changes),
        question,
        (
            Prose(say("The gradients of the inputs, in three programs:")),
            _comparison(results, say),
            Prose(lessons),
            Prose(say(_LAB)),
        ),
    )


_LAB = (
    "This is the whole lab: you predict what a bug does to an input, see what it does, and learn "
    "which inputs and which tests reveal it."
)


def _comparison(results: Sequence[Result], say: Language) -> Table:
    """Return the gradients of every program with every slip, each with the sign of its outcome."""
    rows = []
    for result in results:
        cells = [
            f"{HIDDEN if result.is_hidden(letter) else SILENT} {_gradients(gradients)}"
            for letter, gradients in result.broken.items()
        ]
        values = ", ".join(f"{name} = {number(n)}" for name, n in result.inputs.items())
        program = f"{result.program.formula}, {values}"
        rows.append((program, _gradients(result.clean), *cells))
    return Table(("", say("without a bug"), *(slip.letter for slip in SLIPS)), rows)


HIDDEN, SILENT = STYLES["disguised-correct"][0], STYLES["silent-corruption"][0]


def _gradients(gradients: Mapping[str, float]) -> str:
    return ", ".join(map(number, gradients.values()))


def _minigrad(pages_of: SlipPages, say: Language) -> Step:
    roles = {
        "Value": say("an array, not a number"),
        "add": say("a value and its rule"),
        "mul": say("a value and its rule"),
        "Value.__mul__": say("calls an operation"),
        "tape": say("order from the parents"),
        "backward": say("the way back"),
        "+=": say("adds a gradient"),
    }
    places = primer.counterparts()
    rows = [
        (ours, place.name, f"{place.file.partition('/')[2]}:{place.line}", roles[ours])
        for ours, place in places.items()
    ]
    rule = SLIPS[1].old
    pages = ", ".join(
        say("{letter} is page {number}, `{page}`", letter=letter, number=number, page=page)
        for letter, (number, page) in pages_of.items()
    )
    parts: list[Part] = [
        Prose(say("The engine that you will break, `minigrad`, has the same parts:")),
        Table((say("here"), "minigrad", "", ""), rows),
        Prose(say("The rule of a product, here and in minigrad:")),
        Code(f"{rule}\n{primer.rule_of_mul()}\n"),
        Prose(
            say(
                "Three words are new. minigrad calls a rule `vjp`, and the gradients that it "
                "returns `Cotangents`; `unbroadcast` gives a gradient its operand's shape, if the "
                "operands are arrays of different shapes."
            )
        ),
    ]
    if pages:
        parts.append(Prose(say("You will meet the three bugs again: {pages}.", pages=pages)))
    return Step(say("The same in minigrad"), tuple(parts))


def number(value: float) -> str:
    """Return a number as the learner would write it: `7`, not `7.0`."""
    return f"{value:g}"


def _digits(value: float) -> str:
    """Return a number with all digits that a product of three decimals has."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


# ----- On a terminal -----


def show_step(console: Screen, step: Step, place: str) -> None:
    """Print a step up to its question."""
    console.print(Text.assemble(f"\n{place}  ", (step.heading, "bold"), "\n"))
    _show_parts(console, step.parts)


def show_answer(console: Screen, step: Step) -> None:
    """Print the answer of a step to someone who was not asked, and what follows it."""
    if step.question:
        show_markdown(console, f"{step.question.text} **{step.question.answer}**", 2)
        show_markdown(console, step.question.because, 2)
        show_after(console, step)


def show_after(console: Screen, step: Step) -> None:
    """Print what follows the answer."""
    _show_parts(console, step.after)


def _show_parts(console: Screen, parts: Sequence[Part]) -> None:
    indent = indent_of_code(console)
    for part in parts:
        if isinstance(part, Prose):
            show_markdown(console, part.text, 2)
        elif isinstance(part, Code):
            show_code(console, part.text, part.language, indent)
        elif isinstance(part, Graph):
            for line in drawing(part):
                console.print(Text(f"{' ' * indent}{line}"))
            console.print()
        else:
            _show_table(console, part)


def _show_table(console: Screen, table: Table) -> None:
    """Print a table; if the window is too narrow, the last column is below its row."""
    indent = indent_of_code(console)
    *first, last = zip(*table.rows, strict=True)
    width = sum(max(map(len, column)) + GAP for column in first)
    if width + max(map(len, last)) + indent <= console.width:
        shown = columns(GAP, headings=any(table.headings))
        for heading in table.headings:
            shown.add_column(heading, no_wrap=True)
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(Padding(shown, (0, 0, 1, indent)))
        return
    for *cells, explanation in table.rows:
        console.print(Padding(Text((" " * GAP).join(filter(None, cells))), (0, 0, 0, indent)))
        console.print(Padding(Text(explanation), (0, 0, 0, indent + GAP)))
    console.print()


def indent_of_code(console: Screen) -> int:
    """Return how far everything but prose is indented: the longest line fits 60 columns."""
    return 4 if console.width > NARROW else 2


NARROW = 62
"""Up to this width, code is not indented further than prose."""

GAP = 2
"""The columns between the columns of a table."""


def drawing(graph: Graph) -> Iterator[str]:
    """Yield the lines of the graph of the first program: `x` goes into a product twice, and into
    a sum.
    """
    x, s, y = graph.run.nodes
    if not graph.gradients:
        left, result = f"x = {number(x.data)} ", "?" if graph.hides_output else number(y.data)
        to_s, to_y = "┼──▶ ", f"* ─ s = {number(s.data)} ─"
        first, last, end = "┌────", "───▶ ", f"+ ─ y = {result}"
    else:
        (left_g, right_g), (to_sum, _) = s.sent, y.sent
        left, result = f"x.grad = {number(x.grad)} ", number(y.grad)
        to_s = f"┼◀─ {number(right_g)} ── "
        to_y = f"* ─ s.grad = {number(s.grad)} ◀─ {number(to_sum)} ─"
        first, last, end = f"┌◀─ {number(left_g)} ──", "──── ", f"+ ─ y.grad = {result}"
    pad, width = " " * len(left), len(to_s)
    corner = width + len(to_y)
    start = f"└◀─ {number(y.sent[1])} " if graph.gradients else "└"
    yield f"{pad}{first:─<{width}}┐"
    yield f"{left}{to_s}{to_y}┐"
    yield f"{pad}{start:─<{corner - len(last)}}{last}{end}"
