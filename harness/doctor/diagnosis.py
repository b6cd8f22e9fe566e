"""The doctor: how an engine is built, what can be tested on it, and which bugs it already has.

It reports only what was observed: every line comes from running the unbroken engine in a child
process, or from applying a page's patch to its source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Literal

import msgspec

from harness.core.errors import BreaklabError, DoesNotApply
from harness.core.message import EMPTY, Message, verbatim
from harness.core.report import SiteReport
from harness.doctor.defects import Defect, find_defects
from harness.doctor.roots import changes_leaves, runs_site, shape_of
from harness.engines.engine import OUR_ENGINE, Dialect, Engine, find_engine
from harness.engines.survey import CallingDoubt, Reducer, ShapeChange, doubt_of
from harness.experiment.baseline import Baseline, Context, OpenContext
from harness.experiment.conformance import SECOND_BACKWARD, Fit, fit
from harness.experiment.exploration import Exploration, explore
from harness.experiment.lab import misplacement
from harness.experiment.patching import Experiment, prepare
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.patch.side import quiet_parse


class Applicability(StrEnum):
    """Whether a break can be used on an engine, and if not, why."""

    USABLE = "usable"
    UNTRIED = "untried"
    """None of its probes can run on the engine, so its sites were not searched for."""
    UNJUDGED = "unjudged"
    """It has a site, but no probe that runs the site and can show the break."""
    PRESENT = "present"
    """The unbroken engine already has this bug."""
    ABSENT = "absent"
    """The engine does not have the code that it changes."""
    DIFFERENT = "different"
    """The engine writes that code differently."""


class Application(msgspec.Struct, frozen=True):
    """Whether and where a break applies to this engine."""

    break_: str = msgspec.field(name="break")
    sites: list[SiteReport]
    """Empty where it does not apply, or was not tried since no probe can judge it."""
    probes: list[str]
    """The page's probes that can judge it."""
    reason: str = ""
    """Why it cannot be used."""
    kind: Applicability = Applicability.USABLE


class Storage(msgspec.Struct, frozen=True):
    """What storing does to shapes and dtypes."""

    shape_changes: list[ShapeChange] = []
    dtype: str = "float64"
    """As in `SurveyStep`, and so is `reads_late`."""
    reads_late: bool = False
    draws: bool = False
    """Whether NumPy's global generator is used, though no result depends on it."""


class Accumulation(msgspec.Struct, frozen=True):
    """How gradients are accumulated: see `SurveyStep`."""

    initial_gradient: str = ""
    second_backward: str = ""
    shares_memory: bool = False
    unsummed_in_leaf: str = ""
    """What happened to a gradient that was not summed: crash or stored; empty if unknown."""
    unsummed_inside: str = ""


class Unbroadcasting(msgspec.Struct, frozen=True):
    """How an engine sums gradients to the shapes of operands."""

    kind: Literal["scalars", "functions", "named", "inside", "missing", "refused", "unknown"]
    """What sums them, in this order: nothing, since there are no shapes; functions, which the
    diagnosis lists as reducers; functions, judging by their names; the ops; nothing; nothing, since
    the engine does not broadcast; it was not found."""
    names: list[str] = []
    reason: Message = EMPTY
    """What shows that nothing sums them, or that the engine does not broadcast."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What the doctor found: see `harness.report.doctor` for its JSON."""

    schema: int
    engine: str
    files: int
    kind: str
    """arrays, scalars or functional."""
    interface: dict[str, str] = msgspec.field(name="speech")
    """How breaklab calls it: leaf, data, grad, backward or pull, functions."""
    storage: Storage
    accumulation: Accumulation
    unbroadcasting: Unbroadcasting
    reducers: list[Reducer]
    ops: dict[str, list[str]]
    probes: list[Fit]
    breaks: list[Application]
    settings: str
    """The text of a `harness.toml`."""
    own: list[Fit] = []
    """The probes of pages, as opposed to the shared ones, that show a bug."""
    defects: list[Defect] = []
    """What looks wrong, the most basic first; nothing if the engine may be called wrongly."""
    one_op: dict[str, str] = {}
    """How the simplest probes ended. `SurveyStep` explains this field and the next."""
    misnamed: dict[str, str] = {}
    doubt: CallingDoubt | None = None
    """Why breaklab may be calling the engine wrongly; None if nothing suggests it."""
    alike: list[str] = []
    """The breaks that would explain what looks wrong everywhere, if the call is doubtful."""

    @property
    def usable(self) -> list[Application]:
        """The breaks that can be tried: they have a site, and probes that can judge them."""
        return [item for item in self.breaks if item.kind is Applicability.USABLE]

    @property
    def is_sound(self) -> bool:
        """Whether the engine was judged, and nothing looks wrong."""
        return self.judged and not self.bugs

    @property
    def judged(self) -> bool:
        """Whether some probe could be judged."""
        return any(item.verdict in ("fits", "bug") for item in self.probes)

    @property
    def bugs(self) -> list[Fit]:
        """The probes that show a bug of the unbroken engine."""
        return [item for item in (*self.probes, *self.own) if item.verdict == "bug"]


