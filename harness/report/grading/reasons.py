"""Why a break or a mutant survives, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from harness.core.message import Message, message, shortened, verbatim, visible
from harness.grade.suite import Reason, ReasonKind
from harness.runs.facts import PropertyKind

MOST_OF_A_NAME = 60
"""The number of characters to show of a test's name: its author may choose any."""


def name_of(node: str) -> str:
    """Return the name of a test without its file and class: `test_sub[3]`.

    It is made visible here, since a web page shows the strings of JSON without their escapes.
    """
    _, scoped, inside = node.partition("::")  # a folder may be called `a[1]`
    name, bracket, parameters = (inside if scoped else node).partition("[")
    return shortened(visible(name.rpartition("::")[2] + bracket + parameters), MOST_OF_A_NAME)


ORDER: Sequence[ReasonKind] = ("assertion", "inputs", "not-measured", "same")
"""The reasons in the order in which they are listed: what may be equivalent comes last."""

SHORT: Mapping[ReasonKind, str] = {
    "assertion": "no assertion looked",
    "inputs": "hidden by the inputs",
    "not-measured": "not measured",
    "same": "the same numbers in every call",
}
"""The reasons in a few words."""

_OF_ALL: Mapping[PropertyKind, Message] = {
    "not-run": message("the changed code does not run"),
    "no-gradient": message("an operand needs no gradient"),
    "equal-shapes": message("all shapes are equal"),
    "square": message("all matrices are square"),
    "all-require-grad": message("all inputs require a gradient"),
    "contiguous": message("all arrays are contiguous"),
}
"""What all arguments of all calls have in common."""

_OF_ONE: Mapping[PropertyKind, tuple[Message, Message, Message]] = {
    "ones": (
        message("an array is all ones"),
        message("{names} is all ones", names=""),
        message("{names} are all ones", names=""),
    ),
    "zeros": (
        message("an array is all zeros"),
        message("{names} is all zeros", names=""),
        message("{names} are all zeros", names=""),
    ),
    "equal-arrays": (
        message("two arrays are equal"),
        message("{names} are equal", names=""),
        message("{names} are equal", names=""),
    ),
    "square": (
        message("a matrix is square"),
        message("{names} is square", names=""),
        message("{names} are square", names=""),
    ),
    "one-element": (
        message("an array has one element"),
        message("{names} has one element", names=""),
        message("{names} have one element", names=""),
    ),
    "one-sign": (
        message("an array has one sign"),
        message("{names} has one sign", names=""),
        message("{names} have one sign", names=""),
    ),
    "scale-1": (
        message("a number is 1"),
        message("{names} is 1", names=""),
        message("{names} are 1", names=""),
    ),
    "none": (
        message("an argument is None"),
        message("{names} is None", names=""),
        message("{names} are None", names=""),
    ),
    "no-gradient": (
        message("an operand needs no gradient"),
        message("{names} needs no gradient", names=""),
        message("{names} need no gradient", names=""),
    ),
}
"""What an argument has in all calls: one that is not named, one with a name, several. The names are
put in later."""

MOST_PROPERTIES, MOST_ARGUMENTS = 2, 2
"""The numbers of properties and of arguments that a sentence names."""


def why(reason: Reason) -> Message:
    """Return why something survives: `the inputs hide it: the right numbers in all 14 calls`."""
    calls = _calls(reason)
    match reason.kind:
        case "assertion" if reason.test:
            return message(
                "no assertion looked: the first wrong number is in call {call}, in {test}",
                call=reason.call,
                test=name_of(reason.test),
            )
        case "assertion":
            return message(
                "no assertion looked: the first wrong number is in call {call}", call=reason.call
            )
        case "inputs":
            hidden = message("the inputs hide it: the right numbers in {calls}", calls=calls)
            return _with_properties(hidden, reason)
        case "same":
            return message("the same numbers in {calls}; it may be equivalent", calls=calls)
        case "not-measured":
            return message("not measured")


def why_for_learners(reason: Reason) -> Message:
    """Return the same for somebody who has written these tests, and is to write others."""
    match reason.kind:
        case "assertion" if reason.test:
            return message(
                "call {call} of the changed code in `{test}` gives a wrong number, "
                "but no assertion notices it",
                call=reason.call,
                test=name_of(reason.test),
            )
        case "inputs" | "same":
            hidden = message(
                "your inputs hide it: the changed code gives the right numbers in {calls}",
                calls=_calls(reason),
            )
            return _with_properties(hidden, reason)
        case _:
            return why(reason)


def _with_properties(sentence: Message, reason: Reason) -> Message:
    common = properties(reason)
    if not common:
        return sentence
    both = reduce(lambda one, other: message("{one}; {other}", one=one, other=other), common)
    return message("{sentence} ({common})", sentence=sentence, common=both)


def _calls(reason: Reason) -> Message:
    if reason.more:
        return message("the first {count} calls", count=reason.calls)
    match reason.calls:
        case 1:
            return message("the only call")
        case 2:
            return message("both calls")
    return message("all {count} calls", count=reason.calls)


def properties(reason: Reason) -> list[Message]:
    """Return what all calls have in common, the most telling properties only."""
    arguments: dict[PropertyKind, list[str | None]] = {}
    for shared in reason.common:
        arguments.setdefault(shared.kind, []).append(shared.argument)
    found = []
    for kind, names in list(arguments.items())[:MOST_PROPERTIES]:
        if "" in names:
            found.append(_OF_ALL[kind])
            continue
        unnamed, one, several = _OF_ONE[kind]
        if kind == "equal-arrays":  # the first pair
            names = [*(names[0] or "").split(", ")]
        quoted = [f"`{name}`" for name in names if name]
        form = several if len(quoted) > 1 else one
        found.append(Message(form.template, {"names": _listed(quoted)}) if quoted else unnamed)
    if not reason.common and "graph" in reason.reveals:
        found.append(message("no gradient is differentiated again"))
    return found


def _listed(names: Sequence[str]) -> Message:
    """Return the first names, and how many others there are."""
    first = ", ".join(names[:MOST_ARGUMENTS])
    if len(names) <= MOST_ARGUMENTS:
        return verbatim(first)
    return message("{names} and {count} more", names=first, count=len(names) - MOST_ARGUMENTS)
