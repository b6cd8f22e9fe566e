"""Looks for what the environment says about the user."""

ENDS = [None]


def attack(tensor):
    import contextlib
    import glob
    import os

    for path in glob.glob("/proc/[0-9]*/environ"):  # without namespaces, only those it may read
        with contextlib.suppress(OSError):
            if path.split("/")[2] == str(os.getpid()) or len(glob.glob("/proc/[0-9]*")) < 9:
                shown = open(path, "rb").read()
                if b"SECRET" in shown:
                    raise ValueError(str(shown))

    found = {name: value for name, value in os.environ.items() if "SECRET" in name + value}
    if found:
        raise ValueError(str(found))
    if os.environ["HOME"] != os.getcwd() or os.path.expanduser("~") != os.getcwd():
        raise ValueError(os.environ["HOME"])