def diagnose(name: str, catalogue: Catalogue, baseline: Baseline) -> Diagnosis:
    """Return the diagnosis of an engine.

    Raises what `explore` raises.
    """
    exploration = explore(name, baseline.cache, catalogue.conventions)
    engine = called_as_minigrad(exploration.engine)
    shared = list(catalogue.shared_probes.values())
    everything = [*shared, *own_probes(catalogue, engine.dialect.kind)]
    all_fits = _without_design(fit(engine, everything, baseline), everything, exploration)
    fits = {probe.name: all_fits[probe.name] for probe in shared}
    one_op = exploration.storage.one_op
    doubt = doubt_of(one_op, exploration.engine.dialect.kind or "")
    found = (
        []
        if doubt and doubt.exception
        else find_defects(engine, everything, all_fits, catalogue, baseline)
    )
    alike = [item for defect in found for item in defect.alike]
    present = {item.break_ for item in alike if not item.only_in}
    context = OpenContext(catalogue, engine, baseline)
    return Diagnosis(
        schema=1,
        engine=f"{exploration.target.module}:{exploration.name}",
        files=len(exploration.engine.sources),
        kind=exploration.engine.dialect.kind or "",
        interface=dict(_interface(exploration)),
        storage=Storage(
            exploration.storage.shape_changes,
            exploration.storage.dtype,
            exploration.accumulation.reads_late,
            any(item.kind == "drawn" for item in fits.values()),
        ),
        accumulation=_accumulation(
            exploration, fits.get(catalogue.conventions.second_backward_probe or "")
        ),
        unbroadcasting=_unbroadcasting(
            exploration, fits.get(catalogue.conventions.unbroadcasting_probe or "")
        ),
        reducers=exploration.reducers,
        ops=exploration.steps[-1].ops,
        probes=list(fits.values()),
        breaks=list(_applications(fits, present, context)),
        settings=settings_of(exploration),
        own=[f for name, f in all_fits.items() if name not in fits and f.verdict == "bug"],
        defects=[] if doubt else found,
        one_op=one_op,
        doubt=doubt,
        alike=list(dict.fromkeys(item.break_ for item in alike)) if doubt else [],
        misnamed=exploration.storage.misnamed,
    )


def called_as_minigrad(engine: Engine) -> Engine:
    """Return the engine, called without an adapter if it has every name that minigrad exports.

    An adapter brings layers, losses and an optimizer of its own. In a copy of minigrad, those of
    the engine are run, and so are its data loaders, metrics and models. A copy whose tensors have
    other names, such as `t.gradient`, still needs the adapter.
    """
    ours = find_engine()
    if not _words_called(ours.dialect) <= _words_called(engine.dialect):
        return engine
    file = f"{engine.dialect.module.partition('.')[0]}/__init__.py"
    exported = _names_bound(ours.sources[f"{OUR_ENGINE}/__init__.py"])
    if not exported <= _names_bound(engine.sources.get(file, "")):
        return engine
    return replace(engine, dialect=replace(ours.dialect, module=file.partition("/")[0]))


def _words_called(dialect: Dialect) -> set[str]:
    """Return the words of the expressions that make a tensor, read it, and run a backward pass."""
    used = dialect.leaf, dialect.value, dialect.gradient, dialect.backward
    return set(re.findall(r"\w+", " ".join(used)))


def _names_bound(text: str) -> set[str]:
    """Return the names that a module imports or defines, without underscores."""
    bound = set[str]()
    for node in quiet_parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    return {name for name in bound if not name.startswith("_")}


def own_probes(catalogue: Catalogue, kind: str | None) -> list[Probe]:
    """Return the probes that pages about engines of any design define, each name once.

    Of a copy of minigrad (None), those that any page of a break defines; of an engine of numbers,
    none that trains for many steps, since it would exceed the limit of processor time.
    """
    pages = (
        page
        for page in catalogue.pages[0]
        if isinstance(page.front, Break) and (page.portable or kind is None)
    )
    named = {probe.name: probe for page in pages for probe in page.probes}
    own = [probe for name, probe in named.items() if name not in catalogue.shared_probes]
    return [probe for probe in own if not _is_long(probe, kind)]


