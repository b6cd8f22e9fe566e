"""Talks to the world, and to whoever listens on this machine."""

ENDS = ["OSError"]
SHARED = ["ConnectionRefusedError", "TimeoutError", "OSError"]


def attack(tensor):
    import socket

    for address in (("127.0.0.1", 9), ("192.0.2.1", 9)):
        socket.create_connection(address, timeout=1).close()
