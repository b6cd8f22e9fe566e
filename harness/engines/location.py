"""Locating an engine's source files from its name; nothing is imported.

An engine is named `module:Class`, `path/to/tensor.py:Class`, or by a `harness.toml`.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import msgspec

from harness.core import read_text
from harness.core.errors import EnvironmentProblem, PageError, UsageError, as_message
from harness.core.message import message, verbatim
from harness.engines import SETTINGS
from harness.engines.engine import LARGEST, read_source
from harness.patch.side import quiet_parse

RESERVED = {"harness", "msgspec", "numpy"}
"""Packages that the child process needs: an engine of the same name would replace them."""

_IGNORED_FOLDERS = {"test", "tests", "__pycache__", "node_modules", "venv", "site-packages"}


Kind = Literal["arrays", "matrices", "scalars", "functional"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [engine] of a `harness.toml`; a survey determines what it omits."""

    target: str
    root: str | None = None
    """The folder that it is imported from, such as `src`, if the files do not show it."""
    kind: Kind | None = None
    """What its tensors hold: arrays with any number of axes, arrays with two, or single numbers;
    `functional` if it transforms functions."""
    leaf: str | None = None
    data: str | None = None
    grad: str | None = None
    backward: str | None = None
    functions: tuple[str, ...] = ()
    """Modules with functions of tensors, besides the target's own."""
    accumulation: str | None = None
    names: dict[str, str | tuple[str, ...]] = {}


class _SettingsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: Settings


@dataclass(frozen=True)
class Target:
    """An engine's files and settings, before anything runs."""

    engine: str
    """The engine as the user named it."""
    module: str
    name: str | None
    """The class, or the function of a functional engine; None if it was not named."""
    root: Path
    sources: Mapping[str, str]
    settings: Settings


def locate(engine: str) -> Target:
    """Find the files of an engine.

    Raises UsageError for a malformed name, EnvironmentProblem if the engine does not exist or has
    no Python source.
    """
    path = Path(engine)
    try:
        if path.is_dir() and os.path.lexists(path / SETTINGS):
            return _by_settings(path / SETTINGS)
        if path.suffix == ".toml":
            return _by_settings(path)
        return _by_name(engine, Settings(target=engine), Path())
    except (OSError, ValueError) as error:  # such as a name that is too long, or has a null byte
        shown = engine if len(engine) < 100 else f"{engine[:99]}…"
        raise EnvironmentProblem(
            message(
                "cannot look for the engine `{shown}`: {reason}",
                shown=shown,
                reason=getattr(error, "strerror", error),
            ),
            _FORMS,
        ) from None


def _by_settings(path: Path) -> Target:
    settings = read_settings(path)
    return _by_name(settings.target, settings, path.parent)


def read_settings(path: Path) -> Settings:
    """Read the settings at `path`.

    Raises PageError if the file cannot be read as text, UsageError if the settings are invalid.
    """
    text = read_text(path)
    try:
        return msgspec.convert(tomllib.loads(text), _SettingsFile).engine
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        kinds = f"kind ({' | '.join(get_args(Kind))})"
        keys = ", ".join(Settings.__struct_fields__).replace("kind", kinds)
        example = '`target = "path/to/tensor.py:Tensor"`'
        remedy = message(
            "write a table [engine] with a line {example}; its keys are\n    {keys}",
            example=example,
            keys=keys,
        )
        raise UsageError(
            message("{path} cannot be read: {reason}", path=path, reason=reason), remedy
        ) from None


def _by_name(engine: str, settings: Settings, base: Path) -> Target:
    place, _, name = engine.rpartition(":") if _has_name(engine) else (engine, "", "")
    if not place:
        raise UsageError(message("`{engine}` does not name an engine", engine=engine), _FORMS)
    if name and not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(
            message("`{name}` in `{engine}` is not a valid class name", name=name, engine=engine),
            _FORMS,
        )
    if place.endswith(".py") or "/" in place or "\\" in place or (base / place).is_dir():
        root, module = _of_file(base / place, engine, settings, base)
    else:
        root, module = _of_module(place, engine, base)
    top = module.partition(".")[0]
    if top in RESERVED or (top in sys.stdlib_module_names and top in sys.modules):
        raise EnvironmentProblem(
            message(
                "the engine `{engine}` would be imported as `{top}`, in place of a module that "
                "the harness itself needs",
                engine=engine,
                top=top,
            ),
            "rename the file or folder",
        )
    sources = read_package(root, module)
    return Target(engine, module, name or None, root, sources, settings)


_FORMS = "name an engine as `module:Class` or `path/to/tensor.py:Class`"


