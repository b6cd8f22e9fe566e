"""Replaces the code of functions that the child has already imported."""

ENDS = ["any"]


def attack(tensor):
    import harness.core.run
    import harness.runs.job
    import harness.runs.observer
    import harness.runs.protocol
    import harness.runs.trial
    import harness.sandbox.child

    nothing = (lambda *_, **__: None).__code__
    for function in (
        harness.core.run.pack,
        harness.runs.observer._shared,
        harness.runs.trial.draw,
        harness.runs.protocol.encode_or_fail,
        harness.runs.job._Session.step,
        harness.sandbox.child.run_child,
        harness.sandbox.child.serve_steps,
    ):
        function.__code__ = nothing
