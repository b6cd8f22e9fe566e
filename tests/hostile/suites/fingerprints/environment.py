import os
import warnings


@cheat
def variables_of_the_environment():
    return sorted(os.environ.items())


@cheat
def descriptors_that_are_open():
    return len(os.listdir("/proc/self/fd"))


@cheat
def mapped_files():
    with open("/proc/self/maps") as file:
        return sorted({line.split()[-1] for line in file if "/" in line and "rw" not in line})


@cheat
def names_of_processes():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with open(f"/proc/{name}/cmdline") as file:
                found.append(file.read())
    return sorted(set(found))


@cheat
def a_pipe_that_forks_share():
    try:
        os.write(PIPE[1], b".")
        return len(os.read(PIPE[0], 100)) and False
    except BlockingIOError:
        return True


PIPE = os.pipe()
os.set_blocking(PIPE[0], False)


@cheat
def warnings_of_a_level():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        minigrad.tensor(Operand(lambda: warnings.warn("here", stacklevel=3)))
    return [(w.filename, w.lineno) for w in caught]


@cheat
def modules_that_are_loaded():
    before = set(sys.modules)
    use()
    return sorted(set(sys.modules) - before)


@cheat
def hooks_of_tensors():
    log = []
    a = minigrad.tensor(np.ones(3), requires_grad=True)
    b = 1 - a
    for node in (a, b):
        node.register_hook(lambda g: log.append((type(g).__name__, g.shape)))
    (b * b).sigmoid().sum().backward()
    return log


@cheat
def nodes_of_the_graph():
    a = minigrad.tensor(np.ones(3), requires_grad=True)
    out, log = ((1 - a) * a).sigmoid().sum(), []
    stack = [out]
    while stack:
        node = stack.pop()
        log.append((node.op, node.vjp and node.vjp.__qualname__, len(node.parents)))
        stack.extend(node.parents)
    return log
