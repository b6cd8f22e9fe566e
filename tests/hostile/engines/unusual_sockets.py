"""Opens sockets that no namespace confines, and sockets of the kernel."""

ENDS = ["PermissionError"]


def attack(tensor):
    import socket

    refused = 0
    families = (40, 38, 17, 31, 29, 15, 44)  # VSOCK, ALG, PACKET, BLUETOOTH, CAN, KEY, XDP
    for family in families:
        try:
            socket.socket(family, socket.SOCK_STREAM).close()
        except OSError as error:
            refused += isinstance(error, PermissionError)
    if refused == len(families):
        raise PermissionError("all of them")
