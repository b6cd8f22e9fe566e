"""What the doctor says of a copy of minigrad, under another name, that has one of our breaks.

`python -m tests.engines.copy_table [--seed N] [--of N] [FIRST LAST]` draws breaks and prints, for
each, whether the findings name it, are only there, or are none. Only the probes of its page are
run, and only the breaks drawn are compared: the doctor runs all of them. With `--clean`, all probes
are run on a copy without a break, and those that are not right are printed.
"""

import argparse
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

from harness.doctor.defects import find_defects
from harness.doctor.diagnosis import called_as_minigrad, own_probes
from harness.engines.engine import Dialect, Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.experiment.patching import put
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE, bundled_pages, part_of_catalogue
from tests.harness.engines.texts import written

ADAPTED = Dialect("copied", leaf="Tensor(data, requires_grad=True)", kind="arrays")
"""How the survey calls a copy."""


def copy(folder: Path, break_: str | None = None) -> Engine:
    """Return minigrad as an engine called `copied`, with or without a break."""
    ours = find_engine()
    sources = put(CATALOGUE.page(break_), ours).sources if break_ else ours.sources
    renamed = {
        re.sub("^minigrad/", "copied/", file): re.sub(r"\bminigrad\b", "copied", text)
        for file, text in sources.items()
    }
    for file, text in renamed.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        written(folder, text, file)
    return called_as_minigrad(Engine("copied", ADAPTED, folder, renamed, foreign=True))


def result(break_: str, among: Catalogue, baseline: Baseline) -> tuple[str, str]:
    """Return what is found of a break, and the probes that show it."""
    with tempfile.TemporaryDirectory() as folder:
        engine, probes = copy(Path(folder), break_), CATALOGUE.probes_for(CATALOGUE.page(break_))
        fits = fit(engine, probes, baseline)
        defects = find_defects(engine, probes, fits, among, baseline)
    bugs = ", ".join(name for name, item in fits.items() if item.verdict == "bug")
    named = {alike.break_ for defect in defects for alike in defect.alike}
    return "named" if break_ in named else "found" if bugs else "nothing", bugs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--of", type=int, default=24)
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("slice", type=int, nargs="*", metavar="FIRST LAST")
    options = parser.parse_args()
    if len(options.slice) not in (0, 2):
        parser.error("give both FIRST and LAST, or neither")
    baseline = Baseline(open_cache(), diagnostics=())
    if options.clean:
        probes = [*CATALOGUE.shared_probes.values(), *own_probes(CATALOGUE, None)]
        with tempfile.TemporaryDirectory() as folder:
            fits = fit(copy(Path(folder)), probes, baseline)
        print(*(item for item in fits.values() if item.verdict != "fits"), sep="\n")
        return
    breaks = [page.id for page in bundled_pages() if isinstance(page.front, Break)]
    drawn = random.Random(options.seed).sample(breaks, options.of)
    first, last = options.slice or (1, options.of)
    counts = Counter[str]()
    for number, name in enumerate(drawn[first - 1 : last], first):
        said, bugs = result(name, part_of_catalogue(drawn), baseline)
        counts[said] += 1
        print(f"{number:4} {said:8} {name}: {bugs}", flush=True)
    print(", ".join(f"{count} {said}" for said, count in counts.most_common()))


if __name__ == "__main__":
    main()
