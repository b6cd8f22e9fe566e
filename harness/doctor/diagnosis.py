"""The doctor: what kind of engine this is, what can be tried on it, what is wrong with it as it is.

It says nothing that was not seen: every line comes from running the unbroken engine in a child, or
from putting a page's patch into its source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec
import numpy as np

from harness.core.errors import BreaklabError, DoesNotApply
from harness.core.message import verbatim
from harness.core.report import SiteReport
from harness.engines.survey import Reducer
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import REFUSAL, Fit, fit
from harness.experiment.exploration import Found, explore
from harness.experiment.patching import put
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.pages.probe import Probe


class Application(msgspec.Struct, frozen=True):
    """A break, and what becomes of it on this engine."""

    break_: str = msgspec.field(name="break")
    sites: list[SiteReport]
    """Empty where it does not apply."""
    probes: list[str]
    """Those of its page that it can be judged by."""
    reason: str = ""
    """Why it cannot be tried."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What the doctor found; schema 1: keys may be added, never renamed."""

    schema: int
    engine: str
    files: int
    kind: str
    """arrays, scalars or functional."""
    speech: dict[str, str]
    """How it is spoken to: leaf, data, grad, backward or pull, functions."""
    storage: list[str]
    """What it does to shapes and dtypes."""
    accumulation: list[str]
    unbroadcasting: list[str]
    reducers: list[Reducer]
    ops: dict[str, list[str]]
    probes: list[Fit]
    breaks: list[Application]
    settings: str
    """The `harness.toml` to keep."""

    @property
    def bugs(self) -> list[Fit]:
        """What is wrong with the engine as it is."""
        return [each for each in self.probes if each.verdict == "bug"]


def diagnose(said: str, catalogue: Catalogue, baseline: Baseline) -> Diagnosis:
    """Try the engine that `said` names, clean.

    Raises what `explore` raises.
    """
    found = explore(said, baseline.cache, catalogue.conventions)
    shared = list(catalogue.shared_probes.values())
    fits = _by_style(fit(found.engine, shared, baseline), shared, found)
    return Diagnosis(
        schema=1,
        engine=f"{found.target.module}:{found.name}",
        files=len(found.engine.sources),
        kind=found.engine.dialect.kind or "",
        speech=dict(_speech(found)),
        storage=list(_storage(found)),
        accumulation=list(_accumulation(found)),
        unbroadcasting=list(_unbroadcasting(found, fits, catalogue)),
        reducers=found.reducers,
        ops=found.steps[-1].ops,
        probes=list(fits.values()),
        breaks=list(_applications(found, fits, catalogue, baseline)),
        settings=settings_of(found),
    )


def _by_style(fits: dict[str, Fit], probes: Sequence[Probe], found: Found) -> dict[str, Fit]:
    """No bug is what an engine does by design, or what another choice at a kink leads to."""
    reasons = {probe.name: _design(probe, fits, found) for probe in probes}
    return {
        name: Fit(name, "differs", verbatim(f"{reasons[name]}: {each.said}"))
        if each.verdict == "bug" and reasons[name]
        else each
        for name, each in fits.items()
    }


def _design(probe: Probe, fits: dict[str, Fit], found: Found) -> str:
    """What the engine does by design that this probe would show."""
    seen = found.storage.shape_changes
    if any(f"{kept} is " in seen for kept in _RANKS if len(kept) in _ranks(probe)):
        return "it does not keep such shapes"
    if probe.kind != "steps":
        return ""
    if found.accumulation.second_backward == "replaced":
        return "a second walk does not add to the first"
    if fits[probe.name].kind == "crash":
        return ""
    if found.accumulation.reads_late:
        return "its rules read what a leaf holds when they run"
    if any(each.kind == "convention" for each in fits.values()):
        return "it takes other subgradients at kinks"
    return ""


_RANKS: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3))
"""The shapes with which a survey tries what is kept."""


def _ranks(probe: Probe) -> set[int]:
    return {
        np.ndim(np.asarray(leaf.values)) if leaf.shape is None else len(leaf.shape)
        for leaf in probe.leaves
    }


def _speech(found: Found) -> Iterator[tuple[str, str]]:
    dialect = found.engine.dialect
    if dialect.pull:
        yield "pull", dialect.pull
    else:
        yield "leaf", dialect.leaf
        yield "data", dialect.value
        yield "grad", dialect.gradient
        yield "backward", dialect.backward
    if dialect.functions:
        yield "functions", ", ".join(dialect.functions)


def _storage(found: Found) -> Iterator[str]:
    seen = found.storage
    kind = found.engine.dialect.kind
    if kind == "scalars":
        yield (
            "a tensor is a single number: probes compute with arrays of them, whose shapes are "
            "NumPy's affair"
        )
    if kind == "functional":
        yield "it differentiates functions: a probe is the function, traced for each of its leaves"
    if seen.shape_changes:
        changes = seen.shape_changes
        yield f"shapes are changed: {changes}; only probes of the kept ranks can be judged"
    if seen.dtype != "float64":
        yield f"float64 is kept as {seen.dtype}, and compared in it"
    if found.accumulation.reads_late:
        yield (
            "a rule reads what its operand holds when it runs: a step between the forward and the "
            "backward pass changes the gradient"
        )


_BEFORE = {
    "none": "a leaf has no gradient before the first walk: what arrives is stored",
    "zeros": "every leaf starts with a buffer of zeros",
    "number": "a gradient starts as a Python number",
}
_SECOND = {
    "in place": "a second walk adds into the same array",
    "rebound": "a second walk makes a new array",
    "replaced": "a second walk does not add to the first, but replaces it",
    "refused": "a second walk is refused",
}


