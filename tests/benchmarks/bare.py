"""The jobs of a matrix, run bare: without confinement, hosts, frames or a cache.

    python bare.py record FOLDER     run `harness matrix`, and store its jobs
    python bare.py replay FOLDER     run them again, each in a fork, and print the processor time

The second is the cost of the engine's own passes and of the diagnostics. The rest of the matrix's
time goes into planning, judging and isolation. `runner` compares the two.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.runs.protocol import Job


def record(folder: Path) -> None:
    """Run the matrix, and store every task that a child is started for."""
    from harness.cli import main
    from harness.runs import isolated
    from harness.runs.protocol import ChildTask, encode_task
    from harness.sandbox.worker import Worker

    start = isolated.start_worker

    def recorded(task: ChildTask, scratch: Path | None = None) -> Worker:
        (folder / uuid.uuid4().hex).write_bytes(encode_task(task))
        return start(task, scratch)

    isolated.start_worker = recorded
    sys.argv = ["harness", "matrix"]
    main()


def replay(folder: Path) -> float:
    """Run the recorded jobs, and return the seconds of processor time that they took."""
    import numpy as np

    import harness.diagnostics  # noqa: F401  a host also imports them
    from harness.runs.protocol import Job, decode_task

    warnings.simplefilter("ignore")
    np.seterr(all="warn")
    for file in sorted(folder.iterdir()):
        task = decode_task(file.read_bytes())
        if isinstance(task, Job):
            _run(task)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _run(job: Job) -> None:
    from harness.runs.job import _Session, prepare_job

    prepare_job(job)
    child = os.fork()
    if child == 0:
        session = _Session(job)
        if not session.load():
            for position in range(len(job.steps)):
                signal.setitimer(signal.ITIMER_PROF, job.limits.cpu_seconds)  # it ends the fork
                session.step(position)
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]))
    else:
        print(replay(Path(sys.argv[2])))
