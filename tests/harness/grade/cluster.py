"""A Dask cluster on this machine, whose parts can be killed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from harness.sandbox.fork import die_with_parent

ROOT = Path(__file__).parents[3]


class Cluster:
    """A scheduler and workers, each a process."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        self.processes.append(process)
        return process

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        port = self.address.rpartition(":")[2]
        arguments = ("--host", "127.0.0.1", "--port", port, "--no-dashboard")
        return self.start("-m", "distributed.cli.dask_scheduler", *arguments)

    def start_worker(self) -> subprocess.Popen[bytes]:
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard")
        return self.start("-m", "distributed.cli.dask_worker", self.address, *options)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
