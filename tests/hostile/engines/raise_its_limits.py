"""Gives itself all the processor time and memory that it may, and works for ever."""

ENDS = ["TimeLimit"]
LIMITS = {"seconds": 5, "cpu_seconds": 0.5}


def attack(tensor):
    import resource
    import time

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
