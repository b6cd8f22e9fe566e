"""Results as JSON lines, appended as they come, so that a measurement resumes where it ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.strength.mutants import ROOMS, Mutant
from tests.strength.trial import Verdict


@dataclass(frozen=True)
class Result:
    """What the tests did on a mutant."""

    mutant: Mutant
    verdict: Verdict
    test: str
    """The test that failed or took too long; empty if the modules could not be imported."""
    seconds: float
    stages: int
    """How many stages were run."""

    @property
    def killed(self) -> bool:
        return self.verdict != "survived"


def append(path: Path, result: Result) -> None:
    """Append a result to the file."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def read(path: Path) -> dict[Mutant, Result]:
    """Return the last result of each mutant."""
    results: dict[Mutant, Result] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        fields = json.loads(line)
        mutant = Mutant(**fields.pop("mutant"))
        results[mutant] = Result(mutant, **fields)
    return results


def summary(results: Iterable[Result]) -> str:
    """Return a Markdown table: a row for each room, and one for all."""
    rooms = {room: Counter[str]() for room in (*ROOMS, "all")}
    for result in results:
        for room in (result.mutant.room, "all"):
            rooms[room][result.verdict] += 1
    rows = ["| room | mutants | killed | by time limit | survived | share killed |"]
    rows.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for room, counts in rooms.items():
        total, late, survived = counts.total(), counts["timeout"], counts["survived"]
        share = f"{1 - survived / total:.1%}" if total else ""
        rows.append(f"| {room} | {total} | {total - survived} | {late} | {survived} | {share} |")
    return "\n".join(rows) + "\n"
