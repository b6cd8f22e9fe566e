"""A break of an engine that refuses a probe: what the report says about each way to end."""

from pathlib import Path

import pytest

from harness.core.report import RunReport
from harness.diagnostics import DIAGNOSTICS
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import open_cache

PAGE = '''\
+++
id = "a"
kind = "break"
family = "f"
+++
# A title

## The break

```diff
@@ mse @@
{diff}
```

## Probes

```python
import numpy as np


def refuse_column(lib, p=[[0.0], [1.0]]):
    """A column of predictions, a row of targets."""
    return lib.losses.mse(p, lib.tensor(np.arange(2.0)))


def refuse_both(lib, p=[[0.0], [1.0]]):
    """A column of predictions, a longer row of targets: the reduction is wrong, too."""
    return lib.losses.mse(p, lib.tensor(np.arange(2.0)), reduction="none")


def row(lib, p=[0.0, 1.0]):
    """A row of both."""
    return lib.losses.mse(p, lib.tensor(np.arange(2.0)))
```
'''
CHECK = "-if prediction.shape != target.shape:\n-    raise ValueError($message)\n"
RAISE = "+if prediction.shape != target.shape:\n+    "
ACCEPT = ""
OTHER_TYPE = f"{RAISE}1 / 0\n"
SAME_PLACE = f"+prediction = prediction * 1.0\n{CHECK.replace('-', ' ')}"


def reports(folder: Path, diff: str) -> dict[str, RunReport]:
    (folder / "a.md").write_text(PAGE.format(diff=diff), encoding="utf-8")
    catalogue = open_catalogue([folder])
    names = ("refuse-column", "refuse-both", "row")
    experiment = prepare(catalogue.page("a"), catalogue, find_engine(), probes=names)
    diagnostics = [item for item in DIAGNOSTICS if item.name in ("guard", "crash")]
    report = run_lab(experiment, Baseline(open_cache(), diagnostics))
    return {run.probe: run for run in report.runs}


@pytest.mark.parametrize(
    ("diff", "outcome", "kind", "caught", "missed", "why"),
    [
        (CHECK, "silent-corruption", "guard-lost", ["guard"], ["crash"], "noticed by guard"),
        (
            *(CHECK + OTHER_TYPE, "crash", None, [], ["guard"]),
            "wrong, but no check that was run noticed it",
        ),
        (
            *(SAME_PLACE, "disguised-correct", "refused", [], []),
            "it ran, and the same statement refuses this input",
        ),
    ],
)
def test_the_report_agrees_with_itself(
    tmp_path: Path,
    diff: str,
    outcome: str,
    kind: str | None,
    caught: list[str],
    missed: list[str],
    why: str,
) -> None:
    run = reports(tmp_path, diff)["refuse-column"]
    assert (run.outcome, run.kind, run.caught_by, run.missed_by) == (outcome, kind, caught, missed)
    assert str(run.why) == why
    assert str(run.reason) == str(run.evidence)


def test_another_statement_refuses_for_another_reason(tmp_path: Path) -> None:
    """Without the check of shapes, the check of the reduction raises the same type."""
    run = reports(tmp_path, CHECK)["refuse-both"]
    assert (run.outcome, run.kind, run.stage) == (
        *("disguised-correct", "refused-elsewhere"),
        "not-propagated",
    )
    assert str(run.evidence).startswith("refused, for another reason: ValueError in the forward")
    assert "no reduction 'none'" in str(run.evidence)
    assert "the prediction has shape (2, 1)" in str(run.evidence)


def test_a_lost_check_had_nothing_to_refuse_elsewhere(tmp_path: Path) -> None:
    run = reports(tmp_path, CHECK)["row"]
    assert (run.outcome, run.kind, run.stage) == ("disguised-correct", None, "not-infected")
    assert str(run.reason) == "it ran, but there was nothing to refuse here"
