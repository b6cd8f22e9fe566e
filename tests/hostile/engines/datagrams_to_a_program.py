"""Sends a message to a program that listens at a Unix socket, from one of a pair of sockets."""

ENDS = ["PermissionError"]


def attack(tensor):
    import socket

    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"a message", "nobody")
