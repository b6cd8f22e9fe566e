import gc
import marshal
import signal


def reachable():
    """What the frames of the harness refer to, some steps deep."""
    pending = [value for frame in stack() for value in frame.f_locals.values()]
    for _ in range(3):
        found = []
        for item in pending:
            yield item
            if isinstance(item, dict):
                found += list(item.values())
            elif isinstance(item, list | tuple | set):
                found += list(item)
            else:
                found += list(getattr(item, "__dict__", {}).values())
                found += [getattr(item, n, None) for n in getattr(item, "__struct_fields__", ())]
        pending = found[:20000]


@cheat
def code_in_the_frames_of_the_harness():
    for item in reachable():
        if type(item) is bytes and len(item) > 1000:
            try:
                marshal.loads(item)
            except Exception:
                continue
            return False
    return True


@cheat
def the_frame_of_the_keeper():
    return own_suite().keeper.gi_frame


@cheat
def code_that_the_keeper_gives():
    suite = own_suite()
    return [suite.keeper.send(("code", file, {})) for file in suite.finder.loaders]


@cheat
def a_second_loader():
    suite = own_suite()
    frames = dict.fromkeys(suite.finder.loaders, sys._getframe())
    suite.keeper.send(("loaders", frames))
    return [suite.keeper.send(("code", file, {})) for file in suite.finder.loaders]


@cheat
def recording_that_is_allowed():
    own_suite().keeper.send(("record",))
    return [f.__code__.co_code for f in functions().values()]


@cheat
def the_object_behind_settrace():
    return sys.settrace.__self__.gi_frame


FRAMES = []
gc.callbacks.append(lambda phase, _: phase == "start" and FRAMES.append(sys._getframe(1)))


@cheat
def a_callback_of_the_collector():
    gc.set_threshold(1)
    found = {name for frame in FRAMES for name in frame.f_locals}
    FRAMES.clear()
    return found & {"pairs", "codes", "visible", "stream"}


CAUGHT = []


def handler(_, frame):
    CAUGHT.append(frame)


@cheat
def a_signal_during_the_replacement():
    signal.signal(signal.SIGVTALRM, handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0001, 0.0001)
    use()
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    for caught in CAUGHT:
        frame = caught
        while frame is not None:
            assert "pairs" not in frame.f_locals
            frame = frame.f_back
    CAUGHT.clear()
    return True
