"""The lab: a page and an engine in, a report out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import DoesNotApply, EnvironmentProblem, HunkError, PageError
from harness.core.report import Report
from harness.diagnostics import DIAGNOSTICS
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare, with_in_place
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.runs.cache import Cache, open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.tiny import tiny_engine

PAGE = """\
+++
id = "{id}"
kind = "{kind}"
family = "f"
{keys}
+++
# A title

## The break

```diff
{diff}
```

## Probes

```python
def square(a=[1.0, 2.0, 3.0]):
    "A square."
    return a.square()

def other(a=[1.0]):
    "Nothing of the engine's but the leaf and its gradient."
    return a.square() if a.data.size > 9 else a.square()
```
"""
CUBE = "@@ square @@\n-self.data**2\n+self.data**3"
HALF = "@@ backward @@\n-2 * $x\n+$x"


DECLINED = """[expect]
square = "silent-corruption"
[diagnostics]
missed_by = ["purity"]
"""


@pytest.fixture
def engine() -> Engine:
    return tiny_engine()


def page(folder: Path, diff: str, *, keys: str = "", kind: str = "break", name: str = "a") -> None:
    text = PAGE.format(id=name, kind=kind, keys=keys, diff=diff)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


WITHOUT_LIBRARY = [diagnostic for diagnostic in DIAGNOSTICS if diagnostic.library is None]


def lab(folder: Path, engine: Engine, name: str = "a", on: str | None = None) -> Report:
    catalogue = Catalogue((folder,))  # the bundled one has a probe `square`
    variant = catalogue.page(on, "variant") if on else None
    experiment = prepare(
        catalogue.page(name), catalogue, engine, variant=variant, probes=["square"]
    )
    return run_lab(experiment, Baseline(Cache(None), WITHOUT_LIBRARY))


def outcomes(report: Report) -> list[tuple[str, str | None]]:
    return [(run.outcome, run.kind) for run in report.runs]


def test_a_wrong_gradient_is_corruption_that_gradcheck_catches(
    tmp_path: Path, engine: Engine
) -> None:
    page(tmp_path, HALF)
    report = lab(tmp_path, engine)
    assert outcomes(report) == [("silent-corruption", "value")] * 2
    assert str(report.runs[0].evidence) == "a.grad is [1, 2, 3], expected [2, 4, 6]"
    assert report.runs[0].caught_by == ["gradcheck", "directional"]
    assert {"crash", "shape", "loss-falls"} <= set(report.runs[0].missed_by)
    assert report.runs[0].missed_by == report.runs[0].no_alarm


@pytest.mark.parametrize(
    ("diff", "leaf", "fingerprint"),
    [
        ("+len($x) * 2 * $x", "(5,)", "5 times the correct one; 5 is the length of axis 0 of a"),
        ("+10 * $x", "(5,)", "5 times the correct one"),  # 10 for 2, in the patch
        ("+len($x) * 2 * $x", "[5.0, 1.0, 2.0, 3.0, 4.0]", "5 times the correct one"),
        ("+len($x) * 2 * $x", "(5,), b=(5,)", "5 times the correct one"),
    ],
)
def test_a_length_explains_a_factor_unless_the_probe_or_the_patch_does(
    diff: str, leaf: str, fingerprint: str, tmp_path: Path, engine: Engine
) -> None:
    page(tmp_path, f"@@ backward @@\n-2 * $x * $g\n{diff} * $g")
    path = tmp_path / "a.md"
    path.write_text(path.read_text().replace("a=[1.0, 2.0, 3.0]", f"a={leaf}"))
    catalogue = Catalogue((tmp_path,))
    experiment = prepare(catalogue.page("a"), catalogue, engine, probes=["square"])
    report = run_lab(experiment, Baseline(Cache(None), ()), causes=True)
    assert [str(run.fingerprint) for run in report.runs if run.loss == "weighted"] == [fingerprint]


def test_a_site_that_does_not_run_is_not_reached(tmp_path: Path, engine: Engine) -> None:
    page(tmp_path, "@@ __init__ @@\n-data, None, None\n+data, None, 0")
    assert outcomes(lab(tmp_path, engine)) == [("disguised-correct", None)] * 2
    unused = engine.sources["tiny.py"] + "\n\ndef unused():\n    return 1\n"
    page(tmp_path, "@@ unused @@\n-return 1\n+return 2")
    report = lab(tmp_path, tiny_engine(unused))
    assert outcomes(report) == [("not-reached", None)] * 2
    assert report.headline == "not-reached"
    for run in report.runs:
        verdicts = run.caught_by, run.missed_by, run.declined, run.skipped
        assert not any(verdicts), "code that did not run says nothing about diagnostics"


def test_a_diagnostic_that_cannot_judge_has_declined_and_not_missed(
    tmp_path: Path, engine: Engine
) -> None:
    page(tmp_path, "@@ square @@\n-self.data**2\n+self.data**2 * np.nan", keys=DECLINED)
    report = lab(tmp_path, engine)
    assert outcomes(report) == [("silent-corruption", "non-finite")] * 2
    run = report.runs[0]
    assert "finite" in run.caught_by
    assert str(run.declined["purity"]) == "the output is NaN"
    assert str(run.declined["gradcheck"]) == "the output is not finite, so it has no slopes"
    assert not {"purity", "gradcheck"} & {*run.caught_by, *run.missed_by, *run.skipped}
    assert (report.claims[0].agrees, report.agrees) == (None, True)
    assert str(report.claims[0].evidence) == "declined: the output is NaN"


def test_a_break_on_a_variant_applies_both_patches_and_is_judged_against_the_variant(
    tmp_path: Path, engine: Engine
) -> None:
    page(tmp_path, "@@ square @@\n-self.data**2\n+self.data * self.data", kind="variant", name="v")
    page(tmp_path, "@@ square @@\n-self.data * self.data\n+self.data * 3")
    report = lab(tmp_path, engine, on="v")
    assert report.engine.variant == "v"
    assert "-        out = Tensor(self.data * self.data)" in report.diff
    assert str(report.runs[0].evidence) == "the output is [3, 6, 9], expected [1, 4, 9]"
    with pytest.raises(DoesNotApply):
        lab(tmp_path, engine)


def test_a_break_whose_import_fails_crashes_everywhere(tmp_path: Path, engine: Engine) -> None:
    page(tmp_path, "@@ @@\n-import numpy as np\n+import no_such_module_anywhere")
    report = lab(tmp_path, engine)
    assert [run.outcome for run in report.runs] == ["crash", "crash"]
    assert "ModuleNotFoundError in the import" in str(report.runs[0].evidence)


def test_an_engine_that_does_not_load_clean_is_a_problem_of_the_environment(tmp_path: Path) -> None:
    page(tmp_path, CUBE)
    broken = tiny_engine(tiny_engine().sources["tiny.py"] + "\nraise ValueError('never')\n")
    with pytest.raises(EnvironmentProblem, match=r"does not load even unpatched.*never"):
        lab(tmp_path, broken)


def test_an_alarm_that_also_fires_on_the_clean_engine_is_not_a_catch(tmp_path: Path) -> None:
    """A clean engine whose gradient is wrong too: gradcheck fires with and without the break."""
    wrong = tiny_engine().sources["tiny.py"].replace("2 * self", "5 * self")
    page(tmp_path, "@@ backward @@\n-5 * $x\n+7 * $x")
    run = lab(tmp_path, tiny_engine(wrong)).runs[0]
    assert run.outcome == "silent-corruption"
    assert "gradcheck" not in run.caught_by
    assert "gradcheck" in run.wrong_reason


def test_an_outcome_that_is_not_stated_agrees_with_nothing(tmp_path: Path, engine: Engine) -> None:
    for stated, agrees in (
        ('"?"', [None, None]),
        ('{ uniform = "?", weighted = "silent-corruption" }', [None, True]),
    ):
        page(tmp_path, HALF, keys=f"[expect]\nsquare = {stated}")
        report = lab(tmp_path, engine)
        assert [run.agrees for run in report.runs] == agrees
        assert not report.agrees
        assert report.unstated == ["square"]


def test_a_page_is_held_to_its_expectations_and_claims(tmp_path: Path, engine: Engine) -> None:
    keys = (
        '[expect]\nsquare = {{ uniform = "{0}", weighted = "silent-corruption" }}\n'
        '[diagnostics]\ncaught_by = ["{1}"]\nmissed_by = ["{2}"]'
    )
    for words, agrees in [
        (("silent-corruption", "gradcheck", "shape"), True),
        (("crash", "gradcheck", "shape"), False),
        (("silent-corruption", "shape", "crash"), False),
        (("silent-corruption", "gradcheck", "gradcheck"), False),
    ]:
        page(tmp_path, HALF, keys=keys.format(*words))
        assert lab(tmp_path, engine).agrees is agrees


def test_a_claim_is_not_judged_where_the_patched_code_never_runs(tmp_path: Path) -> None:
    unused = tiny_engine().sources["tiny.py"] + "\n\ndef unused():\n    return 1\n"
    claim = '[expect]\nsquare = "not-reached"\n[diagnostics]\nmissed_by = ["shape"]'
    page(tmp_path, "@@ unused @@\n-return 1\n+return 2", keys=claim)
    (report,) = lab(tmp_path, tiny_engine(unused)).claims
    assert report.agrees is None
    assert str(report.evidence) == "it judged no run that reaches the patched code"


def test_a_claim_about_no_diagnostic_is_a_mistake_of_the_page(
    tmp_path: Path, engine: Engine
) -> None:
    page(tmp_path, HALF, keys='[diagnostics]\ncaught_by = ["gradchek"]')
    with pytest.raises(PageError, match="names an unknown diagnostic `gradchek`"):
        lab(tmp_path, engine)


def test_claims_are_not_compared_if_no_diagnostic_was_run(tmp_path: Path, engine: Engine) -> None:
    page(tmp_path, HALF, keys='[diagnostics]\ncaught_by = ["gradcheck"]')
    catalogue = Catalogue((tmp_path,))
    experiment = prepare(catalogue.page("a"), catalogue, engine, probes=["square"])
    assert run_lab(experiment, Baseline(Cache(None), ())).claims == []


def test_every_run_of_a_rewritten_engine_is_judged(tmp_path: Path, engine: Engine) -> None:
    page(tmp_path, HALF, keys='[diagnostics]\ncaught_by = ["gradcheck"]')
    catalogue = Catalogue((tmp_path,))
    experiment = prepare(catalogue.page("a"), catalogue, engine, probes=["square"])
    for text, outcome in [
        (engine.sources["tiny.py"], "disguised-correct"),
        (experiment.broken.sources["tiny.py"], "silent-corruption"),
    ]:
        copy = tiny_engine(text)
        baseline = Baseline(Cache(None), WITHOUT_LIBRARY)
        report = run_lab(replace(experiment, broken=copy, rewritten=True), baseline)
        assert [run.outcome for run in report.runs] == [outcome] * 2
        assert report.claims == []


def test_a_pinned_number_of_sites_is_held(tmp_path: Path, engine: Engine) -> None:
    page(tmp_path, HALF, keys="sites = 2")
    with pytest.raises(HunkError, match="states 2 sites, but 1 matched"):
        lab(tmp_path, engine)


def test_a_page_without_a_patch_says_how_to_write_one(tmp_path: Path, engine: Engine) -> None:
    page(tmp_path, HALF)
    text = (tmp_path / "a.md").read_text(encoding="utf-8").replace("```diff", "```text")
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    with pytest.raises(PageError, match="no patch for the engine tiny"):
        lab(tmp_path, engine)


def test_an_engine_may_call_things_by_other_names(tmp_path: Path) -> None:
    theirs = tiny_engine().sources["tiny.py"].replace("def square", "def sq")
    theirs += "\n    square = sq\n"
    named = Engine(**{**vars(tiny_engine(theirs)), "names": {"square": "sq"}})
    page(tmp_path, CUBE)
    assert outcomes(lab(tmp_path, named))[0][0] == "silent-corruption"


UNSEEDED = """    a.data = a.data * np.random.default_rng().random()
    return a.square()
