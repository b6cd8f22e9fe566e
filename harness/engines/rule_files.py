"""The files of a user's own backward rules, from the target of `pytest --breaks-rules`.

A target is a file, a folder, or a module; `TARGET:NAME` means one rule. Nothing is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import EnvironmentProblem, PageError, UsageError
from harness.core.message import message
from harness.engines.engine import Dialect, Engine, read_source
from harness.engines.location import find_module_spec, import_root, read_package
from harness.patch.side import quiet_parse

_TESTS = ("test_", "conftest")
"""How the names of files begin that are not searched for rules."""
_FORMS = "name a file, a folder or a module: `src/ops.py`, `src/mypkg`, `mypkg.ops:Scale`"


@dataclass(frozen=True)
class RuleTarget:
    """Where to look for rules."""

    engine: Engine
    """The files, and those of their package, as an engine that is never called."""
    files: tuple[str, ...]
    """The files in which to look, by their path below the root."""
    rule: str
    """The name of the only rule to use; empty for all."""


def locate_rules(target: str) -> RuleTarget:
    """Find the files in which to look for rules.

    Raises UsageError for a malformed target, and EnvironmentProblem if there is no such file or
    module, or if it is not Python source.
    """
    place, colon, rule = target.rpartition(":")
    if not colon or "/" in rule or "\\" in rule:
        place, rule = target, ""
    path = Path(place)
    if path.is_dir() or path.suffix == ".py" or "/" in place:
        own = list(_files_of(path))
    else:
        own = list(_files_of(_origin(place)))
    root = import_root(own[0])
    module = ".".join(own[0].relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    sources = read_package(root, module)
    for file in own:
        sources[file.relative_to(root).as_posix()] = _read(file)
    engine = Engine(target, Dialect(module), root, dict(sorted(sources.items())), foreign=True)
    return RuleTarget(engine, tuple(file.relative_to(root).as_posix() for file in own), rule)


def is_searched(file: str) -> bool:
    """Whether a file, by its path, is searched for rules: those of tests are not."""
    return not file.rpartition("/")[2].startswith(_TESTS)


def _files_of(path: Path) -> Iterator[Path]:
    """Yield the file, or the Python files below a folder. Raises EnvironmentProblem without any."""
    if not path.exists():
        raise EnvironmentProblem(message("no file or folder {path}", path=path), _FORMS)
    if path.is_dir():
        files = [
            file.resolve()
            for file in sorted(path.rglob("*.py"))
            if is_searched(file.name)
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
        if not files:
            raise EnvironmentProblem(message("no Python files below {path}", path=path), _FORMS)
        yield from sorted(files, key=lambda file: len(file.parts))
    elif path.suffix != ".py":
        raise EnvironmentProblem(
            message("{path} is not Python source, so no rule in it can be changed", path=path),
            "name the Python file that the rule is written in",
        )
    else:
        yield path.resolve()


def _origin(module: str) -> Path:
    """Return the file of a module, or the folder of a package."""
    if not module or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(
            message("`{module}` is neither a file nor a module", module=module), _FORMS
        )
    spec = find_module_spec(module, Path())
    if spec is None:
        raise EnvironmentProblem(
            message(
                "no module `{module}` was found here or among installed packages", module=module
            ),
            _FORMS,
        )
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec.origin is None or not spec.has_location:
        raise EnvironmentProblem(
            message("`{module}` is built into Python: it has no source", module=module), _FORMS
        )
    return Path(spec.origin)


def _read(file: Path) -> str:
    """Return the text of a file. Raises EnvironmentProblem unless it is Python."""
    try:
        text = read_source(file)
        quiet_parse(text)
    except PageError as error:
        problem, remedy = error.sentences
        raise EnvironmentProblem(problem, remedy) from None
    except (SyntaxError, UnicodeDecodeError) as error:
        place = f"{file}:{getattr(error, 'lineno', None) or 1}"
        problem = message("{place}: this is not Python: {error}", place=place, error=error)
        raise EnvironmentProblem(problem, "correct the file") from None
    return text
