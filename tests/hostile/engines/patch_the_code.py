"""Replaces the code of functions that the child has already imported."""

ENDS = ["any"]


def attack(tensor):
    import harness.core.run
    import harness.runs.child
    import harness.runs.inputs
    import harness.runs.trial
    import harness.sandbox.child
    import harness.sandbox.child

    nothing = (lambda *_, **__: None).__code__
    for function in (
        harness.core.run.pack,
        harness.runs.trial._shared,
        harness.runs.inputs.draw,
        harness.runs.child.encode_or_fail,
        harness.runs.child._Session.step,
        harness.sandbox.child.run_child,
        harness.sandbox.child.serve_steps,
    ):
        function.__code__ = nothing
