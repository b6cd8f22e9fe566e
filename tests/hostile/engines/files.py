"""Attacks on files, folders, streams and the terminal."""

import fcntl
import glob
import os
import pathlib
import py_compile
import signal
import sys
import termios
import time


@ends("OSError", shared=None)
def write_its_source(tensor):
    """Changes its own source."""
    open(__file__, "a").write("# changed")


@ends("OSError", shared=None)
def write_bytecode(tensor):
    """Leaves bytecode beside its source."""
    py_compile.compile(__file__, cfile=__file__ + "c", doraise=True)


@ends("FileNotFoundError", shared=None)
def write_home(tensor):
    """Leaves a file in the user's home."""
    (pathlib.Path(__file__).parent.parent / "home" / ".profile").write_text("changed")


@ends("FileNotFoundError", shared=None)
def write_the_catalogue(tensor):
    """Changes a page of the catalogue."""
    (pathlib.Path(__file__).parent.parent / "catalogue" / "page.md").write_text("changed")


@ends("FileNotFoundError", shared=None)
def write_the_store(tensor):
    """Changes the store of runs."""
    (pathlib.Path(__file__).parent.parent / "cache" / "runs.sqlite").write_bytes(b"")


@ends("FileNotFoundError", shared=None)
def write_through_a_link(tensor):
    """Writes through a link from its scratch folder to somewhere else."""
    link = pathlib.Path("link")
    link.symlink_to(pathlib.Path(__file__).parent.parent / "home")
    (link / ".profile").write_text("changed")


@ends("OSError", shared=None)
def delete_its_source(tensor):
    """Deletes its own source."""
    os.unlink(__file__)


@ends(None)
def litter(tensor):
    """Leaves files where it works."""
    for name in ("a", "b\n\x1b[31m", "-rf"):
        open(name, "w").write("litter")
    os.mkdir("folder")
    os.chmod("folder", 0)


@ends(None)
def folders_in_folders(tensor):
    """Leaves folders in folders, too deep for a path or for recursion."""
    for _ in range(2000):
        os.mkdir("deeper")
        os.chdir("deeper")
    os.chmod(".", 0)


@ends(None)
def links_out_of_the_scratch(tensor):
    """Leaves links that lead out of its scratch folder to whoever tidies up."""
    root = pathlib.Path(__file__).parent.parent
    for name in ("home", "catalogue", "engine", "cache"):
        os.symlink(root / name, name)
    os.mkdir("below")
    os.symlink(root / "home", "below/home")
    os.symlink("loop", "loop")
    os.mkfifo("pipe")


@ends(None)
def lock_its_folder(tensor):
    """Leaves files in its scratch folder, and removes all permissions from the folder."""
    for name in ("one", "two"):
        open(name, "wb").write(bytes(4 << 20))
    os.chmod(".", 0)


@ends("OSError", shared=[None])
def remove_its_folder(tensor):
    """Removes the scratch folder that the next probe needs."""
    os.rmdir(os.getcwd())


@ends("OSError", shared=[None])
def a_link_in_place_of_its_folder(tensor):
    """Puts a link to the user's home in place of the scratch folder, which will be emptied."""
    here = os.getcwd()
    os.rmdir(here)
    os.symlink(pathlib.Path(__file__).parent.parent / "home", here)


@ends(None)
def files_after_its_end(tensor):
    """Leaves a process behind that creates files in the scratch folder as long as it can."""
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for count in range(10):
                try:
                    open(f"{count}", "w").close()
                except OSError:
                    pass


@ends("OSError", shared=None)
def files_in_shared_folders(tensor):
    """Leaves files in folders that every program may write to."""
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock", "/dev"):
        try:
            open(f"{folder}/breaklab", "w").close()
        except OSError:
            continue
        return
    raise OSError("none of them")


@ends(None, "OSError", file_size=16 << 20)
def hold_a_deleted_file(tensor):
    """Leaves a process behind that holds a deleted file as large as the scratch folder."""
    held = os.open("held", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(held, 0, 15 << 20)
    os.unlink("held")
    if os.fork() == 0:
        os.setsid()
        time.sleep(20)
        os._exit(0)


@ends("ProcessExit")
def close_everything(tensor):
    """Closes every file that the process has open."""
    os.closerange(0, 256)


@ends(None)
def close_its_streams(tensor):
    """Closes its input, output and error streams, which the next probe may use."""
    for stream in (0, 1, 2):
        os.close(stream)


@ends("ProcessExit")
def lead_the_pipe_astray(tensor):
    """Puts a file of its own in place of every other that is open."""
    file = os.open("mine", os.O_CREAT | os.O_RDWR)
    for descriptor in range(3, 64):
        if descriptor != file:
            try:
                os.fstat(descriptor)
            except OSError:
                continue
            os.dup2(file, descriptor)


@ends(None)
def output_that_does_not_wait(tensor):
    """Makes the pipe for printed output non-blocking, for every process that shares it."""
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    os.set_blocking(2, False)


@ends("any")
def signals_from_the_output(tensor):
    """Makes the kernel signal the process that forked it whenever printed output is read."""
    fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())
    fcntl.fcntl(1, 10, signal.SIGXCPU)  # F_SETSIG
    fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC)


@ends(None)
def streams(tensor):
    """Replaces Python's streams."""

    class Loud:
        def write(self, _):
            raise RuntimeError("no")

        flush = write

    sys.stdout = sys.stderr = Loud()
    sys.stdin = None
    sys.displayhook = sys.excepthook = sys.unraisablehook = None


@ends("OSError", "PermissionError")
def the_terminal(tensor):
    """Writes to the terminal behind everybody's back."""
    with open("/dev/tty", "w") as terminal:
        terminal.write("\x1b[2J")


@ends("OSError", shared=None)
def open_a_terminal(tensor):
    """Opens a new terminal, and the existing ones."""
    for name in ("/dev/ptmx", "/dev/pts/ptmx", "/dev/console", *glob.glob("/dev/pts/[0-9]*")):
        try:
            os.close(os.open(name, os.O_RDWR | os.O_NOCTTY))
        except OSError:
            continue
        return
    raise OSError("none of them")


@ends("OSError")
def type_into_the_terminal(tensor):
    """Types a command into the terminal that it was started from."""
    for descriptor in range(10):
        try:
            fcntl.ioctl(descriptor, termios.TIOCSTI, b"x")
        except OSError:
            continue
        return
    raise OSError("none of them")
