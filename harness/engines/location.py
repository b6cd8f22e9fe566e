"""Where an engine's source is: from how it is named to its files, nothing imported.

An engine is named `module:Class`, `path/to/tensor.py:Class`, or by a `harness.toml` that says more.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from harness.core.errors import EnvironmentProblem, UsageError
from harness.engines.engine import read_source
from harness.engines.settings import SETTINGS, Settings, read_settings
from harness.patch.side import quiet_parse

LARGEST = 1024 * 1024
"""Bytes in a source file; larger ones are tables that a program has written."""

_OURS = {"harness", "msgspec", "numpy"}
"""What a probe's own process runs on: an engine of such a name would take its place."""

_NO_ENGINE = {"test", "tests", "__pycache__", "node_modules", "venv", "site-packages"}


@dataclass(frozen=True)
class Target:
    """An engine's files, and what is known of it before anything runs."""

    said: str
    """As the user named it."""
    module: str
    name: str | None
    """The class, or the function of a functional engine; None where none was named."""
    root: Path
    sources: Mapping[str, str]
    settings: Settings


def locate(said: str) -> Target:
    """The engine that `said` names.

    Raises UsageError for what is no name of an engine, EnvironmentProblem where there is none, or
    none in Python source.
    """
    path = Path(said)
    try:
        if path.is_dir() and (path / SETTINGS).is_file():
            return _by_settings(path / SETTINGS)
        if path.suffix == ".toml":
            return _by_settings(path)
        return _by_name(said, Settings(target=said), Path())
    except OSError as error:  # a name longer than any file's, a folder that may not be read
        shown = said if len(said) < 100 else f"{said[:99]}…"
        raise EnvironmentProblem(
            f"the engine `{shown}` cannot be looked for: {error.strerror}", _FORMS
        ) from None


def _by_settings(path: Path) -> Target:
    settings = read_settings(path)
    return _by_name(settings.target, settings, path.parent)


def _by_name(said: str, settings: Settings, base: Path) -> Target:
    place, _, name = said.rpartition(":") if _has_name(said) else (said, "", "")
    if not place:
        raise UsageError(f"`{said}` names no engine", _FORMS)
    if name and not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"`{name}` in `{said}` is no name of a class", _FORMS)
    if place.endswith(".py") or "/" in place or "\\" in place or (base / place).is_dir():
        root, module = _of_file(base / place, said, settings, base)
    else:
        root, module = _of_module(place, said, base)
    top = module.partition(".")[0]
    if top in _OURS or (top in sys.stdlib_module_names and top in sys.modules):
        raise EnvironmentProblem(
            f"the engine `{said}` would be imported as `{top}`, and take the place of a module "
            "that the harness itself needs",
            "give the file or folder another name",
        )
    sources = _read_all(root, module, said)
    return Target(said, module, name or None, root, sources, settings)


_FORMS = "name an engine as `module:Class` or `path/to/tensor.py:Class`"


def _has_name(said: str) -> bool:
    """Whether what follows the last colon is a class (and not a path behind a drive)."""
    tail = said.rpartition(":")[2]
    return ":" in said and "/" not in tail and "\\" not in tail


# ----- A file -----


def _of_file(path: Path, said: str, settings: Settings, base: Path) -> tuple[Path, str]:
    if path.is_dir():
        path = path / "__init__.py"
        if not path.is_file():
            raise EnvironmentProblem(
                f"`{said}` is a folder without `__init__.py`",
                f"name the file in it that has the class, `{said}/tensor.py:Tensor`",
            )
    if not path.is_file():
        there = sorted(each.name for each in path.parent.glob("*.py"))
        beside = f"in {path.parent.resolve()} there are {', '.join(there)}" if there else _FORMS
        raise EnvironmentProblem(f"no engine `{said}`: there is no file {path}", beside)
    if path.suffix != ".py":
        raise _no_source(said, path)
    path = path.resolve()
    root = (base / settings.root).resolve() if settings.root else _import_root(path)
    try:
        parts = path.relative_to(root).with_suffix("").parts
    except ValueError:
        raise UsageError(
            f"{path} is not below the root {root}", f"mend `root` in {SETTINGS}"
        ) from None
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if not parts or not all(part.isidentifier() for part in parts):
        raise EnvironmentProblem(
            f"{path} cannot be imported: `{'.'.join(parts)}` is no name of a module",
            f'in {SETTINGS}, say from which folder it is imported: `root = "src"`',
        )
    return root, ".".join(parts)