def _accumulation(found: Found) -> Iterator[str]:
    seen = found.accumulation
    if found.engine.dialect.kind == "functional":
        yield "gradients are returned, not kept: there is nothing to accumulate into"
        return
    for table, key in ((_BEFORE, seen.initial_gradient), (_SECOND, seen.second_backward)):
        if key in table:
            yield table[key]
    if seen.shares_memory:
        yield "a gradient is stored as it arrives, and shares its memory with another"
    if found.engine.dialect.kind == "scalars":
        return
    if found.engine.like:
        like = found.engine.like
        yield f"so a gradient of the wrong shape crashes where it is added (as in {like})"
    else:
        yield "so a gradient of the wrong shape is kept without a word (as in minigrad)"


def _unbroadcasting(found: Found, fits: dict[str, Fit], catalogue: Catalogue) -> Iterator[str]:
    if found.engine.dialect.kind == "scalars":
        yield "none: a number has no shape"
        return
    used = [each for each in found.reducers if each.callers]
    for each in used:
        yield f"`{each.name}` ({each.file}) sums ones((4, 3)) to (3,)"
        if central := _central(each):
            yield f"it is central: every op's gradient passes through `{central}`"
        else:
            yield "each op calls it: " + "; ".join(
                f"{op} in {', '.join(f'`{caller}`' for caller in callers)}"
                for op, callers in each.callers.items()
            )
        for flaw in each.flaws:
            yield f"`{each.name}` is wrong: {flaw}"
    if used:
        return
    if named := found.engine.names.get("unbroadcast"):
        listed = ", ".join(f"`{name}`" for name in ([named] if isinstance(named, str) else named))
        yield f"by its name, {listed}; no function was seen to sum ones((4, 3)) to (3,)"
        return
    stretched = fits.get(catalogue.conventions.unbroadcasting_probe or "")
    if stretched and stretched.verdict == "fits":
        yield "it un-broadcasts inside of its ops: no function of its own does it"
    elif stretched and stretched.verdict == "bug":
        yield f"it does not un-broadcast: {stretched.said}"
    elif stretched and stretched.said.template == REFUSAL:
        yield f"there is nothing to undo: {stretched.said}"
    else:
        yield "none was seen"


def _central(reducer: Reducer) -> str | None:
    """The one place from which it is called, whatever the op."""
    callers = {tuple(names) for names in reducer.callers.values()}
    only = next(iter(callers)) if len(callers) == 1 and len(reducer.callers) > 1 else ()
    return only[0] if len(only) == 1 else None


# ----- Breaks -----


def _applications(
    found: Found, fits: dict[str, Fit], catalogue: Catalogue, baseline: Baseline
) -> Iterator[Application]:
    pages, _ = catalogue.pages()
    for page in pages:
        if not isinstance(page.front, Break):
            continue
        try:
            patched = put(page, found.engine)
        except DoesNotApply as error:
            yield Application(page.id, [], [], error.reason)
            continue
        except BreaklabError as error:  # its patch would not be Python here, say
            yield Application(page.id, [], [], error.problem.splitlines()[0])
            continue
        sites = [SiteReport(site.file, site.line, site.scope) for site in patched.sites]
        fitting, lacking = _split(page, found, fits, catalogue, baseline)
        reason = "" if fitting else f"no probe of the page can be put to it: {lacking}"
        yield Application(page.id, sites, fitting, reason)


def _split(
    page: Page, found: Found, fits: dict[str, Fit], catalogue: Catalogue, baseline: Baseline
) -> tuple[list[str], str]:
    """The page's probes that can be put to the engine, and why others cannot."""
    probes = catalogue.probes_for(page, ())
    own = [probe for probe in probes if probe.name not in fits or probe in page.probes]
    known = {**fits, **(fit(found.engine, own, baseline) if own else {})}
    verdicts = [known[probe.name] for probe in probes]
    lacking = next((str(each.said) for each in verdicts if each.verdict != "fits"), "it has none")
    return [each.probe for each in verdicts if each.verdict == "fits"], lacking


# ----- What to keep -----


def settings_of(found: Found) -> str:
    """The text of a `harness.toml` that says all that was found out."""
    said = found.target.settings
    lines = ["[engine]", f"target = {_quoted(_full(found))}"]
    lines += [f"root = {_quoted(said.root)}"] if said.root else []
    dialect = found.engine.dialect
    if not dialect.pull:
        lines += [
            f"leaf = {_quoted(dialect.leaf)}",
            f"data = {_quoted(dialect.value)}",
            f"grad = {_quoted(dialect.gradient)}",
            f"backward = {_quoted(dialect.backward)}",
        ]
    if dialect.functions:
        lines.append(f"functions = [{', '.join(map(_quoted, dialect.functions))}]")
    if dialect.kind == "arrays":
        lines.append(f'accumulation = "{"in place" if found.engine.like else "out of place"}"')
    if found.engine.names:
        lines += ["", "[engine.names]"]
        lines += [f"{ours} = {_names(theirs)}" for ours, theirs in found.engine.names.items()]
    return "\n".join(lines) + "\n"


def _full(found: Found) -> str:
    said = found.target.settings.target
    return said if found.target.name else f"{said}:{found.name}"


def _quoted(text: str) -> str:
    """A string of TOML."""
    return f"'{text}'" if '"' in text and "'" not in text else msgspec.json.encode(text).decode()


def _names(theirs: str | Collection[str]) -> str:
    if isinstance(theirs, str):
        return _quoted(theirs)
    listed: Sequence[str] = list(theirs)
    return f"[{', '.join(map(_quoted, listed))}]"
