"""`harness cohort` on a synthetic course, killed at random, and its cost.

    python -m tests.benchmarks.cohort                            # 40 submissions, all breaks
    python -m tests.benchmarks.cohort --count 2000 --select family:broadcasting --limit 5
    python -m tests.benchmarks.cohort --plain --count 400 --select sub-sign,skip-unbroadcast

The submissions are weakened copies of the suites in `tests/suites`; 2 % do harm, and 1 % hang. With
`--plain`, each is a suite of a few short tests, and one correct engine besides the clean one is
tried: then little is measured but the pools. They
are graded once without interruption. Then they are graded again, on the local pool and, if
`distributed` can be imported, on a Dask cluster of two workers; each time, processes are killed
(SIGKILL) at random moments and the same command is repeated. The scores must be identical to the
byte every time.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from harness.grade.cohort.results import ResultHeader, ResultReader, result_files
from harness.sandbox.fork import die_with_parent
from tests.benchmarks.engine import ROOT, children_seconds
from tests.harness.grade.cluster import Cluster

SUITES = tuple(sorted((ROOT / "tests" / "suites").glob("[a-z]*.py")))

HOSTILE = {
    "abort": "import os\n\ndef test_a():\n    os.abort()\n",
    "exit_at_import": "import os\nos._exit(0)\n",
    "kill_everything": "import os\n\ndef test_a():\n    os.kill(-1, 9)\n",
    "forks": "import os\n\ndef test_a():\n    while True:\n        os.fork()\n",
    "prints": "def test_a():\n    while True:\n        print('x' * 1000000, flush=True)\n",
    "memory": "def test_a():\n    rows = [bytearray(10**8) for _ in range(1000)]\n",
    "no_python": "def test_a(:\n",
    "no_test": "import minigrad\n",
    "wrong": "from minigrad import tensor\n\ndef test_a():\n    assert tensor(1.0).item() == 2\n",
}
"""Files that do harm, or that nothing can be learned from."""

HANGING = {
    "loop": "def test_a():\n    while True:\n        pass\n",
    "deaf": "import signal, time\n\ndef test_a():\n"
    "    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
    "        signal.signal(number, signal.SIG_IGN)\n    time.sleep(10**6)\n",
}
"""Files that do not end."""

PLAIN = """
def test_{name}():
    a, b = (tensor(np.array(x), requires_grad=True) for x in ([1.0, 2.0], [4.0, 8.0]))
    ({expression}).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == {expected}
"""
"""A short test."""

EXPRESSIONS = {
    "sub": ("b - a", "[-1.0, -1.0]"),
    "mul": ("a * b", "[4.0, 8.0]"),
    "div": ("a / b", "[0.25, 0.125]"),
    "square": ("a * a", "[2.0, 4.0]"),
    "row": ("a + np.ones((3, 2))", "[3.0, 3.0]"),
    "power": ("a ** 3", "[3.0, 12.0]"),
}
"""What a short test computes, and the gradient that it expects."""

# ----- The course -----


def write_plain_course(folder: Path, count: int, seed: int) -> None:
    """Write `count` suites of a few short tests, the same for the same seed."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    for number in range(count):
        chosen = rng.sample(sorted(EXPRESSIONS), k=rng.randint(1, len(EXPRESSIONS)))
        tests = [
            PLAIN.format(name=name, expression=EXPRESSIONS[name][0], expected=EXPRESSIONS[name][1])
            for name in chosen
        ]
        text = "import numpy as np\nfrom minigrad import tensor\n" + "\n".join(tests)
        (folder / f"{number:05}_plain.py").write_text(text, encoding="utf-8")


