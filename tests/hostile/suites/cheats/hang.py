"""Does not end."""

import time

FATE = "survived"


def test():
    use()
    while changed():
        time.sleep(0.1)
