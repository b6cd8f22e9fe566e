"""What is not prevented: see docs/safety.md."""

import struct


@cheat
def functions_of_numpy_that_are_called():
    names = [n for n, f in sorted(vars(np).items()) if callable(f) and not isinstance(f, type)]
    return spied(np, names)


@cheat
def operators_that_a_cotangent_sees():
    calls = []
    watch(calls.append)
    return calls


@cheat
def values_in_frames_below_an_operator():
    found = []

    def then(_):
        values = [value for frame in engine_frames() for value in frame.f_locals.values()]
        found.append({repr(value) for value in values if type(value) is np.ndarray})

    watch(then)
    return [sorted(values) for values in found]


def memory(address, size):
    class Window:
        __array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, True),
            "version": 3,
        }

    return np.array(Window()).tobytes()


@cheat
def code_in_memory():
    """Follow the pointers of a function to the numbers of constants and names in its code."""
    if sys.version_info[:2] != (3, 11):  # the places of these pointers differ
        return None
    found = []
    for f in functions().values():
        (code,) = struct.unpack("P", memory(id(f) + 48, 8))
        for pointer in struct.unpack("PP", memory(code + 24, 16)):
            found.append(memory(pointer + 16, 8))
    return found
