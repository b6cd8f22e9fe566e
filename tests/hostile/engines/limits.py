"""Attacks on the limits of time, memory, files and processes."""

import ctypes
import numpy as np
import os
import resource
import signal
import sys
import threading
import time


@ends("ProcessorTimeLimit", "TimeLimit", cpu_seconds=0.5)
def loop_in_python(tensor):
    """A loop that does not end."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass


@ends("ProcessorTimeLimit", "TimeLimit", cpu_seconds=0.5)
def loop_in_numpy(tensor):
    """One call into compiled code that takes a minute."""
    np.linalg.svd(np.random.default_rng(0).normal(size=(3000, 3000)))


@ends("TimeLimit", seconds=5)
def sleep(tensor):
    """Waits, and works not at all."""
    time.sleep(60)


@ends("TimeLimit", seconds=5, cpu_seconds=0.5)
def deaf_loop(tensor):
    """Ignores and blocks every signal that it can, and works for ever."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if time.process_time() > 1.5:  # more than its limit allows
            time.sleep(0.1)


@ends("ProcessorTimeLimit", "TimeLimit", cpu_seconds=0.5)
def trace_without_end(tensor):
    """Has every call traced by a function that takes a minute."""

    def slow(*_):
        sys.settrace(None)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass

    sys.settrace(slow)


@ends("ProcessorTimeLimit", "TimeLimit", cpu_seconds=0.5, seconds=5)
def print_without_end(tensor):
    """Prints for a minute, to both streams."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        os.write(1, b"y" * 65536)
        os.write(2, b"n" * 65536)


@ends("MemoryError", memory=512 << 20)
def memory_at_once(tensor):
    """Asks for twice the memory that it may have, in one array."""
    np.ones(2 * 512 * 1024 * 1024 // 8)


@ends("MemoryError", memory=512 << 20)
def memory_bit_by_bit(tensor):
    """Asks for twice the memory that it may have, a little at a time, and keeps it."""
    kept = []
    for _ in range(2 * 512):
        kept.append(bytearray(1024 * 1024))


@ends("MemoryError", memory=512 << 20)
def memory_in_a_grandchild(tensor):
    """A child of its child asks for twice the memory that it may have."""
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            try:
                bytearray(2 * 512 * 1024 * 1024)
            except MemoryError:
                os._exit(7)
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7:
        raise MemoryError("there too")


@ends("PermissionError")
def memory_in_no_file(tensor):
    """Holds memory in files that are in no folder, which no limit counts."""
    held = [os.memfd_create(f"held{number}") for number in range(3)]
    for descriptor in held:
        os.ftruncate(descriptor, 8 << 20)
        os.write(descriptor, bytes(8 << 20))


@ends("OSError", file_size=16 << 20)
def one_large_file(tensor):
    """Writes twice as much as it may into one file."""
    with open("large", "wb") as file:
        for _ in range(32):
            file.write(bytes(1024 * 1024))
            file.flush()


@ends("OSError", shared=[None], file_size=16 << 20)
def fill_the_disk(tensor):
    """Writes four times what it may, in files of a megabyte."""
    for count in range(64):
        with open(f"{count}", "wb") as file:
            file.write(bytes(1024 * 1024))


@ends("OSError", shared=[None])
def many_empty_files(tensor):
    """Makes more files than anybody needs, all of them empty."""
    for count in range(5000):
        open(f"{count}", "w").close()


@ends("OSError")
def open_thousands(tensor):
    """Opens thousands of files, and keeps them open."""
    kept = []
    for count in range(5000):
        kept.append(open(f"{count}", "w"))


@ends("SIGKILL", "BlockingIOError", processes=20)
def fork_bomb(tensor):
    """Starts a hundred processes that stay."""
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    time.sleep(2)


@ends("SIGKILL", "BlockingIOError", processes=20)
def spawn_bomb(tensor):
    """Starts a hundred programs that keep running, without forking itself."""
    for _ in range(100):
        os.posix_spawn("/bin/sleep", ["sleep", "20"], {})
    time.sleep(2)


@ends("SIGKILL", "OSError", processes=20)
def siblings_bomb(tensor):
    """Starts processes that are children of its parent."""
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(100):
        child = libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x8000, 0, 0, 0, 0)
        if child == 0:
            time.sleep(20)
            os._exit(0)
        if child < 0:
            raise OSError(ctypes.get_errno(), "refused")
    time.sleep(2)


@ends("SIGKILL", "RuntimeError", shared=[None, "RuntimeError"], processes=20)
def thread_bomb(tensor):
    """Starts a hundred threads that stay."""
    threading.stack_size(65536)
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
    time.sleep(1)


@ends("TimeLimit", seconds=5, cpu_seconds=0.5)
def raise_its_limits(tensor):
    """Gives itself all the processor time and memory that it may, and works for ever."""
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            kind = getattr(resource, name)
            resource.setrlimit(kind, (resource.getrlimit(kind)[1],) * 2)
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
        except (OSError, ValueError):
            continue
        return
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if time.process_time() > 1.5:  # more than its limit allows
            time.sleep(0.1)


@ends(None)
def lower_its_limits(tensor):
    """Takes away from itself, for good, what the next probe needs."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@ends("PermissionError")
def limit_the_host(tensor):
    """Lowers the limits of the processes that fork it; the next probe would inherit them."""
    with open("/proc/1/cmdline") as first:
        hosts = [os.getppid(), *[1] * ("harness.sandbox" in first.read())]
    refused = 0
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_STACK):
        for host in hosts:
            try:
                resource.prlimit(host, kind, (16, 16))
            except PermissionError:
                refused += 1
    if refused == 3 * len(hosts):
        raise PermissionError("all of them")
