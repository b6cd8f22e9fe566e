"""What the suite can send to the keeper, and what can interrupt it."""

import signal
import threading
import time
import types

SECRETS = "key", "codes", "current", "loading", "control", "pairs"


def secrets(frame):
    """The names of secrets in the variables of a frame and its callers, up to the suite."""
    found = []
    for caller in stack(frame):
        if caller.f_globals is globals():
            break
        found += [name for name in SECRETS if caller.f_locals.get(name) is not None]
    return found


def callers():
    """Secrets in the variables of the frames that have called this function."""
    LOOKED.append(secrets(sys._getframe(2)))


LOOKED = []


def answered(message):
    LOOKED.clear()
    if RECORDED:  # the keeper would end the recording
        return False
    try:
        own_suite().keeper.send(message)
    except Exception:
        pass
    return any(LOOKED)


@cheat
def a_message_that_is_iterated():
    class Message:
        def __iter__(self):
            callers()
            return iter(("refused",))

    return answered(Message())


@cheat
def a_request_that_is_compared():
    class Request:
        def __eq__(self, other):
            callers()
            return False

    return answered((Request(),))


@cheat
def a_sealed_text_that_is_cut():
    class Text:
        def __getitem__(self, index):
            callers()
            return b""

    return answered(("swap", Text()))


@cheat
def a_list_of_calls_that_is_iterated():
    class Calls:
        def __iter__(self):
            callers()
            return iter(())

    return answered(("collected", Calls()))


@cheat
def a_file_that_is_hashed():
    class File(str):
        def __hash__(self):
            callers()
            return 1

    return answered(("code", File("x"), {}))


@cheat
def code_with_a_name_that_is_hashed():
    class Name(str):
        def __hash__(self):
            callers()
            return 1

    code = use.__code__.replace(co_filename=Name(minigrad.__file__))
    keep = types.FunctionType(code, {})
    return answered(("collected", [])) and keep is not None


@cheat
def code_of_a_call_that_is_hashed():
    class Constant:
        def __hash__(self):
            callers()
            return 1

    return answered(("collected", [use.__code__.replace(co_consts=(Constant(),))]))


@cheat
def code_of_an_engines_function_that_is_hashed():
    class Constant:
        def __hash__(self):
            callers()
            return 1

    code = use.__code__.replace(co_consts=(Constant(),), co_filename=minigrad.elementwise.__file__)
    keep = types.FunctionType(code, minigrad.elementwise.__dict__)
    return answered(("collected", [])) and keep is not None


@cheat
def a_finalizer_of_a_message():
    class Last:
        def __del__(self):
            callers()

    class Message(list):
        def __iter__(self):
            last, self[:] = list(self), []
            return iter(("refused", *last))

    return answered(Message([Last()]))


def interrupted(prepare, times):
    """Whether something sees secrets while the keeper works; `prepare` returns how to end that."""
    found = []
    end = prepare(own_suite().keeper, found)
    for _ in range(times):
        own_suite().keeper.send(("code", "x", {}))
    end()
    return any(found)


def in_a_thread(work):
    done = []

    def repeat():
        while not done:
            work()

    def end():
        done.append(True)
        thread.join()

    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=repeat)
    thread.start()
    return end


@cheat
def a_thread_while_the_keeper_works():
    def prepare(keeper, found):
        def look():
            try:
                found.append(keeper.gi_frame)
            except TypeError:
                pass

        return in_a_thread(look)

    return interrupted(prepare, 500)


def note_interruptions(number, found):
    signal.signal(number, lambda _, frame: found.append(secrets(frame)))


@cheat
def a_signal_that_another_thread_receives():
    def prepare(_, found):
        note_interruptions(signal.SIGUSR1, found)
        return in_a_thread(lambda: (signal.raise_signal(signal.SIGUSR1), time.sleep(0)))

    return interrupted(prepare, 500)


@cheat
def a_timer_that_interrupts_the_keeper():
    def prepare(_, found):
        note_interruptions(signal.SIGVTALRM, found)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0001, 0.00003)
        return lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    return interrupted(prepare, 3000)
