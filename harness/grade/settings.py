"""How pytest is called for a submission: with those of its own settings that choose tests."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from _pytest.config.findpaths import load_config_dict_from_file

from harness.grade.files import SETTINGS_FILES

_OURS = ["--rootdir=.", "--capture=no", "-q", "--tb=native"]
_OURS += ["-o", "addopts=", "-o", "required_plugins="]


def pytest_options(folder: Path, import_mode: str, *, is_file: bool) -> list[str]:
    """Return the options with which pytest collects the tests in the current folder, `folder`.

    `import_mode` is used unless the submission chooses one. A single file may have any name, even
    one that pytest would take for an option, so pytest is told to look for it. Raises whatever
    pytest raises for settings that it cannot read.
    """
    settings, own = _own_settings(folder)
    chosen = ["-c", settings or os.devnull, *_OURS, f"--import-mode={import_mode}", *own]
    return [*chosen, "-o", "python_files=*.py"] if is_file else chosen


def _own_settings(folder: Path) -> tuple[str, list[str]]:
    """Return the file with the submission's settings, if any, and what is kept of its `addopts`."""
    for name in SETTINGS_FILES:
        table = load_config_dict_from_file(folder / name) if (folder / name).is_file() else None
        if table is not None:
            options = table.get("addopts", "")
            value = getattr(options, "value", options)  # newer versions of pytest wrap it
            return name, _kept(value if isinstance(value, list) else shlex.split(str(value)))
    return "", []


_VALUES = "-k", "-m", "-W", "--import-mode", "--ignore", "--ignore-glob", "--deselect"
_FLAGS = "--strict-markers", "--doctest-modules"


def _kept(options: Sequence[str]) -> list[str]:
    """Return the options that choose tests or decide whether one fails.

    The others concern reports, or plugins that are not loaded.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in _VALUES:
        parser.add_argument(name, dest=name, action="append", default=[])
    for name in _FLAGS:
        parser.add_argument(name, dest=name, action="store_true")
    known = vars(parser.parse_known_args(options)[0])
    values = [part for name in _VALUES for value in known[name] for part in (name, value)]
    return [*values, *(name for name in _FLAGS if known[name])]
