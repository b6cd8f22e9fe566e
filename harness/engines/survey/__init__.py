"""Finding out, in the child process, how to call an engine that has no settings.

Everything is decided by behaviour, not by a project's name. The expressions for making a tensor,
reading it, running the backward pass and reading the gradient are those that give 2 x for the
square of x; an un-broadcasting function is one that sums ones((4, 3)) to (3,); the accumulation
style is how a second backward pass changes a gradient.

The records are here; `explorer` has the survey itself, which only a child process imports.
"""

from harness.engines.survey.record import ATTEMPT_MARKER, STEPS, Reducer, Survey, SurveyStep

__all__ = ["ATTEMPT_MARKER", "STEPS", "Reducer", "Survey", "SurveyStep"]