def write_course(folder: Path, count: int, seed: int) -> None:
    """Write `count` submissions, the same for the same seed."""
    rng = random.Random(seed)
    kinds = ["hostile"] * max(1, count // 50) + ["hanging"] * max(1, count // 100)
    kinds += ["weakened"] * (count - len(kinds))
    rng.shuffle(kinds)
    folder.mkdir(parents=True)
    for number, kind in enumerate(kinds):
        if kind == "weakened":
            suite = rng.choice(SUITES)
            name, text = suite.stem, weakened(suite.read_text(encoding="utf-8"), rng)
        else:
            name, text = rng.choice(sorted((HOSTILE if kind == "hostile" else HANGING).items()))
        path = folder / f"{number:05}_{name}.py"
        if rng.random() < 0.2:
            path = folder / path.stem / "test_mine.py"
            path.parent.mkdir()
        path.write_text(text, encoding="utf-8")


def weakened(text: str, rng: random.Random) -> str:
    """Return a suite without some of its tests and of their assertions."""
    tree = ast.parse(text)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    tests = [(body, node) for body in bodies for node in body if _is_test(node)]
    for body, test in rng.sample(tests, k=rng.randrange(len(tests))):
        body[body.index(test)] = ast.Pass()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            forgotten = [s for s in node.body if is_assertion(s) and rng.random() < 0.3]
            node.body = [ast.Pass() if s in forgotten else s for s in node.body]
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return isinstance(function, ast.Attribute) and function.attr.startswith("assert")
    return isinstance(node, ast.Assert)


# ----- Grading it -----


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


def main() -> int:
    """Print what it costs; return 1 if the scores of two runs differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40, help="the number of submissions")
    parser.add_argument("--course", type=int, default=1, help="the seed of the course")
    parser.add_argument("--select", default="all", help="the breaks, as for `harness grade`")
    parser.add_argument("--limit", type=int, default=10, help="as for `harness grade`")
    parser.add_argument("--kills", type=int, help="the seed of the kills; by default random")
    parser.add_argument("--plain", action="store_true", help="only suites of a few short tests")
    options = parser.parse_args()
    kills = options.kills if options.kills is not None else random.randrange(10**6)
    with tempfile.TemporaryDirectory(prefix="cohort-") as scratch:
        write = write_plain_course if options.plain else write_course
        write(Path(scratch, "all"), options.count, options.course)
        graded = ["--select", options.select, "--limit", str(options.limit)]
        graded += ["--seed", "benchmark", "--workers", "2"]
        graded += ["--correct", "tanh-by-expm1"] if options.plain else []
        trial = Trial(Path(scratch), options.count, graded, random.Random(kills))
        print(f"{trial.count} submissions; the seed of the kills is {kills}", flush=True)
        return run(trial)


OUT = {"the local pool": "local", "a Dask cluster": "dask"}
"""The folder with the results of each way."""


def once_each(trial: Trial, out: str) -> bool:
    """Print how many results are stored; return whether each submission has exactly one."""
    folder = trial.folder / out
    names = [
        header.submission
        for file in result_files(folder)
        for header in ResultReader(ResultHeader).read(file)
        if header.final
    ]
    print(f"  {len(names)} results of {len(set(names))} submissions", flush=True)
    return len(names) == len(set(names)) == trial.count


def run(trial: Trial) -> int:
    """Grade the course in each way; return 1 if the scores differ."""
    expected = trial.finish("whole")
    processor = children_seconds() / trial.count
    print(f"  {processor:.2f} s of processor time a submission", flush=True)
    print(f"  {expected.count(b',no,')} of {trial.count} are not gradable", flush=True)
    ways = {"the local pool": killed_locally}
    if find_spec("distributed"):
        ways["a Dask cluster"] = killed_on_dask
    same = once_each(trial, "whole")
    for name, way in ways.items():
        print(f"{name}, killed three times", flush=True)
        scores = way(trial)
        same = same and scores == expected and once_each(trial, OUT[name])
        print(f"  {'the same scores' if scores == expected else 'OTHER SCORES'}", flush=True)
        for ours, theirs in zip(expected.splitlines(), scores.splitlines(), strict=False):
            if ours != theirs:
                print(f"  - {ours.decode()}\n  + {theirs.decode()}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
