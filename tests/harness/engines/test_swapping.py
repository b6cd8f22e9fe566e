"""Swapping the code of a loaded engine's functions is equivalent to loading the patched text."""

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

import msgspec
import pytest

from harness.core.errors import BreaklabError
from harness.core.run import Digest, Run
from harness.engines.engine import find_engine
from harness.engines.loading import Functions, LoadedEngine, compile_files, differ
from harness.experiment.baseline import Baseline
from harness.experiment.patching import clean_engine, prepare
from harness.pages.front_matter import ProbedFront
from harness.runs.cache import Cache
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job, Recorded
from tests.harness.bundled import CATALOGUE, bundled_pages

ROOT = Path("/nowhere")
NAME = "swapped_engine"

TEXT = """
SCALE = 2.0
RULES = {}


def rule(name, times=1):
    def register(function):
        def wrapped(x):
            return function(x) * times
        RULES[name] = wrapped
        return wrapped
    return register


@rule("double")
def double(x):
    return SCALE * x


class Tensor:
    factor = 3.0

    def __init__(self, data):
        self.data = data

    @property
    def scaled(self):
        return self.factor * self.data

    @staticmethod
    def plus(a, b=1.0):
        return a + b

    def closure(self):
        "Return a function."
        def later(x=1.0):
            return x + self.data
        return later


def count():
    yield 1.0


async def answer():
    yield 2.0


values = [n for n in range(3)]
helper = lambda x: x + 10.0
counter, answers = count(), answer()
squares = (n * n for n in range(3))
"""


@pytest.fixture
def loaded() -> Iterator[LoadedEngine]:
    path, before = list(sys.meta_path), sys.dont_write_bytecode
    try:
        yield LoadedEngine(NAME, ROOT, {f"{NAME}.py": TEXT})
    finally:
        sys.meta_path[:] = path
        sys.dont_write_bytecode = before
        sys.modules.pop(NAME, None)


def swap(loaded: LoadedEngine, before: str, after: str) -> ModuleType | None:
    """Return the engine with this change to its text; None if the text must be loaded instead."""
    assert TEXT.count(before) == 1
    text = TEXT.replace(before, after)
    swapped = loaded.swap(compile_files(ROOT, {f"{NAME}.py": text}, ()))
    return importlib.import_module(NAME) if swapped else None


def test_a_function_a_method_a_property_and_a_lambda_are_swapped(loaded: LoadedEngine) -> None:
    module = loaded.module
    tensor, plus = module.Tensor(2.0), module.Tensor.plus
    assert swap(loaded, "return SCALE * x", "return SCALE * x + 1") is module
    assert module.RULES["double"](1.0) == 3.0
    assert swap(loaded, "return self.factor * self.data", "return self.data") is module
    assert tensor.scaled == 2.0
    assert swap(loaded, "return a + b", "return a - b") is module
    assert plus(5.0) == 4.0
    assert swap(loaded, "x + 10.0", "x - 10.0") is module
    assert module.helper(0.0) == -10.0


def test_a_function_that_exists_only_later_is_swapped_with_the_one_around_it(
    loaded: LoadedEngine,
) -> None:
    module = swap(loaded, "return x + self.data", "return x * self.data")
    assert module
    assert module.Tensor(3.0).closure()(2.0) == 6.0
    module = swap(loaded, "def later(x=1.0):", "def later(x=5.0, y=0.0):")
    assert module
    assert module.Tensor(3.0).closure()() == 8.0


def test_functions_that_are_frozen_are_swapped(loaded: LoadedEngine) -> None:
    """As by a test suite that freezes what it has imported: `gc.get_objects` leaves it out."""
    gc.freeze()
    try:
        loaded.functions = Functions(loaded.functions.codes, loaded.functions.called)
        assert gc.get_freeze_count()  # it stays frozen
    finally:
        gc.unfreeze()
    module = swap(loaded, "return a + b", "return a - b")
    assert module is not None
    assert module.Tensor.plus(2.0) == 1.0


def test_a_closure_that_the_import_made_is_swapped(loaded: LoadedEngine) -> None:
    module = swap(loaded, "return function(x) * times", "return function(x) - times")
    assert module
    assert module.double(2.0) == 3.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SCALE = 2.0", "SCALE = -2.0"),
        ("SCALE = 2.0", "SCALE = 2"),
        ("factor = 3.0", "factor = 4.0"),
        ("def plus(a, b=1.0):", "def plus(a, b=2.0):"),
        ("def plus(a, b=1.0):", "def plus(a, c=1.0):\n        b = c"),
        ("def scaled(self):", "def scaled(self, more=None):"),
        ('@rule("double")\n', ""),
        ("        RULES[name] = wrapped\n", "        RULES[name] = function\n"),
        ("[n for n in range(3)]", "[2 * n for n in range(3)]"),
        ("    @property\n", ""),
        ("class Tensor:", "class Tensor(dict):"),
        ("Return a function.", "Return another function."),
        ('        "Return a function."\n', ""),
        ("    def scaled(self):", '    def scaled(self):\n        "Scale."'),
        ("yield 1.0", "yield 3.0"),
        ("yield 2.0", "yield 3.0"),
        ("n * n", "n + n"),
        ("RULES = {}", "RULES = {}\nMORE = 1"),
    ],
)
def test_what_the_import_does_cannot_be_swapped_and_changes_nothing(
    loaded: LoadedEngine, before: str, after: str
) -> None:
    codes = {
        id(f): f.__code__ for functions in loaded.functions.by_code.values() for f in functions
    }
    assert swap(loaded, before, after) is None
    for functions in loaded.functions.by_code.values():
        assert all(function.__code__ is codes[id(function)] for function in functions)


