"""The whole lab in one function: a page and an engine in, a report out.

Everything that shows a report (terminal, JSON) and everything that asks for one (command line,
tests) is a thin face of `run_lab`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import libcst as cst
import msgspec

from harness.answer_key.divergence import first_divergence
from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.margin import margin
from harness.answer_key.outcome import Judgement, judge
from harness.answer_key.stage import stage_of
from harness.core.errors import BreaklabError, PageError, UsageError
from harness.core.message import Message, message
from harness.core.report import EngineReport, Report, RunReport, SiteReport
from harness.core.run import Array, Run, TraceStep
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.core.vocabulary import Loss, Outcome, headline
from harness.diagnostics import Observation
from harness.engines.engine import Engine
from harness.experiment.baseline import Bench, Clean, Pair
from harness.experiment.blocks import apply_first, patches
from harness.experiment.claims import hold_claims
from harness.experiment.conformance import fit, usable
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import PatchFront, ProbedFront
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.patch import Patched, apply_transformer
from harness.runs.store import open_store


@dataclass(frozen=True)
class Experiment:
    """A page's patch put into an engine, ready to be run."""

    page: Page
    variant: str | None
    clean: Engine
    broken: Engine
    diff: str
    probes: tuple[Probe, ...]
    left_out: Mapping[str, Message] | None = None
    """Probes that a foreign engine cannot be judged by, and why; None before it was tried."""

    @cached_property
    def _by_name(self) -> dict[str, Probe]:
        return {probe.name: probe for probe in self.probes}

    def probe(self, name: str) -> Probe:
        """The probe of that name."""
        return self._by_name[name]

    @property
    def engine(self) -> EngineReport:
        """Which engine it is, for reports."""
        return EngineReport(self.clean.name, self.variant, self.clean.foreign, self.clean.like)

    def expected(self, probe: str, loss: Loss | None) -> Outcome | None:
        """What the page says; on a foreign engine, of one that adds gradients up as that does."""
        return self.page.expected(self.variant or self.clean.like, probe, loss)

    @property
    def unpatched(self) -> Engine:
        """The clean engine, with the places that the patch changes as its sites."""
        sites = tuple(site.undone() for site in self.broken.sites)
        return replace(self.clean, sites=sites)

    @property
    def sites(self) -> list[SiteReport]:
        """Where the engine is patched, for reports."""
        return [SiteReport(site.file, site.line, site.scope) for site in self.broken.sites]


def prepare(
    page: Page,
    catalogue: Catalogue,
    engine: Engine,
    *,
    variant: Page | None = None,
    probes: Sequence[str] = (),
) -> Experiment:
    """Put the page's patch into the engine (after the variant's); nothing is executed.

    Raises PageError and HunkError for a page that cannot be used, DoesNotApply where the engine has
    no site, UsageError for unknown probes.
    """
    clean = engine if variant is None else engine.patched(put(variant, engine))
    patched = put(page, clean)
    return Experiment(
        page=page,
        variant=variant.id if variant else None,
        clean=clean,
        broken=clean.patched(patched),
        diff=patched.diff(),
        probes=catalogue.probes_for(page, probes),
    )


def put(page: Page, engine: Engine) -> Patched:
    """The page's patch, put into the engine's source as it stands."""
    if page.transformer:
        return apply_transformer(_transformer(page, page.transformer), engine.sources)
    tried = patches(page, engine)
    if not tried and not isinstance(page.front, PatchFront):
        raise UsageError(
            f"the {page.front.kind} `{page.id}` changes no engine",
            f"`harness {page.front.kind} {page.id}`",
        )
    if not tried:
        raise PageError(
            page.path,
            page.body_line,
            f"no patch for the engine {engine.name}",
            "write the change as a ```diff block under `## The break`",
        )
    return apply_first(tried, engine.sources)


def applies(page: Page, engine: Engine) -> bool:
    """Whether the page's patch has a site in the engine, and leaves Python there."""
    try:
        return isinstance(page.front, ProbedFront) and bool(put(page, engine).sites)
    except BreaklabError:
        return False


