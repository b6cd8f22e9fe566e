"""What a rule does to its operands and returns, apart from the numbers: see docs/safety.md."""


def rules():
    x = np.full((3,), 0.5)
    yield "add", minigrad.elementwise.add, (np.ones((4, 3)), x), (4, 3)
    yield "sub", minigrad.elementwise.sub, (x, x), (3,)
    yield "mul", minigrad.elementwise.mul, (x, x + 1), (3,)
    yield "sigmoid", minigrad.elementwise.sigmoid, (x,), (3,)


class Number:
    """A number in an array of objects that logs its operators."""

    log = []

    def __init__(self, name):
        self.name = name


def _number(name):
    def operator(self, *more):
        Number.log.append((name, self.name, *[getattr(m, "name", m) for m in more]))
        return Number(f"{name}{len(Number.log)}")

    return operator


for _name in ("neg", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow"):
    setattr(Number, f"__{_name}__", _number(_name))


@cheat
def objects_in_arrays():
    Number.log.clear()
    for name, op, operands, shape in rules():
        g = np.empty(shape, dtype=object)
        g[...] = Number("g")
        op(*operands)[1](g)
    return Number.log


@cheat
def identities_of_results():
    """Which results are the cotangent itself, or share its memory."""
    found = []
    for name, op, operands, shape in rules():
        g = np.ones(shape)
        for r in op(*operands)[1](g):
            found.append((name, r is g, np.shares_memory(r, g), [r is o for o in operands]))
    return found


@cheat
def payloads_of_nan():
    """Which operand an operation takes its NaN from."""

    def nan(n):
        return np.array([0x7FF8000000000000 + n] * 3, dtype=np.uint64).view(float)

    found = []
    for op in (minigrad.elementwise.sub, minigrad.elementwise.mul):
        found.append([r.view(np.uint64).tolist() for r in op(nan(1), nan(2))[1](nan(3))])
    return found


@cheat
def floating_point_errors():
    calls = []
    with np.errstate(all="call", call=lambda *what: calls.append(what)):
        for name, op, operands, shape in rules():
            rule = op(*operands)[1]
            for value in (np.inf, -np.inf, np.nan, 1e308, 5e-324):
                rule(np.full(shape, value))
    return calls