"""
COUNTED = """    _calls.append(1)
    a.data = a.data * len(_calls)
    return a.square()
"""


def test_a_probe_that_does_not_repeat_is_left_out_and_one_with_state_is_not(
    tmp_path: Path, engine: Engine
) -> None:
    """Each run has its own process, so a probe's state cannot change the next run."""
    page(
        tmp_path, "@@ backward @@\n-2 * $x\n+$x * 2", keys='[expect]\nsquare = "silent-corruption"'
    )
    path = tmp_path / "a.md"
    text = path.read_text(encoding="utf-8")
    text = text.replace("def square", "import numpy as np\n\ndef square").replace(
        "    return a.square()\n", UNSEEDED, 1
    )
    counted = f'_calls = []\n\ndef counted(a=[1.0]):\n    "x"\n{COUNTED}'
    text += f"\n```python\n{counted}```\n"
    path.write_text(text, encoding="utf-8")
    catalogue = Catalogue((tmp_path,))
    names = ["square", "counted"]
    experiment = prepare(catalogue.page("a"), catalogue, engine, probes=names)
    report = run_lab(experiment, Baseline(Cache(None), WITHOUT_LIBRARY))
    assert list(report.left_out) == ["square"]
    assert not report.agrees
    assert {(run.probe, run.outcome) for run in report.runs} == {("counted", "disguised-correct")}