def _transformer(page: Page, name: str) -> type[cst.CSTTransformer]:
    """The class that a page names because the notation cannot say its change."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        found, why = None, str(error)
    else:
        why = "it is no such class"
    if isinstance(found, type) and issubclass(found, cst.CSTTransformer):
        return found
    raise PageError(
        page.path,
        1,
        f"key `transformer`: no LibCST transformer `{name}`: {why}",
        'name an importable class: `transformer = "package.module:Class"`',
    )


def run_lab(experiment: Experiment, bench: Bench | None = None) -> Report:
    """Run clean and broken, judge, ask the diagnostics, and hold it all against the page.

    Raises EnvironmentProblem where the clean engine does not load.
    """
    start = time.perf_counter()
    bench = bench or Bench(open_store())
    experiment = fitted(experiment, bench)
    keys = bench.clean(experiment.clean, experiment.probes)
    runs = bench.broken(experiment.clean, experiment.broken, experiment.probes)
    of_probe = {
        probe.name: [keys[probe.name, loss].run for loss in probe.losses]
        for probe in experiment.probes
    }
    judged = {}
    for run in runs:
        siblings = [key for key in of_probe[run.probe] if key.loss != run.loss]
        judged[run.probe, run.loss] = judge(run, keys[run.probe, run.loss].run, siblings)
    disguised = _probes_with(experiment, judged, {"disguised-correct"})
    trails = bench.trails(experiment.unpatched, () if bench.select else disguised)
    evidence = _explain(experiment, bench, judged, keys) if bench.explain else {}
    reports = []
    for run in runs:
        pair = (run.probe, run.loss)
        report = _report_run(experiment, bench, run, judged[pair], keys[pair], trails.get(pair))
        reports.append(msgspec.structs.replace(report, **evidence.get(pair, {})))
    return _report(experiment, bench, reports, time.perf_counter() - start)


def fitted(experiment: Experiment, bench: Bench) -> Experiment:
    """The experiment with the probes on which a foreign engine is right while it is unbroken."""
    if not experiment.clean.foreign or experiment.left_out is not None:
        return experiment
    fits = fit(experiment.clean, experiment.probes, bench)
    fitting = usable(fits.values())
    return replace(
        experiment,
        probes=tuple(each for each in experiment.probes if each.name in fitting),
        left_out={name: each.said for name, each in fits.items() if name not in fitting},
    )


def report_unreached(keys: Mapping[Pair, Clean]) -> list[RunReport]:
    """What is reported of each run where it never comes to the patch, and its page states nothing.

    A run that the unpatched engine refuses is none of them.
    """
    return [
        _unreached(run, judge(run, key.run), key)
        for run, key in ((Run(*pair), key) for pair, key in keys.items())
        if not key.run.failure
    ]


def tell_stages(experiment: Experiment, bench: Bench, report: Report) -> Report:
    """The report, with the stages that a bench that selects probes has left open."""
    names = {run.probe for run in report.runs if run.stage is None}
    probes = [probe for probe in experiment.probes if probe.name in names]
    clean = bench.trails(experiment.unpatched, probes)
    broken = bench.trails(experiment.broken, probes)
    runs = []
    for run in report.runs:
        if run.stage is None:
            pair = (run.probe, run.loss)
            stage, why = stage_of(run.outcome, broken[pair], clean[pair], run.caught_by)
            run = msgspec.structs.replace(run, stage=stage, why=why)
        runs.append(run)
    return msgspec.structs.replace(report, runs=runs)


def _probes_with(
    experiment: Experiment, judged: Mapping[Pair, Judgement], outcomes: Collection[Outcome]
) -> list[Probe]:
    """The probes on which the break has one of these outcomes."""
    names = {probe for (probe, _), judgement in judged.items() if judgement.outcome in outcomes}
    return [probe for probe in experiment.probes if probe.name in names]


def _explain(
    experiment: Experiment,
    bench: Bench,
    judged: Mapping[Pair, Judgement],
    keys: Mapping[Pair, Clean],
) -> dict[Pair, dict[str, Message | None]]:
    """What each wrong array looks like, and where the backward walk first went wrong."""
    wrong = _probes_with(experiment, judged, {"silent-corruption", "crash"})
    traceable = [probe for probe in wrong if probe.kind == "gradient"]
    broken = bench.walks(experiment.broken, traceable)
    correct = bench.walks(replace(experiment.clean, sites=()), traceable)
    evidence: dict[Pair, dict[str, Message | None]] = {}
    for pair, judgement in judged.items():
        leaves = keys[pair].run.leaves
        explanation = evidence[pair] = {}
        if judgement.arrays:
            actual, expected = (array.numpy() for array in judgement.arrays)
            explanation["fingerprint"] = fingerprint(actual, expected, sizes=_sizes(leaves))
        if broken.get(pair) and correct.get(pair):
            walk = first_divergence(broken[pair], correct[pair], _leaf_names(correct[pair], leaves))
            explanation |= {"first_divergence": walk} if walk else {}
    return evidence


def _sizes(leaves: Mapping[str, Array]) -> dict[Message, int]:
    """The lengths that may explain a wrong factor."""
    return {
        message("the length of axis {axis} of {leaf}", axis=axis, leaf=name): length
        for name, leaf in leaves.items()
        for axis, length in enumerate(leaf.shape)
    }


def _leaf_names(walk: Sequence[TraceStep], leaves: Mapping[str, Array]) -> dict[int, str]:
    """Which leaf each leaf of a walk is: the one with the same values."""
    return {
        step.index: name
        for step in walk
        if not step.op
        for name, leaf in leaves.items()
        if leaf == step.value
    }


def _report_run(
    experiment: Experiment,
    bench: Bench,
    run: Run,
    judgement: Judgement,
    key: Clean,
    trail: Mapping[str, int] | None,
) -> RunReport:
    if run.reached or run.failure:
        observation = Observation(experiment.probe(run.probe), run, key.independent)
        report = _describe(run, judgement, bench.hear_beside(key, observation), key, trail)
    else:
        report = _unreached(run, judgement, key)
    expected = experiment.expected(run.probe, run.loss)
    if expected is None:
        return report
    agrees = expected == judgement.outcome
    return msgspec.structs.replace(report, expected=expected, agrees=agrees)


_UNREACHED: WeakKeyDictionary[Clean, RunReport] = WeakKeyDictionary()
"""One report for all pages, most of which come to few of the probes."""


def _unreached(run: Run, judgement: Judgement, key: Clean) -> RunReport:
    """The report on a run that never came to the patch: the clean one, of which all is known."""
    if key not in _UNREACHED:
        _UNREACHED[key] = _describe(run, judgement, key.verdicts, key, None)
    return _UNREACHED[key]


def _describe(
    run: Run,
    judgement: Judgement,
    verdicts: Mapping[str, Verdict],
    key: Clean,
    trail: Mapping[str, int] | None,
) -> RunReport:
    """The report on a run, as far as it does not depend on what its page states."""
    alarms = {name: v for name, v in verdicts.items() if isinstance(v, Alarm)}
    caught = {name: v for name, v in alarms.items() if not isinstance(key.verdicts[name], Alarm)}
    stage, why = stage_of(judgement.outcome, run.trail, trail, list(caught))
    return RunReport(
        probe=run.probe,
        loss=run.loss,
        outcome=judgement.outcome,
        kind=judgement.kind,
        evidence=judgement.evidence,
        stage=stage,
        why=why,
        fingerprint=None,
        first_divergence=judgement.first_divergence,
        better_than_correct=judgement.better_than_correct,
        expected=None,
        agrees=None,
        caught_by=list(caught),
        missed_by=[name for name, v in verdicts.items() if isinstance(v, Silent)],
        skipped={name: v.reason for name, v in verdicts.items() if isinstance(v, Skipped)},
        alarms={name: v.message for name, v in caught.items()},
        wrong_reason={name: v.message for name, v in alarms.items() if name not in caught},
        margins=_margins(caught, key.verdicts),
        repeatable=_is_repeatable(run, key, verdicts),
    )


def _is_repeatable(run: Run, key: Clean, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether the report on a run would be the same another time."""
    skipped = [verdict for verdict in verdicts.values() if isinstance(verdict, Skipped)]
    return run.repeatable and key.run.repeatable and all(v.repeatable for v in skipped)


