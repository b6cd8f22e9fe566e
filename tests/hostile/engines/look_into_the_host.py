"""Reads and writes the memory, files and environment of the processes that fork it."""

ENDS = ["PermissionError"]
SHARED = [None, "PermissionError"]


def attack(tensor):
    import ctypes
    import os

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
