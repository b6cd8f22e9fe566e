"""Loading an engine from memory: its text, its tracebacks, and the marks of executed sites."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import msgspec
import pytest

import harness
from harness.core.errors import EnvironmentProblem
from harness.engines import engine as engine_module
from harness.engines.engine import find_engine, read_source
from harness.engines.loading import load
from harness.patch import apply_patch, parse_patch
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job, Step
from tests.harness.tiny import tiny_engine, tiny_job, tiny_probes

PATCH = "@@ square @@\n-self.data**2\n+self.data**3\n"


def patched_job() -> Job:
    engine = tiny_engine()
    broken = engine.patched(apply_patch(parse_patch(PATCH, path="p", line=1), engine.sources))
    return msgspec.structs.replace(tiny_job(), sources=dict(broken.sources), sites=broken.sites)


def test_the_patched_text_is_what_runs() -> None:
    run = run_isolated(patched_job())[0]
    assert run.output is not None
    assert run.output.numpy().tolist() == [1.0, 8.0, 27.0]


def test_a_site_is_reached_only_by_runs_that_execute_it() -> None:
    assert [run.reached for run in run_isolated(patched_job())] == [[0], [0], [0], [0], []]


def test_the_reference_engine_is_not_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setitem(sys.modules, "minigrad", None)
    engine = find_engine()
    assert "minigrad/tensor.py" in engine.sources
    assert engine.root == Path(harness.__file__).parents[1]


def test_a_missing_reference_engine_is_an_environment_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine_module, "PACKAGES", tmp_path)
    with pytest.raises(EnvironmentProblem, match="the reference engine is missing"):
        find_engine()


def test_a_package_without_an_init_file_is_not_completed_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another package of that name is on the path, and an engine of that name has been loaded."""
    (tmp_path / "pair").mkdir()
    for name in ("__init__", "other"):
        (tmp_path / "pair" / f"{name}.py").write_text("other = True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    load("pair", tmp_path, {"pair/__init__.py": "", "pair/mine.py": ""})
    module = load("pair.mine", tmp_path / "root", {"pair/mine.py": "own = True\n"})
    assert module.own
    assert not hasattr(sys.modules["pair"], "other")
    with pytest.raises(ModuleNotFoundError):
        __import__("pair.other")
    for name in ("pair", "pair.mine"):
        del sys.modules[name]


def test_a_source_is_read_in_its_own_encoding_with_its_own_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "old.py"
    file.write_bytes("# -*- coding: latin-1 -*-\r\nname = 'é'\r\n".encode("latin-1"))
    assert read_source(file) == "# -*- coding: latin-1 -*-\r\nname = 'é'\r\n"


def test_a_traceback_shows_the_patched_line() -> None:
    """Run in a child process, which may import an engine."""
    probe = """\
def shows(lib):
    "The traceback that the engine's own failure makes."
    import traceback
    try:
        lib.Tensor(None).square()
    except TypeError:
        lines = traceback.format_exc()
    yield {"shows": float("self.data**3" in lines and "/nowhere/tiny.py" in lines)}
"""
    probes = tiny_probes(probe)
    job = msgspec.structs.replace(patched_job(), probes=probes, steps=(Step(0, None),))
    assert run_isolated(job)[0].log[0]["shows"].numpy() == 1.0


def test_the_parent_never_imports_the_engine() -> None:
    run_isolated(tiny_job())
    assert "tiny" not in sys.modules


def test_a_package_beside_the_engine_is_loaded_from_memory_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another engine with modules of the same names was loaded before."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    for value in (1, 2):
        sources = {"surely_mine.py": "from surely_rules import x\n"}
        module = load("surely_mine", tmp_path, sources | {"surely_rules.py": f"x = {value}\n"})
        assert module.x == value


def test_a_module_that_is_missing_in_a_package_is_not_found_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finder of an editable installation finds a package's modules by their full name."""
    (tmp_path / "elsewhere.py").write_text("x = 1\n", encoding="utf-8")

    class Editable:
        @staticmethod
        def find_spec(name: str, *_: object) -> ModuleSpec | None:
            place = tmp_path / "elsewhere.py"
            return spec_from_file_location(name, place) if name == "twin.other" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    sources = {"twin/__init__.py": "from twin import other\n"}
    with pytest.raises(ImportError, match="cannot import name 'other'"):
        load("twin", tmp_path, sources)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'twin\.other'"):
        load("twin", tmp_path, {"twin/__init__.py": "import twin.other\n"})
    own = tmp_path / "own"
    (own / "twin").mkdir(parents=True)
    (own / "twin" / "other.py").write_text("own = True\n", encoding="utf-8")
    assert load("twin", own, sources).other.own
