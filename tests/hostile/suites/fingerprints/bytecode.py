import copy
import dis
import gc
import io
import marshal
import pickle
import types


@cheat
def code_objects():
    return [f.__code__.co_code for f in functions().values()]


@cheat
def disassembly():
    out = io.StringIO()
    for f in functions().values():
        dis.dis(f, file=out)
    return out.getvalue()


@cheat
def marshalled_code():
    return [marshal.dumps(f.__code__) for f in functions().values()]


@cheat
def the_descriptor_of_the_type():
    return [types.FunctionType.__dict__["__code__"].__get__(f) for f in functions().values()]


@cheat
def copied_functions():
    return [copy.deepcopy(f).__code__ for f in functions().values()]


@cheat
def pickled_functions():
    return [pickle.dumps(f) for name, f in functions().items() if name in ("tensor", "unbroadcast")]


@cheat
def defaults_and_annotations():
    return [
        (f.__defaults__, f.__kwdefaults__, sorted(f.__annotations__)) for f in functions().values()
    ]


@cheat
def closures():
    return [
        [type(c.cell_contents).__name__ for c in f.__closure__ or ()] for f in functions().values()
    ]


@cheat
def sizes():
    return [sys.getsizeof(f) for f in functions().values()]


@cheat
def objects_of_the_collector():
    gc.unfreeze()
    return [f.__code__.co_code for f in gc.get_objects() if type(f) is types.FunctionType][:9]


@cheat
def referents():
    return [gc.get_referents(f) for f in functions().values()]


@cheat
def closures_of_rules():
    rules = minigrad.elementwise.sub(np.ones(2), np.ones(2))
    return [[repr(c.cell_contents) for c in r.__closure__ or ()] for r in rules if callable(r)]


COPY = "def unbroadcast(gradient, shape):\n    return gradient\n"


@cheat
def copies_with_the_same_file_name():
    """Functions that look like the engine's, in case the grader replaces their code, too."""
    text = COPY.replace("FILE", minigrad.tensor.__globals__["__file__"])
    names = {}
    exec(compile(text, minigrad.tensor.__globals__["__file__"], "exec"), names)
    return [f.__code__.co_code for f in names.values() if type(f) is types.FunctionType]
