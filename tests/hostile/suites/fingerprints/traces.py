import faulthandler
import importlib
import tempfile
import threading
import tracemalloc
import warnings


def traced(install):
    events = []

    def note(frame, event, argument):
        if frame.f_globals["__name__"] != __name__:
            events.append((event, frame.f_lineno, getattr(argument, "__name__", "")))
        return note

    install(note)
    try:
        use()
    finally:
        install(None)
    return events


@cheat
def lines_that_run():
    return traced(sys.settrace)


@cheat
def calls_of_functions():
    return traced(sys.setprofile)


@cheat
def calls_in_a_thread():
    events = []
    threading.setprofile(lambda frame, event, argument: events.append((event, frame.f_lineno)))
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    threading.setprofile(None)
    return [event for event in events if event[0] == "c_call"]


@cheat
def sys_loaded_again():
    importlib.reload(sys)
    return traced(sys.settrace)


@cheat
def opcodes_of_a_frame_that_called_back():
    events = []

    def note(frame, event, argument):
        events.append((event, frame.f_lasti))
        return note

    def then():
        for frame in engine_frames():
            frame.f_trace, frame.f_trace_opcodes = note, True

    sys.settrace(lambda *_: None)
    try:
        minigrad.tensor(Operand(then)) * 2.0
    finally:
        sys.settrace(None)
    return events


@cheat
def frames_that_called_back():
    found = []
    minigrad.tensor(
        Operand(
            lambda: found.extend(
                (f.f_lineno, f.f_lasti, sorted(f.f_locals)) for f in engine_frames()
            )
        )
    )
    return found


@cheat
def lines_of_tracebacks():
    shapes = ((np.ones(3), np.ones(4)), (np.ones((2, 3)), np.ones((4, 2))))
    return [entry.tb_lineno for a, b in shapes for entry in entries_of_errors(a, b)]


@cheat
def offsets_of_tracebacks():
    return [entry.tb_lasti for entry in entries_of_errors(np.ones(3), np.ones(4))]


@cheat
def messages_of_exceptions():
    found = []
    for op in ("__add__", "__sub__", "__mul__", "__matmul__"):
        for other in (np.ones(4), "text", None, 1j):
            try:
                getattr(minigrad.tensor(np.ones(3)), op)(other)
            except Exception as error:
                found.append((type(error).__name__, str(error)))
    return found


@cheat
def lines_of_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(np.inf)
        use(-1e300)
    return [(warning.lineno, str(warning.message)) for warning in caught]


@cheat
def a_dump_of_the_stack():
    with tempfile.TemporaryFile() as file:
        minigrad.tensor(Operand(lambda: faulthandler.dump_traceback(file)))
        file.seek(0)
        return [line for line in file.read().split(b"\n") if b"minigrad" in line]


@cheat
def lines_that_allocate():
    use()
    tracemalloc.start()
    try:
        use()
        statistics = tracemalloc.take_snapshot().statistics("lineno")
    finally:
        tracemalloc.stop()
    return sorted(
        (s.traceback[0].filename, s.traceback[0].lineno)
        for s in statistics
        if "minigrad" in s.traceback[0].filename
    )
