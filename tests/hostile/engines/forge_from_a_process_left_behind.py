"""Leaves a process behind that keeps the pipes open, and writes arbitrary data to them."""

ENDS = ["any"]


def attack(tensor):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            send(run("square-again", "weighted"))
            time.sleep(0.001)
