"""The bugs that a hunt can hide, and the clues on sale: what each costs, and what it shows.

A hunt hides only bugs whose family can be found with the clues. This is computed from the committed
matrices, which have the verdict of every diagnostic on every break and every shared probe. A bug is
left out if no clue shows it, or if every clue shows the same for a bug of another family.

For a clue that is bought, the hidden bug is run on its probe, beside the correct engine.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from harness.core.errors import UsageError
from harness.core.message import EMPTY, Message
from harness.core.rounding import agree
from harness.core.run import CREATED, Array, Run
from harness.core.vocabulary import Alarm, Declined, Loss, Silent, Verdict
from harness.diagnostics import DIAGNOSTICS, Observation
from harness.diagnostics.crash import CRASH
from harness.diagnostics.trajectory import compare_logs
from harness.experiment.baseline import Baseline, CleanRun
from harness.experiment.patching import Experiment
from harness.matrix.committed import committed_file, read_committed
from harness.matrix.evaluation import size_of
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.probe import Probe
from harness.runs.cache import Cache

LOG, GRADIENTS = "log", "grads"
"""The clues that are not verdicts: the log of a training, and the gradients of a probe, each beside
that of the correct engine."""

SHOWN_BY_A_LOG = ("crash", "trajectory", "loss-falls")
"""The diagnostics whose verdict follows from a log and the correct one."""

DiagnosticOnProbe = tuple[str, str]
"""The names of a probe and a diagnostic."""


@dataclass(frozen=True)
class Clue:
    """Something to buy: the verdict of a diagnostic on a probe, a log, or gradients."""

    kind: str
    """A diagnostic, LOG or GRADIENTS."""
    probe: str
    passes: float
    """The cost in forward passes, for all losses of the probe."""
    shows: frozenset[DiagnosticOnProbe] = frozenset()
    """The verdicts that it shows, as pairs of a probe and a diagnostic; none if it needs a library,
    so that no hunt depends on what is installed."""

    @property
    def name(self) -> str:
        """What to type to buy it."""
        return f"{self.kind}:{self.probe}"


@dataclass(frozen=True)
class Suspect:
    """A bug, and the diagnostics that raise an alarm on it, each with a shared probe."""

    id: str
    family: str
    level: int
    caught: frozenset[DiagnosticOnProbe]
    """Pairs of a probe and a diagnostic."""


@dataclass(frozen=True)
class BugPool:
    """The bugs of a level that can be found, and what can be bought."""

    suspects: tuple[Suspect, ...]
    clues: Mapping[str, Clue]
    """By name."""

    @property
    def digest(self) -> str:
        """A short digest of the pool: in another pool, a seed may choose another bug."""
        facts = sorted((item.id, item.family, sorted(item.caught)) for item in self.suspects)
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]

    def choose(self, seed: int) -> Suspect:
        """Return the bug that the seed chooses."""

        def draw(suspect: Suspect) -> bytes:
            return hashlib.sha256(f"{seed}:{suspect.id}".encode()).digest()

        return min(self.suspects, key=draw)

    def par(self, suspect: Suspect) -> list[Clue]:
        """Return clues whose verdicts no bug of another family in the pool shares.

        Greedy: the next clue is always the one that rules out most of these bugs for its cost.
        Cheaper clues may exist.
        """
        left = {other for other in self.suspects if other.family != suspect.family}

        def ruled_out(clue: Clue) -> set[Suspect]:
            verdicts = suspect.caught & clue.shows
            return {other for other in left if other.caught & clue.shows != verdicts}

        chosen = []
        while left:
            clue = max(self.clues.values(), key=lambda clue: len(ruled_out(clue)) / clue.passes)
            chosen.append(clue)
            left -= ruled_out(clue)
        return chosen


def pool_of(catalogue: Catalogue, level: int) -> BugPool:
    """Return the bugs of a level that can be found.

    Raises PageError for a committed matrix that cannot be read.
    """
    every = all_suspects(catalogue)
    # A diagnostic may be unable to judge a probe: then a verdict that is always the same says no
    # more than none.
    alarms = frozenset[DiagnosticOnProbe]().union(*(suspect.caught for suspect in every))
    clues = {
        name: replace(clue, shows=clue.shows & alarms)
        for name, clue in clues_for(catalogue.shared_probes).items()
    }
    suspects = [suspect for suspect in every if suspect.level == level]
    return BugPool(tuple(solvable(suspects, clues.values())), clues)


def clues_for(probes: Mapping[str, Probe]) -> dict[str, Clue]:
    """Return everything that can be bought, by name.

    The correct engine's log and gradients cost as much as those of the broken one.
    """
    return {clue.name: clue for probe in probes.values() for clue in _clues_on(probe)}


def _clues_on(probe: Probe) -> Iterable[Clue]:
    size = size_of(probe).elements
    for item in DIAGNOSTICS:
        if probe.kind in item.kinds:
            pairs = frozenset() if item.library else frozenset([(probe.name, item.name)])
            yield Clue(item.name, probe.name, item.passes(size) * len(probe.losses), pairs)
    twice = 2 * CRASH.passes(size)
    if probe.refused:  # there is nothing to show beside it
        return
    if probe.kind == "steps":
        shown = frozenset((probe.name, name) for name in SHOWN_BY_A_LOG)
        yield Clue(LOG, probe.name, twice, shown)
    if probe.kind == "gradient":
        yield Clue(GRADIENTS, probe.name, twice)


def all_suspects(catalogue: Catalogue) -> list[Suspect]:
    """Return the breaks of minigrad that are in a committed matrix.

    Raises PageError for a committed matrix that cannot be read.
    """
    tables = (read_committed(committed_file(root, None)) for root in catalogue.roots)
    rows = {name: row for table in tables if table for name, row in table.items()}
    shared = catalogue.shared_probes
    return [
        Suspect(
            id=page.id,
            family=page.front.family,
            level=page.front.level,
            caught=frozenset(
                (probe, name)
                for name, probes in rows[page.id].caught_by.items()
                for probe in probes
                if probe in shared
            ),
        )
        for page in catalogue.pages[0]
        if page.id in rows and isinstance(page.front, Break)
    ]


def solvable(suspects: Iterable[Suspect], clues: Iterable[Clue]) -> list[Suspect]:
    """Return the bugs that some clue shows, and that the clues tell from every other family.

    There are none if all would be of one family.
    """
    readable = frozenset[DiagnosticOnProbe]().union(*(clue.shows for clue in clues))
    families: dict[frozenset[DiagnosticOnProbe], set[str]] = defaultdict(set)
    suspects = list(suspects)
    for suspect in suspects:
        families[suspect.caught & readable].add(suspect.family)
    pool = [
        suspect
        for suspect in suspects
        if (seen := suspect.caught & readable) and len(families[seen]) == 1
    ]
    return pool if len({suspect.family for suspect in pool}) > 1 else []


# ----- Buying a clue -----

RunLog = Sequence[dict[str, Array]]


class Check(msgspec.Struct, frozen=True):
    """The verdict of a diagnostic on one run."""

    loss: Loss | None
    verdict: str
    """`alarm`, `silent`, `declined`, or `false alarm`: the correct engine raises it too."""
    text: Message


class Curve(msgspec.Struct, frozen=True):
    """An entry of a log, beside that of the correct engine."""

    entry: str
    expected: list[float] | None
    """The correct numbers, step by step; None for an array with more than one element."""
    actual: list[float] | None
    differs_from: int | None
    """The first step at which it differs; None if it does not."""
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Its shape at that step and the correct one, if these differ."""


