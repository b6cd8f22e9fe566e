"""Attacks on what is observed: gradients, leaves and results that are not what they should be."""

import numpy as np
import os
import signal
import threading
import time


@ends("any")
def a_gradient_backwards(tensor):
    """Gradients with negative strides, in another byte order, and read-only."""
    data = np.arange(6.0).astype(">f8")[::-2]
    data.setflags(write=False)
    tensor.parent.__class__.grad = property(lambda _: data, lambda *_: None)


@ends("SIGBUS")
def a_gradient_in_a_file(tensor):
    """A gradient in a memory-mapped file that is truncated before it is read."""
    array = np.memmap("gradient", "f8", "w+", shape=(3,))
    os.truncate("gradient", 0)
    tensor.parent.__class__.grad = property(lambda _: array, lambda *_: None)


@ends("TypeError")
def a_gradient_of_dates(tensor):
    """A gradient that holds times and dates."""
    dates = np.array(["2020-01-01", "NaT"], "M8[s]")
    tensor.parent.__class__.grad = property(lambda _: dates, lambda *_: None)


@ends("TypeError")
def a_gradient_of_objects(tensor):
    """A gradient that holds Python objects."""
    tensor.parent.__class__.grad = property(lambda _: np.array([{}, None]), lambda *_: None)


@ends("TypeError")
def a_gradient_of_records(tensor):
    """A gradient of records whose fields partly overlap."""
    kind = np.dtype({"names": ["a", "b"], "formats": ["f8", "f4"], "offsets": [0, 4]})
    tensor.parent.__class__.grad = property(lambda _: np.zeros(3, kind), lambda *_: None)


@ends("any", seconds=20, cpu_seconds=3)
def a_gradient_that_changes(tensor):
    """A gradient that a thread frees and resizes while it is read."""
    array = np.zeros(3)

    def change():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            array.resize(100_000, refcheck=False)
            array.resize(1, refcheck=False)
            array.dtype = "i1"
            array.dtype = "f8"

    threading.Thread(target=change, daemon=True).start()
    tensor.parent.__class__.grad = property(lambda _: array, lambda *_: None)


@ends("MemoryError", "ValueError")
def a_gradient_without_size(tensor):
    """Gradients of a trillion numbers that take no memory: one number, broadcast."""
    one = np.broadcast_to(np.float64(1), (10**6, 10**6))
    tensor.parent.__class__.grad = property(lambda _: one, lambda *_: None)


@ends("any")
def a_leaf_that_grows(tensor):
    """Changes the shape and the dtype of the data that it receives."""
    tensor.parent.data = np.zeros((0, 10**9), "c16")
    tensor.data = None


@ends("any")
def an_array_that_lies(tensor):
    """A gradient of a subclass of NumPy's array that lies about itself."""

    class Liar(np.ndarray):
        shape = property(lambda _: (-1, 10**9))
        dtype = property(lambda _: np.dtype("O"))
        tobytes = __array__ = __array_function__ = lambda *_, **__: b""

    lie = np.zeros(3).view(Liar)
    tensor.parent.__class__.grad = property(lambda _: lie, lambda *_: None)


@ends("ResultTooLarge")
def a_result_too_large(tensor):
    """Gradients of a gigabyte, from shapes that grew by mistake."""
    tensor.parent.__class__.grad = property(lambda _: np.zeros(16_000_000), lambda *_: None)


@ends("RecursionError")
def attributes_without_end(tensor):
    """An engine whose attributes access further attributes without end."""

    def endless(self, name):
        return getattr(self, name + "_")

    type(tensor).__getattr__ = endless
    tensor.nothing


@ends(None, seconds=5)
def never_ends_after_its_result(tensor):
    """Sends its result, and then does not end."""
    os._exit = lambda _: time.sleep(30)


@ends("any", seconds=5, cpu_seconds=600)
def works_on_after_its_result(tensor):
    """Sends its result from a thread, while the main thread keeps running for half a minute."""

    def busy(*_):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pass

    os._exit = busy
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=busy, daemon=True).start()
