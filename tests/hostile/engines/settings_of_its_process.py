"""Changes whatever prctl(2) and personality(2) allow."""

ENDS = ["any"]


def attack(tensor):
    import ctypes

    libc = ctypes.CDLL(None)
    libc.personality(0x0040000 | 0x0400000)
    for option, value in ((1, 0), (4, 1), (15, 0), (29, 10**9), (33, 1), (36, 1), (41, 1), (26, 2)):
        libc.prctl(option, value, 0, 0, 0)
    libc.alarm(1)
