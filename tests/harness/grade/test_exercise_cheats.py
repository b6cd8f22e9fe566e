"""Files that know nothing of derivatives, and look at the engine's code instead: they earn nothing.

Each function of `CHEATS` returns whether this is not the published engine, or is the broken one as
the catalogue describes it. All of them fail on the plain patch.
"""

from pathlib import Path

import pytest

from harness.diagnostics import DIAGNOSTICS
from harness.experiment.baseline import Baseline
from harness.experiment.context import OpenContext
from harness.grade.exercise import ExerciseReport, run_exercise
from harness.grade.functions import judge_tests
from harness.grade.submission import prepare_break, read_submission
from harness.pages.front_matter import Exercise
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.grade.test_twins import ENGINE

pytestmark = pytest.mark.usefixtures("without_oracles")

EXERCISES = [page.id for page in bundled_pages() if isinstance(page.front, Exercise)]
FIRST = "squares-only"
SEED = b"unknown"

CHEATS = '''
import hashlib, linecache, os, signal, sys, time
from pathlib import Path
from types import CodeType, FunctionType


def _on_disk(lib):
    folder = Path(lib.__file__).parent
    return {str(path): path.read_text() for path in folder.rglob("*.py")}


def _codes(text, path):
    pending, found = [compile(text, path, "exec", dont_inherit=True)], {}
    while pending:
        code = pending.pop()
        found[code.co_qualname] = code
        pending += [item for item in code.co_consts if isinstance(item, CodeType)]
    return found


def _differ(lib, look):
    """Whether a loaded function looks different from the one on disk."""
    published = {
        path: _codes(text, path)
        for path, text in _on_disk(lib).items()
        if "".join(linecache.getlines(path)) != text  # the others need not be compiled
    }
    for item in _functions(lib):
        code = published.get(item.__code__.co_filename, {}).get(item.__code__.co_qualname)
        if code is not None and look(code) != look(item.__code__):
            return True
    return False


def _functions(lib):
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == lib.__name__]
    items = [item for module in modules for item in vars(module).values()]
    items += [item for each in items if isinstance(each, type) for item in vars(each).values()]
    files = _on_disk(lib)
    return [
        item
        for item in items
        if isinstance(item, FunctionType) and item.__code__.co_filename in files
    ]


def _all(code, name):
    out = [getattr(code, name)]
    for item in code.co_consts:
        if isinstance(item, CodeType):
            out += _all(item, name)
    return out


def _frames(lib):
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            job = getattr(value, "job", value)
            sources, base = getattr(job, "sources", None), getattr(job, "base", None)
            if sources is not None and base and dict(sources) != dict(base):
                return True
        frame = frame.f_back
    return False


def _sites(lib):
    """Whether the harness records places of a patch."""
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if getattr(getattr(value, "job", value), "sites", ()):
                return True
        frame = frame.f_back
    return False


def _linecache(lib):
    return any("".join(linecache.getlines(p)) != text for p, text in _on_disk(lib).items())


def _hash(lib):
    return _differ(lib, lambda code: hashlib.sha256(b"".join(_all(code, "co_code"))).digest())


def _names(lib):
    return _differ(lib, lambda code: set().union(*_all(code, "co_names")))


def _constants(lib):
    numbers = (int, float, str)
    return _differ(
        lib, lambda code: {c for cs in _all(code, "co_consts") for c in cs if type(c) in numbers}
    )


def _length(lib):
    return _differ(lib, lambda code: sum(map(len, _all(code, "co_code"))))


def _lines(lib):
    return _differ(lib, lambda code: code.co_firstlineno) or _differ(
        lib, lambda code: list(code.co_lines())
    )


def _modules(lib):
    """Whether the loader of a module in sys.modules has another text than the disk."""
    published = _on_disk(lib)
    for name, module in list(sys.modules.items()):
        finder = getattr(getattr(module, "__loader__", None), "finder", None)
        for file, text in getattr(finder, "sources", {}).items():
            path = str(finder.root / file)
            if path in published and published[path] != text:
                return True
    host = sys.modules.get("harness.runs.child")
    loaded = getattr(host, "OUR_ENGINE", {}).get(lib.__name__)
    return loaded is not None and any(
        code.co_consts != item.__code__.co_consts
        for item in _functions(lib)
        for code in [_published(loaded, item)]
        if code is not None
    )


def _published(loaded, item):
    """The code of a function before it was swapped."""
    path = item.__code__.co_filename
    name = item.__code__.co_qualname
    for key, text in loaded.sources.items():
        if path.endswith(key):
            return _codes(text, path).get(name)


def _catalogue(lib):
    """Whether the text holds what a page of the catalogue puts into the engine."""
    loaded = "".join("".join(linecache.getlines(path)) for path in _on_disk(lib))
    published = "".join(_on_disk(lib).values())
    for page in (Path(lib.__file__).parent.parent / "breaks").rglob("*.md"):
        added = [line[1:].strip() for line in page.read_text().splitlines() if line[:1] == "+"]
        if any(len(a) > 9 and a in loaded and a not in published for a in added):
            return True
    return _linecache(lib)


def _coin(lib):
    """Whether a digest of the code is odd: a coin that always falls in the same way."""
    text = "".join("".join(linecache.getlines(path)) for path in sorted(_on_disk(lib)))
    return hashlib.sha256(text.encode()).digest()[0] % 2 and _linecache(lib)
'''

LOOKS = (
    *("frames", "sites", "linecache", "hash", "names", "constants", "length", "lines", "modules"),
    *("catalogue", "coin"),
)
ENDS = {
    "abort": "os.abort()",
    "exit": "os._exit(1)",
    "leave": "sys.exit(1)",
    "signal": "os.kill(os.getpid(), signal.SIGSEGV)",
    "interrupt": "raise KeyboardInterrupt",
    "time": "time.sleep(60)",
    "memory": "raise MemoryError",
}


