"""Front matter: the TOML part of a page, one record for each kind of page.

The kinds are a tagged union on the key `kind`; a break that names a recipe is a `TrainingBreak`.
A key that a kind does not have is a mistake, as is a value of another type: every mistake is a
`PageError` with file, line, key and remedy.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from typing import Annotated, Any, ClassVar, get_args

import msgspec

from harness.core.errors import PageError, Sentence, as_message
from harness.core.message import either, message
from harness.core.vocabulary import LOSSES, OUTCOMES, Loss, Outcome, PageKind, PardonReason

PerLoss = dict[Loss, Outcome | None]
ProbeTable = dict[str, Outcome | PerLoss | None]
"""The outcome of each probe, or one per loss; None if the author has not stated it yet."""

UNSTATED = "?"
"""Stands for an outcome: run this probe, but state nothing yet. `harness check` reports it."""

ID = "^[a-z0-9]+(-[a-z0-9]+)*$"
MODULE = r"^[A-Za-z_]\w*$"

MOST_DOTS = 300
"""In a line of front matter."""

NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Expression = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Position = Annotated[int, msgspec.Meta(ge=1)]
KeyPath = tuple[str | int, ...]
"""The names of nested tables and of a key; in an array of tables, also the position."""

Identifier = Annotated[str, msgspec.Meta(pattern=ID)]
ModuleName = Annotated[str, msgspec.Meta(pattern=MODULE)]


class Pardon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why no diagnostic catches the break."""

    reason: PardonReason
    sentence: NonEmpty


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about a run of the broken engine; the answer is looked up there."""

    probe: str
    question: NonEmpty
    answer: Expression
    """An expression on the run: see `harness.experiment.statements`."""
    loss: Loss | None = None
    """The loss of the run; the weighted one if None."""
    choices: Annotated[tuple[NonEmpty, ...], msgspec.Meta(min_length=2)] = ()
    because: str = ""
    """The reason, which is shown after the answer."""


class OutputQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about what a program prints; the answer is a word of its output."""

    question: NonEmpty
    answer: tuple[Position, Position]
    """The numbers of the line and of the word in it, from 1; punctuation after it is left out."""
    choices: Annotated[tuple[NonEmpty, ...], msgspec.Meta(min_length=2)] = ()
    because: str = ""
    """As in `Question`."""


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the report quotes from the page if the runs that it shows end as the page states."""

    why: str = ""
    """Why the break does what it does, in two sentences."""
    beware: str = ""
    """Where it hides, or what it makes look better, in two sentences."""


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Diagnostics that the page says catch the break on some probe, or miss it on all of them."""

    caught_by: tuple[str, ...] = ()
    missed_by: tuple[str, ...] = ()


# ----- The kinds -----


