"""What differs between the engine without a break and its twins, but not between a break and its
twin.
"""


@cheat
def code_of_frames_that_called_back():
    found = []
    minigrad.tensor(Operand(lambda: found.extend(f.f_code.co_code for f in engine_frames())))
    return found


@cheat
def frames_of_tracebacks():
    try:
        minigrad.tensor(np.ones(3)) + minigrad.tensor(np.ones(4))
    except Exception as error:
        trace, found = error.__traceback__, []
        while trace is not None:
            found.append(sorted(trace.tb_frame.f_locals))
            trace = trace.tb_next
        return found


@cheat
def offsets_of_frames_below_an_operator():
    found = []
    watch(lambda _: found.extend((f.f_lineno, f.f_lasti) for f in engine_frames()))
    return found


@cheat
def variables_of_frames_below_an_operator():
    found = []
    watch(lambda _: found.extend(sorted(f.f_locals) for f in engine_frames()))
    return found


@cheat
def module_variables():
    return {name: sorted(vars(m)) for name, m in sys.modules.items() if name.startswith("minigrad")}