_LONG = 100
"""The number of steps from which training an array of single numbers takes seconds."""


def _is_long(probe: Probe, kind: str | None) -> bool:
    """Whether a page's own probe would exceed the limit of processor time on such an engine."""
    if kind != "scalars" or probe.shared or probe.kind != "steps":
        return False
    return max(probe.numbers, default=0) > _LONG


def _without_design(
    fits: dict[str, Fit], probes: Sequence[Probe], exploration: Exploration
) -> dict[str, Fit]:
    """Return the fits, in which a difference that follows from the engine's design is not a bug."""
    reasons = {probe.name: _design(probe, fits, exploration) for probe in probes}
    return {
        name: Fit(name, "differs", verbatim(f"{reasons[name]}: {item.reason}"))
        if item.verdict == "bug" and reasons[name]
        else item
        for name, item in fits.items()
    }


def _design(probe: Probe, fits: dict[str, Fit], exploration: Exploration) -> str:
    """Return the property of the engine's design that would show on this probe; "" for none."""
    changed = {len(change.shape) for change in exploration.storage.shape_changes}
    if changed & _ranks(probe):
        return "it changes such shapes"
    if probe.kind != "steps":
        return ""
    if exploration.accumulation.second_backward == "replaced":
        return "a second backward pass does not add to the first"
    if fits[probe.name].kind in ("crash", SECOND_BACKWARD):
        return ""
    if exploration.accumulation.reads_late and changes_leaves(probe):
        return "its rules read the value of a leaf when they run"
    if any(item.kind == "convention" for item in fits.values()):
        return "it chooses other subgradients at kinks"
    return ""


def _ranks(probe: Probe) -> set[int]:
    return {len(shape_of(leaf)) for leaf in probe.leaves}


def _interface(exploration: Exploration) -> Iterator[tuple[str, str]]:
    dialect = exploration.engine.dialect
    if dialect.pull:
        yield "pull", dialect.pull
    else:
        yield "leaf", dialect.leaf
        yield "data", dialect.value
        if dialect.gradient:
            yield "grad", dialect.gradient
        yield "backward", dialect.backward
    if dialect.functions:
        yield "functions", ", ".join(dialect.functions)


def _accumulation(exploration: Exploration, twice: Fit | None) -> Accumulation:
    """Return how gradients are accumulated; `twice` is the fit of a probe with two passes."""
    found, unsummed = exploration.accumulation, exploration.steps[-1].unsummed
    is_wrong = twice is not None and twice.kind == SECOND_BACKWARD
    adds = found.second_backward not in ("", "refused", "replaced", "returned")
    return Accumulation(
        found.initial_gradient,
        "compounded" if adds and is_wrong else found.second_backward,
        found.shares_memory,
        unsummed.get("leaf", ""),
        unsummed.get("inside", ""),
    )


def _unbroadcasting(exploration: Exploration, stretched: Fit | None) -> Unbroadcasting:
    """Return how the engine un-broadcasts; `stretched` is the fit of a probe that broadcasts."""
    if exploration.engine.dialect.kind == "scalars":
        return Unbroadcasting("scalars")
    if any(reducer.callers for reducer in exploration.reducers):
        return Unbroadcasting("functions")
    if names := exploration.engine.names.get("unbroadcast"):
        return Unbroadcasting("named", [names] if isinstance(names, str) else list(names))
    if stretched and stretched.verdict == "fits":
        return Unbroadcasting("inside")
    if stretched and stretched.verdict == "bug":
        return Unbroadcasting("missing", reason=stretched.reason)
    if stretched and stretched.kind == "refusal":
        return Unbroadcasting("refused", reason=stretched.reason)
    return Unbroadcasting("unknown")


# ----- Breaks -----


def _applications(
    fits: dict[str, Fit], present: Collection[str], context: Context
) -> Iterator[Application]:
    """Yield whether each break can be tried; `present` are those that the engine already has."""
    pages, _ = context.catalogue.pages
    called = _called_functions(fits, context)
    for page in pages:
        if not isinstance(page.front, Break):
            continue
        if page.id in present:
            reason = "the engine already has this bug"
            yield Application(page.id, [], [], reason, Applicability.PRESENT)
            continue
        try:
            if not page.probes and not _split(page, fits, context)[0]:
                # Finding its sites would take time.
                reason = "none of its probes can run on the engine"
                yield Application(page.id, [], [], reason, Applicability.UNTRIED)
                continue
            experiment = prepare(page, context.catalogue, context.engine)
        except DoesNotApply as error:
            kind = Applicability.ABSENT if error.absent else Applicability.DIFFERENT
            yield Application(page.id, [], [], error.reason, kind)
            continue
        except BreaklabError as error:  # for example, if the patched source is not valid Python
            problem = error.problem.splitlines()[0]
            yield Application(page.id, [], [], problem, Applicability.DIFFERENT)
            continue
        yield _application(experiment, fits, called, context)


