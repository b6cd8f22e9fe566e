"""The commands' help in another language.

Our texts are templates, which are looked up like those of a report. What typer adds, such as the
headings, are its own templates, and are looked up too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import typer

from harness.report.language import Language


def translate_help(app: typer.Typer, say: Language) -> Callable[..., object]:
    """Return the command line of the app, with its help in the language."""
    command = typer.main.get_command(app)
    for item in commands_in(command):
        _translate(item, say)
    return command


def commands_in(command: Any) -> Iterator[Any]:
    """Yield the command and its subcommands."""
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from commands_in(inner)


def _translate(command: Any, say: Language) -> None:
    for name in ("help", "epilog"):
        text = getattr(command, name) or ""
        setattr(command, name, "\n\n".join(map(say, paragraphs(text))) or None)
    for name, text in usage_words(command).items():
        setattr(command, name, say(text))
    for parameter in parameters_of(command):
        parameter.help = say(parameter.help or "")
        parameter.metavar = parameter.metavar and say(parameter.metavar)
        parameter.get_help_record = partial(_record, parameter.get_help_record, parameter, say)
    command.context_class = _context_class(command.context_class, say)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text, each on one line."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def usage_words(command: Any) -> dict[str, str]:
    """Return the placeholders for options and commands in the usage line, by attribute."""
    names = ("options_metavar", "subcommand_metavar")
    return {name: text for name in names if (text := getattr(command, name, None))}


def parameters_of(command: Any) -> list[Any]:
    """Return the arguments and options, among them `--help`."""
    context = command.context_class(command)
    parameters: list[Any] = command.get_params(context)
    return parameters


def _record(original: Callable[[Any], Any], parameter: Any, say: Language, context: Any) -> Any:
    """Return the name of a parameter and its help, as the original method does in English."""
    name, _ = original(context)
    return name, f"{parameter.help}  [{say('required')}]" if parameter.required else parameter.help


def _context_class(kind: Any, say: Language) -> Any:
    """Return the class of contexts whose formatter writes typer's headings in the language."""

    class Formatter(kind.formatter_class):  # type: ignore[misc]
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            super().write_usage(prog, args, prefix or say("Usage: "))

        def write_heading(self, heading: str) -> None:
            super().write_heading(say(heading))

    return type("TranslatedContext", (kind,), {"formatter_class": Formatter})
