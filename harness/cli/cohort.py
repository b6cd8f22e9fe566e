"""`harness grade --cohort` and `harness grade --merge`: the submissions of a whole course."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.session import print_json
from harness.core.errors import UsageError
from harness.core.message import message
from harness.engines import nearest_settings
from harness.sandbox.signals import Terminated

if TYPE_CHECKING:
    from harness.cli.results import Results
    from harness.cli.session import Session
    from harness.grade.cohort.grader import Opening


@dataclass(frozen=True)
class CohortOptions:
    """The options of a cohort."""

    workers: int | None
    """Processes; None for as many as there are cores."""
    shard: str | None
    dask: str | None
    """The address of a Dask scheduler."""
    seconds: float
    """The time limit for one submission."""
    seed: bytes | None


@dataclass(frozen=True)
class CohortResults:
    """How the results of a cohort are shown. Nothing that is stored depends on it."""

    results: Results
    """The weights, and the feedback for each submission."""
    session: Session
    feedback: bool
    """Whether to write feedback for each submission."""

    def write_feedback(self, out: Path, roster: Mapping[str, str]) -> int:
        """Write a file for each submission, and return their number. Raises EnvironmentProblem."""
        from harness.grade.cohort.folder import feedback_file
        from harness.grade.cohort.tally import results_in
        from harness.report.grading import SUFFIXES

        pages, root = self.session.catalogue.valid_pages(), self.session.engine.root
        written = 0
        for result in results_in(out, roster):
            file = feedback_file(out, result.submission, SUFFIXES[self.results.form])
            grade = self.results.disclosed(result.report, pages, root, to_student=True)
            self.results.write(grade, file)
            written += 1
        return written


def engine_argument(name: str | None) -> str | None:
    """Return an engine's name so that it means the same in any folder; None for minigrad."""
    if name is None:
        settings = nearest_settings(Path())
        return None if settings is None else str(settings)
    file, colon, rest = name.partition(":")
    return f"{Path(file).resolve()}{colon}{rest}" if Path(file).is_file() else name


def grade_submissions(
    folders: Sequence[Path],
    out: Path | None,
    options: CohortOptions,
    opening_for: Callable[[bytes], Opening],
    shown: CohortResults,
) -> int:
    """Grade the submissions that have no result yet, and return the exit status."""
    from harness.grade.cohort.run import WHOLE, grade_cohort, local_pool, parse_shard
    from harness.report.cohort import CohortProgress
    from harness.sandbox.pool import available_cores

    if len(folders) != 1:
        raise UsageError(
            "a cohort must be in one folder", "put all submissions into the same folder"
        )
    out = _required(out)
    shard = parse_shard(options.shard) if options.shard else WHOLE
    pool = local_pool(options.workers or available_cores(), options.seconds)
    if options.dask:
        from harness.grade.cohort.dask_pool import dask_pool

        pool = dask_pool(options.dask, options.seconds)
    with CohortProgress() as progress:
        try:
            roster = grade_cohort(
                folders[0],
                out,
                opening_for,
                pool,
                shard=shard,
                seed=options.seed,
                progress=progress.watch,
            )
        except (KeyboardInterrupt, Terminated) as request:
            _say_how_to_continue(progress.done, progress.total)
            if isinstance(request, Terminated):
                request.reported = True
                raise
            raise typer.Exit(130) from None
    if shard.of > 1:
        print(f"All {progress.total} submissions of shard {options.shard} are graded.")
        print(f"next, with all {shard.of} shards: harness grade --merge {out} ... --out DIR")
        return 0
    return _show(out, roster, shown)


def _required(out: Path | None) -> Path:
    if out is None:
        raise UsageError("a cohort needs a folder for its results", "name it: --out DIR")
    return out


def _say_how_to_continue(done: int, total: int) -> None:
    rest = " and stored: the same command continues from there"
    print(f"harness: stopped; {done} of {total} submissions are graded{rest}", file=sys.stderr)


def merge_shards(folders: Sequence[Path], out: Path | None, shown: CohortResults) -> int:
    """Merge the results of shards, and return the exit status."""
    from harness.grade.cohort.merge import merge

    out = _required(out)
    return _show(out, merge(folders, out), shown)


def _show(out: Path, roster: Mapping[str, str], shown: CohortResults) -> int:
    """Write and print the results; return 3 if the grader failed at one, and otherwise 0."""
    from harness.core.writing import PRIVATE, write_file
    from harness.grade.cohort.tally import tally
    from harness.report.cohort import as_table, summary, to_csv, to_markdown

    result = tally(out, roster, shown.results.weights)
    if result.missing:
        names = ", ".join(result.missing[:3]) + (" ..." if len(result.missing) > 3 else "")
        problem = message(
            "{count} of {total} submissions have no result: {names}",
            count=len(result.missing),
            total=len(roster),
            names=names,
        )
        remedy = "grade the shards that they belong to, and merge all of them again"
        raise UsageError(problem, remedy)
    write_file(out / "scores.csv", to_csv(result), PRIVATE)
    write_file(out / "missed.md", to_markdown(result), PRIVATE)
    files = ["scores.csv", "missed.md"]
    if shown.feedback:
        files.append(f"feedback/ ({shown.write_feedback(out, roster)} files)")
    if shown.session.json:
        print_json(as_table(result))
    else:
        for line in summary(result):
            print(line)
        print(f"Written to {out}: {', '.join(files)}")
    if result.failed:
        print(
            f"harness: the grader failed at {len(result.failed)} of them; "
            "the same command tries these again",
            file=sys.stderr,
        )
    return 3 if result.failed else 0
