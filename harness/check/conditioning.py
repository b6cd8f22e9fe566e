"""The check that rounding does not decide the results of a page's probes.

If it did, a correct rewrite of the engine could be called wrong, or a bug right.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.finding import Finding
from harness.core.message import Message, message
from harness.experiment.context import Context
from harness.pages.front_matter import ProbedFront
from harness.pages.page import Page

KEY = "ill_conditioned"
"""The table of the front matter in which a page states such probes, each with a reason."""


def check_conditioning(page: Page, context: Context) -> Iterator[Finding]:
    """Yield the ill-conditioned probes that the page does not state, and those it need not state.

    Raises EnvironmentProblem if the engine does not load.
    """
    for probe, reason in unstated(page, context).items():
        problem = f"the probe `{probe}` is {reason}"
        remedy = "choose other inputs, or another optimizer: nothing should divide by "
        remedy += "a number that is 0 up "
        remedy += "to rounding, or subtract nearly equal numbers; if the page is about rounding, "
        remedy += f'write `{KEY} = {{ {probe} = "the reason" }}`'
        yield Finding(page.path, page.line_of("expect", probe), problem, remedy)
    stated, found = _stated(page), _found(page, context)
    own = {probe.name for probe in page.probes}
    for probe in sorted(stated.keys() - found.keys()):
        problem = f"says that `{probe}` is ill-conditioned, "
        problem += "but it is not" if probe in own else "which is not a probe of the page"
        yield Finding(page.path, page.line_of(KEY, probe), problem, f"remove it from `{KEY}`")


def unstated(page: Page, context: Context) -> dict[str, Message]:
    """Return the ill-conditioned probes that the page does not state, with the reasons.

    Raises EnvironmentProblem if the engine does not load.
    """
    stated = _stated(page)
    return {
        probe: message("ill-conditioned: {reason}", reason=reason)
        for probe, reason in _found(page, context).items()
        if probe not in stated
    }


def _stated(page: Page) -> dict[str, str]:
    return page.front.ill_conditioned if isinstance(page.front, ProbedFront) else {}


def _found(page: Page, context: Context) -> dict[str, Message]:
    if not page.probes:
        return {}
    return context.baseline.ill_conditioned(context.engine, page.probes)