def test_outcomes_are_announced_before_any_oracle_is_asked(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    page(tmp_path, HALF)
    catalogue = Catalogue((tmp_path,))
    experiment = prepare(catalogue.page("a"), catalogue, engine, probes=["square"])
    events: list[object] = []
    ask = Baseline._oracle_runs

    def asked(*arguments: Any) -> Any:
        events.append("oracles")
        return ask(*arguments)

    monkeypatch.setattr(Baseline, "_oracle_runs", asked)
    report = run_lab(experiment, Baseline(Cache(None), ()), events.append)
    first, then = events
    assert then == "oracles"
    assert isinstance(first, Report)
    assert outcomes(first) == outcomes(report) == [("silent-corruption", "value")] * 2
    assert [str(run.evidence) for run in first.runs] == [str(run.evidence) for run in report.runs]
    assert not any(run.caught_by or run.missed_by for run in first.runs)


@pytest.mark.parametrize(
    "name",
    [
        "mul-ignore-upstream",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in CATALOGUE.track
            if CATALOGUE.page(name).front.kind == "break"
        ),
    ],
)
def test_in_place_outcomes_are_those_of_the_variant(name: str) -> None:
    """Although they are judged by minigrad's own runs, which saves a child process."""
    baseline = Baseline(open_cache(), ())
    broken = replace(CATALOGUE.page(name), claims={})
    experiment = with_in_place(prepare(broken, CATALOGUE, find_engine()), CATALOGUE)
    on = prepare(broken, CATALOGUE, find_engine(), variant=CATALOGUE.in_place)
    in_place = run_lab(experiment, baseline).in_place
    assert [(run.probe, run.loss, run.outcome) for run in in_place] == [
        (run.probe, run.loss, run.outcome) for run in run_lab(on, baseline).runs
    ]


