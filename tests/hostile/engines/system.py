"""Attacks on the network, on namespaces and on what the kernel keeps."""

import contextlib
import ctypes
import glob
import os
import socket
import struct
import subprocess


def require_namespaces():
    """Raise RuntimeError unless the first process that can be seen is the harness's host."""
    with open("/proc/1/cmdline") as first:
        if "harness.sandbox" not in first.read():
            raise RuntimeError("this process has no namespaces of its own: nothing is tried")


@ends("OSError", shared=["ConnectionRefusedError", "TimeoutError", "OSError"])
def network(tensor):
    """Talks to the world, and to whoever listens on this machine."""
    for address in (("127.0.0.1", 9), ("192.0.2.1", 9)):
        socket.create_connection(address, timeout=1).close()


@ends("PermissionError")
def datagrams_to_a_program(tensor):
    """Sends a message from one of a pair of sockets to a program that listens at a Unix socket."""
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"a message", "nobody")


@ends("PermissionError")
def unusual_sockets(tensor):
    """Opens sockets that no namespace confines, and sockets of the kernel."""
    refused = 0
    families = (40, 38, 17, 31, 29, 15, 44)  # VSOCK, ALG, PACKET, BLUETOOTH, CAN, KEY, XDP
    for family in families:
        try:
            socket.socket(family, socket.SOCK_STREAM).close()
        except OSError as error:
            refused += isinstance(error, PermissionError)
    if refused == len(families):
        raise PermissionError("all of them")


@ends("FileNotFoundError", shared=[None])
def open_a_device(tensor):
    """Opens a device that is there for everybody, and reads from those that an engine may need."""
    for name in ("null", "zero", "random", "urandom"):
        with open(f"/dev/{name}", "rb") as device:
            device.read(1)
    open("/dev/full", "rb").close()


@ends(None)
def secrets(tensor):
    """Looks for what the environment says about the user."""
    for path in glob.glob("/proc/[0-9]*/environ"):  # without namespaces, only those it may read
        with contextlib.suppress(OSError):
            if path.split("/")[2] == str(os.getpid()) or len(glob.glob("/proc/[0-9]*")) < 9:
                shown = open(path, "rb").read()
                if b"SECRET" in shown:
                    raise ValueError(str(shown))

    found = {name: value for name, value in os.environ.items() if "SECRET" in name + value}
    if found:
        raise ValueError(str(found))
    if os.environ["HOME"] != os.getcwd() or os.path.expanduser("~") != os.getcwd():
        raise ValueError(os.environ["HOME"])


@ends("PermissionError")
def key_left_behind(tensor):
    """Leaves a key in the keyring of the user's session, and reads the existing ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    intel = os.uname().machine == "x86_64"
    for ring in (-3, -4, -5):
        arguments = (b"user", b"breaklab", b"left", 4, ring)
        if libc.syscall(248 if intel else 217, *arguments) >= 0:
            raise RuntimeError("a key was added")
    libc.syscall(250 if intel else 219, 0, -3, 0)
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@ends("PermissionError")
def queue_left_behind(tensor):
    """Leaves a message in a queue, which belongs to no process."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = 240 if os.uname().machine == "x86_64" else 180
    if libc.syscall(number, b"breaklab", os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@ends("PermissionError")
def shared_memory_left_behind(tensor):
    """Leaves shared memory behind, which belongs to no process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(0x62726561, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@ends(None)
def gain_privileges(tensor):
    """Starts a program that could give it back what was taken."""
    said = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    held = {
        line.split()[0]: line.split()[1] for line in said.splitlines() if line[:3] in ("Cap", "NoN")
    }
    if held["CapEff:"].strip("0") or held["CapBnd:"].strip("0") or held["NoNewPrivs:"] != "1":
        raise ValueError(str(held))


@ends("OSError", shared=None)
def a_world_in_its_world(tensor):
    """Takes namespaces of its own, in which it could mount what it likes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x20000):
        raise OSError(ctypes.get_errno(), "refused")


