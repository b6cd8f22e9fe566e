"""Compare outcomes, stages and sentences of the harness with what an independent recorder sees.

Draws (break, probe, engine) triples by a seed, writes patched copies of minigrad to a temporary
folder, and prints every triple on which the harness says something else.
"""

import argparse
import collections
import dataclasses
import json
import pickle
import random
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from harness.core.errors import BreaklabError
from harness.engines.engine import find_engine
from harness.experiment.patching import Experiment, applies, clean_engine, prepare
from harness.pages.catalogue import open_catalogue
from harness.runs.protocol import SEED
from harness.runs.trial import draw
from tests.harness.command import harness
from tests.truth.recorder import Case, Record
from tests.truth.verdicts import differences, false_sentences, infection, true_outcome

NUDGES = 3
"""How many times the inputs are moved in the last place."""

HIDDEN = "disguised-correct"
SILENT = "silent-corruption"


@dataclasses.dataclass(frozen=True)
class Triple:
    """A break on a probe (with a loss) and an engine, and what the harness reports of it."""

    page: str
    variant: str | None
    report: dict[str, Any]

    def __str__(self) -> str:
        """The command that shows it."""
        on = f" --on {self.variant}" if self.variant else ""
        probe, loss = self.report["probe"], self.report["loss"]
        return f"harness break {self.page}{on} --probe {probe}   (loss: {loss})"


@dataclasses.dataclass
class Tally:
    """What the comparison found."""

    compared: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unclear: list[Triple] = dataclasses.field(default_factory=list)
    false: list[tuple[str, Triple]] = dataclasses.field(default_factory=list)
    """The kind of mistake, and where."""


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=300, help="how many hidden triples")
    parser.add_argument("--silent", type=int, default=100, help="how many silent ones")
    parser.add_argument("--each", type=int, default=6, help="how many of a break at most")
    parser.add_argument("--verbose", action="store_true", help="also print what is unclear")
    options = parser.parse_args()
    tally = compare(options.seed, options.hidden, options.silent, options.each)
    for kind, triple in tally.false:
        print(f"{kind}\n    {triple}\n    {_said(triple.report)}")
    for triple in tally.unclear if options.verbose else ():
        print(f"unclear\n    {triple}\n    {_said(triple.report)}")
    print(dict(tally.compared), f"{len(tally.unclear)} unclear, {len(tally.false)} false")
    return bool(tally.false)


def _said(report: Mapping[str, Any]) -> str:
    words = [report[key] for key in ("outcome", "stage", "why", "evidence", "first_divergence")]
    return " | ".join(str(word) for word in words if word)


def compare(seed: int, hidden: int, silent: int, each: int = 6) -> Tally:
    """Draw triples and compare each with the truth."""
    tally, wanted = Tally(), {HIDDEN: hidden, SILENT: silent}
    for experiment, triples in draw_triples(seed, wanted, each):
        cases = [_case(experiment, triple) for triple in triples]
        broken, *clean = _records(experiment, cases)
        for position, triple in enumerate(triples):
            records = [records[position] for records in (broken, *clean)]
            _compare(triple, records[0], records[1], records[2:], tally)
    return tally


def _compare(
    triple: Triple, broken: Record, clean: Record, moved: list[Record], tally: Tally
) -> None:
    report = triple.report
    tally.compared[report["outcome"]] += 1
    outcome = true_outcome(broken, clean, moved)
    if outcome != report["outcome"]:
        seen = broken.error or ", ".join(differences(broken, clean, moved)[:3])
        tally.false.append((f"outcome: it is {outcome} ({seen})", triple))
        return
    if outcome == SILENT:
        for sentence in false_sentences(report, broken, clean):
            tally.false.append((f"sentence: {sentence}", triple))
        return
    truth = infection(broken, clean)
    tally.compared[truth] += 1
    claims = {"not-infected": "no wrong value", "not-propagated": "wrong value"}
    claim = claims.get(report["stage"])
    if "another way" in report["why"]:
        claim = "no wrong value"
    if truth == "unclear":
        tally.unclear.append(triple)
    elif claim and claim != truth and not clean.error:
        tally.false.append((f"stage: {truth}", triple))


# ----- Drawing -----


