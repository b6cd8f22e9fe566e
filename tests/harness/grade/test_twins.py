"""A composed break behaves like the break, its twin like the clean engine, and neither shows it."""

import ast
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from statistics import mean, pvariance
from types import CodeType
from typing import Any

import msgspec
import pytest

from harness.core.errors import EnvironmentProblem
from harness.core.run import Failure, Run
from harness.core.vocabulary import LOSSES, Loss
from harness.engines.engine import Engine, find_engine
from harness.engines.loading import compile_files
from harness.experiment.baseline import Baseline, failed_runs, job_for
from harness.experiment.patching import prepare, put
from harness.grade.twins import Composed, LiveVersion, compose, compose_file, compose_files
from harness.pages.front_matter import Break
from harness.pages.probe import Probe
from harness.runs.cache import open_cache
from harness.runs.cached_runs import run_cached
from harness.runs.isolated import MOST_LATE, EngineDoesNotLoad, run_isolated
from harness.runs.protocol import Job
from harness.runs.recorder import changed_functions
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE, bundled_pages

ENGINE = find_engine()
SEED = b"secret"
LIMITS = Limits(cpu_seconds=5)

BREAKS = [page.id for page in bundled_pages() if isinstance(page.front, Break)]
SOME = (
    "skip-unbroadcast",  # one expression at two sites
    "visited-missing",  # a statement deleted
    "adam-shared-moments",
    "zero-grad-after-backward",
)
VERSIONS: tuple[LiveVersion, ...] = ("clean", "broken")
OTHERS = [page_id for page_id in BREAKS if page_id not in SOME[:2]]


def composed(page_id: str, seed: bytes = SEED) -> Composed:
    result = compose(ENGINE, CATALOGUE.page(page_id), seed)
    assert result is not None
    return result


def with_files(files: Mapping[str, str]) -> Engine:
    return replace(ENGINE, sources={**ENGINE.sources, **files})


def job_on(engine: Engine, probes: Sequence[Probe], losses: Collection[Loss | None]) -> Job:
    job = job_for(engine.without_sites(), probes, LIMITS)
    return msgspec.structs.replace(job, steps=tuple(s for s in job.steps if s.loss in losses))


def runs_of(job: Job) -> list[Run]:
    try:
        return run_isolated(job)
    except EngineDoesNotLoad as error:
        return failed_runs(job, error)


def observed(runs: Sequence[Run]) -> list[bytes]:
    """What was observed, encoded so that NaN equals NaN; without the places in the text."""
    plain = (
        msgspec.structs.replace(run, seconds=0.0, swapped=False, failure=_anywhere(run.failure))
        for run in runs
    )
    return [msgspec.msgpack.encode(run) for run in plain]


def assert_alike(ours: Sequence[Run], theirs: Sequence[Run]) -> None:
    """Compare runs, but for those at a time limit, which depend on the machine."""
    pairs = [
        pair
        for *pair, one, other in zip(observed(ours), observed(theirs), ours, theirs, strict=True)
        if not any(run.failure and run.failure.type in MOST_LATE for run in (one, other))
    ]
    assert [one for one, _ in pairs] == [other for _, other in pairs]


def _anywhere(failure: Failure | None) -> Failure | None:
    """The failure without its line, and without a message that may name a local variable."""
    if failure is None:
        return None
    named = failure.type in ("UnboundLocalError", "EngineDoesNotLoad")
    return msgspec.structs.replace(
        failure, where="", origin=None, message="" if named else failure.message
    )


@cache
def coverage() -> dict[str, frozenset[str] | None]:
    """The functions that each shared probe calls."""
    probes = tuple(CATALOGUE.shared_probes.values())
    baseline = Baseline(open_cache(), ())
    called = baseline.coverage(ENGINE, probes)
    names = [probe.name for probe in probes for _ in probe.losses]
    return dict(zip(names, called, strict=True))


MOST_OTHERS = 16
"""The number of other probes on which a break is compared with the composed ones: an op in the
core is reached by 200 shared probes, which run the same rewritten code."""


def probes_reaching(page_id: str) -> tuple[Probe, ...]:
    """The probes of a break's page, and some of the shared ones that call a function it changes."""
    experiment = prepare(CATALOGUE.page(page_id), CATALOGUE, ENGINE)
    changed = changed_functions(ENGINE.root, ENGINE.sources, experiment.broken.sources)
    names = {probe.name for probe in experiment.probes}
    others = [
        probe
        for name, probe in CATALOGUE.shared_probes.items()
        if name not in names
        and (changed is None or (called := coverage()[name]) is None or changed & called)
    ]
    return (*experiment.probes, *others[:: math.ceil(len(others) / MOST_OTHERS) or 1])


