"""What the doctor says of a learner's engine that has one of our breaks.

`python -m tests.engines.doctor_table [--seed N] [--of N] [FIRST LAST]` draws breaks in the small
engines, as many as `--of` says, and runs the doctor on those numbered FIRST to LAST. For each it
prints whether the short report names the break; or one that gives the same numbers on every probe
that the engine can run; or only that something looks wrong; or nothing that it does not say of the
engine without the break.

On 2026-11-28, of the first 112 drawn by seed 1, the report named the break in 106, found something
wrong in 4 (85, 89, 109; and 75, in the function that has the bug), and said nothing of 2: in 8, a
second pass replaces gradients, as some engines do on purpose; in 108, a ReLU is wrong only where
the cotangent is negative, and the engine stores matrices only, for which no probe has a ReLU.
"""

import argparse
import tempfile
from collections import Counter
from functools import cache
from io import StringIO
from pathlib import Path

from harness.core.errors import BreaklabError
from harness.doctor.diagnosis import Diagnosis, diagnose
from harness.doctor.matching import same_result
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.patching import clean_engine, put
from harness.report.doctor import show_diagnosis
from harness.report.terminal import WIDTH, Screen
from harness.runs.cache import open_cache
from tests.engines.loading_table import ENGINES, BrokenEngine, clean, drawn, settings_beside
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.texts import written

BASELINE = Baseline(open_cache())


def diagnosed(sources: dict[str, str], file: str) -> Diagnosis:
    """Return the diagnosis of an engine."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources.items():
            written(Path(folder), text, name)
        return diagnose(str(Path(folder) / file), CATALOGUE, BASELINE)


@cache
def bugs_of(engine: str) -> frozenset[tuple[str, str]]:
    """Return the bugs that an engine has without a break."""
    own, file = clean(engine)
    return _bugs(diagnosed(dict(own.sources) | settings_beside(engine), file))


def _bugs(diagnosis: Diagnosis) -> frozenset[tuple[str, str]]:
    return frozenset((item.probe, str(item.reason)) for item in diagnosis.bugs)


def short_report(diagnosis: Diagnosis) -> str:
    """Return what `harness doctor` prints."""
    text = StringIO()
    show_diagnosis(Screen(file=text, width=WIDTH), diagnosis, "engine.py")
    return text.getvalue()


def result(broken: BrokenEngine) -> tuple[str, str]:
    """Return what the report says of a break, and its findings."""
    try:
        diagnosis = diagnosed(broken.sources, broken.file)
    except BreaklabError as error:
        return "refused", str(error)
    report = " ".join(short_report(diagnosis).split())
    findings = "; ".join(
        f"{item.feature.op or item.feature.detail if item.feature else item.probe}"
        f" ({item.probe}) {', '.join(alike.break_ for alike in item.alike) or '-'}"
        for item in diagnosis.defects
    )
    named = [
        item.break_
        for defect in diagnosis.defects
        for item in defect.alike
        if f"`{item.break_}`" in report
    ] + [name for name in diagnosis.alike if f"`{name}`" in report]
    if broken.page in named:
        return "named", findings
    judged = {
        item.probe
        for item in (*diagnosis.probes, *diagnosis.own)
        if item.verdict in ("fits", "bug")
    }
    like = clean(broken.engine)[0].like
    if any(_same_outcomes(broken.page, name, judged, like) for name in dict.fromkeys(named)):
        return "same outcomes", findings
    if new := _bugs(diagnosis) - bugs_of(broken.engine):
        return "found", f"{findings}  [{', '.join(sorted(probe for probe, _ in new)[:8])}]"
    return "nothing", findings


def _same_outcomes(one: str, other: str, judged: set[str], like: str | None) -> bool:
    """Whether two breaks give the same numbers in minigrad on all of these probes."""
    own = clean_engine(find_engine(), CATALOGUE.page(like, "variant") if like else None)
    names = [name for name in CATALOGUE.shared_probes if name in judged]
    probes = [CATALOGUE.shared_probes[name] for name in names]
    try:
        runs, others = (BASELINE.broken(own, _with(page, own), probes) for page in (one, other))
    except BreaklabError:
        return False
    return all(same_result(a, b) for a, b in zip(runs, others, strict=True))


def _with(page: str, engine: Engine) -> Engine:
    return engine.patched(put(CATALOGUE.page(page, "break"), engine))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", type=int, default=150)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("slice", type=int, nargs="*", metavar="FIRST LAST")
    options = parser.parse_args()
    if len(options.slice) not in (0, 2):
        parser.error("give both FIRST and LAST, or neither")
    first, last = options.slice or (1, options.of)
    chosen = drawn(options.of, options.engine or ENGINES, options.seed)
    counts = Counter[str]()
    for number, broken in enumerate(chosen[first - 1 : last], first):
        said, findings = result(broken)
        counts[said] += 1
        print(f"{number:4} {said:14} {broken.engine:14} {broken.page}: {findings}", flush=True)
    print(", ".join(f"{count} {said}" for said, count in counts.most_common()))


if __name__ == "__main__":
    main()
