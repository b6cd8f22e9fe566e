"""Pytest with the plugin, in a process of its own, and what it reports."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.suites import PLUGIN

ROOT = Path(__file__).parents[3]

ALONE = ("-p", "no:xdist", "-p", "no:hypothesispytest")
"""Without these plugins, pytest starts twice as fast."""


@dataclass(frozen=True)
class Result:
    status: int
    text: str
    report: dict[str, Any]
    folder: Path

    @property
    def fates(self) -> dict[str, str]:
        return {entry["break"]: entry["fate"] for entry in self.report["breaks"]}

    @property
    def summary(self) -> str:
        """What follows the heading of a run on rules."""
        return self.text.partition(" rules ===")[2]


def run_pytest(folder: Path, report: Path, *arguments: str, **environment: str) -> Result:
    """Run pytest in a folder; the plugin writes its JSON to `report`."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *PLUGIN, *arguments]
    done = subprocess.run(
        [*command, f"--breaks-json={report}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    table = json.loads(report.read_text()) if report.exists() else {}
    return Result(done.returncode, done.stdout + done.stderr, table, folder)
