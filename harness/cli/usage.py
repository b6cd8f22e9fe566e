"""What typer says, in our words: help in the reader's language, and errors in a command line.

typer brings its own copy of Click, or uses the one that is installed, so its exceptions are told
apart by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import unwrap
from typing import Any, get_args, get_type_hints

import typer

from harness.core.errors import UsageError
from harness.core.message import Message, message, shortened
from harness.report.language import Language

# ----- Why a command is refused -----

REFUSED: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for options and arguments that a command does not have."""

_LONGEST = 60
"""The largest number of typed characters that a message repeats."""


def refusal(error: Any, app: Any, arguments: Sequence[str]) -> UsageError:
    """Return the problem and the remedy for what typer's command `app` raises for arguments."""
    command = app.commands.get(arguments[0], app)
    path = "harness" if command is app else f"harness {arguments[0]}"
    help_, form = f"{path} --help", " ".join([path, *_required(command)])
    match type(error).__name__:
        case "NoSuchOption" if command is app:
            return UsageError(
                message("`{command}` has no option `{option}`", command=path, option=_typed(error)),
                "write options after the name of the command; `harness --help` lists the commands",
            )
        case "NoSuchOption":
            question = _nearest(error.option_name, _options(command))
            return UsageError(
                message("`{command}` has no option `{option}`", command=path, option=_typed(error)),
                message("{question}`{help}` lists the options", question=question, help=help_),
            )
        case "MissingParameter":
            name = _form(error.param)
            return UsageError(
                message("`{command}` needs `{name}`", command=path, name=name),
                message("write `{form}`; `{help}` says more", form=form, help=help_),
            )
        case "BadOptionUsage":
            return _wrong_use(error, _options(command)[error.option_name])
        case "BadParameter":
            return _wrong_value(error, command, arguments)
    return UsageError(  # nothing else is left that can be wrong
        message("`{command}` is given too many arguments", command=path),
        message(
            "write `{form}`, with quotes around a name that contains spaces; `{help}` says more",
            form=" ".join([path, *map(_form, _arguments(command))]),
            help=help_,
        ),
    )


def require_command(arguments: Sequence[str], commands: Iterable[str]) -> None:
    """Raise UsageError if the first argument is the name of a command that does not exist."""
    name = next(iter(arguments), "-")
    known = list(commands)
    if not name.startswith("-") and name not in known:
        raise UsageError(
            message("there is no command `{name}`", name=shortened(name, _LONGEST)),
            message(
                "{question}`harness --help` lists the commands", question=_nearest(name, known)
            ),
        )


def _nearest(name: str, names: Iterable[str]) -> Message:
    from harness.pages.catalogue import nearest  # not needed unless something is wrong

    return nearest(name, names)


def _typed(error: Any) -> str:
    return shortened(error.option_name, _LONGEST)


def _wrong_use(error: Any, option: Any) -> UsageError:
    """Return the error for an option without its value, or with one that it does not take."""
    if option.is_flag:
        return UsageError(
            message("the option `{option}` takes no value", option=error.option_name),
            message("write `{form}`", form=error.option_name),
        )
    return UsageError(
        message("the option `{option}` needs a value", option=error.option_name),
        message("write `{form}`", form=_form(option)),
    )


def _wrong_value(error: Any, command: Any, arguments: Sequence[str]) -> UsageError:
    """Return the error for a value that is not a number, or is too small."""
    is_argument = error.param.param_type_name == "argument"
    name = _form(error.param).strip("[]") if is_argument else error.param.opts[0]
    typed, *_ = error.ctx.command.make_parser(error.ctx).parse_args(list(arguments[1:]))
    value = typed[error.param.name]
    value = shortened(value[-1] if isinstance(value, list) else value, _LONGEST)
    problem = message("`{option}` cannot be `{value}`", option=name, value=value)
    hint = get_type_hints(unwrap(command.callback), include_extras=True)
    kind, *details = get_args(hint[error.param.name]) or (hint[error.param.name],)
    least = next((detail.min for detail in details if hasattr(detail, "min")), None)
    is_whole = int in (kind, *get_args(kind))
    match is_whole, least:
        case True, None:
            return UsageError(problem, "give a whole number")
        case True, _:
            remedy = message("give a whole number that is at least {least}", least=least)
        case _, None:
            return UsageError(problem, "give a number")
        case _:
            remedy = message("give a number that is at least {least}", least=f"{least:g}")
    return UsageError(problem, remedy)


def _options(command: Any) -> dict[str, Any]:
    """Return the options of a command by each of their names."""
    return {
        name: parameter
        for parameter in parameters_of(command)
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def _arguments(command: Any) -> list[Any]:
    return [one for one in parameters_of(command) if one.param_type_name == "argument"]


def _required(command: Any) -> list[str]:
    """Return how to write everything that a command needs: `FOLDER`, `--out DIR`."""
    parameters = [*_arguments(command), *dict.fromkeys(_options(command).values())]
    return [_form(parameter) for parameter in parameters if parameter.required]


def _form(parameter: Any) -> str:
    """Return how an argument or an option is written: `[SUITE]`, `--out DIR`."""
    name = parameter.metavar or "VALUE"
    if parameter.param_type_name == "option":
        return f"{parameter.opts[0]} {name}"
    if name.startswith("["):
        return str(name)
    several = "..." if parameter.nargs != 1 else ""
    return f"{name}{several}" if parameter.required else f"[{name}{several}]"


# ----- The help in another language -----


def translated(app: typer.Typer, say: Language) -> Any:
    """Return typer's command for the app, with its help in the language.

    Our texts are templates, which are looked up like those of a report. What typer adds, such as
    the headings, are its own templates, and are looked up too.
    """
    command = typer.main.get_command(app)
    if say.code != "en":
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
