"""Prints answers to predictions, drawn by a seed, for someone to read: is each true here?

    python -m tests.reasons [SEED] [PAGES] [ANSWERS]

They are about pages of levels 1 and 2. At the end, it counts the answers that have no reason of
their own on this input.
"""

import random
import sys

from harness.core.message import Kind
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.pages.front_matter import Break
from harness.report.language import ENGLISH
from harness.report.view import reason_here
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE, bundled_pages

CANNED = {Kind.HIDDEN, Kind.ANOTHER_WAY, Kind.NOTHING_WRONG, Kind.WRONG_INSIDE, Kind.NOTHING}
"""The reasons of right results that could stand below any input."""


def main(seed: int = 0, pages: int = 30, answers: int = 100) -> None:
    """Print the answers."""
    drawn = random.Random(seed)
    breaks = [p for p in bundled_pages() if isinstance(p.front, Break) and p.front.level < 3]
    baseline, found = Baseline(open_cache(), ()), []
    for page in drawn.sample(breaks, pages):
        experiment = prepare(page, CATALOGUE, find_engine())
        report = run_lab(experiment, baseline, causes=True)
        probes = {probe.name: probe for probe in experiment.probes}
        for run in report.runs:
            probe = probes[run.probe]
            formula = "" if probe.takes_lib else probe.formula
            reason = reason_here(run, report, ENGLISH, formula)
            shown = f"{page.id} · {run.probe} · {run.loss}: {run.outcome}\n    {reason}"
            asked = any(q.probe == run.probe and q.because for q in report.questions)
            canned = not (run.because or asked) and run.reason.kind in CANNED
            found.append((shown, canned))
    for text, _ in drawn.sample(found, min(answers, len(found))):
        print(text)
    print(f"{sum(canned for _, canned in found)} of {len(found)} have no reason of their own")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