def _has_name(engine: str) -> bool:
    """Whether the part after the last colon is a class, and not a path after a drive letter."""
    tail = engine.rpartition(":")[2]
    return ":" in engine and "/" not in tail and "\\" not in tail


# ----- A file -----


def _of_file(path: Path, engine: str, settings: Settings, base: Path) -> tuple[Path, str]:
    if path.is_dir():
        folder, path = path, path / "__init__.py"
        if not path.is_file():
            raise EnvironmentProblem(
                message("{folder} is a folder without `__init__.py`", folder=folder),
                message(
                    "name the file that defines the class, as in `{folder}/tensor.py:Tensor`",
                    folder=folder,
                ),
            )
    if not path.exists():
        files = ", ".join(sorted(file.name for file in path.parent.glob("*.py")))
        remedy = (
            message("the files in {folder} are {files}", folder=path.parent.resolve(), files=files)
            if files
            else as_message(_FORMS)
        )
        raise EnvironmentProblem(
            message(
                "no engine `{engine}`: the file {path} does not exist", engine=engine, path=path
            ),
            remedy,
        )
    if path.suffix != ".py":
        raise _no_source(engine, path)
    _require_readable(path, engine)
    path = path.resolve()
    root = (base / settings.root).resolve() if settings.root else import_root(path)
    try:
        parts = path.relative_to(root).with_suffix("").parts
    except ValueError:
        raise UsageError(
            message("{path} is not below the root {root}", path=path, root=root),
            message("correct `root` in {settings}", settings=SETTINGS),
        ) from None
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if not parts or not all(part.isidentifier() for part in parts):
        raise EnvironmentProblem(
            message(
                "{path} cannot be imported: `{name}` is not a valid module name",
                path=path,
                name=".".join(parts),
            ),
            message(
                'in {settings}, set the folder that it is imported from: `root = "src"`',
                settings=SETTINGS,
            ),
        )
    return root, ".".join(parts)


def import_root(path: Path) -> Path:
    """Return the folder that a file is imported from, by `__init__.py` and the file's imports."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    imports = list(_imported(path))
    if any(level for level, _, _ in imports) and root == path.parent:
        return root.parent  # a package without `__init__.py`
    absolute = {name.partition(".")[0] for level, name, _ in imports if not level}
    missing = {name for name in absolute if not _is_in(root, name)}
    for folder in (root, *root.parents[:2]):
        beside = (name for name in missing if _is_in(folder.parent, name))
        if folder.name in missing or any(_spec_of(name) is None for name in beside):
            return folder.parent
    return root


def _is_in(folder: Path, name: str) -> bool:
    return (folder / name).exists() or (folder / f"{name}.py").exists()


def _imported(path: Path) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield the level, module and names of each import; none if the file cannot be parsed."""
    try:
        tree = quiet_parse(read_source(path))
    except (SyntaxError, ValueError, PageError):  # ValueError: not in the encoding that it declares
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name, ()


# ----- A module -----


def _of_module(module: str, engine: str, base: Path) -> tuple[Path, str]:
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(message("`{engine}` does not name an engine", engine=engine), _FORMS)
    spec = find_module_spec(module, base)
    if spec is None:
        folders = ", ".join(str(folder) for folder in _folders(base))
        raise EnvironmentProblem(
            message(
                "no engine `{engine}`: the module `{module}` is neither in {folders} nor installed",
                engine=engine,
                module=module,
                folders=folders,
            ),
            message("install it into this environment, or {forms}", forms=as_message(_FORMS)),
        )
    origin = Path(spec.origin) if spec.origin and spec.has_location else None
    if origin is None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations)))
        raise EnvironmentProblem(
            message(
                "`{module}` is a folder without `__init__.py`: {folder}",
                module=module,
                folder=folder,
            ),
            message(
                "name the module that defines the class, as in `{module}.tensor:Tensor`",
                module=module,
            ),
        )
    if origin is None or origin.suffix != ".py":
        raise _no_source(engine, origin)
    _require_readable(origin, engine)
    depth = module.count(".") + (2 if origin.name == "__init__.py" else 1)
    return origin.resolve().parents[depth - 1], module