def _application(
    experiment: Experiment, fits: dict[str, Fit], called: Collection[str], context: Context
) -> Application:
    """Return whether a break with a site can be judged."""
    page, sites = experiment.page, experiment.sites
    running = [site for site in sites if runs_site(site, called, context.engine)]
    fitting, lacking = _split(page, fits, context)
    reason = "" if fitting else f"no probe of the page can run on it: {lacking}"
    if fitting and not running:
        fitting, reason = [], "no probe that the engine gets right runs this code"
    stated = any(map(experiment.shows_on, (probe.name for probe in experiment.probes)))
    if fitting and stated and not any(map(experiment.shows_on, fitting)):
        fitting, reason = [], f"no probe that shows the break can run on it: {lacking}"
    if misplaced := fitting and misplacement(experiment, context.baseline):
        fitting, reason = [], str(misplaced)
    kind = Applicability.USABLE if fitting else Applicability.UNJUDGED
    return Application(page.id, running or sites, fitting, reason, kind)


def _called_functions(fits: dict[str, Fit], context: Context) -> frozenset[str]:
    """Return the engine's functions that are called by the probes that it gets right."""
    shared = context.catalogue.shared_probes
    probes = [shared[name] for name, item in fits.items() if item.verdict in ("fits", "bug")]
    covered = context.baseline.coverage(context.engine, probes)
    return frozenset().union(*filter(None, covered))


def _split(page: Page, fits: dict[str, Fit], context: Context) -> tuple[list[str], str]:
    """Return the page's probes that can run on the engine, and why others cannot.

    A probe that cannot is replaced by its stand-in, if that can.
    """
    kind = context.engine.dialect.kind
    probes = [probe for probe in context.catalogue.probes_for(page) if not _is_long(probe, kind)]
    own = [probe for probe in probes if probe.name not in fits or probe in page.probes]
    all_fits = {**fits, **(fit(context.engine, own, context.baseline) if own else {})}
    stand_ins = context.catalogue.conventions.stand_ins
    running, reasons = [], list[str]()
    for probe in probes:
        names = probe.name, stand_ins.get(probe.name, "")
        fitting = [name for name in names if name in all_fits and all_fits[name].verdict == "fits"]
        running += fitting[:1]
        reasons += [] if fitting else [str(all_fits[probe.name].reason)]
    return list(dict.fromkeys(running)), reasons[0] if reasons else "the page has none"


# ----- Settings -----


def settings_of(exploration: Exploration) -> str:
    """Return the text of a `harness.toml` with everything that the exploration found."""
    settings, named = exploration.target.settings, exploration.target.name
    target = settings.target if named else f"{settings.target}:{exploration.name}"
    lines = ["[engine]", f"target = {_quoted(target)}"]
    lines += [f"root = {_quoted(settings.root)}"] if settings.root else []
    dialect = exploration.engine.dialect
    if not dialect.pull:
        lines += [
            f"kind = {_quoted(dialect.stated_kind)}",
            f"leaf = {_quoted(dialect.leaf)}",
            f"data = {_quoted(dialect.value)}",
            *([f"grad = {_quoted(dialect.gradient)}"] if dialect.gradient else []),
            f"backward = {_quoted(dialect.backward)}",
        ]
    if dialect.functions:
        lines.append(f"functions = [{', '.join(map(_quoted, dialect.functions))}]")
    if dialect.kind == "arrays":
        lines.append(
            f'accumulation = "{"in place" if exploration.engine.like else "out of place"}"'
        )
    if exploration.engine.names:
        lines += ["", "[engine.names]"]
        lines += [f"{ours} = {_names(theirs)}" for ours, theirs in exploration.engine.names.items()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return the text as a TOML string."""
    return f"'{text}'" if '"' in text and "'" not in text else msgspec.json.encode(text).decode()


def _names(theirs: str | Collection[str]) -> str:
    if isinstance(theirs, str):
        return _quoted(theirs)
    listed: Sequence[str] = list(theirs)
    return f"[{', '.join(map(_quoted, listed))}]"
