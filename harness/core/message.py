"""Messages: a template and its arguments, kept apart until a renderer formats them.

The English template is the id of a message, as in gettext: a language's table gives another
template with the same fields, so translations are looked up, never guessed.

Code that has to tell one message from another, or needs a shorter wording, uses its kind. The last
section has functions on plain text, such as an engine's messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, reduce
from typing import Any
from unicodedata import category

_FIELD = re.compile(r"\{(\w+)\}")


class Kind(Enum):
    """The kinds of messages that are told apart; the value is the English template."""

    # ----- How an array or a log differs -----
    SHAPE = "{array} has shape {actual}, expected {expected}"
    ARRAY = "{array} is {actual}, expected {expected}"
    ENTRIES = "{array} is {actual}, expected {expected} ({count} of {size} entries are wrong)"
    SIZE = "{array} has a different size"
    DIGEST = "{array} differs"
    AFTER_STEP = "after step {step}, {difference}"
    STEPS = "{actual} steps were made, expected {expected}"
    ENDS = "{difference}; the loss ends at {actual}, expected {expected}"
    ENDS_LOWER = "{difference}; the loss ends at {actual}, lower than the correct {expected}"
    NO_GRADIENT = "{leaf} has no gradient, expected one"
    EXTRA_GRADIENT = "{leaf} has a gradient, expected none"
    MUTATED = "{name} was changed by the run"
    GENERATOR = "numbers were drawn from NumPy's global generator"
    AT_KINK = "{difference}; at this kink both are valid subgradients"

    # ----- A failure, and a refusal by the correct engine -----
    FAILED_SAYING = "{error} in {phase}: {text}"
    FAILED_AT = "{error} in {phase}, at `{line}`"
    FAILED_AT_SAYING = "{error} in {phase}, at `{line}`: {text}"
    FAILED_AFTER = "{failure}. Before that, silently: {difference}"
    FAILED_OTHERWISE = "{failure}; the correct engine fails with {refusal}"
    ACCEPTED = "the correct engine refuses this ({refusal}); the broken one accepts it"
    REFUSED = "refused, as by the correct engine: {refusal}"
    REFUSED_AFTER = "{difference}; then refused, as by the correct engine: {refusal}"
    REFUSED_ELSEWHERE = (
        "refused, for another reason: {failure}; the correct engine fails with {refusal}"
    )
    FORWARD = "the forward pass"
    BACKWARD = "the backward pass"

    # ----- Why a right result is right -----
    RIGHT = "the patched code ran, and output and gradients are correct"
    RIGHT_LOG = "the patched code ran, and every step of the log is correct"
    ROUNDING = "the patched code ran, and nothing differs by more than rounding here"
    ONE_NOT_COMPARED = "{correct}; 1 leaf that the probe creates was not compared"
    NOT_COMPARED = "{correct}; {count} leaves that the probe creates were not compared"
    HIDDEN = "hidden here: on this input all numbers are right"
    CANCELLED = "wrong inside ({where}), but cancelled by {ops}"
    WRONG_INSIDE = "wrong inside ({where}), but no result is wrong"
    NOTHING_TO_REFUSE = "it ran, but there was nothing to refuse here"
    ANOTHER_WAY = "computed another way, same result"
    NOTHING_WRONG = "it ran, and nothing that was compared is wrong"

    # ----- What a decision depends on -----
    NOTHING = ""
    OUTPUT = "the output"
    UNREPEATABLE = "it gives different numbers each time: use a seeded generator"


_KINDS = {kind.value: kind for kind in Kind}


class Message:
    """A sentence, or a part of one, that can be shown in another language.

    It is not a msgspec Struct, so that each encoder decides how to represent it: see `as_text` and
    `as_parts`.

    Parameters
    ----------
    template : str or Kind
        English, with `{name}` where an argument goes.
    arguments : mapping of str to str or Message
        A nested message is translated too. Text never is: it is a number, a name, or comes from
        Python, a library or the user's code.
    """

    __slots__ = ("arguments", "kind", "template")

    def __init__(self, template: str | Kind, arguments: Mapping[str, str | Message]) -> None:
        self.kind = template if isinstance(template, Kind) else None
        self.template: str = template.value if isinstance(template, Kind) else template
        self.arguments = dict(arguments)

    def format(self, translations: Mapping[str, str]) -> str:
        """Return the sentence in these translations, or in English if its template has none."""
        if self.template not in translations:
            translations = {}
        texts = {
            name: argument.format(translations) if isinstance(argument, Message) else argument
            for name, argument in self.arguments.items()
        }
        template = translations.get(self.template, self.template)
        # Not `str.format`: a field in text from elsewhere must not reach attributes or pad output.
        return _FIELD.sub(lambda field: texts.get(field[1], field[0]), template)

    def __str__(self) -> str:
        """The sentence in English."""
        return self.format({})

    def __repr__(self) -> str:
        """The template and the arguments."""
        return f"Message({self.template!r}, {self.arguments!r})"

    def __eq__(self, other: object) -> bool:
        """Whether the other is a message with the same template and arguments."""
        if not isinstance(other, Message):
            return NotImplemented
        return (self.template, self.arguments) == (other.template, other.arguments)

    def __bool__(self) -> bool:
        """Whether it says anything."""
        return self.template != Kind.NOTHING.value

    def __hash__(self) -> int:
        """The hash of template and arguments."""
        return hash((self.template, frozenset(self.arguments.items())))


def message(template: str | Kind, /, **arguments: object) -> Message:
    """Return a message; arguments that are not messages become text.

    Raises ValueError unless the arguments are the fields of the template.
    """
    names = fields(template.value if isinstance(template, Kind) else template)
    if arguments.keys() != names:
        raise ValueError(f"{template!r} has the fields {set(names)}, got {arguments}")
    return Message(
        template, {k: v if isinstance(v, Message) else str(v) for k, v in arguments.items()}
    )


def verbatim(text: str) -> Message:
    """Return a message that is the same text in every language."""
    return Message("{text}", {"text": text})


EMPTY = Message(Kind.NOTHING, {})


def joined(messages: Iterable[Message]) -> Message:
    """Return several messages as one, separated by semicolons."""
    return _fold(lambda a, b: message("{first}; {next}", first=a, next=b), messages)


def lines(messages: Iterable[Message]) -> Message:
    """Return several messages as one, each on a line of its own."""
    return _fold(lambda a, b: message("{first}\n{next}", first=a, next=b), messages)


def all_of(messages: Iterable[Message]) -> Message:
    """Return several messages as one, with "and" between them."""
    return _fold(lambda a, b: message("{first} and {last}", first=a, last=b), messages)


def either(messages: Iterable[Message]) -> Message:
    """Return several messages as one, with "or" between them."""
    return _fold(lambda a, b: message("{first} or {next}", first=a, next=b), messages)


def _fold(join: Callable[[Message, Message], Message], messages: Iterable[Message]) -> Message:
    return reduce(join, list(messages) or [EMPTY])


@lru_cache(maxsize=1024)
def fields(template: str) -> frozenset[str]:
    """Return the names of the fields of a template."""
    return frozenset(_FIELD.findall(template))


# ----- Encoding -----


def as_text(value: Any) -> str:
    """Encode a message in English, for JSON: an `enc_hook` of msgspec."""
    if isinstance(value, Message):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")


def as_parts(value: Any) -> tuple[str, Mapping[str, Any]]:
    """Encode a message as its template and arguments, for a cache: an `enc_hook` of msgspec."""
    if isinstance(value, Message):
        return value.template, value.arguments
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")


def from_parts(kind: type, data: Any) -> Message:
    """Decode a message encoded by `as_parts` or `as_text`: a `dec_hook` of msgspec.

    Raises ValueError for any other data.
    """
    if kind is not Message:
        raise NotImplementedError(f"{kind.__name__} cannot be decoded")
    if isinstance(data, str):
        return verbatim(data)
    match data:
        case [str(template), dict(arguments)] if all(isinstance(name, str) for name in arguments):
            parts = {
                name: value if isinstance(value, str) else from_parts(Message, value)
                for name, value in arguments.items()
            }
            return _shared(template, tuple(parts.items()))
    raise ValueError("a message is a template and its arguments")


@lru_cache(maxsize=4096)
def _shared(template: str, arguments: tuple[tuple[str, str | Message], ...]) -> Message:
    """Return one object for equal messages: a matrix holds the same reason for many runs."""
    return Message(_KINDS.get(template, template), dict(arguments))


# ----- Plain text, printable and short -----


_NOT_ASCII = re.compile(r"[^ -~\n\t]")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def visible(text: str, escape: Callable[[str], str] = _escape) -> str:
    """Return the text with escapes for characters that control a terminal or are invisible.

    These are all characters of Unicode's categories C, Zl and Zp except newline and tab: control
    characters, characters that change the direction of text, zero-width characters, and code points
    without a character. Letters, symbols and spaces of every script remain.
    """

    def shown(match: re.Match[str]) -> str:
        character = match[0]
        is_visible = character.isprintable() or category(character) == "Zs"
        return character if is_visible else escape(character)

    return _NOT_ASCII.sub(shown, text)


def some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first few names, and the number of the others: `a, b and 7 more`."""
    rest = len(names) - most
    return between.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def shortened(text: str, most: int) -> str:
    """Return the text, cut to this many characters; the last one shows that it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
