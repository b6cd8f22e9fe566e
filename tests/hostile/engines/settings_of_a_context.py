"""Changes a context variable, as engines do that stop recording."""

ENDS = [None]


from contextvars import ContextVar

recording = ContextVar("recording", default=True)


def attack(tensor):
    recording.set(False)
