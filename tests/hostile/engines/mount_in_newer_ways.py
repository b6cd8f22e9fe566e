"""Mounts with newer system calls, changes the root, and renames the machine."""

ENDS = ["PermissionError"]
SHARED = None


def attack(tensor):
    import ctypes
    import os

    require_namespaces()
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.fsencode(os.getcwd())
    for result in (
        libc.syscall(430, b"tmpfs", 0),  # fsopen
        libc.syscall(428, -100, here, 1),  # open_tree, as a copy
        libc.syscall(429, -100, here, -100, b"/", 0),  # move_mount
        libc.pivot_root(b".", b"."),
        libc.chroot(b"."),
        libc.swapoff(b"/swap"),
        libc.sethostname(b"owned", 5),
    ):
        if result >= 0:
            return
    raise OSError(ctypes.get_errno(), "refused")
