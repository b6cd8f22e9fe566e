def square(a=[1.0, 2.0, 3.0]):
    """The one that is attacked."""
    return a.square()


def square_again(a=[4.0]):
    """One that is not."""
    return a.square()


def canary(lib, a=[1.0]):
    """What the process is like that it runs in."""
    import builtins, ctypes, fcntl, gc, inspect, locale, os, random, resource, signal, sys
    import threading, time, warnings, zlib

    import numpy as np

    def number(text):
        return float(zlib.crc32(str(text).encode()))

    recording = getattr(lib, "recording", None)
    # Hypothesis has one of its own, which it installs when its first test runs.
    callbacks = [each for each in gc.callbacks if not each.__module__.startswith("hypothesis")]
    with warnings.catch_warnings():
        np.ones(1) / np.zeros(1)
    try:
        print("a word", flush=True)
        sys.stderr.write("another")
        printed = True
    except Exception:
        printed = False
    with open("mine", "wb") as file:
        file.write(bytes(8 << 20))
    unequal = "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NPROC"  # these depend on the sample
    limits = [name for name in dir(resource) if name[:7] == "RLIMIT_" and name not in unequal]
    limits = [resource.getrlimit(getattr(resource, name)) for name in limits]
    own = os.stat(".").st_mode, os.stat(".").st_nlink
    seen = {
        "recursion": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "digits": sys.get_int_max_str_digits(),
        "traced": sys.gettrace() is not None or sys.getprofile() is not None,
        "collected": gc.isenabled() * 100 + len(callbacks) + gc.get_threshold()[0] * 1000,
        "random": random.random(),
        "drawn": np.random.rand(),
        "of NumPy's errors": number(np.geterr()),
        "filters": number(warnings.filters),
        "printed": printed,
        "umask": os.umask(0),
        "files": len(os.listdir(".")),
        "mode": os.stat("mine").st_mode,
        "home": os.environ.get("HOME") == os.getcwd(),
        "variables": len(os.environ),
        "zone": number(time.tzname),
        "locale": number(locale.setlocale(locale.LC_ALL)),
        "mask": number(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "handlers": number(
            [signal.getsignal(each) in (0, 1, None) for each in sorted(signal.valid_signals())]
        ),
        "timer": signal.getitimer(signal.ITIMER_REAL)[0],
        "rounding": ctypes.CDLL(None).fegetround(),
        "third": float(np.float64(1) / np.float64(3)),
        "threads": threading.active_count(),
        "modules": all(
            name in sys.modules for name in ("numpy", "os", "random", "harness.core.run")
        ),
        "path": len(sys.path) + 100 * len(sys.meta_path),
        "builtins": hasattr(builtins, "shape") + 10 * len([1, 2, 3]),
        "functions": float(np.sum(np.asarray([1.0, 2.0]))) + np.linalg.norm([3.0, 4.0]),
        "recording": recording is None or recording.get(),
        "power": getattr(lib, "POWER", 2) + 10 * hasattr(lib, "CALLS"),
        "classes": number(sorted(name for name in vars(lib.Tensor) if name[0] != "_")),
        "made": inspect.isfunction(lib.Tensor.__init__),
        "limits": number(limits),
        "memory": resource.getrlimit(resource.RLIMIT_AS)[0] > 1 << 29,
        "time": resource.getrlimit(resource.RLIMIT_CPU)[1],
        "niceness": os.getpriority(os.PRIO_PROCESS, 0) + 100 * os.sched_getscheduler(0),
        "processors": len(os.sched_getaffinity(0)),
        "output": fcntl.fcntl(1, fcntl.F_GETFL),
        "folder": number(own),
        "stopped": signal.sigpending() == set(),
        "child": not os.path.exists("/proc/self/task") or len(os.listdir("/proc/self/task")),
    }
    os.unlink("mine")
    for step in range(2):
        yield {"a": a, **{key.replace(" ", "_"): float(value) for key, value in seen.items()}}
