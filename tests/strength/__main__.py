"""Draw mutants of the harness by a seed, and run the tests of the default tier on each.

    python -m tests.strength [--seed N] [--count N] [--jobs N]

The results are appended to a file of JSON lines, and a measurement that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

from tests.strength.mutants import ROOMS, Mutant, draw
from tests.strength.results import Result, append, read, summary
from tests.strength.trial import Baseline, copy_repository, import_libraries, run_mutant, run_tests

ROOT = Path(__file__).parents[2]

OTHERS = {
    "answer_key": (),
    "diagnostics": (),
    "patch": (),
}
"""The folders of `tests/harness` whose tests follow, for a mutant of each room."""


def main() -> int:
    """Run what is asked for, and print the summary."""
    parser = argparse.ArgumentParser(prog="python -m tests.strength", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, help="the file of JSON lines")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--show", type=int, metavar="K", help="only show a mutant as a diff")
    parser.add_argument("--room-only", action="store_true", help="only the tests of its own room")
    parser.add_argument("--again", action="store_true", help="run the survivors again")
    options = parser.parse_args()
    drawn = draw(ROOT, options.count, options.seed)
    if options.show is not None:
        print(_diff(drawn[options.show]))
    elif options.list:
        for number, mutant in enumerate(drawn):
            print(f"{number:4} {mutant.path} {mutant.operator}")
    else:
        measure(drawn, options)
    return 0


def measure(drawn: Sequence[Mutant], options: argparse.Namespace) -> None:
    """Run the tests on every mutant that has no result, and write the survivors' diffs."""
    path = options.results or Path(tempfile.gettempdir()) / f"strength-{options.seed}.jsonl"
    results = read(path)
    if options.again:
        results = {mutant: result for mutant, result in results.items() if result.killed}
    most = 1 if options.room_only else sys.maxsize
    import_libraries()
    with tempfile.TemporaryDirectory(prefix="breaklab-strength-") as folder:
        with multiprocessing.get_context("fork").Pool(options.jobs, _copy, (folder,)) as pool:
            baseline = measure_baseline(pool, path.with_suffix(".baseline.json"), drawn)
            todo = list(_todo(drawn, results, baseline, most))
            print(f"{len(drawn)} mutants, {len(drawn) - len(todo)} have a result", flush=True)
            for result in pool.imap_unordered(partial(_run, baseline=baseline), todo):
                results[result.mutant] = result
                append(path, result)
                place, test = drawn.index(result.mutant), result.test.rpartition("/")[2][:90]
                print(
                    f"{place:4} {result.verdict:8} {result.seconds:5.0f} s "
                    f"{result.mutant.path}  {test}",
                    flush=True,
                )
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
class Task:
    """The groups of test modules that a mutant still has to survive."""

    mutant: Mutant
    stages: list[list[str]]
    before: int = 0
    """How many groups it has survived already."""
    seconds: float = 0.0


def _todo(
    drawn: Sequence[Mutant], results: dict[Mutant, Result], baseline: Baseline, most: int
) -> Iterator[Task]:
    for mutant in drawn:
        stages, result = stages_of(mutant, baseline)[:most], results.get(mutant)
        if result is None:
            yield Task(mutant, stages)
        elif not result.killed and result.stages < len(stages):
            yield Task(mutant, stages[result.stages :], result.stages, result.seconds)


def _run(task: Task, baseline: Baseline) -> Result:
    """Run one group after another until one kills the mutant."""
    copy, seconds = _copies[0], task.seconds
    for number, files in enumerate(task.stages, task.before + 1):
        trial = run_mutant(copy, task.mutant, files, baseline, copy / "log.txt")
        seconds += trial.seconds
        if trial.verdict != "survived":
            return Result(task.mutant, trial.verdict, trial.test, seconds, number)
    return Result(task.mutant, "survived", "", seconds, task.before + len(task.stages))


def stages_of(mutant: Mutant, baseline: Baseline) -> list[list[str]]:
    """Return the test modules for a mutant in two groups: those of its room, and others."""
    costs: dict[str, float] = {}
    for test, seconds in baseline.durations.items():
        module = test.partition("::")[0]
        costs[module] = costs.get(module, 0.0) + seconds
    stem = Path(mutant.path).stem

    def order(module: str) -> tuple[bool, float]:
        return stem not in Path(module).stem, costs.get(module, 0.0)

    own = sorted(test_modules((mutant.room,)), key=order)
    others = sorted(test_modules(OTHERS[mutant.room]), key=lambda module: costs.get(module, 0.0))
    return [own, others] if others else [own]


def test_modules(folders: Sequence[str]) -> list[str]:
    """Return the test modules in these folders of `tests/harness`, relative to the root."""
    return [
        file.relative_to(ROOT).as_posix()
        for name in folders
        for file in sorted((ROOT / "tests" / "harness" / name).resolve().rglob("test_*.py"))
    ]


# ----- Processes -----


_copies: list[Path] = []
"""In a worker: its copy of the repository."""


def measure_baseline(pool: Pool, path: Path, drawn: Sequence[Mutant]) -> Baseline:
    """Return what the tests do without a mutation, from `path` if it is there."""
    durations, failed = json.loads(path.read_text()) if path.exists() else ({}, [])
    rooms = {mutant.room for mutant in drawn}
    wanted = set(test_modules([*rooms, *(name for room in rooms for name in OTHERS[room])]))
    missing = sorted(wanted - {test.partition("::")[0] for test in durations})
    for times, failures in pool.imap_unordered(_run_module, missing):
        durations |= times
        failed += failures
    path.write_text(json.dumps([durations, failed], indent=1))
    for test in failed:
        print(f"left out, since it fails without a mutation: {test}")
    return Baseline(durations, failed)


def _copy(folder: str) -> None:
    _copies.append(Path(tempfile.mkdtemp(dir=folder)))
    copy_repository(ROOT, _copies[0])


def _run_module(module: str) -> tuple[dict[str, float], list[str]]:
    copy = _copies[0]
    trial = run_tests(copy, [module], Baseline({}, ()), copy / "log.txt", first=False)
    if trial.verdict != "survived" and not trial.failed:  # else every mutant would seem killed
        raise RuntimeError(f"{module} cannot be run:\n{(copy / 'log.txt').read_text()[-2000:]}")
    print(f"{trial.seconds:5.0f} s {module} {len(trial.failed)} failed", flush=True)
    return trial.durations or {module: 0.0}, trial.failed


if __name__ == "__main__":
    sys.exit(main())
