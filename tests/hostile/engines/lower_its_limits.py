"""Takes away from itself, for good, what the next probe needs."""

ENDS = [None]


def attack(tensor):
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
