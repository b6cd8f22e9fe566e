"""Run the doctor on the engines of learners: `python -m tests.engines.learners [ENGINE ...]`.

For each engine: whether it loads, how many probes come out right and wrong on the correct one, and
how many of its five bugs the doctor notices, and names at the right op.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.engines.learners.bugs import BUGS, LEARNERS, Bug, write

PLACES = {
    "accumulate": ("twice", "several ops", "through which", "backward"),
    "order": ("twice", "several ops", "through which", "backward"),
    "seed": ("backward", "several ops", "`backward_", "`second", "add"),
    "unbroadcast": ("broadcast", "stretched", "new axis"),
    "reciprocal": ("`div`",),
}
"""What the report says of a bug that is not in one op: one of these."""


def examine(path: Path) -> dict[str, Any] | str:
    """Return the doctor's report, or its error message."""
    command = [sys.executable, "-m", "harness", "doctor", "--json", f"{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr.strip()


def is_named(report: dict[str, Any], bug: Bug) -> bool:
    """Whether a defect of the report is at the op of the bug."""
    places = PLACES.get(bug.op, (f"`{bug.op}`", f"`{bug.op}_"))
    if report["alike"]:  # nothing came out right
        return bug.op in PLACES
    return any(place in defect["root"] for defect in report["defects"] for place in places)


def _shown(found: dict[str, Any] | str) -> str:
    if isinstance(found, str):
        return found.splitlines()[0]
    return ", ".join(defect["root"] for defect in found["defects"])


def main(names: list[str]) -> None:
    """Print the table, with a line for each bug that is not named."""
    total = [0] * 4
    for name in names or LEARNERS:
        with tempfile.TemporaryDirectory() as folder:
            report = examine(write(Path(folder), name))
            if isinstance(report, str):
                print(f"{name:18} {report.splitlines()[0]}")
            else:
                verdicts = [probe["verdict"] for probe in (*report["probes"], *report["own"])]
                right, wrong = verdicts.count("fits"), verdicts.count("bug")
                print(f"{name:18} {right} right, {wrong} wrong  {report['speech']}")
                for defect in report["defects"]:
                    print(f"    {'false':10} {defect['root']}")
            for bug in BUGS[name]:
                found = examine(write(Path(folder), name, bug))
                loads = not isinstance(found, str)
                noticed = isinstance(found, dict) and bool(found["defects"] or found["doubt"])
                named = isinstance(found, dict) and is_named(found, bug)
                states = {"named": named, "noticed": noticed, "missed": loads, "refused": True}
                total = [a + b for a, b in zip(total, (1, loads, noticed, named), strict=True)]
                state = next(state for state, holds in states.items() if holds)
                print(f"    {state:10} {bug.op}: {bug.name}: {_shown(found)}", flush=True)
    print("{} bugs: {} loaded, {} noticed, {} named".format(*total))


if __name__ == "__main__":
    main(sys.argv[1:])
