"""Writes to settings of the kernel: core dumps, control groups, and its own process."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import os

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
