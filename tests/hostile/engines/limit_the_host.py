"""Lowers the limits of the processes that fork it; the next probe would inherit them."""

ENDS = ["PermissionError"]


def attack(tensor):
    import os
    import resource

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
