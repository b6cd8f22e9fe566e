"""Why a break or a mutant survives, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.core.message import shortened, some, visible
from harness.grade.suite import Reason, ReasonKind

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

_PROPERTIES: Mapping[str, tuple[str, str, str]] = {
    "not-run": ("", "", "the changed code does not run"),
    "ones": ("{} is all ones", "{} are all ones", ""),
    "zeros": ("{} is all zeros", "{} are all zeros", ""),
    "equal-shapes": ("", "", "all shapes are equal"),
    "square": ("{} is square", "{} are square", "all matrices are square"),
    "one-element": ("{} has one element", "{} have one element", ""),
    "one-sign": ("{} has one sign", "{} have one sign", ""),
    "scale-1": ("{} is 1", "{} are 1", ""),
    "none": ("{} is None", "{} are None", ""),
    "all-require-grad": ("", "", "all inputs require a gradient"),
    "contiguous": ("", "", "all arrays are contiguous"),
}
"""What the calls have in common: one argument, several, or all."""

MOST_PROPERTIES, MOST_ARGUMENTS = 2, 2
"""The numbers of properties and of arguments that a sentence names."""


def why(reason: Reason) -> str:
    """Return why something survives: `the inputs hide it: the right numbers in all 14 calls`."""
    match reason.kind:
        case "assertion":
            where = f", in {name_of(reason.test)}" if reason.test else ""
            return f"no assertion looked: the first wrong number is in call {reason.call}{where}"
        case "inputs":
            common = "; ".join(properties(reason))
            return f"the inputs hide it: the right numbers in {_calls(reason)}" + (
                f" ({common})" if common else ""
            )
        case "same":
            return f"the same numbers in {_calls(reason)}; it may be equivalent"
        case "not-measured":
            return "not measured"


def _calls(reason: Reason) -> str:
    if reason.more:
        return f"the first {reason.calls} calls"
    few = {1: "the only call", 2: "both calls"}
    return few.get(reason.calls, f"all {reason.calls} calls")


def properties(reason: Reason) -> Iterator[str]:
    """Yield what all calls have in common, the most telling properties only."""
    arguments: dict[str, list[str]] = {}
    for shared in reason.common:
        arguments.setdefault(shared.kind, []).append(shared.argument)
    for kind, names in list(arguments.items())[:MOST_PROPERTIES]:
        one, several, every = _PROPERTIES[kind]
        quoted = [f"`{name}`" for name in names if name]
        form = every if "" in names else several if len(quoted) > 1 else one
        yield form.format(some(quoted, MOST_ARGUMENTS))
    if not reason.common and "graph" in reason.reveals:
        yield "no gradient is differentiated again"
