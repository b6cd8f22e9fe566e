"""Draw mutants of the harness by a seed, and run the quick tests of their room on each.

Results are appended to a file of JSON lines, so that a measurement that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

from tests.strength.mutants import ROOMS, Mutant, draw
from tests.strength.trial import (
    Baseline,
    Verdict,
    copy_repository,
    import_libraries,
    run_mutant,
    run_tests,
)

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """What the tests did on a mutant."""

    mutant: Mutant
    verdict: Verdict
    test: str
    """The test that failed or took too long; empty if the modules could not be imported."""
    seconds: float


def main() -> int:
    """List mutants, or run the tests on them."""
    parser = argparse.ArgumentParser(prog="python -m tests.strength", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="how many mutants are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="how many are run at a time")
    parser.add_argument("--list", action="store_true", help="only list the mutants, as diffs")
    parser.add_argument("--results", type=Path, help="default: strength-SEED.jsonl in TMPDIR")
    options = parser.parse_args()
    drawn = draw(ROOT, options.count, options.seed)
    if options.list:
        print(_diffs(drawn))
        return 0
    path = options.results or Path(tempfile.gettempdir()) / f"strength-{options.seed}.jsonl"
    results = read(path)
    import_libraries()
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="breaklab-strength-") as folder,
        context.Pool(options.jobs, _copy, (folder,)) as pool,
    ):
        baseline = _baseline(pool, path.with_suffix(".baseline.json"))
        missing = [mutant for mutant in drawn if mutant not in results]
        print(f"{len(missing)} of {len(drawn)} mutants are run", flush=True)
        for result in pool.imap_unordered(partial(_run, baseline=baseline), missing):
            results[result.mutant] = result
            append(path, result)
            status = f"{result.verdict:8} {result.seconds:5.0f} s {result.mutant.path}"
            print(f"{status}  {result.test.rpartition('/')[2][:60]}", flush=True)
    ours = [results[mutant] for mutant in drawn]
    survivors = path.with_suffix(".survivors.diff")
    survivors.write_text(_diffs(one.mutant for one in ours if one.verdict == "survived"))
    print(f"\n{summary(ours)}\nResults: {path}\nSurvivors: {survivors}")
    return 0


def _diffs(mutants: Iterable[Mutant]) -> str:
    return "\n".join(
        f"# {mutant.operator}\n{mutant.diff((ROOT / mutant.path).read_bytes())}"
        for mutant in mutants
    )


# ----- In a process of the pool -----

_copies: list[Path] = []
"""This process's copy of the repository."""


def _copy(folder: str) -> None:
    _copies.append(Path(tempfile.mkdtemp(dir=folder)))
    copy_repository(ROOT, _copies[0])


def _run(mutant: Mutant, baseline: Baseline) -> Result:
    """Run the quick tests of the mutant's room, the modules that take least time first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for test, duration in baseline.durations.items():
        seconds[test.partition("::")[0]] += duration
    files = sorted(test_modules((mutant.room,)), key=lambda module: seconds[module])
    trial = run_mutant(_copies[0], mutant, files, baseline, _copies[0] / "log.txt")
    return Result(mutant, trial.verdict, trial.test, trial.seconds)


def _run_module(module: str) -> tuple[dict[str, float], list[str]]:
    """Return what the tests of a module take without a mutation, and which of them fail."""
    copy = _copies[0]
    trial = run_tests(copy, [module], Baseline({}, ()), copy / "log.txt")
    if trial.verdict != "survived" and not trial.failed:  # else every mutant would seem killed
        raise RuntimeError(f"{module} cannot be run:\n{(copy / 'log.txt').read_text()[-2000:]}")
    print(f"{trial.seconds:5.0f} s {module}", flush=True)
    return trial.durations or {module: 0.0}, trial.failed


def _baseline(pool: Pool, path: Path) -> Baseline:
    """Return what the tests do without a mutation, from `path` if it is there."""
    durations, failed = json.loads(path.read_text()) if path.exists() else ({}, [])
    missing = set(test_modules(ROOMS)) - {test.partition("::")[0] for test in durations}
    for times, failures in pool.imap_unordered(_run_module, sorted(missing)):
        durations |= times
        failed += failures
    path.write_text(json.dumps([durations, failed], indent=1))
    for test in failed:
        print(f"left out, since it fails without a mutation: {test}")
    return Baseline(durations, failed)


def test_modules(rooms: Sequence[str]) -> list[str]:
    """Return the test modules of these rooms, relative to the root."""
    return [
        file.relative_to(ROOT).as_posix()
        for room in rooms
        for file in sorted((ROOT / "tests" / "harness" / room).rglob("test_*.py"))
    ]


# ----- Results -----


def append(path: Path, result: Result) -> None:
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
    rooms: Mapping[str, Counter[str]] = {room: Counter() for room in (*ROOMS, "all")}
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


if __name__ == "__main__":
    sys.exit(main())
