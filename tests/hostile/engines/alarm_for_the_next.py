"""Sets timers that go off when another probe is running."""

ENDS = [None, "ValueError", "ProcessExit"]


def attack(tensor):
    import signal

    def late(*_):
        raise ValueError("an alarm that somebody else set")

    for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF):
        signal.signal(number, late)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