def test_a_break_without_a_site_in_the_variant_has_no_in_place_outcomes(tmp_path: Path) -> None:
    page(tmp_path, "@@ accumulate @@\n-total + cotangent\n+cotangent")
    text = (tmp_path / "a.md").read_text()
    (tmp_path / "a.md").write_text(text.replace("def square", "def squared"))
    catalogue = open_catalogue([tmp_path])
    broken = catalogue.page("a")
    plain = prepare(broken, catalogue, find_engine(), probes=["mul"])
    experiment = with_in_place(plain, catalogue)
    assert experiment.in_place is not None
    assert experiment.broken_in_place is None
    assert run_lab(experiment, Baseline(open_cache(), ())).in_place == []
    on = prepare(
        catalogue.page("mul-ignore-upstream"), catalogue, find_engine(), variant=catalogue.in_place
    )
    assert with_in_place(on, catalogue).in_place is None


def test_the_first_report_gives_the_reasons_that_the_last_one_gives() -> None:
    """Also where a diagnostic notices the break although the result is right."""
    early: list[Report] = []
    experiment = prepare(
        CATALOGUE.page("mul-ignore-upstream"), CATALOGUE, find_engine(), probes=["mul"]
    )
    diagnostics = [item for item in DIAGNOSTICS if item.name in ("metamorphic", "directional")]
    last = run_lab(experiment, Baseline(open_cache(), diagnostics), early.append)
    assert [run.reason for run in early[0].runs] == [run.reason for run in last.runs]
    assert last.runs[0].stage == "revealed"
    assert str(last.runs[0].reason) == "hidden here: on this input all numbers are right"