def _import_root(path: Path) -> Path:
    """The folder from which the file is imported, to judge by `__init__.py` and its own imports."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    relative, absolute = _imports(path)
    if relative and root == path.parent:
        return root.parent  # a package without `__init__.py`
    for folder in (root, *root.parents[:2]):
        name = folder.name
        if name in absolute and not (root / name).exists() and not (root / f"{name}.py").exists():
            return folder.parent
    return root


def _imports(path: Path) -> tuple[bool, set[str]]:
    """Whether a file has relative imports, and the top modules that it imports otherwise."""
    try:
        tree = quiet_parse(read_source(path))
    except (SyntaxError, ValueError, RecursionError):
        return False, set()
    found = list(_imported(tree))
    absolute = {name.partition(".")[0] for level, name, _ in found if not level}
    return any(level for level, _, _ in found), absolute


def _imported(tree: ast.AST) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Level, module and names of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name, ()


# ----- A module -----


def _of_module(module: str, said: str, base: Path) -> tuple[Path, str]:
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"`{said}` names no engine", _FORMS)
    spec = _spec(module, base)
    if spec is None:
        here = ", ".join(str(folder) for folder in _here(base))
        raise EnvironmentProblem(
            f"no engine `{said}`: no module `{module}` in {here}, nor installed",
            f"install it into this environment, or {_FORMS}",
        )
    origin = Path(spec.origin) if spec.origin and spec.has_location else None
    if origin is None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations)))
        raise EnvironmentProblem(
            f"`{module}` is a folder without `__init__.py`: {folder}",
            f"name the module in it that has the class, `{module}.tensor:Tensor`",
        )
    if origin is None or origin.suffix != ".py" or not origin.is_file():
        raise _no_source(said, origin)
    depth = module.count(".") + (2 if origin.name == "__init__.py" else 1)
    return origin.resolve().parents[depth - 1], module


def _spec(module: str, base: Path) -> ModuleSpec | None:
    """Find a module without importing it: here first, as Python does for a script."""
    top, *rest = module.split(".")
    spec = PathFinder.find_spec(top, [str(folder) for folder in _here(base)])
    if spec is None or (spec.origin is None and not rest):
        spec = _installed(top) or spec
    name = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def _installed(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except (ImportError, ValueError):  # a module without a spec, such as __main__
        return None


def _here(base: Path) -> list[Path]:
    return [folder for folder in (base.resolve(), base.resolve() / "src") if folder.is_dir()]


def _no_source(said: str, origin: Path | None) -> EnvironmentProblem:
    if origin is None:
        what = "it is built into Python"
    elif any(origin.name.endswith(suffix) for suffix in EXTENSION_SUFFIXES):
        what = f"{origin} is compiled"
    else:
        what = f"{origin} is no Python source"
    return EnvironmentProblem(
        f"the engine `{said}` cannot be broken: {what}, and a break is a change of Python source",
        f'name its source, `target = "path/to/tensor.py:Tensor"` in {SETTINGS}',
    )


# ----- The files -----


def _read_all(root: Path, module: str, said: str) -> dict[str, str]:
    """The files of the module's package; of a module on its own, those that it imports."""
    top = module.partition(".")[0]
    if (root / top / "__init__.py").is_file():
        paths = [path for path in sorted((root / top).rglob("*.py")) if _may_be_engine(path, root)]
    else:
        paths = sorted(_reachable(root, module))
    sources = {}
    for path in paths:
        try:
            sources[path.relative_to(root).as_posix()] = read_source(path)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            file = path.relative_to(root).as_posix()
            if file.removesuffix(".py").removesuffix("/__init__") == module.replace(".", "/"):
                raise EnvironmentProblem(
                    f"the engine `{said}` cannot be read: {path}: {error}",
                    "save it as UTF-8, or declare its encoding in its first line",
                ) from None
    return sources


def _may_be_engine(path: Path, root: Path) -> bool:
    folders = path.relative_to(root).parts[1:-1]
    hidden = any(part in _NO_ENGINE or part.startswith(".") for part in folders)
    return not hidden and path.is_file() and path.stat().st_size <= LARGEST


def _reachable(root: Path, module: str) -> set[Path]:
    """The files below `root` that a module imports, directly or not, and its own."""
    found: set[Path] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        path = _file_of(root, name)
        if path is None or path in found or path.stat().st_size > LARGEST:
            continue
        found.add(path)
        try:
            tree = quiet_parse(read_source(path))
        except (SyntaxError, ValueError, RecursionError):
            continue
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for level, said, names in _imported(tree):
            home = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            start = ".".join([*filter(None, home), *filter(None, [said])])
            pending += [start, *(f"{start}.{each}".lstrip(".") for each in names)]
            parts = start.split(".")
            pending += [".".join(parts[:i]) for i in range(1, len(parts))]
    return found


def _file_of(root: Path, module: str) -> Path | None:
    if not module:
        return None
    stem = root.joinpath(*module.split("."))
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if path.is_file():
            return path
    return None
