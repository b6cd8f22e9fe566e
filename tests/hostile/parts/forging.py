"""What a sample that forges frames finds in its own text: the pipe, the ticket, and how to use them.

It stands in front of the samples whose names begin with `forge`.
"""

import os
import sys
import time

import msgspec


def _found():
    """The variables of the function that is waiting for this run.

    It is `serve_steps` of `harness.sandbox.child`, or `serve` of `harness.sandbox.child` in a fresh
    interpreter.
    """
    frame = sys._getframe()
    while frame.f_code.co_name not in ("serve_steps", "serve"):
        frame = frame.f_back
    return frame.f_locals


def _line():
    """The pipe for results, the ticket, and the bytes that follow a result in this pipe."""
    found = _found()
    if "line" in found:
        return found["line"].pipes.frames, found["line"].ticket, b""
    return found["answers"], found["ticket"], b"."


def _tickets():
    """The pipe from which tickets are read."""
    found = _found()
    return found["line"].pipes.tickets if "line" in found else found["tickets"]


def raw(data):
    """Bytes, into the pipe in which results travel."""
    pipe, view = _line()[0], memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


def send(record, *, ticket=None, version=None, kind=b"R"):
    """A frame with this record; version and ticket are the present ones unless others are said."""
    frames = sys.modules["harness.sandbox.frames"]
    head = bytes([frames.VERSION if version is None else version]) + kind
    _, present, end = _line()
    body = head + (ticket or present) + record
    raw(len(body).to_bytes(4, "big") + body + end)


def run(probe, loss, **fields):
    """The record of a run."""
    return msgspec.msgpack.encode({"probe": probe, "loss": loss} | fields)


# ---- the sample
