"""Attacks on other processes, and processes that stay behind."""

import ctypes
import numpy as np
import os
import signal
import subprocess
import threading
import time


def require_namespaces():
    """Raise RuntimeError unless the first process that can be seen is the harness's host."""
    with open("/proc/1/cmdline") as first:
        if "harness.sandbox" not in first.read():
            raise RuntimeError("this process has no namespaces of its own: nothing is tried")


@ends("SIGKILL")
def kill_itself(tensor):
    """Kills its own process."""
    os.kill(os.getpid(), 9)


@ends("SIGKILL")
def kill_its_group(tensor):
    """Kills its process group."""
    os.killpg(0, 9)


@ends(None, "SIGKILL", shared=[None, "SIGKILL"])
def kill_its_parent(tensor):
    """Kills the process that started it, and goes on."""
    os.kill(os.getppid(), 9)


@ends("SIGKILL", "ProcessLookupError", shared=None)
def kill_everybody(tensor):
    """Kills every process that it can, the machine's first included."""
    require_namespaces()
    for whom in (1, -1):
        os.kill(whom, 9)


@ends("TimeLimit", seconds=5)
def stop_itself(tensor):
    """Stops its process with a signal that cannot be caught."""
    os.kill(os.getpid(), signal.SIGSTOP)


@ends("TimeLimit", shared=None, slow=True, seconds=2)
def stop_everybody(tensor):
    """Stops every process that it can."""
    require_namespaces()
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:  # there is no other process
        pass
    os.kill(os.getpid(), signal.SIGSTOP)


@ends(None, "TimeLimit", seconds=5)
def stop_its_parent_later(tensor):
    """Leaves a process behind that stops the attacker's parent after the result has been sent."""
    parent = os.getppid()
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.02)
        os.kill(parent, signal.SIGSTOP)
        os._exit(0)


@ends(None, "SIGKILL", "SIGTERM")
def terminate_its_parent(tensor):
    """Asks the process that started it to end, and goes on."""
    os.kill(os.getppid(), 15)


@ends(None, "ProcessorTimeLimit")
def time_is_up_for_its_parent(tensor):
    """Leaves a process behind that tells the attacker's parent that its processor time is used up."""
    me, parent = os.getpid(), os.getppid()
    if os.fork() == 0:
        os.setsid()
        while os.getppid() == me:
            time.sleep(0.0001)
        os.kill(parent, signal.SIGXCPU)
        os._exit(0)


@ends(None, shared=None)
def interrupt_the_host(tensor):
    """Sends the host every signal, except the one that asks a supervisor to end."""
    require_namespaces()
    for number in sorted(signal.valid_signals() - {signal.SIGTERM}):
        os.kill(1, number)
    time.sleep(0.2)


@ends("PermissionError")
def slow_the_host(tensor):
    """Reduces the processors and the priority of the processes that fork it."""
    with open("/proc/1/cmdline") as first:
        hosts = [os.getppid(), *[1] * ("harness.sandbox" in first.read())]
    refused = 0
    for host in hosts:
        for change in (
            lambda: os.sched_setaffinity(host, {min(os.sched_getaffinity(0))}),
            lambda: os.sched_setscheduler(host, os.SCHED_IDLE, os.sched_param(0)),
            lambda: os.setpriority(os.PRIO_PROCESS, host, 19),
            lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(host), 19),
        ):
            try:
                change()
            except PermissionError:
                refused += 1
    if refused == 4 * len(hosts):
        raise PermissionError("all of them")


@ends(None, "SIGKILL", "SIGTERM")
def orphan_itself(tensor):
    """Starts its own session, kills the process that forked it, and stays."""
    ctypes.CDLL(None).prctl(1, 0)  # PR_SET_PDEATHSIG
    if os.getpid() != os.getpgid(0):
        os.setsid()
    os.kill(os.getppid(), 9)
    time.sleep(5)


@ends("SIGKILL", "SIGTERM")
def become_another_program(tensor):
    """Replaces the process by another program."""
    os.execv("/bin/sleep", ["sleep", "20"])


@ends(None)
def process_left_behind(tensor):
    """Leaves a process, which would be a child of the next probe's."""
    subprocess.Popen(["sleep", "20"])


@ends(None, "SIGKILL", "BlockingIOError")
def a_chain_of_processes(tensor):
    """Leaves a chain of processes behind: each starts the next one, and ends."""
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            time.sleep(0.001)
            if os.fork():
                os._exit(0)
        os._exit(0)


@ends(None)
def a_sibling_of_its_own(tensor):
    """Leaves a process behind that is a sibling: a child of the attacker's parent."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = 56 if os.uname().machine == "x86_64" else 220
    if libc.syscall(number, 0x8000 | 17, 0, 0, 0, 0) == 0:  # CLONE_PARENT
        time.sleep(20)
        os._exit(0)


@ends(None)
def daemon_left_behind(tensor):
    """Leaves a daemon: forked twice, in a session of its own, deaf to requests to end."""
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.closerange(0, 256)
            time.sleep(20)
        os._exit(0)
    os.wait()


@ends("ProcessExit", "SIGKILL")
def daemon_that_holds_the_pipe(tensor):
    """Leaves a daemon that keeps every file open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(20)
        os._exit(0)
    os.wait()
    os._exit(0)


@ends("any")
def thread_left_behind(tensor):
    """Leaves a thread that goes on to change numbers."""

    def meddle():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            np.random.seed(7)
            np.asarray = None
            time.sleep(0.001)

    threading.Thread(target=meddle, daemon=True).start()
    time.sleep(0.01)


@ends(None, "ValueError", "ProcessExit")
def alarm_for_the_next(tensor):
    """Sets timers that go off when another probe is running."""

    def late(*_):
        raise ValueError("an alarm that somebody else set")

    for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF):
        signal.signal(number, late)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)


@ends("PermissionError")
def read_its_parents_memory(tensor):
    """Reads the memory of the process that forked it."""
    open(f"/proc/{os.getppid()}/mem", "rb").close()


@ends("PermissionError", shared=[None, "PermissionError"])
def look_into_the_host(tensor):
    """Reads and writes the memory, files and environment of the processes that fork it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/1/cmdline") as first:
        hosts = [os.getppid(), *[1] * ("harness.sandbox" in first.read())]
    for host in hosts:
        for name in ("mem", "environ", "maps", "fd/0", "fd/1", "cwd/mine", "root/mine", "ns/mnt"):
            try:
                open(f"/proc/{host}/{name}", "rb").close()
            except (PermissionError, FileNotFoundError):
                continue
            return
        handle = os.pidfd_open(host)
        for descriptor in range(10):
            if libc.syscall(438, handle, descriptor, 0) >= 0:  # pidfd_getfd
                return
        if libc.ptrace(0x4206, host, 0, 0) == 0:  # PTRACE_SEIZE
            return
        vector = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
        if libc.process_vm_writev(host, vector, 1, vector, 1, 0) >= 0:
            return
    raise PermissionError("all of it")