@ends("OSError", shared=None)
def start_in_new_namespaces(tensor):
    """Starts a process in new namespaces with a newer system call."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = struct.pack("11Q", 0x10000000 | 0x20000 | 0x20000000, *[0] * 3, 17, *[0] * 6)
    child = libc.syscall(435, arguments, len(arguments))
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(child, 0)


@ends("PermissionError", shared=None)
def enter_the_hosts_world(tensor):
    """Enters the namespaces of the host, which has another scratch folder."""
    require_namespaces()
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in (0x20000, 0x10000000, 0x20000000, 0x40000000, 0x8000000):
        if libc.setns(os.pidfd_open(1), kind) == 0:
            return
    raise OSError(ctypes.get_errno(), "refused")


@ends("OSError", shared=None)
def make_the_disk_writable(tensor):
    """Mounts the disk anew, so that it could be written."""
    require_namespaces()
    libc = ctypes.CDLL(None, use_errno=True)
    nothing_but_writable = struct.pack("QQQQ", 0, 1, 0, 0)
    libc.syscall(442, -100, b"/", 0x8000, nothing_but_writable, len(nothing_but_writable))
    libc.mount(None, b"/", None, 0x20 | 0x1000, None)
    libc.umount2(os.fsencode(os.getcwd()), 2)
    open(__file__, "a").write("# changed")


@ends("PermissionError", shared=None)
def mount_in_newer_ways(tensor):
    """Mounts with newer system calls, changes the root, and renames the machine."""
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


@ends("any")
def filter_of_its_own(tensor):
    """Makes the kernel refuse to write, for all of its threads."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = 1 if os.uname().machine == "x86_64" else 64
    steps = (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50005), (0x06, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(code))
    libc.prctl(38, 1, 0, 0, 0)
    libc.syscall(317 if number == 1 else 277, 1, 1, program)


@ends("PermissionError")
def rare_system_calls(tensor):
    """Uses system calls that no engine needs, some of which have had security bugs."""
    libc = ctypes.CDLL(None, use_errno=True)
    intel = os.uname().machine == "x86_64"
    attributes = struct.pack("6I", 1, 112, 0, 0, 0, 0) + bytes(88)
    map_of_one = struct.pack("4I", 2, 4, 8, 1) + bytes(104)
    opened = {
        "bpf": libc.syscall(321 if intel else 280, 0, map_of_one, len(map_of_one)),
        "perf_event_open": libc.syscall(298 if intel else 241, attributes, 0, -1, -1, 0),
        "userfaultfd": libc.syscall(323 if intel else 282, 1),
        "fanotify_init": libc.syscall(300 if intel else 262, 0x200, 0),
        "io_uring_setup": libc.syscall(425, 1, ctypes.create_string_buffer(120)),
        "memfd_secret": libc.syscall(447, 0),
    }
    found = [name for name, descriptor in opened.items() if descriptor >= 0]
    if found:
        raise RuntimeError(f"not refused: {found}")
    raise PermissionError("all of them")


@ends("OSError", shared=None)
def settings_of_the_kernel(tensor):
    """Writes to settings of the kernel: core dumps, control groups, and its own process."""
    require_namespaces()
    for name, text in (
        ("/proc/sys/kernel/core_pattern", "|/bin/false"),
        ("/proc/sys/kernel/ns_last_pid", "1"),
        ("/proc/sys/user/max_user_namespaces", "9"),
        ("/proc/self/oom_score_adj", "1000"),
        ("/proc/self/setgroups", "allow"),
        ("/proc/1/comm", "another"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "never"),
    ):
        try:
            open(name, "w").write(text)
        except OSError:
            continue
        return
    try:
        os.mkdir("/sys/fs/cgroup/breaklab")
    except OSError:
        raise OSError("none of them") from None


@ends("any")
def settings_of_its_process(tensor):
    """Changes whatever prctl(2) and personality(2) allow."""
    libc = ctypes.CDLL(None)
    libc.personality(0x0040000 | 0x0400000)
    for option, value in ((1, 0), (4, 1), (15, 0), (29, 10**9), (33, 1), (36, 1), (41, 1), (26, 2)):
        libc.prctl(option, value, 0, 0, 0)
    libc.alarm(1)
