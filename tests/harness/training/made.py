"""Recipes and pages small enough to be read, for the tests of what runs them."""

from pathlib import Path

from harness.engines.engine import find_engine
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.runs.cache import open_cache
from harness.training.comparison import MetricReport, TrainingReport
from harness.training.lab import run_training
from harness.training.recipe import TrainingExperiment, prepare_training

NOISE = '''\
import numpy as np


def noise(lib, seed=0):
    """No training at all: numbers around which a break can be built."""
    rng = np.random.default_rng(seed)
    shift, divisor, entries = 0.0, 1.0, 2
    for _ in range(entries):
        draw = rng.standard_normal() + shift
        yield {"loss": draw / divisor, "accuracy": draw / divisor, "steps": 7}
    yield {"deployed_loss": rng.standard_normal()}
'''

PAGE = """\
+++
id      = "{id}"
kind    = "break"
family  = "training"
recipe  = "{recipe}"
level   = 3
sources = ["std"]
no_invariant = "Those who test it write their own."

[expect]
{expect}
+++
# A break of a training

## Hypothesis

Predict the loss: above 1, or below?

## The break

```diff
{diff}
```

## What happens

It moves.

## Diagnostic

Look at the loss.

## Lesson

Train more than once.

## References

- None.
"""

SHIFT = (
    "@@ noise @@\n-shift, divisor, entries = 0.0, 1.0, 2\n+shift, divisor, entries = 3.0, 1.0, 2"
)
UP = 'loss = "higher"\naccuracy = "higher"\nsteps = "same"'


def instead(code: str) -> str:
    """The patch that draws in this way."""
    return f"@@ noise @@\n-rng.standard_normal() + shift\n+{code}"


def write_page(
    folder: Path,
    diff: str = SHIFT,
    expect: str = UP,
    *,
    recipe: str = "noise",
    text: str = NOISE,
    page_id: str = "moved",
) -> Catalogue:
    """A folder with one page and one recipe, opened with the bundled pages behind it."""
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "recipes" / "noise.py").write_text(text, encoding="utf-8")
    page = PAGE.format(id=page_id, recipe=recipe, expect=expect, diff=diff)
    (folder / f"{page_id}.md").write_text(page, encoding="utf-8")
    return open_catalogue([folder])


def experiment(catalogue: Catalogue, page_id: str = "moved") -> TrainingExperiment:
    return prepare_training(catalogue.page(page_id), catalogue, find_engine())


def report_on(catalogue: Catalogue, seeds: range = range(20)) -> TrainingReport:
    return run_training(experiment(catalogue), open_cache(), seeds)


def metric(report: TrainingReport, name: str) -> MetricReport:
    return next(one for one in report.metrics if one.metric == name)
