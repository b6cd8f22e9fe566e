"""The stage: how far a fault got before it was lost or noticed.

After the RIPR model of mutation testing (Ammann and Offutt): a fault must be *reached*, *infect*
the state, *propagate* to something observable, and be *revealed* by a check. Where it was lost
explains why a bug hides.

Infection is a wrong number: a changed function, given the same numbers as in the unpatched
engine, returns or writes different ones, or a node of the backward walk, with the same value,
receives or passes on different ones. A different type or graph, or an operand that nothing uses,
is not an infection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from harness.answer_key.cancellation import Walks, cancelled_by, misled
from harness.answer_key.outcome import REFUSED, REFUSED_ELSEWHERE
from harness.core.message import EMPTY, Kind, Message, message, verbatim
from harness.core.run import INNER, VISIT, Digest
from harness.core.vocabulary import Outcome, Stage

Trail = Mapping[str, Digest]
"""See `harness.runs.recorder`."""

Values = Literal["right", "another-way", "wrong", "unknown"]
"""The numbers inside: all right; all right, but in other calls; one is wrong; not comparable."""

LARGEST_RESIDUE = 1e-5
"""What rounding may leave of larger numbers that cancel; anything larger is not rounding."""


@dataclass(frozen=True)
class Infection:
    """What two runs of a probe show about the numbers inside."""

    values: Values
    where: Message = EMPTY
    """The function that returned or wrote the first wrong number, or the op that has one."""
    cancelled_by: Sequence[Message] = ()
    """The ops that received a wrong number, and gave the right ones."""

    @property
    def is_wrong(self) -> bool:
        """Whether a number was wrong."""
        return self.values == "wrong"


UNKNOWN = Infection("unknown")

HIDDEN = message(Kind.HIDDEN)
ANOTHER_WAY = message(Kind.ANOTHER_WAY)
NOT_COMPARED = message(Kind.NOTHING_WRONG)


def stage_of(
    outcome: Outcome,
    infection: Infection | None,
    caught_by: Sequence[str],
    *,
    correct: bool = False,
    kind: str | None = None,
    guard_is_lost: bool = False,
) -> tuple[Stage | None, Message]:
    """Return the stage, and the sentence that explains it to a learner.

    If the stage depends on the `infection` and it is None, the stage is None and the sentence
    empty. A page that is `correct` by definition computes in another way, and correctly. `kind`
    is that of the outcome, and `guard_is_lost` says that the engine accepts another probe that it
    must refuse.
    """
    if caught_by:
        return "revealed", message("noticed by {diagnostics}", diagnostics=", ".join(caught_by))
    if outcome == "not-reached":
        return "not-reached", message("your probe never runs this line")
    if outcome == "disguised-correct" and infection is None:
        return None, EMPTY
    if outcome == "disguised-correct" and infection is not None:
        if kind == REFUSED_ELSEWHERE:
            return "not-propagated", message("refused, but not where it should be")
        if kind == REFUSED:
            stage: Stage = "not-propagated" if infection.is_wrong else "not-infected"
            return stage, message("it ran, and the same statement refuses this input")
        if guard_is_lost and not infection.is_wrong:
            return "not-infected", message(Kind.NOTHING_TO_REFUSE)
        return _hidden(infection, correct=correct)
    if outcome == "convention":
        choice = message("another valid choice at a kink: there is nothing to reveal")
        return "not-revealed", choice
    return "not-revealed", message("wrong, but no check that was run noticed it")


def _hidden(infection: Infection, *, correct: bool) -> tuple[Stage | None, Message]:
    """Return the stage of a run whose results are right."""
    match infection.values:
        case "wrong" if correct:
            return "not-infected", ANOTHER_WAY
        case "right":
            return "not-infected", HIDDEN
        case "another-way":
            return "not-infected", ANOTHER_WAY
        case "unknown":
            return None, NOT_COMPARED
    if infection.cancelled_by:
        return "not-propagated", message(
            Kind.CANCELLED, where=infection.where, ops=_listed(infection.cancelled_by)
        )
    return "not-propagated", message(Kind.WRONG_INSIDE, where=infection.where)


def _listed(places: Sequence[Message]) -> Message:
    """Return several places as one phrase."""
    first, *rest = places
    return message("{one} and {other}", one=first, other=_listed(rest)) if rest else first


def infection_of(
    broken: Trail,
    clean: Trail,
    walks: Walks = ((), ()),
) -> Infection:
    """Return what the trails of a broken and of a clean run show.

    They include the visits of the walks if both were recorded. `walks` are the walks themselves,
    and say where a wrong number was cancelled.
    """
    functions = _functions(broken), _functions(clean)
    walked = [any(name.startswith(VISIT) for name in side) for side in functions]
    largest = max((d.rounding for trail in (broken, clean) for d in trail.values()), default=0.0)
    comparing = _Comparing(min(largest, LARGEST_RESIDUE))
    for name in dict.fromkeys([*functions[0], *functions[1]]):
        if not (all(walked) and name.startswith(INNER)):
            comparing.compare(name, functions[0].get(name, {}), functions[1].get(name, {}))
    if comparing.wrong:
        name = comparing.wrong[0]
        where = verbatim(name) if name else message("a leaf")
        return Infection("wrong", where, cancelled_by(walks))
    if any(walked) and not all(walked):
        return UNKNOWN
    if place := misled(walks):
        return Infection("wrong", place, cancelled_by(walks))
    if comparing.others:
        return Infection("another-way") if all(walked) else UNKNOWN
    return Infection("right") if comparing.compared else UNKNOWN


class _Call(NamedTuple):
    given: Digest
    gave: Digest | None
    """None if it raised."""
    is_idle: bool = False
    """Whether it returned nothing, and wrote nothing that was recorded."""


def _functions(trail: Trail) -> dict[str, dict[str, _Call]]:
    """Return the calls of each function by number, in the order in which they began."""
    functions: defaultdict[str, dict[str, _Call]] = defaultdict(dict)
    for key, digest in trail.items():
        if key.endswith(" in"):
            call = key.removesuffix(" in")
            name, _, number = call.rpartition("#")
            functions[name][number] = _Call(
                digest, trail.get(f"{call} out"), f"{call} idle" in trail
            )
    return functions


@dataclass
class _Comparing:
    """Compares calls, function by function."""

    residue: float
    wrong: list[str] = field(default_factory=list)
    """The functions with a call that gives wrong numbers; the name of a leaf is empty."""
    others: list[str] = field(default_factory=list)
    """The functions that are called with other numbers, or not as often."""
    compared: int = 0

    def compare(self, name: str, broken: Mapping[str, _Call], clean: Mapping[str, _Call]) -> None:
        """Compare the calls of a function, in the same order or in another."""
        shown = name.removeprefix(INNER).removeprefix(VISIT).replace("/", ".")
        same = {n for n, call in broken.items() if n in clean and self._is_same(call, clean[n])}
        self.compared += sum(not (broken[n].is_idle and clean[n].is_idle) for n in same)
        rest = [call for number, call in clean.items() if number not in same]
        for number, call in broken.items():
            if number in same:
                continue
            alike = [one for one in clean.values() if self._agree(call.given, one.given)]
            match = next((one for one in rest if self._is_same(call, one)), None)
            if match is not None:
                rest.remove(match)
                self.compared += 1
            elif self._is_wrong(call, alike):
                self.wrong.append(shown)
            else:
                self.others.append(shown)
        if rest and shown not in self.wrong:
            self.others.append(shown)

    def _is_wrong(self, call: _Call, alike: Sequence[_Call]) -> bool:
        """Whether a call gave a result that no clean call with the same numbers gave."""
        gave = [one.gave for one in alike if one.gave]
        return bool(call.gave and gave) and not any(self._is_same(call, one) for one in alike)

    def _is_same(self, one: _Call, other: _Call) -> bool:
        if not self._agree(one.given, other.given):
            return False
        if one.gave is None or other.gave is None:
            return one.gave is other.gave
        return self._agree(one.gave, other.gave)

    def _agree(self, one: Digest, other: Digest) -> bool:
        """Whether the numbers are the same, up to rounding."""
        if one.checksum != other.checksum:
            return False
        rounding = max(one.rounding, other.rounding, self.residue)
        return one == other or abs(one.projection - other.projection) <= rounding