def assert_behaves_as_it_should(
    page_id: str, probes: Sequence[Probe], losses: Collection[Loss | None] = (*LOSSES, None)
) -> bool:
    """Return whether the break was swapped in."""
    files, patched = composed(page_id), put(CATALOGUE.page(page_id), ENGINE).sources
    plain, broken, twin = (
        runs_of(job_on(with_files(texts), probes, losses))
        for texts in (patched, files.broken, files.twin)
    )
    clean = run_cached(job_on(ENGINE, probes, losses), open_cache())
    assert_alike(broken, plain)
    assert_alike(twin, clean)
    ways = [any(run.swapped for run in runs) for runs in (plain, broken, twin)]
    assert ways[1] == ways[2] >= ways[0]
    return ways[0]


@pytest.mark.parametrize("page_id", SOME)
def test_broken_and_twin_behave_like_the_break_and_the_clean_engine(page_id: str) -> None:
    page = CATALOGUE.page(page_id)
    assert assert_behaves_as_it_should(page_id, CATALOGUE.probes_for(page))


@pytest.mark.slow
@pytest.mark.parametrize("page_id", BREAKS)
def test_that_holds_for_every_break_on_probes_that_reach_it(page_id: str) -> None:
    """With one loss: for another cotangent, rewritten code has no paths of its own."""
    assert_behaves_as_it_should(page_id, probes_reaching(page_id), ("weighted", None))


# ----- What the code reveals -----


def codes(files: Mapping[str, str]) -> Iterator[CodeType]:
    pending = list(compile_files(ENGINE.root, dict(files), ()).values())
    while pending:
        code = pending.pop()
        yield code
        pending += (each for each in code.co_consts if isinstance(each, CodeType))


def names_in(files: Mapping[str, str]) -> set[str]:
    return {name for code in codes(files) for name in code.co_names}


def constants_in(files: Mapping[str, str]) -> set[str]:
    constants = (constant for code in codes(files) for constant in code.co_consts)
    return {repr(each) for each in constants if not isinstance(each, CodeType | tuple)}