def _margins(caught: Mapping[str, Alarm], on_clean: Mapping[str, Verdict]) -> dict[str, float]:
    """Orders of magnitude between each alarm and the clean engine's own noise, where both say."""
    margins = {}
    for name, alarm in caught.items():
        noise = getattr(on_clean[name], "deviation", None)
        if alarm.deviation is not None and noise is not None:
            margins[name] = round(margin(alarm.deviation, noise), 1)
    return margins


def _report(
    experiment: Experiment,
    bench: Bench,
    runs: list[RunReport],
    seconds: float,
) -> Report:
    names = [diagnostic.name for diagnostic in bench.diagnostics]
    is_ours = not experiment.clean.foreign
    claims = hold_claims(experiment.page, experiment.variant, names, runs) if is_ours else []
    said = [run.agrees for run in runs] + [claim.agrees for claim in claims]
    return Report(
        schema=1,
        break_=experiment.page.id,
        kind=experiment.page.front.kind,
        engine=experiment.engine,
        sites=experiment.sites,
        diff=experiment.diff,
        headline=headline({run.outcome for run in runs}),
        agrees=False not in said,
        seconds=round(seconds, 3),
        runs=runs,
        claims=claims,
        missing=bench.missing(),
        left_out=dict(experiment.left_out or {}),
    )


def report_absence(page: Page, engine: Engine, variant: str | None) -> Report:
    """The report on a patch that found no site: no run, hence no outcome but this one."""
    return Report(
        schema=1,
        break_=page.id,
        kind=page.front.kind,
        engine=EngineReport(engine.name, variant, engine.foreign, engine.like),
        sites=[],
        diff="",
        headline="does-not-apply",
        agrees=False,
        seconds=0.0,
        runs=[],
        claims=[],
    )
