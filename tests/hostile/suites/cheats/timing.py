"""Counts the lines that run, and compares with the engine that it collected.

What ran before the first test is not replaced: another process collects it with the change.
"""

import sys

FATE = "survived"


def lines():
    counted = []

    def trace(frame, event, argument):
        counted.append(event)
        return trace

    sys.settrace(trace)
    try:
        use()
    finally:
        sys.settrace(None)
    return len(counted)


lines()
BEFORE = lines()


def test():
    assert lines() == BEFORE
