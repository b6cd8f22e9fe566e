import builtins
from collections import Counter


@cheat
def builtins_that_are_called():
    return dict(Counter(spied(builtins, ("zip", "any", "all", "sum", "sorted"))))


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
