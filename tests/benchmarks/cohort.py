"""`harness cohort` on a synthetic course, killed at random, and its cost.

    python -m tests.benchmarks.cohort                            # 40 submissions, all breaks
    python -m tests.benchmarks.cohort --count 2000 --select family:broadcasting --limit 5

The course is drawn from the seed (see `tests.benchmarks.course`). It is graded once without
interruption. Then it is graded again, on the local pool and, if `distributed` can be imported, on a
Dask cluster of two workers; each time, processes are killed (SIGKILL) at random moments and the
same command is repeated. The scores must be identical to the byte every time.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from harness.sandbox.fork import die_with_parent
from tests.benchmarks.course import write_course
from tests.harness.grade.cluster import Cluster

ROOT = Path(__file__).parents[2]
MANY = 10_000
"""The size of the cohort whose cost is estimated."""


@dataclass(frozen=True)
class Trial:
    """A course, and how it is graded."""

    folder: Path
    count: int
    options: list[str]
    rng: random.Random

    def start(self, out: str, *options: str) -> subprocess.Popen[bytes]:
        """Start grading into a folder of results."""
        command = [sys.executable, "-m", "harness", "cohort", str(self.folder / "all")]
        command += ["--out", str(self.folder / out), *self.options, *options]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )

    def finish(self, out: str, *options: str) -> bytes:
        """Grade what has no result yet, and return the scores. Raises RuntimeError if it fails."""
        for _ in range(2):  # once more for submissions at which the grader failed
            status = self.start(out, *options).wait()
            if status == 0:
                return (self.folder / out / "scores.csv").read_bytes()
        raise RuntimeError(f"grading into {out} ended with the status {status}")

    def graded(self, out: str) -> int:
        """Return how many results are stored."""
        files = (self.folder / out).glob("results*.jsonl")
        return sum(file.read_bytes().count(b"\n") for file in files)

    def wait(self, out: str, process: subprocess.Popen[bytes], share: float) -> None:
        """Wait until this share of the submissions is graded, or the process has ended."""
        while self.graded(out) < share * self.count and process.poll() is None:
            time.sleep(0.1)
        time.sleep(self.rng.uniform(0, 2))


def killed_locally(trial: Trial) -> bytes:
    """Grade on the local pool; kill the command three times."""
    for share in sorted(trial.rng.uniform(0, 0.9) for _ in range(3)):
        process = trial.start("local")
        trial.wait("local", process, share)
        process.kill()
        process.wait()
        print(f"  command killed with {trial.graded('local')} results", flush=True)
    return trial.finish("local")


def killed_on_dask(trial: Trial) -> bytes:
    """Grade on a cluster of two workers; kill a worker, the command and the scheduler."""
    cluster = Cluster()
    try:
        scheduler = cluster.start_scheduler()
        workers = [cluster.start_worker(), cluster.start_worker()]
        address = ("--dask", cluster.address)
        names = ["worker", "command", "scheduler"]
        trial.rng.shuffle(names)
        shares = sorted(trial.rng.uniform(0, 0.9) for _ in names)
        process = trial.start("dask", *address)
        for name, share in zip(names, shares, strict=True):
            trial.wait("dask", process, share)
            victim = {"worker": workers[0], "command": process, "scheduler": scheduler}[name]
            victim.kill()
            victim.wait()
            print(f"  {name} killed with {trial.graded('dask')} results", flush=True)
            if name == "scheduler":
                process.wait()  # it says that the scheduler is lost
                for worker in workers:
                    worker.kill()
                scheduler = cluster.start_scheduler()
                workers = [cluster.start_worker(), cluster.start_worker()]
            elif name == "worker":
                workers[0] = cluster.start_worker()
            if process.poll() is not None:
                process = trial.start("dask", *address)
        process.wait()
        return trial.finish("dask", *address)
    finally:
        cluster.end()


def measured(function: Callable[[], bytes]) -> tuple[bytes, float, float]:
    """Return what the function returns, the elapsed seconds, and those of processor time."""
    before, start = _children(), time.perf_counter()
    result = function()
    return result, time.perf_counter() - start, _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Print what it costs; return 1 if the scores of two runs differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40, help="the number of submissions")
    parser.add_argument("--course", type=int, default=1, help="the seed of the course")
    parser.add_argument("--select", default="all", help="the breaks, as for `harness grade`")
    parser.add_argument("--limit", type=int, default=10, help="as for `harness grade`")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, help="the seed of the kills; by default random")
    parser.add_argument("--without", choices=("local", "dask"), help="skip one of the killed runs")
    parser.add_argument("--out", type=Path, help="keep the course and the results in this folder")
    options = parser.parse_args()
    kills = options.kills if options.kills is not None else random.randrange(10**6)
    with tempfile.TemporaryDirectory(prefix="cohort-") as scratch:
        folder = options.out or Path(scratch)
        write_course(folder / "all", options.count, options.course)
        graded = ["--select", options.select, "--limit", str(options.limit), "--seed", "benchmark"]
        graded += ["--workers", str(options.workers)]
        trial = Trial(folder, options.count, graded, random.Random(kills))
        return run(trial, kills, options.without)


def run(trial: Trial, kills: int, without: str | None) -> int:
    """Grade the course in each way; return 1 if the scores differ."""
    print(f"{trial.count} submissions; the seed of the kills is {kills}", flush=True)
    expected, wall, processor = measured(lambda: trial.finish("whole"))
    _show_cost(trial.count, wall, processor)
    print(f"  {expected.count(b',no,')} of {trial.count} are not gradable", flush=True)
    ways: dict[str, Callable[[Trial], bytes]] = {}
    if without != "local":
        ways["the local pool, killed three times"] = killed_locally
    if not find_spec("distributed"):
        print("without Dask: distributed is not installed")
    elif without != "dask":
        ways["a Dask cluster, killed three times"] = killed_on_dask
    same = True
    for name, way in ways.items():
        print(name, flush=True)
        scores = way(trial)
        print(f"  {'the same scores' if scores == expected else 'OTHER SCORES'}", flush=True)
        same = same and scores == expected
        if scores != expected:
            for ours, theirs in zip(expected.splitlines(), scores.splitlines(), strict=False):
                if ours != theirs:
                    print(f"  - {ours.decode()}\n  + {theirs.decode()}")
    return 0 if same else 1


def _show_cost(count: int, wall: float, processor: float) -> None:
    each = processor / count
    print(f"  {wall:.0f} s, {processor:.0f} s of processor time: {each:.2f} s a submission")
    print(f"  {MANY} submissions: {MANY * each / 3600:.1f} hours of processor time", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
