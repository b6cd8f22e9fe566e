"""Changes what signals do, and blocks them."""

ENDS = [None]


def attack(tensor):
    import signal

    def raises(*_):
        raise ValueError("a signal")

    for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, raises)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGXCPU, signal.SIGTERM})
