"""Ends the process with the status of a failure."""

import os

FATE = "survived"


def test():
    use()
    if changed():
        os._exit(1)