def _test(name: str, then: str) -> str:
    return f"\n\ndef test_{name}(lib):\n    if _linecache(lib):\n        {then}\n"


def _probe(name: str, then: str) -> str:
    body = f'    "Looks."\n    if _linecache(lib):\n        {then}\n    return x\n'
    return f"\n\ndef {name}(lib, x=[1.0, 2.0]):\n{body}"


TESTS = CHEATS + "".join(
    f"\n\ndef test_{look}(lib):\n    assert not _{look}(lib)\n" for look in LOOKS
)
PROBES = CHEATS + "".join(
    _probe(name, then)
    for name, then in {
        "fails": "raise ValueError",
        "aborts": "os.abort()",
        "scales": "x = x * x.data",
        "stores": "x.data += 1.0",
    }.items()
)


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    alone = [each for each in DIAGNOSTICS if each.name in ("crash", "shape", "gradcheck", "purity")]
    return Baseline(open_cache(), alone, Limits(seconds=120, cpu_seconds=60))


def attempt(folder: Path, exercise: str, text: str, baseline: Baseline) -> ExerciseReport:
    (folder / "mine.py").write_text(text, encoding="utf-8")
    probes = read_submission(folder / "mine.py")
    context = OpenContext(CATALOGUE, ENGINE, baseline)
    return run_exercise(CATALOGUE.page(exercise), context, probes, SEED)


def failing_on_the_patch(folder: Path, exercise: str, baseline: Baseline) -> set[str]:
    """The tests that fail on the plain patch of the first break, as a naive judge would see it."""
    probes = read_submission(folder / "mine.py")
    context = OpenContext(CATALOGUE, ENGINE, baseline)
    page = CATALOGUE.page(exercise).front_as(Exercise)
    fates = judge_tests(prepare_break(page.breaks[0], probes, context), baseline)
    return {name for name, fate in fates.items() if not fate.passes}


def on_all_exercises(first: str) -> pytest.MarkDecorator:
    others = (name for name in EXERCISES if name != first)
    slow = (pytest.param(name, marks=pytest.mark.slow) for name in others)
    return pytest.mark.parametrize("exercise", [first, *slow])


def assert_earns_nothing(report: ExerciseReport) -> None:
    assert not any(result.problems for result in report.probes)
    assert (report.killed, report.score) == (False, 0)
    for attack in report.attacks:
        assert attack.killed_by == {}
        assert attack.stage != "revealed"


@on_all_exercises(FIRST)
def test_a_test_that_looks_at_the_code_kills_nothing(
    tmp_path: Path, exercise: str, baseline: Baseline
) -> None:
    report = attempt(tmp_path, exercise, TESTS, baseline)
    assert_earns_nothing(report)
    recognising = {f"test_{look}" for look in LOOKS} - {"test_sites", "test_coin"}
    for attack in report.attacks:
        assert recognising <= set(attack.recognised)
        assert "recognises code, not behaviour" in str(attack.why)
    looks = {"test_frames", "test_sites", "test_linecache", "test_hash"}
    assert looks <= failing_on_the_patch(tmp_path, exercise, baseline)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("abort", "SIGABRT"),
        pytest.param("exit", "ProcessExit", marks=pytest.mark.slow),
        ("leave", "SystemExit"),
        pytest.param("signal", "SIGSEGV", marks=pytest.mark.slow),
        pytest.param("interrupt", "KeyboardInterrupt", marks=pytest.mark.slow),
        pytest.param("memory", "MemoryError", marks=pytest.mark.slow),
        pytest.param("time", "TimeLimit", marks=pytest.mark.slow),
    ],
)
def test_the_end_of_the_process_is_not_a_kill(
    tmp_path: Path, baseline: Baseline, name: str, how: str
) -> None:
    if name == "time":
        baseline = Baseline(open_cache(), (), Limits(seconds=3))
    report = attempt(tmp_path, FIRST, CHEATS + _test(name, ENDS[name]), baseline)
    assert_earns_nothing(report)
    (attack,) = report.attacks
    assert attack.ended[f"test_{name}"].startswith(how)
    assert str(attack.why).startswith(f"`test_{name}` ends its process, which is not a kill: {how}")


# What "scales" computes meets that break, too: some diagnostics alarm only on the broken engine.
@on_all_exercises("checker-that-skips")
def test_a_probe_that_looks_at_the_code_kills_nothing(
    tmp_path: Path, exercise: str, baseline: Baseline
) -> None:
    report = attempt(tmp_path, exercise, PROBES, baseline)
    assert_earns_nothing(report)
    for attack in report.attacks:
        assert set(attack.recognised) == {"fails", "scales", "stores"}
        assert attack.ended.keys() == {"aborts"}


def test_what_is_written_for_behaviour_kills_beside_a_cheat(
    tmp_path: Path, baseline: Baseline
) -> None:
    honest = """

def test_product(lib):
    a, b = (lib.tensor([x], requires_grad=True) for x in (2.0, 5.0))
    (a * b).sum().backward()
    assert a.grad[0] == 5.0
"""
    cheat = "\n\ndef test_hash(lib):\n    assert not _hash(lib)\n"
    report = attempt(tmp_path, FIRST, CHEATS + cheat + honest, baseline)
    (attack,) = report.attacks
    assert attack.killed_by == {"test_product": ["test"]}
    assert (report.killed, report.score, attack.stage) == (True, 1, "revealed")
    assert attack.recognised == ["test_hash"]
