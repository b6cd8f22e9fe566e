"""Confine this process: limits everywhere, and on Linux namespaces and a supervisor as well.

In its namespaces, which require no privilege, a child can signal only its own processes, has no
network, and can write only to the scratch folder. If the kernel grants no namespaces, the limits,
the process group and the search for descendants remain.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness.sandbox.limits import Limits, limit_resources
from harness.sandbox.namespaces import (
    continue_with_one_thread,
    drop_privileges,
    enter_namespaces,
    hide,
    mount_own_proc,
    namespaces_available,
)
from harness.sandbox.seccomp import refuse_system_calls
from harness.sandbox.supervision import continue_as_first_process, continue_supervised


def confine(scratch: Path, limits: Limits) -> None:
    """Continue in a confined process, which can change only the files in `scratch`.

    Returns in a new process. The present one supervises it, and ends with its exit status. Without
    namespaces, the file system is not protected, and descendants that leave the process group are
    found by their parents. The limits are set either way.
    """
    if sys.platform == "linux":
        isolated = limits.namespaces and namespaces_available()
        if isolated:
            continue_with_one_thread()
            enter_namespaces(scratch, limits)
            hide(limits)
        continue_supervised(isolated, limits.total_processes)
        if isolated:
            mount_own_proc()
        drop_privileges()
        refuse_system_calls()
    os.chdir(scratch)
    limit_resources(limits)


def confine_host(scratch: Path, limits: Limits, control: int) -> bool:
    """Continue as the first process of new namespaces; return whether the kernel grants them.

    The process keeps the descriptor `control`, and its privileges within the namespaces, so that it
    can give each child its own scratch folder.
    """
    if sys.platform != "linux" or not limits.namespaces or not namespaces_available():
        return False
    enter_namespaces(scratch, limits)
    continue_as_first_process(control)
    mount_own_proc()
    return True