@pytest.mark.parametrize(
    "page_id", [*SOME[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_neither_names_nor_constants_nor_text_tell_them_apart(page_id: str) -> None:
    published = put(CATALOGUE.page(page_id), ENGINE).sources
    pairs = [composed(page_id, bytes([seed])) for seed in range(2)]
    for pair in pairs:
        assert pair.broken.keys() == pair.twin.keys()
        plain = {file: published[file] for file in pair.twin}
        original = {file: ENGINE.sources[file] for file in pair.twin}
        for one in (pair.broken, pair.twin):
            assert names_in(one) >= names_in(plain) | names_in(original)
            assert constants_in(one) >= constants_in(plain) | constants_in(original)
            for file, text in one.items():
                assert text not in (plain[file], original[file])
        assert names_in(pair.broken) == names_in(pair.twin)
    texts = {text for pair in pairs for one in (pair.broken, pair.twin) for text in one.values()}
    assert len(texts) == sum(2 * len(pair.broken) for pair in pairs)


def features(files: Mapping[str, str]) -> Counter[str]:
    """Counts of everything in the text or the code that a suite could count."""
    counts: Counter[str] = Counter()
    for text in files.values():
        counts.update(text=len(text), lines=text.count("\n"))
        counts.update(type(node).__name__ for node in ast.walk(ast.parse(text)))
    for code in codes(files):
        counts.update(code=len(code.co_code), constants=len(code.co_consts))
        counts.update(locals=code.co_nlocals, stack=code.co_stacksize)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("page_id", ["skip-unbroadcast", "visited-missing", "gelu-identity"])
def test_no_count_differs_on_average(page_id: str) -> None:
    published = put(CATALOGUE.page(page_id), ENGINE).sources
    broken = {file: text for file, text in published.items() if text != ENGINE.sources[file]}
    clean = {file: ENGINE.sources[file] for file in broken}
    counts = {
        live: [
            features(compose_files(clean, broken, live, number.to_bytes(2, "big")))
            for number in range(100)
        ]
        for live in VERSIONS
    }
    for name in sorted(set().union(*counts["broken"], *counts["clean"])):
        one, other = ([count[name] for count in counts[live]] for live in VERSIONS)
        spread = math.sqrt((pvariance(one) + pvariance(other)) / 100)
        assert abs(mean(one) - mean(other)) <= 4.5 * spread, name


def test_the_same_seed_gives_the_same_text() -> None:
    assert composed("skip-unbroadcast") == composed("skip-unbroadcast")


def test_unchanged_code_keeps_its_lines() -> None:
    text = composed("skip-unbroadcast").twin["minigrad/elementwise.py"]
    before, _, after = ENGINE.sources["minigrad/elementwise.py"].partition(
        "        return unbroadcast(g, a.shape), unbroadcast(g, b.shape)\n"
    )
    assert text.startswith(before)
    assert text.endswith(after)


def test_a_break_without_a_site_is_not_composed() -> None:
    empty = replace(ENGINE, sources={"minigrad/__init__.py": ""})
    assert compose(empty, CATALOGUE.page("skip-unbroadcast"), SEED) is None


def test_a_file_that_cannot_be_rewritten_is_a_problem_with_a_remedy() -> None:
    deep = {"deep.py": f"def deep(x):\n    return {'+'.join('x' * 900)}\n"}
    with pytest.raises(EnvironmentProblem, match=r"deep.py: .* cannot be rewritten") as raised:
        compose_files(deep, {"deep.py": "def deep(x):\n    return x\n"}, "clean", SEED)
    assert raised.value.remedy


# ----- Any change that a page can make -----


TEXT = """
import functools

LIMIT = 3


def counted(function):
    "Count the calls."
    @functools.wraps(function)
    def wrapped(*values):
        wrapped.calls += 1
        return function(*values)
    wrapped.calls = 0
    return wrapped


class Box:
    size = 2

    @counted
    def area(self, times=1):
        "The area."
        total = 0
        for side in range(self.size):
            if side == LIMIT: total += 5
            elif side:
                total = total + side * times
            else:
                total += 1
        def scaled(factor):
            return factor * total
        return scaled(2), [scaled(i) for i in range(2)]

    def name(self): return type(self).__name__.lower()


def values(count):
    try:
        total = sum(range(count))
    except TypeError:
        return []
    return list(range(total))


def run():
    box = Box()
    return (
        box.area(), box.area(3), box.name(), values(3), values("x"), Box.area.calls,
        LIMIT, Box.area.__doc__, sorted(key for key in vars(Box) if key[0] != "_"),
        sorted(name for name in globals() if name[0] != "_"),
    )
"""
CHANGES = [
    [("LIMIT = 3", "LIMIT = 1")],
    [("LIMIT = 3", "LIMIT = min(3, len('ab'))")],
    [("    size = 2", "    size = len('ab') + 1")],
    [("LIMIT = 3", "")],
    [("LIMIT = 3", "LIMIT = 3\nOTHER = LIMIT")],
    [("    size = 2", "    size = 3\n    other = 4")],
    [("    size = 2\n", "")],
    [("    @counted\n", "")],
    [("class Box:", "class Box(dict):")],
    [("times=1", "times=2")],
    [('    "The area."', '    "Another text."'), ("total + side", "total - side")],
    [('        "The area."\n', "")],
    [('    "The area."', "    total = 1")],
    [("total += 5", "pass"), ("== LIMIT", "== LIMIT - 2")],
    [("            elif side:\n                total = total + side * times\n", "")],
    [("            else:\n                total += 1\n", "")],
    [("total += 1\n", "total += 1\n                continue\n")],
    [("return factor * total", "return total"), ("scaled(2),", "scaled(3),")],
    [
        (
            "return factor * total",
            "nonlocal total\n            total += factor\n            return total",
        )
    ],
    [("total = 0\n", "global LIMIT\n        LIMIT = LIMIT + 1\n        total = LIMIT\n")],
    [("total = 0\n", "total, LIMIT = 0, 1\n")],
    [("total = 0\n", "total = id = 0\n"), ("side * times", "id")],
    [("def scaled(factor):\n            return factor * total", "scaled = total.__add__")],
    [("def scaled(factor):", "def scaled(factor, more=1):"), ("factor * total", "factor - more")],
    [("type(self).__name__.lower()", "'a box'")],
    [("    return list(range(total))", "    yield total")],
    [("    except TypeError:\n        return []", "    finally:\n        count = 2")],
    [("sum(range(count))", "sum(count for count in range(count + 1))")],
    [("sum(range(count))", "(range := count) and 2"), ("list(range(total))", "[range] * total")],
    [("import functools\n", "import functools\nimport math\n"), ("sum(r", "math.prod(r")],
    [("def values(count):", "def values(count, more=()):"), ("return []", "return [more]")],
]


def result_of(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "box"}
    try:
        exec(compile(text, "box.py", "exec", dont_inherit=True), names)  # noqa: S102  a sample
        return [next(each) if hasattr(each, "send") else each for each in names["run"]()]
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(("indent", "seeds"), [("    ", 2), ("  ", 1), ("\t", 1)])
def test_any_change_can_be_composed(indent: str, seeds: int) -> None:
    text = TEXT.replace("    ", indent)
    for change in CHANGES:
        changed = TEXT
        for old, new in change:
            assert old in changed
            changed = changed.replace(old, new)
        versions: dict[LiveVersion, str] = {
            "clean": text,
            "broken": changed.replace("    ", indent),
        }
        for seed, (live, version) in product(range(seeds), versions.items()):
            out = compose_file(text, versions["broken"], live, Random(seed))
            assert _but_docstring(result_of(out)) == _but_docstring(result_of(version)), out


def _but_docstring(result: Any) -> Any:
    """A docstring remains that of the clean version: it must be the first line of its function."""
    return [*result[:7], *result[8:]] if isinstance(result, list) else result
