"""What a child can read and reach: what it needs, and nothing else (`reads.py`)."""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

import harness
from harness.core.files import cache_folder, data_folder
from harness.engines.engine import Dialect, find_engine
from harness.grade.grading import grade_suite
from harness.grade.plan import plan_grading
from harness.pages.probe import read_probes
from harness.runs.cache import open_cache
from harness.runs.isolated import EngineDoesNotLoad, run_isolated, run_program
from harness.runs.protocol import Job, JobStep, Program
from harness.sandbox.confinement import namespaces_available
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.tiny import TINY, hosted
from tests.hostile.reads import NEEDED, PRELUDE, READS

LIMITS = Limits(seconds=600.0, cpu_seconds=100)

pytestmark = pytest.mark.skipif(not namespaces_available(), reason="only namespaces hide files")

SECRETS = (
    *("home/.netrc", "home/.ssh/id_ed25519", "home/.cache/token", "pages/secret.md"),
    *("course/ada/test_ada.py", "course/bob/test_bob.py", "results/cohort.json"),
)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """Secrets everywhere, programs that listen, and an engine with what belongs to it."""
    field = tmp_path / "field"
    texts = dict.fromkeys(SECRETS, "a secret")
    texts |= {"engine/tiny.py": TINY, "engine/data/weights.txt": "1", "engine/beside.py": "VALUE=1"}
    for name, text in texts.items():
        (field / name).parent.mkdir(parents=True, exist_ok=True)
        (field / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(field / "home" / ".cache"))
    monkeypatch.setenv("BREAKLAB_DATA", str(field / "home" / ".local"))
    monkeypatch.setenv("BREAKLAB_SECRET", "a secret")
    for file in (cache_folder() / "runs.sqlite", data_folder() / "progress.sqlite"):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"a secret")
        Path(f"{file}-wal").write_bytes(b"a secret")
    (tmp_path / "scratch" / "of-another").mkdir(parents=True)
    (tmp_path / "scratch" / "of-another" / "file").write_text("a secret", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    os.mkfifo(field / "home" / "pipe")
    reader = os.open(field / "home" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    abstract = f"breaklab-{os.getpid()}"
    with ExitStack() as stack:
        stack.callback(os.close, reader)
        for address, kind in (
            (str(tmp_path / "s"), socket.SOCK_STREAM),
            (f"\0{abstract}", socket.SOCK_STREAM),
            (str(field / "datagrams"), socket.SOCK_DGRAM),
        ):
            listens = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            listens.bind(address)
            if kind == socket.SOCK_STREAM:
                listens.listen()
        port = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield {
            "field": field,
            "secret": str(field / "home" / ".netrc"),
            "socket": tmp_path / "s",
            "abstract": abstract,
            "port": port.getsockname()[1],
            "pid": os.getpid(),
            "store": cache_folder(),
            "progress": data_folder(),
        }


def code(attempts: Mapping[str, str], places: Mapping[str, object], then: str) -> str:
    """A program that evaluates the attempts, and does something with the text `found`."""
    filled = {name: expression.format(**places) for name, expression in attempts.items()}
    needed = sys.base_prefix, sys.prefix, str(Path(harness.__file__).parent)
    return (
        f"{PRELUDE}\nSECRET = {places['secret']!r}\nENGINE = {str(places['field'])!r} + '/engine'\n"
        f"NEEDED, HARNESS = {needed!r}, {needed[-1]!r}\n"
        f"found = '|'.join(leaks({filled!r}))\n{then}"
    )


FAILS = "if found:\n    raise ValueError(found)\n"


def of_engine(
    attempts: Mapping[str, str], places: Mapping[str, object], limits: Limits = LIMITS
) -> str:
    """What an engine finds when it is imported."""
    text = f"{code(attempts, places, FAILS)}\n{TINY}"
    probes = read_probes('def square(a=[1.0]):\n    """A."""\n    return a.square()\n', "p.py")
    root = str(places["field"]) + "/engine"
    steps = (JobStep(0, "uniform"),)
    job = Job(Dialect("tiny"), root, {"tiny.py": text}, (), probes, steps, limits=limits)
    try:
        (run,) = run_isolated(job)
    except EngineDoesNotLoad as error:
        return error.failure.message
    assert run.failure is None, run.failure
    return ""


def of_probe(attempts: Mapping[str, str], places: Mapping[str, object], module: str) -> str:
    """What a probe of a page finds, on an engine or on an oracle."""
    text = f'def reads(a=[1.0]):\n    """A."""\n    exec({code(attempts, places, FAILS)!r}, {{}})\n'
    probes = read_probes(f"{text}    return a * a\n", "p.py")
    root, sources = str(places["field"]) + "/engine", {"tiny.py": TINY}
    if module != "tiny":
        root, sources = "", {}
    job = Job(Dialect(module), root, sources, (), probes, (JobStep(0, "uniform"),), limits=LIMITS)
    (run,) = run_isolated(job)
    return run.failure.message if run.failure and run.failure.type == "ValueError" else ""


def of_program(attempts: Mapping[str, str], places: Mapping[str, object]) -> str:
    """What the program of a page finds."""
    text = code(attempts, places, "print(found)\n")
    return run_program(Program(text, "p.md", 1, limits=LIMITS)).text.strip()


@pytest.mark.parametrize("forks", [True, False])
def test_an_engine_reads_nothing_else(places: dict[str, object], forks: bool) -> None:
    with hosted(forks):
        assert of_engine(READS, places) == ""


def test_without_namespaces_nearly_all_of_it_is_read(places: dict[str, object]) -> None:
    """So the attempts are able to succeed."""
    limits = Limits(seconds=600.0, cpu_seconds=100, namespaces=False)
    found: set[str] = set()
    names = list(READS)
    for start in range(0, len(names), 8):  # the message of an exception is shortened
        some = {name: READS[name] for name in names[start : start + 8]}
        found |= set(of_engine(some, places, limits).split("|"))
    assert len(found & set(READS)) >= 40, set(READS) - found


@pytest.mark.parametrize("module", ["tiny", "torch", "autograd"])
def test_a_probe_reads_nothing_else(places: dict[str, object], module: str) -> None:
    if module != "tiny":
        pytest.importorskip(module)
    assert of_probe(READS, places, module) == ""


def test_a_program_reads_nothing_else(places: dict[str, object]) -> None:
    own = {name: text for name, text in NEEDED.items() if "engine" not in text}
    assert of_program(READS, places) == ""
    assert of_program(own, places).split("|") == list(own)


def test_what_an_engine_needs_is_there(places: dict[str, object]) -> None:
    missing = {name: f"not ({text})" for name, text in NEEDED.items()}
    assert of_engine(missing, places) == ""
    assert of_engine({"the first one": NEEDED["the engine's file"]}, places) == "the first one"


def test_a_graded_suite_reads_nothing_else(places: dict[str, object]) -> None:
    folder = Path(str(places["field"])) / "course" / "ada"
    text = code(READS, places, "def test():\n    assert found == ''\n")
    (folder / "test_ada.py").write_text(text, encoding="utf-8")
    cache = open_cache()
    plan = plan_grading(
        CATALOGUE, find_engine(), cache, selection="sub-sign", correct=(), seed=b"s", limits=LIMITS
    )
    report = grade_suite(folder, plan)
    assert report.tests == 1
    assert str(report.reason) == ""
