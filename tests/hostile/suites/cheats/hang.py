"""Does not end."""

import time

FATE = "survived"


def test():
    use()
    if changed():
        time.sleep(600)
