"""A child of its child asks for twice the memory that it may have."""

ENDS = ["MemoryError"]
LIMITS = {"memory": 512 * 1024 * 1024}


def attack(tensor):
    import os

    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            try:
                bytearray(2 * 512 * 1024 * 1024)
            except MemoryError:
                os._exit(7)
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7:
        raise MemoryError("there too")