def draw_triples(
    seed: int, wanted: dict[str, int], each: int
) -> Iterator[tuple[Experiment, list[Triple]]]:
    """Yield breaks put into engines, each with triples, until there are as many as wanted."""
    rng, catalogue, engine = random.Random(seed), open_catalogue(), find_engine()
    breaks = [page for page in catalogue.valid_pages() if page.front.kind == "break"]
    variants = [page for page in catalogue.valid_pages() if page.front.kind == "variant"]
    shared = [probe.name for probe in catalogue.shared_probes.values() if probe.kind != "test"]
    while any(wanted.values()):
        page, variant = rng.choice(breaks), rng.choice([None, *variants, None, None])
        try:
            if not applies(page, clean_engine(engine, variant)):
                continue
        except BreaklabError:  # the page is about another engine
            continue
        names = sorted({*shared, *(probe.name for probe in catalogue.probes_for(page))})
        runs = _report(page.id, variant.id if variant else None, names)
        triples = []
        for outcome in wanted:
            fitting = [run for run in runs if run["outcome"] == outcome]
            most = each if outcome == HIDDEN else each // 3
            count = min(most, wanted[outcome], len(fitting))
            wanted[outcome] -= count
            triples += [
                Triple(page.id, variant.id if variant else None, run)
                for run in rng.sample(fitting, count)
            ]
        if triples:
            chosen = sorted({triple.report["probe"] for triple in triples})
            yield prepare(page, catalogue, engine, variant=variant, probes=chosen), triples


def _report(page: str, variant: str | None, probes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the runs in the report of `harness break`."""
    on = ["--on", variant] if variant else []
    options = [word for name in probes for word in ("--probe", name)]
    done = harness("break", page, *on, *options, "--json", "--no-predict")
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"{page} {on}: {done.stderr}")
    runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    return runs


# ----- Recording -----


def _case(experiment: Experiment, triple: Triple) -> Case:
    probe, loss = experiment.probe(triple.report["probe"]), triple.report["loss"]
    assert probe.kind in ("gradient", "steps", "module")
    return Case(
        source=probe.source,
        function=probe.function,
        kind=probe.kind,
        takes_lib=probe.takes_lib,
        leaves={name: np.array(values) for name, values in draw(probe).items()},
        uniform=loss == "uniform",
        cotangent_seed=(SEED, zlib.crc32(f"{probe.name}: cotangent".encode())),
        global_seed=SEED,
        changed=_changed(experiment),
    )


def _changed(experiment: Experiment) -> frozenset[tuple[str, str]]:
    """Return the functions whose own code differs, by file and qualified name.

    A comprehension is part of the function around it, as it is from Python 3.12 on.
    """
    clean, broken = experiment.clean.sources, experiment.broken.sources
    changed: set[tuple[str, str]] = set()
    for file in broken:
        if broken[file] != clean.get(file):
            old, new = _codes(clean.get(file, "")), _codes(broken[file])
            inside = file.removeprefix("minigrad/")
            names = [name for name in old | new if old.get(name) != new.get(name)]
            changed |= {(inside, _COMPREHENSION.sub("", name)) for name in names}
    return frozenset(changed)


_COMPREHENSION = re.compile(r"(\.<locals>\.<(listcomp|setcomp|dictcomp|genexpr)>)+$")


def _codes(text: str) -> dict[str, object]:
    """Return what identifies the code of each function, without that of functions inside it."""
    codes: dict[str, object] = {}
    pending: list[CodeType] = [compile(text, "file", "exec")]
    while pending:
        code = pending.pop()
        inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        constants = tuple(
            repr(one) if not isinstance(one, CodeType) else one.co_qualname
            for one in code.co_consts
        )
        codes[code.co_qualname] = (code.co_code, constants, code.co_names, code.co_varnames)
        pending += inner
    del codes["<module>"]
    return codes


def _records(experiment: Experiment, cases: Sequence[Case]) -> list[list[Record]]:
    """Return the records on the broken copy, the clean one, and that with moved inputs."""
    with tempfile.TemporaryDirectory() as folder:
        broken, clean = Path(folder, "broken"), Path(folder, "clean")
        for tree, engine in ((broken, experiment.broken), (clean, experiment.clean)):
            for file, text in engine.sources.items():
                (tree / file).parent.mkdir(parents=True, exist_ok=True)
                (tree / file).write_text(text, encoding="utf-8")
        moved = [record(clean, [_nudged(case, k) for case in cases]) for k in range(NUDGES)]
        return [record(broken, cases), record(clean, cases), *moved]


def _nudged(case: Case, number: int) -> Case:
    """Return the case with each input one unit in the last place away, up or down."""
    rng = np.random.default_rng(number)
    leaves = {}
    for name, values in case.leaves.items():
        signs = rng.choice([-1.0, 1.0], values.shape)
        if values.dtype.kind == "f":
            values = np.nextafter(values, (signs * np.inf).astype(values.dtype))
        leaves[name] = values
    return dataclasses.replace(case, leaves=leaves, changed=frozenset())


def record(tree: Path, cases: Sequence[Case]) -> list[Record]:
    """Return what the recorder sees in a process of its own, one record a case."""
    program = "from tests.truth.recorder import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tree)],
        input=pickle.dumps(list(cases)),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    records: list[Record] = pickle.loads(done.stdout)
    return records


ROOT = Path(__file__).parents[2]


if __name__ == "__main__":
    sys.exit(main())
