"""Sends a message from one of a pair of sockets to a program that listens at a Unix socket."""

ENDS = ["PermissionError"]


def attack(tensor):
    import socket

    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"a message", "nobody")
