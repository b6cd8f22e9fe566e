"""Exceptions that are not what they should be, and ends of the process."""

import ast
import atexit
import ctypes
import os
import pickle
import sys
import threading
import time


@ends("BaseException")
def base_exception(tensor):
    """Raises what no `except Exception` catches."""
    raise BaseException("all of them")


@ends("KeyboardInterrupt")
def keyboard_interrupt(tensor):
    """Raises what Ctrl-C raises."""
    raise KeyboardInterrupt


@ends("GeneratorExit")
def generator_exit(tensor):
    """Raises what generators are closed with."""
    raise GeneratorExit


@ends("StopIteration", "RuntimeError")
def an_end_of_iteration(tensor):
    """Raises StopIteration in a function that is not an iterator."""
    raise StopIteration(tensor)


@ends("SystemExit")
def exit(tensor):
    """Asks Python to exit."""
    sys.exit(0)


@ends("ProcessExit")
def exit_at_once(tensor):
    """Ends the process, and says that all is well."""
    os._exit(0)


@ends(None)
def exit_handlers(tensor):
    """Handlers for the end of the process that hang, and that write."""
    atexit.register(time.sleep, 20)
    atexit.register(open, "late", "w")
    threading._register_atexit(time.sleep, 20)


@ends("SIGABRT")
def abort(tensor):
    """Aborts, as a failed assertion in compiled code does."""
    os.abort()


@ends("SIGSEGV")
def segfault(tensor):
    """Reads where there is no memory."""
    ctypes.string_at(0)


@ends("RecursionError")
def recursion_in_python(tensor):
    """Calls itself without end."""
    attack(tensor)  # its name when it runs


@ends("SIGSEGV", "RecursionError", cpu_seconds=600)
def recursion_in_c(tensor):
    """A list in lists, so deep that compiled code overflows the stack to print it."""
    # A slow machine takes long to come to the end of the stack.
    sys.setrecursionlimit(10**7)
    deep = []
    for _ in range(10**6):
        deep = [deep]
    repr(deep)


@ends("RecursionError", "MemoryError", "SIGSEGV")
def recursion_in_the_parser(tensor):
    """Source code in more parentheses than a parser can bear."""
    ast.parse("-" * 10**6 + "1")


@ends("ExceptionGroup")
def cyclic_causes(tensor):
    """An exception that is its own cause and context, in a group of groups."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    one.__context__, other.__context__ = other, one
    group = ExceptionGroup("a group", [one, other])
    for _ in range(500):
        group = ExceptionGroup("a group", [group, one])
    raise group from one


@ends("ValueError")
def huge_message(tensor):
    """An exception that says ten million characters."""
    raise ValueError("long " * 2_000_000)


@ends("E\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\r\\x08\\u202eabc\\u2066")
def message_controls_the_terminal(tensor):
    """Exceptions and prints that would repaint the terminal."""

    EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\u202eabc\u2066\ud800"

    print(EVIL)
    os.write(1, b"\x1b[2J\xff")
    os.write(2, b"\x1bc\xfe")
    raise type("E" + EVIL[:-1], (Exception,), {})(EVIL)


@ends("Wordy")
def message_is_no_text(tensor):
    """An exception whose words are a text of its own kind."""

    class Words(str):
        def split(self, *_):
            return [Words("\x1b[31m"), 7]

        def __getitem__(self, _):
            return self

    class Wordy(Exception):
        def __str__(self):
            return Words("a")

    raise Wordy


@ends("Wordless")
def message_raises(tensor):
    """An exception that fails when it is asked what it says."""

    class Wordless(Exception):
        def __str__(self):
            raise self

    raise Wordless


@ends("ProcessorTimeLimit", "TimeLimit", cpu_seconds=0.5)
def message_without_end(tensor):
    """An exception that takes a minute to say what it says."""

    class Ponderous(Exception):
        def __str__(self):
            import time

            end = time.monotonic() + 60
            while time.monotonic() < end:
                pass

    raise Ponderous


@ends("ProcessExit", "Unknown")
def type_without_a_name(tensor):
    """An exception whose type fails when it is asked for its name."""

    class Nameless(type):
        @property
        def __name__(cls):
            raise RuntimeError("no name")

    class Unknown(Exception, metaclass=Nameless):
        pass

    raise Unknown


@ends("any")
def a_name_of_a_million(tensor):
    """An exception whose type has a name of a million characters, made of the name of a limit."""
    raise type("TimeLimit" * 10**5, (SystemExit,), {})(10**9)


@ends("any", slow=True, cpu_seconds=0.5)
def a_traceback_that_lies(tensor):
    """An exception whose traceback and class are not what they should be."""

    class Place:
        @property
        def tb_next(self):
            return self

        tb_frame = f_code = property(lambda self: self)
        co_filename = "probes.py"
        tb_lineno = 10**30

    class Strange(Exception):
        __traceback__ = property(lambda _: Place())
        __class__ = property(lambda _: int)

    raise Strange


@ends("ProcessExit")
def last_words_control_the_terminal(tensor):
    """Prints what would repaint the terminal, and dies."""
    os.write(1, b"\x1b[2J\xff\x9b")
    os._exit(3)


@ends("RecursionError")
def pickle_in_depth(tensor):
    """Pickles a list in lists."""
    deep = []
    for _ in range(10**5):
        deep = [deep]
    pickle.dumps(deep)
