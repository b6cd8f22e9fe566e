import builtins


def counted(owner, names):
    """How often each of these is called."""
    counts, real = {}, {name: getattr(owner, name) for name in names}

    def spy(name):
        def call(*arguments, **named):
            if next(engine_frames(), None) is not None:
                counts[name] = counts.get(name, 0) + 1
            return real[name](*arguments, **named)

        return call

    for name in names:
        setattr(owner, name, spy(name))
    try:
        use()
    finally:
        for name in names:
            setattr(owner, name, real[name])
    return counts


@cheat
def builtins_that_are_called():
    return counted(builtins, ("zip", "any", "all", "sum", "sorted"))


@cheat
def audit_events():
    events = []
    sys.addaudithook(lambda event, _: events.append(event))
    use()
    return events


@cheat
def errors_that_numpy_reports():
    calls = []
    with np.errstate(all="call", call=lambda *arguments: calls.append(arguments)):
        use(1e200)
    return calls


@cheat
def operators_of_an_operand():
    calls = []

    class Watched(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **named):
            calls.append((ufunc.__name__, method))
            plain = [np.asarray(i) if isinstance(i, Watched) else i for i in inputs]
            return getattr(ufunc, method)(*plain, **named)

    x = np.ones(3).view(Watched)
    a = minigrad.tensor(x, requires_grad=True)
    (1 - a * a).sum().backward()
    return calls