class Gradient(msgspec.Struct, frozen=True):
    """The gradient of a leaf, beside that of the correct engine; None if there is none."""

    leaf: str
    expected: Array | None
    actual: Array | None
    differs: bool


class Evidence(msgspec.Struct, frozen=True):
    """What a clue shows."""

    clue: str
    passes: float
    checks: list[Check] = []
    curves: list[Curve] = []
    gradients: list[Gradient] = []
    loss: Loss | None = None
    """The loss of the gradients."""
    failure: Message = EMPTY
    """How the run of a log or of gradients failed."""


@dataclass(frozen=True)
class HiddenBug:
    """The bug of a hunt, in the engine. Nothing about it is shown before the hunt has ended."""

    suspect: Suspect
    experiment: Experiment
    catalogue: Catalogue
    cache: Cache


def investigate(bug: HiddenBug, clue: Clue) -> Evidence:
    """Return what the clue shows of the bug.

    Raises UsageError if a library is missing.
    """
    probe = bug.catalogue.shared_probes[clue.probe]
    chosen = [item for item in DIAGNOSTICS if item.name == clue.kind]
    baseline = Baseline(bug.cache, chosen)
    for reason in baseline.missing().values():
        raise UsageError(reason, "buy another clue; no hunt needs this library")
    clean = baseline.clean(bug.experiment.clean, [probe])
    runs = baseline.broken(bug.experiment.clean, bug.experiment.broken, [probe])
    if clue.kind in (LOG, GRADIENTS):
        correct = clean[probe.name, probe.losses[-1]].run
        run = runs[-1] if runs[-1].reached or runs[-1].failure else correct  # it ends as that one
        return Evidence(
            clue.name,
            clue.passes,
            curves=_curves(run, correct) if clue.kind == LOG else [],
            gradients=_gradients(run, correct) if clue.kind == GRADIENTS else [],
            loss=correct.loss,
            failure=run.failure.sentence if run.failure else EMPTY,
        )
    checks = [_check(baseline, probe, clean[run.probe, run.loss], run, clue) for run in runs]
    return Evidence(clue.name, clue.passes, checks=checks)


