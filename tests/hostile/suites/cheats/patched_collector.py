"""Replaces the function that runs the tests in a fork."""

from harness.grade import confined
from harness.grade.protocol import Ended, ForkOutput, encode_event

FATE = "recognised"
real = confined._run_in_fork


def forged(suite, run, line):
    if run.changed:
        return ForkOutput(encode_event(Ended(0, "failed", 0.1)))
    return real(suite, run, line)


confined._run_in_fork = forged


def test():
    use()
