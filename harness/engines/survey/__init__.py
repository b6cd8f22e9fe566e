"""In the child: try an engine that nobody has described, and find out how to speak to it.

Nothing goes by a project's name. How a tensor is made, read, walked back from and asked for its
gradient is whatever gives 2 x for the square of x; an un-broadcasting is whatever sums ones((4, 3))
to (3,); an accumulation style is what the gradient is before and after a second walk.
"""

from harness.engines.survey.explorer import survey
from harness.engines.survey.forms import FUNCTIONAL
from harness.engines.survey.record import STEPS, TRYING, Reducer, Survey, Surveyed

__all__ = ["FUNCTIONAL", "STEPS", "TRYING", "Reducer", "Survey", "Surveyed", "survey"]
