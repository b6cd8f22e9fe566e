"""Draw mutants of the harness by a seed, and run the tests of the default tier on each.

Results are appended to a file of JSON lines, so that a measurement that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

from tests.strength.mutants import ROOMS, Mutant, draw
from tests.strength.results import Result, append, read, summary
from tests.strength.trial import (
    Baseline,
    Speed,
    copy_repository,
    import_libraries,
    run_mutant,
    run_tests,
)

ROOT = Path(__file__).parents[2]

OTHERS = ("experiment", "runs", "check", "matrix", "report", "cli", "../fuzz")
"""The folders of `tests/harness` whose tests follow those of the mutant's own room."""


def main() -> int:
    """Show mutants, or run the tests on them."""
    parser = argparse.ArgumentParser(prog="python -m tests.strength", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="how many mutants are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="how many are run at a time")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--show", type=int, metavar="K", help="only show mutant K as a diff")
    parser.add_argument(
        "--stages",
        type=int,
        choices=(1, 2, 3),
        default=3,
        help="stop after the quick tests of the mutant's room (1), or all tests of its room (2)",
    )
    parser.add_argument("--again", action="store_true", help="run the survivors again")
    parser.add_argument("--results", type=Path, help="default: strength-SEED.jsonl in TMPDIR")
    options = parser.parse_args()
    drawn = draw(ROOT, options.count, options.seed)
    if options.show is not None:
        print(_diff(drawn[options.show]))
    elif options.list:
        for number, mutant in enumerate(drawn):
            print(f"{number:4} {mutant.path} {mutant.operator}")
    else:
        path = options.results or Path(tempfile.gettempdir()) / f"strength-{options.seed}.jsonl"
        results = {item.mutant: item for item in read(path).values()}
        if options.again:
            results = {mutant: item for mutant, item in results.items() if item.killed}
        _measure(drawn, results, path, options.stages, options.jobs)
        _report(drawn, results, path)
    return 0


def _measure(
    drawn: Sequence[Mutant], results: dict[Mutant, Result], path: Path, stages: int, jobs: int
) -> None:
    """Add the results that are missing, here and at `path`."""
    import_libraries()
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="breaklab-strength-") as folder,
        context.Pool(jobs, _copy, (folder,)) as pool,
    ):
        folders = [*ROOMS, *(OTHERS if stages > 2 else ())]
        baseline = _baseline(pool, path.with_suffix(".baseline.json"), folders)
        tasks = list(_tasks(drawn, results, baseline, stages))
        print(f"{len(tasks)} of {len(drawn)} mutants are run", flush=True)
        for result in pool.imap_unordered(partial(_run, baseline=baseline), tasks):
            results[result.mutant] = result
            append(path, result)
            number, test = drawn.index(result.mutant), result.test.rpartition("/")[2][:60]
            status = f"{number:4} {result.verdict:8} {result.seconds:5.0f} s"
            print(f"{status} {result.mutant.path}  {test}", flush=True)


def _report(drawn: Sequence[Mutant], results: Mapping[Mutant, Result], path: Path) -> None:
    """Print the summary, and write the survivors' diffs beside the results."""
    found = [results[mutant] for mutant in drawn if mutant in results]
    survivors = path.with_suffix(".survivors.diff")
    survivors.write_text(
        "\n".join(
            f"# {drawn.index(result.mutant)} {result.mutant.operator}\n{_diff(result.mutant)}"
            for result in found
            if not result.killed
        )
    )
    print(f"\n{summary(found)}\nResults: {path}\nSurvivors: {survivors}")


def _diff(mutant: Mutant) -> str:
    return mutant.diff((ROOT / mutant.path).read_bytes())


# ----- What is run on a mutant -----


@dataclass(frozen=True)
class Stage:
    """Tests that a mutant has to survive."""

    files: list[str]
    speed: Speed


@dataclass(frozen=True)
class Task:
    """The stages that a mutant still has to survive."""

    mutant: Mutant
    stages: list[Stage]
    survived: int = 0
    """How many it has survived already."""
    seconds: float = 0.0


def _tasks(
    drawn: Sequence[Mutant], results: Mapping[Mutant, Result], baseline: Baseline, most: int
) -> Iterator[Task]:
    for mutant in drawn:
        stages, result = _stages(mutant, baseline)[:most], results.get(mutant)
        if result is None:
            yield Task(mutant, stages)
        elif not result.killed and result.stages < len(stages):
            yield Task(mutant, stages[result.stages :], result.stages, result.seconds)


def _stages(mutant: Mutant, baseline: Baseline) -> list[Stage]:
    """The tests of the mutant's own room, first the quick ones, then the others."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for test, duration in baseline.durations.items():
        seconds[test.partition("::")[0]] += duration
    own, others = (
        sorted(test_modules(folders), key=lambda module: seconds[module])
        for folders in ((mutant.room,), OTHERS)
    )
    return [Stage(own, "quick"), Stage(own, "slow"), Stage(others, "any")]


def test_modules(folders: Sequence[str]) -> list[str]:
    """Return the test modules in these folders of `tests/harness`, relative to the root."""
    return [
        file.relative_to(ROOT).as_posix()
        for name in folders
        for file in sorted((ROOT / "tests" / "harness" / name).resolve().rglob("test_*.py"))
    ]


# ----- In a process of the pool -----

_copies: list[Path] = []
"""This process's copy of the repository."""


def _copy(folder: str) -> None:
    _copies.append(Path(tempfile.mkdtemp(dir=folder)))
    copy_repository(ROOT, _copies[0])


def _run(task: Task, baseline: Baseline) -> Result:
    """Run one stage after another until one kills the mutant."""
    copy, seconds = _copies[0], task.seconds
    for number, stage in enumerate(task.stages, task.survived + 1):
        log = copy / "log.txt"
        trial = run_mutant(copy, task.mutant, stage.files, baseline, log, stage.speed)
        seconds += trial.seconds
        if trial.verdict != "survived":
            return Result(task.mutant, trial.verdict, trial.test, seconds, number)
    return Result(task.mutant, "survived", "", seconds, task.survived + len(task.stages))


def _run_module(module: str) -> tuple[dict[str, float], list[str]]:
    """Return what the tests of a module take without a mutation, and which of them fail."""
    copy = _copies[0]
    trial = run_tests(copy, [module], Baseline({}, ()), copy / "log.txt")
    if trial.verdict != "survived" and not trial.failed:  # else every mutant would seem killed
        raise RuntimeError(f"{module} cannot be run:\n{(copy / 'log.txt').read_text()[-2000:]}")
    print(f"{trial.seconds:5.0f} s {module}", flush=True)
    return trial.durations or {module: 0.0}, trial.failed


def _baseline(pool: Pool, path: Path, folders: Sequence[str]) -> Baseline:
    """Return what the tests do without a mutation, from `path` if it is there."""
    durations, failed = json.loads(path.read_text()) if path.exists() else ({}, [])
    missing = set(test_modules(folders)) - {test.partition("::")[0] for test in durations}
    for times, failures in pool.imap_unordered(_run_module, sorted(missing)):
        durations |= times
        failed += failures
    path.write_text(json.dumps([durations, failed], indent=1))
    for test in failed:
        print(f"left out, since it fails without a mutation: {test}")
    return Baseline(durations, failed)


if __name__ == "__main__":
    sys.exit(main())