# ----- Verdicts -----


def _check(baseline: Baseline, probe: Probe, clean: CleanRun, run: Run, clue: Clue) -> Check:
    """Return the verdict on a broken run; one that never reaches the bug ends as the clean one."""
    verdict = clean.verdicts[clue.kind]
    if run.reached or run.failure:
        observation = Observation(probe, run, clean.oracles)
        both = baseline.verdicts_beside(clean, observation)
        verdict = both[clue.kind]
    return Check(run.loss, *_in_words(verdict, clean.verdicts[clue.kind]))


def _in_words(verdict: Verdict, clean: Verdict) -> tuple[str, Message]:
    match verdict:
        case Alarm(message=text):
            return ("false alarm" if isinstance(clean, Alarm) else "alarm"), text
        case Silent():
            return "silent", EMPTY
        case Declined(reason=reason):
            return "declined", reason
    return "declined", verdict.reason


# ----- Pictures -----


def _curves(run: Run, correct: Run) -> list[Curve]:
    """Return the log beside the correct one."""
    names = dict.fromkeys(name for snapshot in (*correct.log, *run.log) for name in snapshot)
    return [_curve(name, run.log, correct.log) for name in names]


def _curve(name: str, actual: RunLog, expected: RunLog) -> Curve:
    step = _first_difference(_only(name, actual), _only(name, expected))
    shapes = None
    if step is not None and step < min(len(actual), len(expected)):
        both = actual[step].get(name), expected[step].get(name)
        if both[0] and both[1] and both[0].shape != both[1].shape:
            shapes = both[0].shape, both[1].shape
    return Curve(name, _numbers(name, expected), _numbers(name, actual), step, shapes)


def _only(name: str, log: RunLog) -> RunLog:
    return [{name: snapshot[name]} if name in snapshot else {} for snapshot in log]


def _numbers(name: str, log: RunLog) -> list[float] | None:
    arrays = [snapshot[name].numpy() for snapshot in log if name in snapshot]
    if any(array.size != 1 for array in arrays):
        return None
    return [float(array.item()) for array in arrays]


def _first_difference(actual: RunLog, expected: RunLog) -> int | None:
    """Return the first step at which a log differs from the correct one by more than rounding."""
    if not _differ(actual, expected):
        return None
    steps = range(min(len(actual), len(expected)))
    return next(
        (k for k in steps if _differ(actual[: k + 1], expected[: k + 1])),
        len(steps),
    )


def _differ(actual: RunLog, expected: RunLog) -> bool:
    return isinstance(compare_logs(actual, expected), Alarm)


def _gradients(run: Run, correct: Run) -> list[Gradient]:
    """Return the gradients beside the correct ones; none if the run failed."""
    gradients = []
    for leaf in () if run.failure else correct.leaves:
        expected, actual = correct.gradients.get(leaf), run.gradients.get(leaf)
        if CREATED.fullmatch(leaf) and expected == actual:
            continue
        gradients.append(Gradient(leaf, expected, actual, _are_different(actual, expected)))
    return gradients


def _are_different(actual: Array | None, expected: Array | None) -> bool:
    if actual is None or expected is None:
        return actual is not expected
    return not agree(actual.numpy(), expected.numpy())
