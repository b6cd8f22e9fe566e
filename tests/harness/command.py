"""Running the command line as a user does, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
} | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
"""That of these tests, in no language of its own."""


def harness(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`harness ARGUMENTS` with its output piped, at 80 columns."""
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=_ENVIRONMENT | environment,
        timeout=600,
        check=False,
    )
