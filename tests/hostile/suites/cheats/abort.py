"""Ends the process with a signal."""

import os

FATE = "survived"


def test():
    use()
    if changed():
        os.abort()