def test_line_numbers_are_those_of_the_patched_text(loaded: LoadedEngine) -> None:
    module = swap(loaded, "SCALE = 2.0", "\n\n\nSCALE = 2.0")
    assert module
    assert module.double.__closure__ is not None
    assert (
        module.Tensor.closure.__code__.co_firstlineno
        == 3 + TEXT.split("def closure")[0].count("\n") + 1
    )


# ----- The catalogue -----

SOME = (
    *("accumulate-in-place", "skip-unbroadcast", "no-seed", "mul-swapped-operands"),
    *("recursive-backward-no-topo", "no-zero-grad-in-loop", "getitem-drop-grad", "max-uniform"),
)
PROBED = [page.id for page in bundled_pages() if isinstance(page.front, ProbedFront)]
OTHERS = [page_id for page_id in PROBED if page_id not in SOME]
PARTS = 8


def broken_job(page_id: str) -> Job:
    page = CATALOGUE.page(page_id)
    try:
        experiment = prepare(page, CATALOGUE, find_engine())
    except BreaklabError:
        variant = next(name for name in page.expect if name)
        experiment = prepare(page, CATALOGUE, find_engine(), variant=CATALOGUE.page(variant))
    baseline = Baseline(Cache(None))
    return baseline.job(experiment.broken, experiment.probes)


def observed(runs: list[Run]) -> list[bytes]:
    """What was observed, encoded: NaN equals NaN then."""
    plain = (msgspec.structs.replace(run, seconds=0.0, swapped=False) for run in runs)
    return [msgspec.msgpack.encode(run) for run in plain]


def trails(job: Job) -> list[dict[str, Digest]]:
    return [run.trail for run in run_isolated(job)]


def assert_equal_if_loaded_and_in_any_order(page_id: str) -> bool:
    """Return whether the page's engine was swapped."""
    job = broken_job(page_id)
    swapped = run_isolated(job)
    loaded = run_isolated(msgspec.structs.replace(job, base={}))
    steps = job.steps
    last_probe_first = sorted(range(len(steps)), key=lambda position: -steps[position][0])
    reordered = dict(zip(last_probe_first, run_isolated(job.only(last_probe_first)), strict=True))
    backward = [reordered[position] for position in range(len(steps))]
    assert observed(swapped) == observed(loaded) == observed(backward)
    inside = msgspec.structs.replace(job, records=Recorded.INSIDE)
    if trails(inside) != trails(msgspec.structs.replace(inside, base={})):
        # Some engines keep addresses in their variables.
        assert trails(inside) != trails(inside)
    assert not any(run.swapped for run in loaded)
    return any(run.swapped for run in swapped)


@pytest.mark.parametrize("page_id", SOME)
def test_swapped_and_loaded_engines_give_equal_runs_in_any_order(page_id: str) -> None:
    assert assert_equal_if_loaded_and_in_any_order(page_id)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_that_holds_for_every_page(part: int) -> None:
    pages, swapped, wrong = OTHERS[part::PARTS], 0, {}
    for page_id in pages:
        try:
            swapped += assert_equal_if_loaded_and_in_any_order(page_id)
        except AssertionError as error:
            wrong[page_id] = str(error)
    assert not wrong
    assert swapped > 0.9 * len(pages)


def test_a_variant_is_swapped_too() -> None:
    variant = CATALOGUE.page("accumulate-in-place")
    engine = clean_engine(find_engine(), variant)
    probes = CATALOGUE.probes_for(CATALOGUE.page("skip-unbroadcast"))
    runs = run_isolated(Baseline(Cache(None)).job(engine, probes))
    assert all(run.swapped for run in runs if run.reached)


@pytest.mark.parametrize(
    ("old", "new", "different"),
    [
        ("def f(x):\n return x + 0.0", "def f(x):\n return x + 0.0", False),
        ("def f(x):\n return x + 0.0", "\n\ndef f(x):\n return (\n x + 0.0)", False),
        ("def f(x):\n return x + 0.0", "def f(x):\n return x - 0.0", True),
        ("def f(x):\n return x + 0.0", "def f(x):\n return x + -0.0", True),
        ("def f(x):\n return x + 1", "def f(x):\n return x + True", True),
        ("def f(x):\n return x + 1", "def f(x):\n return x + 1.0", True),
        ("def f(x):\n return x in (0.0, 1)", "def f(x):\n return x in (-0.0, 1)", True),
        ("class A:\n def f(x): return x", "class B:\n def f(x): return x", True),
    ],
)
def test_code_differs_if_it_does_something_else_but_not_if_only_lines_differ(
    old: str, new: str, different: bool
) -> None:
    pair = [_function(compile(text, "engine.py", "exec")) for text in (old, new)]
    assert differ(*pair) == different


def _function(code: CodeType) -> CodeType:
    """Return the code of `f`."""
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return inner if inner.co_name == "f" else _function(inner)
