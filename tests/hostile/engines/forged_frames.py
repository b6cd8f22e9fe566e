"""Attacks that forge frames; what stands before the first one finds the pipe and the ticket."""

import os
import select
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


@ends("ForgedResult")
def forge_a_dtype_in_depth(tensor):
    """Sends a dtype that takes a parser to its end."""
    array = {"dtype": "(" * 100_000 + "1" + ")" * 100_000 + "f8", "shape": (1,), "data": bytes(8)}
    send(run("square", "weighted", output=array))


@ends("\\x1bc")
def forge_a_failure_that_paints(tensor):
    """Sends a failure that would repaint the terminal, a megabyte of it."""
    failure = {
        "phase": "forward",
        "where": "\x1b[2J",
        "type": "\x1bc",
        "message": "\x1b[31m" * 200_000,
    }
    send(run("square", "weighted", failure=failure))


@ends("ForgedResult")
def forge_a_gradient_of_nothing(tensor):
    """Sends gradients for names that are not those of the leaves, and none for those that are."""
    array = {"dtype": "<f8", "shape": (3,), "data": bytes(24)}
    parts = {"leaves": {"a": array}, "output": array, "cotangent": array}
    send(run("square", "weighted", **parts, gradients={"b": array, "c": None}))


@ends("ForgedResult")
def forge_a_huge_length(tensor):
    """Announces four gigabytes."""
    raw(b"\xff\xff\xff\xff" + bytes(1000))


@ends("ForgedResult")
def forge_a_long_list(tensor):
    """Announces a list of four billion."""
    send(b"\x83\xa5probe\xa6square\xa4loss\xa8weighted\xa3log\xdd\xff\xff\xff\xff")


@ends("ForgedResult")
def forge_a_name_that_paints(tensor):
    """Sends a name that would repaint the terminal."""
    send(run("square", "weighted", shared=[("\x1b[2J", "a")]))


@ends("ForgedResult")
def forge_a_negative_shape(tensor):
    """Sends an array of negative lengths."""
    array = {"dtype": "<f8", "shape": (-1, -1), "data": bytes(8)}
    send(run("square", "weighted", output=array))


@ends("ForgedResult")
def forge_a_record_dtype(tensor):
    """Sends an array of records."""
    array = {"dtype": "f8,f8", "shape": (1,), "data": bytes(16)}
    send(run("square", "weighted", output=array))


@ends("ForgedResult")
def forge_a_spent_process(tensor):
    """Says, again and again, that an earlier run has made a new process necessary."""
    send(b"\x80", kind=b"S")


@ends("ForgedResult")
def forge_a_ticket(tensor):
    """Sends results with tickets that nobody gave it."""
    send(run("square", "weighted"), ticket=b"12345678")


@ends("ForgedResult")
def forge_an_end(tensor):
    """Says that a program has ended, where there is none."""
    send(b"\x80", kind=b"E")


@ends("ForgedResult", "ProcessorTimeLimit", cpu_seconds=3)
def forge_an_endless_frame(tensor):
    """Sends a frame for a minute."""
    raw((64 * 1024 * 1024).to_bytes(4, "big"))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        raw(bytes(65536))


@ends("ForgedResult")
def forge_an_impossible_shape(tensor):
    """Sends an array without a number, of lengths that no array can have."""
    array = {"dtype": "<f8", "shape": (0, 2**62, 2**62), "data": b""}
    send(run("square", "weighted", output=array))


@ends("ForgedResult")
def forge_another_kind(tensor):
    """Sends that the engine is loaded, where a result was asked for."""
    send(b"\x80", kind=b"L")


@ends("ForgedResult")
def forge_another_run(tensor):
    """Sends the result of another probe in place of its own."""
    send(run("canary", None))


@ends("ForgedResult")
def forge_another_version(tensor):
    """Sends a result in a form of the future."""
    send(run("square", "weighted"), version=99)


@ends("ForgedResult")
def forge_depth(tensor):
    """Sends lists in lists."""
    send(b"\x91" * 10_000_000)


