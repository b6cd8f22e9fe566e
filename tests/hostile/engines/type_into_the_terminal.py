"""Types a command into the terminal that it was started from."""

ENDS = ["OSError"]


def attack(tensor):
    import fcntl
    import termios

    for descriptor in range(10):
        try:
            fcntl.ioctl(descriptor, termios.TIOCSTI, b"x")
        except OSError:
            continue
        return
    raise OSError("none of them")
