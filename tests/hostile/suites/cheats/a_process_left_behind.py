"""Leaves a process behind, which counts the runs and reports the count on a socket."""

import os
import socket
import time

FATE = "survived"


def test():
    use()
    try:
        with socket.create_connection(("127.0.0.1", 45671), timeout=1):
            found = True
    except OSError:
        found = False
    assert not found
    listening, ready = os.pipe()
    if os.fork() == 0:
        os.setsid()
        with socket.create_server(("127.0.0.1", 45671)):
            os.write(ready, b".")
            time.sleep(60)
            os._exit(0)
    os.close(ready)
    os.read(listening, 1)