@ends("ForgedResult")
def forge_empty_frames(tensor):
    """Sends empty frames for a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        raw(bytes(4096))


@ends("any")
def forge_from_a_process_left_behind(tensor):
    """Leaves a process behind that keeps the pipes open, and writes arbitrary data to them."""
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            send(run("square-again", "weighted"))
            time.sleep(0.001)


@ends("ForgedResult", "ProcessExit")
def forge_half_a_frame(tensor):
    """Announces more than it sends, and ends."""
    raw((1000).to_bytes(4, "big") + b"short")
    os._exit(0)


@ends("ForgedResult")
def forge_half_a_frame_and_goes_on(tensor):
    """Announces more than it sends, so that its result becomes a part of it."""
    raw((50).to_bytes(4, "big") + b"short")


@ends("ForgedResult")
def forge_half_a_result(tensor):
    """Sends a result that reached the patch but contains no observations."""
    send(run("square", "weighted", reached=[0]))


@ends("ForgedResult")
def forge_many_axes(tensor):
    """Sends an array of a thousand axes."""
    array = {"dtype": "<f8", "shape": (1,) * 1000, "data": bytes(8)}
    send(run("square", "weighted", output=array))


@ends("ForgedResult")
def forge_many_empty_steps(tensor):
    """Sends a log of fifty million empty steps: small here, and large where it is read."""
    count = 50_000_000
    send(
        b"\x83\xa5probe\xa6square\xa4loss\xa8weighted\xa3log\xdd"
        + count.to_bytes(4, "big")
        + b"\x80" * count
    )


@ends("ForgedResult")
def forge_more_than_its_bytes(tensor):
    """Sends an array that claims a trillion numbers, and eight bytes."""
    array = {"dtype": "<f8", "shape": (10**12,), "data": bytes(8)}
    send(run("square", "weighted", output=array))


@ends("any")
def forge_nan(tensor):
    """Sends results of NaN, which are results."""
    array = {"dtype": "<f8", "shape": (3,), "data": b"\xff" * 24}
    send(run("square", "weighted", output=array, seconds=float("nan")))


@ends("ForgedResult")
def forge_no_text(tensor):
    """Sends a name that is no UTF-8."""
    send(b"\x81\xa5probe\xa2\xff\xfe")


@ends("ForgedResult")
def forge_objects(tensor):
    """Sends an array of Python objects."""
    array = {"dtype": "O", "shape": (1,), "data": bytes(8)}
    send(run("square", "weighted", output=array))


@ends("any")
def forge_on_every_descriptor(tensor):
    """Writes a result to every writable descriptor."""
    present = _line()[1]
    body = b"\x03R" + present + run("square-again", "weighted")
    for descriptor in range(64):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, len(body).to_bytes(4, "big") + body + b".")
        except OSError:
            continue


@ends("ForgedResult")
def forge_other_leaves(tensor):
    """Sends a result for leaves that the probe does not have."""
    array = {"dtype": "<f8", "shape": (2,), "data": bytes(16)}
    send(run("square", "weighted", leaves={"b": array}, output=array, cotangent=array))


@ends("TimeLimit", slow=True, seconds=2)
def forge_slowly(tensor):
    """Sends its result byte by byte, and never finishes."""
    raw((60_000_000).to_bytes(4, "big"))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        raw(b"x")
        time.sleep(0.001)


@ends("any")
def forge_the_next_run(tensor):
    """Sends its own result, and then one for the probe after it."""
    send(run("square", "weighted"))
    send(run("canary", None))


@ends("any")
def forge_with_the_next_ticket(tensor):
    """Sends its result, waits for the next ticket, and sends a result for the probe after it."""
    send(run("square", "weighted"))
    tickets = _tickets()
    if select.select([tickets], [], [], 2)[0]:
        send(run("square-again", "weighted", seconds=7.0), ticket=os.read(tickets, 8))
        if select.select([tickets], [], [], 2)[0]:
            send(run("canary", None, seconds=7.0), ticket=os.read(tickets, 8))