class PageFront(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that every kind of page has."""

    kind: ClassVar[PageKind]
    noun: ClassVar[str]
    """The kind in a sentence, with its article."""

    id: Identifier
    family: Identifier
    level: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    sources: tuple[str, ...] = ()


class PatchFront(PageFront, frozen=True, kw_only=True):
    """A page with a patch, and what it expects of the patched engine."""

    sites: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The number of places that the patch changes; None if the page does not state it."""
    expect: dict[str, Any] = {}


class ProbedFront(PatchFront, frozen=True, kw_only=True):
    """A page whose patch is judged probe by probe, and by the diagnostics."""

    diagnostics: dict[str, Any] = {}
    ill_conditioned: dict[str, NonEmpty] = {}
    """The page's probes whose results depend on the last digits of their inputs, and why."""


class Break(ProbedFront, frozen=True, kw_only=True, tag_field="kind", tag="break"):
    """A named, deliberate bug."""

    kind: ClassVar[PageKind] = "break"
    noun: ClassVar[str] = "a break"

    why: str = ""
    """Why it does what it does, in two sentences, for the report."""
    beware: str = ""
    """Where it hides, or what it makes look better, in two sentences."""
    advice: dict[str, Advice] = {}
    """The same for the variants on which the outcomes, and so the reasons, are different."""
    no_invariant: str = ""
    """Why there is no cheap invariant that the break violates."""
    exceptions: dict[str, NonEmpty] = msgspec.field(name="except", default={})
    """The variants that violate the invariant although they are correct, and why."""
    ask: tuple[Question, ...] = ()
    pardon: Pardon | None = None


class Alarms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shares of runs on which the invariant of a page with a recipe fails."""

    false: Share
    """Of the correct runs."""
    true: Share
    """Of the broken runs."""


class TrainingBreak(PatchFront, frozen=True, kw_only=True, tag_field="kind", tag="break"):
    """A bug that only many seeds of a whole training run show; see `harness.training`."""

    kind: ClassVar[PageKind] = "break"
    noun: ClassVar[str] = "a break with a recipe"

    why: str = ""
    beware: str = ""
    no_invariant: str = ""
    alarms: Alarms | None = None
    recipe: ModuleName
    """The training that the patch changes."""


class Variant(ProbedFront, frozen=True, kw_only=True, tag_field="kind", tag="variant"):
    """A correct rewrite of the engine."""

    kind: ClassVar[PageKind] = "variant"
    noun: ClassVar[str] = "a variant"


class Control(ProbedFront, frozen=True, kw_only=True, tag_field="kind", tag="control"):
    """A patch on which every diagnostic must alarm, or none."""

    kind: ClassVar[PageKind] = "control"
    noun: ClassVar[str] = "a control"


class Myth(PageFront, frozen=True, kw_only=True, tag_field="kind", tag="myth"):
    """A wrong claim from teaching material, and the program that tests it."""

    kind: ClassVar[PageKind] = "myth"
    noun: ClassVar[str] = "a myth"

    needs: tuple[ModuleName, ...] = ()
    """What the program imports besides NumPy and minigrad; it is not run without them."""
    ask: tuple[OutputQuestion, ...] = ()
    """What `harness myth` asks before it shows what the program prints."""


class Exercise(PageFront, frozen=True, kw_only=True, tag_field="kind", tag="exercise"):
    """A test suite that some breaks pass, and the probe that kills them."""

    kind: ClassVar[PageKind] = "exercise"
    noun: ClassVar[str] = "an exercise"

    breaks: tuple[str, ...] = ()
    """The breaks that pass the suite, and that the answer kills."""
    kills: tuple[str, ...] = ()
    """Breaks that the suite catches."""


class Operator(PageFront, frozen=True, kw_only=True, tag_field="kind", tag="operator"):
    """A bug pattern, which is applied to a user's own backward rules, one site at a time."""

    kind: ClassVar[PageKind] = "operator"
    noun: ClassVar[str] = "an operator"

    write: NonEmpty
    """The test to write for a rule in which it survives, in one sentence."""
    needs: tuple[ModuleName, ...] = ()
    """The modules that its rule imports besides NumPy; without them, its suites are not run."""


FrontMatter = Break | TrainingBreak | Variant | Myth | Exercise | Operator | Control
_OTHERS = Break | Variant | Myth | Exercise | Operator | Control
"""The kinds that the key `kind` tells apart."""
KINDS: tuple[type[PageFront], ...] = get_args(FrontMatter)


# ----- Reading -----

_REMEDIES = {
    "id": "lower-case words joined by hyphens, the file's name without .md: `skip-a-step`",
    "kind": 'one of "break", "variant", "myth", "exercise", "operator"',
    "family": "lower-case words joined by hyphens, the folder of the page: `broadcasting`",
    "level": "1 (first lesson), 2 or 3 (expert)",
    "sources": 'a list of strings: `sources = ["project#123"]`',
    "sites": "the number of places that the patch changes, 1 or more; or leave it out",
    "expect": f"`probe-name = outcome`, where the outcome is one of {', '.join(OUTCOMES)}; or "
    f'`probe-name = {{ {LOSSES[0]} = "...", {LOSSES[1]} = "..." }}`',
    "pardon": f'`reason = "..."`, one of {", ".join(get_args(PardonReason))}, and '
    '`sentence = "..."`, which says why no diagnostic can catch it',
    "diagnostics": '`caught_by = ["shape"]` and `missed_by = ["gradcheck"]`',
    "ill_conditioned": "a reason for each probe: "
    '`ill_conditioned = { var-of-large-numbers = "It subtracts nearly equal numbers." }`',
    "why": 'two sentences: `why = "Why it does what it does."`',
    "beware": 'two sentences: `beware = "Where it hides."`',
    "advice": '`why = "..."` and `beware = "..."` below `[advice.VARIANT]`',
    "no_invariant": 'the reason: `no_invariant = "It only changes how much memory is used."`',
    "except": 'a reason for each variant: `except = { tied-weights = "It shares them." }`',
    "ask": '`probe = "..."`, `question = "..."` and `answer = "a.grad.shape"` below `[[ask]]`; '
    f"optionally `choices`, `because`, and `loss`, one of {', '.join(LOSSES)}",
    "alarms": "the shares of correct and of broken runs on which the invariant fails: "
    "`false = 0.05` and `true = 0.9`",
    "recipe": 'the name of a training that the patch changes: `recipe = "classify"`',
    "needs": 'the modules that the page\'s program imports besides NumPy: `needs = ["torch"]`',
    "write": 'the test to write, in one sentence: `write = "Check the gradient of ..."`',
    "breaks": 'the breaks that pass an exercise\'s suite: `breaks = ["id-of-a-break"]`',
    "kills": 'breaks that the suite of an exercise catches: `kills = ["id-of-a-break"]`',
}


class FrontReader:
    """Converts front matter to typed records, and any mistake in it to a PageError."""

    def __init__(self, path: str, toml: str) -> None:
        self.path, self.toml = path, toml

    def front(self) -> FrontMatter:
        """The record of the page's kind."""
        table = self._table()
        is_training = table.get("kind") == "break" and "recipe" in table
        kinds: Any = TrainingBreak if is_training else _OTHERS
        try:
            front: FrontMatter = msgspec.convert(table, kinds)
        except msgspec.ValidationError as error:
            kind = TrainingBreak if is_training else _kind_named(table.get("kind"))
            raise self._explain(str(error), (), kind) from None
        return front

    def expect(self, front: FrontMatter) -> dict[str | None, ProbeTable]:
        """The expected outcomes: the engine's own (None), and a table for each variant named."""
        tables: dict[str | None, ProbeTable] = {None: {}}
        if not isinstance(front, ProbedFront):
            return tables
        for key, value in front.expect.items():
            if isinstance(value, dict) and not value.keys() & set(LOSSES):
                tables[key] = {
                    probe: self._entry(entry, ("expect", key, probe))
                    for probe, entry in value.items()
                }
            else:
                tables[None][key] = self._entry(value, ("expect", key))
        return tables

    def claims(self, front: FrontMatter) -> dict[str | None, Claims]:
        """The claims about diagnostics: for the engine itself (None), and for variants."""
        if not isinstance(front, ProbedFront):
            return {None: Claims()}
        tables = {key: table for key, table in front.diagnostics.items() if isinstance(table, dict)}
        own = {key: value for key, value in front.diagnostics.items() if key not in tables}
        claims: dict[str | None, Claims] = {None: self._convert(own, Claims, ("diagnostics",))}
        for key, table in tables.items():
            claims[key] = self._convert(table, Claims, ("diagnostics", key))
        return claims

    def mistake(self, key: KeyPath, problem: Sentence, remedy: Sentence) -> PageError:
        """The error about a key, at its line."""
        name = ".".join(part for part in key if isinstance(part, str))
        return PageError(
            self.path,
            key_line(self.toml, key),
            message("key `{name}` {problem}", name=name, problem=as_message(problem)),
            remedy,
        )

    def _table(self) -> dict[str, Any]:
        for number, row in enumerate(self.toml.splitlines(), start=2):
            if (dots := row.count(".")) > MOST_DOTS:  # parsing a key takes quadratic time in them
                problem = message("a line with {dots} dots in the front matter", dots=dots)
                raise PageError(self.path, number, problem, "split it into several lines")
        try:
            return tomllib.loads("\n" + self.toml)  # as line 1 of the file is +++
        except (ValueError, RecursionError) as error:  # too long a number, too many brackets
            line = max(2, line_of_error(error))
            problem = message("the front matter is not TOML: {error}", error=error)
            raise PageError(self.path, line, problem, "see https://toml.io") from None

    def _entry(self, value: object, key: tuple[str, ...]) -> Outcome | PerLoss | None:
        if isinstance(value, dict):
            return {
                self._convert(loss, Loss, (*key, loss)): self._outcome(outcome, (*key, loss))
                for loss, outcome in value.items()
            }
        return self._outcome(value, key)

    def _outcome(self, value: object, key: tuple[str, ...]) -> Outcome | None:
        outcome: Outcome | None = None if value == UNSTATED else self._convert(value, Outcome, key)
        return outcome

    def _convert(self, value: object, kind: Any, key: tuple[str, ...]) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._explain(str(error), key) from None

    def _explain(
        self, text: str, names: tuple[str, ...], kind: type[PageFront] | None = None
    ) -> PageError:
        text, _, place = text.partition(" - at ")
        path = (int(part) if part.isdigit() else part for part in re.findall(r"\w+", place))
        key: KeyPath = (*names, *path)
        if unknown := re.search(r"unknown field `(.+?)`", text):
            return self._unknown((*key, unknown.group(1)), kind)
        if missing := re.search(r"missing required field `(.+?)`", text):
            key = (*key, missing.group(1))
            return self.mistake(
                key,
                "is missing",
                message("add it: {example}", example=as_message(_REMEDIES[str(key[0])])),
            )
        return self.mistake(
            key,
            message("is wrong: {problem}", problem=text),
            message("write {example}", example=as_message(_REMEDIES[str(key[0])])),
        )

    def _unknown(self, key: KeyPath, kind: type[PageFront] | None) -> PageError:
        """The error about a key that no kind of page has, or only another kind."""
        if len(key) > 1 or kind is None:
            example = as_message(_REMEDIES.get(str(key[0])) or message("another key"))
            remedy = message("write {example}", example=example)
            return self.mistake(key, "is unknown", remedy)
        noun = as_message(kind.noun)
        keys = message("the keys of {kind} are {keys}", kind=noun, keys=", ".join(_keys(kind)))
        owners = [as_message(other.noun) for other in KINDS if key[0] in _keys(other)]
        if not owners:
            return self.mistake(key, "is unknown", keys)
        problem = message("on {kind}: it belongs on {owners}", kind=noun, owners=either(owners))
        return self.mistake(key, problem, message("leave it out; {keys}", keys=keys))


def _kind_named(name: object) -> type[PageFront] | None:
    return next((kind for kind in KINDS if kind.kind == name), None)


def _keys(kind: type[PageFront]) -> list[str]:
    first, *rest = kind.__struct_encode_fields__
    return [first, "kind", *rest]


def line_of_error(error: Exception) -> int:
    """Return the line that a TOML parser names in its error, or 1."""
    match = re.search(r"at line (\d+)", str(error))
    return int(match.group(1)) if match else 1


def key_line(toml: str, key: KeyPath) -> int:
    """Return the line of the file with a key of the front matter, or the longest prefix of it.

    The first line if there is none. Both spellings are recognised: `[expect.variant]` then `probe =
    ...`, and `[expect]` then `variant.probe = ...`.
    """
    table: KeyPath = ()
    counts = Counter[KeyPath]()
    best, line = 0, 1
    for number, row in enumerate(toml.splitlines(), start=2):
        header = re.match(r"\s*(\[\[?)([^\]]+)\]", row)
        entry = re.match(r"\s*([\w.\"'-]+)\s*=", row)
        if header:
            table = here = _dotted(header[2])
            if header[1] == "[[":
                table = here = (*table, counts[table])
                counts[here[:-1]] += 1
        elif entry:
            here = table + _dotted(entry.group(1))
        else:
            continue
        shared = here[: len(key)]
        if len(shared) > best and key[: len(shared)] == shared:
            best, line = len(shared), number
    return line


def _dotted(key: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in key.split("."))