def find_module_spec(module: str, base: Path) -> ModuleSpec | None:
    """Return a module's spec without importing it; like Python, look beside the script first."""
    top, *rest = module.split(".")
    spec = PathFinder.find_spec(top, [str(folder) for folder in _folders(base)])
    if spec is None or (spec.origin is None and not rest):
        spec = _spec_of(top) or spec
    name = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def _spec_of(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except (ImportError, ValueError):  # a module without a spec, such as __main__
        return None


def _folders(base: Path) -> list[Path]:
    return [folder for folder in (base.resolve(), base.resolve() / "src") if folder.is_dir()]


def _no_source(engine: str, origin: Path | None) -> EnvironmentProblem:
    if origin is None:
        what = message("it is built into Python")
    elif any(origin.name.endswith(suffix) for suffix in EXTENSION_SUFFIXES):
        what = message("{origin} is compiled", origin=origin)
    else:
        what = message("{origin} is not Python source", origin=origin)
    return EnvironmentProblem(
        message(
            "the engine `{engine}` cannot be broken: {what}, and a break changes Python source",
            engine=engine,
            what=what,
        ),
        message(
            'name its source in {settings}: `target = "path/to/tensor.py:Tensor"`',
            settings=SETTINGS,
        ),
    )


# ----- The files -----


def _require_readable(path: Path, engine: str) -> None:
    """Raise EnvironmentProblem unless the file that defines the engine can be read."""
    try:
        read_source(path)
    except PageError as error:
        problem, remedy = error.sentences
    except (SyntaxError, UnicodeDecodeError) as error:
        problem = verbatim(str(error))
        remedy = as_message("save it as UTF-8, or declare its encoding in the first line")
    else:
        return
    raise EnvironmentProblem(
        message(
            "the engine `{engine}` cannot be read: {path}: {problem}",
            engine=engine,
            path=path,
            problem=problem,
        ),
        remedy,
    )


def read_package(root: Path, module: str) -> dict[str, str]:
    """Return the files of the module's package, and those below `root` that they import."""
    top = module.partition(".")[0]
    folder = root / top
    if (folder / "__init__.py").is_file():
        paths = {path for path in sorted(folder.rglob("*.py")) if _may_be_engine(path, root)}
        for sibling in sorted(_siblings(paths, root, top)):
            paths |= _reachable(root, sibling, _may_be_imported(root, top))
    else:
        paths = _reachable(root, module, _may_be_imported(root, top))
    sources = {}
    for path in sorted(paths):
        with contextlib.suppress(PageError, SyntaxError, UnicodeDecodeError):
            sources[path.relative_to(root).as_posix()] = read_source(path)
    return sources


_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.M)


def _siblings(paths: Iterable[Path], root: Path, top: str) -> set[str]:
    """The modules beside a package that its files import, and that come with it."""
    modules: set[str] = set()
    for path in paths:
        with contextlib.suppress(PageError, SyntaxError, UnicodeDecodeError):
            modules |= set(_IMPORT.findall(read_source(path)))
    excluded = RESERVED | {top, ""}
    found = {m for m in modules if (t := m.partition(".")[0]) not in excluded and _is_in(root, t)}
    allowed = _may_be_imported(root, top) if found else None
    return {m for m in found if allowed is None or m.partition(".")[0] in allowed}


def _may_be_imported(root: Path, top: str) -> set[str] | None:
    """The top-level modules installed together with this one; None outside site-packages."""
    is_shared = root.name in ("site-packages", "dist-packages")
    return {top, *_distributed_with(root, top)} if is_shared else None


def _distributed_with(root: Path, top: str) -> set[str]:
    """The top-level names of the installed distributions that have this one."""
    names: set[str] = set()
    for record in root.glob("*.dist-info/RECORD"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            files = (line.partition(",")[0] for line in record.read_text("utf-8").splitlines())
            firsts = {file.partition("/")[0].removesuffix(".py") for file in files}
            names |= firsts if top in firsts else set()
    return names


def _may_be_engine(path: Path, root: Path) -> bool:
    folders = path.relative_to(root).parts[1:-1]
    hidden = any(part in _IGNORED_FOLDERS or part.startswith(".") for part in folders)
    return not hidden and path.is_file() and path.stat().st_size <= LARGEST


def _reachable(root: Path, module: str, allowed: set[str] | None) -> set[Path]:
    """The module's file and the files below `root` that it imports, directly or indirectly.

    Unless `allowed` is None, only these top-level modules count.
    """
    reached: set[Path] = set()
    parts = module.split(".")
    pending = [".".join(parts[:i]) for i in range(1, len(parts) + 1)]
    while pending:
        name = pending.pop()
        top = name.partition(".")[0]
        if top in RESERVED or (allowed is not None and top not in allowed):
            continue
        path = _file_of(root, name)
        if path is None or path in reached or path.stat().st_size > LARGEST:
            continue
        reached.add(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for level, imported, names in _imported(path):
            home = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            start = ".".join([*filter(None, home), *filter(None, [imported])])
            pending += [start, *(f"{start}.{item}".lstrip(".") for item in names)]
            parts = start.split(".")
            pending += [".".join(parts[:i]) for i in range(1, len(parts))]
    return reached


def _file_of(root: Path, module: str) -> Path | None:
    if not module:
        return None
    stem = root.joinpath(*module.split("."))
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if path.is_file():
            return path
    return None
