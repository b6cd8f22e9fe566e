"""`--engine` and `harness.toml` on the command line, with good and bad input."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.core.message import verbatim
from harness.doctor import diagnosis
from harness.experiment.conformance import Fit
from tests.harness.command import harness
from tests.harness.engines.texts import SOUND, changed, written

pytestmark = pytest.mark.usefixtures("without_oracles", "one_host")

ENGINES = Path(__file__).parents[2] / "engines"
CLOSURES = (ENGINES / "closures.py").read_text(encoding="utf-8")
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learner's folder: a `harness.toml`, and the engine in a folder below it."""
    folder = tmp_path_factory.mktemp("learner")
    written(folder, CLOSURES, "lib/tensor.py")
    written(folder, '[engine]\ntarget = "lib/tensor.py:Tensor"\n', "harness.toml")
    (folder / "work" / "today").mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _unchanged(learner: Path) -> object:
    """Check that these tests leave the learner's folder byte for byte as it was."""
    before = contents(learner)
    yield None
    assert contents(learner) == before


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("named", ["from two folders below the settings", "--engine"])
def test_a_break_on_another_engine_is_not_a_failure(learner: Path, named: str) -> None:
    engine = [] if named != "--engine" else ["--engine", "lib/tensor.py:Tensor"]
    cwd = learner if engine else learner / "work" / "today"
    done = harness("break", "skip-unbroadcast", "--json", *engine, cwd=cwd)
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert report["engine"] == {
        **{"name": "tensor", "variant": None, "foreign": True, "like": "accumulate-in-place"}
    }
    assert {site["file"] for site in report["sites"]} == {"tensor.py"}
    assert report["runs"]
    assert report.keys() >= {"schema", "left_out", "headline", "agrees", "diff", "runs"}


def test_a_buffer_that_is_added_to_in_place_crashes_as_predicted(learner: Path) -> None:
    """The page says so of the variant that adds in place, and this engine does."""
    done = harness(
        *("break", "skip-unbroadcast", "--probe", "add-new-axis", "--json"),
        cwd=learner,
    )
    runs = json.loads(done.stdout)["runs"]
    assert {(run["expected"], run["outcome"], run["agrees"]) for run in runs} == {
        ("crash", "crash", True)
    }


def test_an_engine_that_rebinds_is_silent_where_the_page_says_so(tmp_path: Path) -> None:
    engine = written(tmp_path, SOUND) + ":Tensor"
    done = harness(
        *("break", "skip-unbroadcast", "--probe", "add-new-axis", "--json", "--engine", engine),
        cwd=tmp_path,
    )
    runs = json.loads(done.stdout)["runs"]
    assert {run["outcome"] for run in runs} == {"silent-corruption"}
    assert all(run["agrees"] for run in runs)


def test_the_learners_own_lines_are_shown(learner: Path) -> None:
    shown = harness("diff", "skip-unbroadcast", cwd=learner)
    assert shown.returncode == 0
    assert "unbroadcast(out.grad, self.data.shape)" in shown.stdout
    assert "tensor.py" in shown.stdout
    page = harness("show", "skip-unbroadcast", "--engine", "harness.toml", cwd=learner)
    assert "unbroadcast(out.grad, self.data.shape)" in page.stdout


def test_list_has_the_breaks_that_have_a_site(learner: Path) -> None:
    done = harness("list", "--engine", "harness.toml", "--json", cwd=learner)
    pages = json.loads(done.stdout)["pages"]
    assert {page["kind"] for page in pages} == {"break"}
    ids = {page["id"] for page in pages}
    assert "skip-unbroadcast" in ids
    assert len(ids) < 60  # it has no layers, no optimizers


def test_check_compares_and_a_difference_is_not_a_failure(learner: Path) -> None:
    done = harness("check", "skip-unbroadcast", "--json", cwd=learner)
    (report,) = json.loads(done.stdout)["reports"]
    assert (done.returncode, report["break"]) == (0, "skip-unbroadcast")
    assert json.loads(done.stdout)["findings"] == []


MISPLACED = "misplaced: the page says that the break does not show on `reused-interior-node`"


@pytest.mark.usefixtures("few_pages")
@pytest.mark.parametrize("command", ["break", "check", "matrix"])
def test_a_patch_that_is_not_the_change_that_the_page_means_is_a_failure(command: str) -> None:
    """In this engine a node that is visited twice runs its rule twice; in minigrad it does not."""
    engine = ("visited-missing", "--engine", "rebinding.py:Array")
    done = harness(command, *engine, "--json", cwd=ENGINES)
    assert (done.returncode, done.stderr, MISPLACED in done.stdout) == (1, "", True)
    assert '"outcome"' not in done.stdout
    shown = harness(command, *engine, cwd=ENGINES)
    assert shown.returncode == 1
    assert MISPLACED in " ".join(shown.stdout.split())


@pytest.mark.usefixtures("few_pages")
def test_a_misplaced_patch_is_not_judged_on_a_single_probe_either() -> None:
    engine = ("visited-missing", "--engine", "rebinding.py:Array")
    done = harness("break", *engine, "--probe", "chain", "--json", cwd=ENGINES)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["headline"], report["runs"], report["agrees"]) == ("misplaced", [], False)
    assert report["sites"]
    assert MISPLACED in report["misplaced"]


@pytest.mark.usefixtures("few_pages")
@pytest.mark.parametrize("has_site", [True, False])
def test_break_says_if_the_engine_already_has_the_bug(tmp_path: Path, has_site: bool) -> None:
    both = "lambda g: fold(g, a.data.shape), lambda g: fold(g, b.data.shape)"
    one = "lambda g: g, lambda g: fold(g, b.data.shape)"
    text = changed((both, one if has_site else "lambda g: g, lambda g: g"))
    engine = written(tmp_path, text) + ":Tensor"
    arguments = ("break", "skip-unbroadcast", "--engine", engine)
    done = harness(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    said = " ".join(done.stdout.split())
    assert "Your engine already has this bug" in said
    assert "SILENT" not in said
    assert "end as the page says" not in said
    report = json.loads(harness(*arguments, "--json", cwd=tmp_path).stdout)
    assert "add-new-axis" in report["resembles"]
    assert (report["agrees"], bool(report["sites"]), report["runs"]) == (False, has_site, [])


def test_check_fails_where_a_page_that_was_named_cannot_be_judged(learner: Path) -> None:
    done = harness("check", "adam-shared-moments", cwd=learner)
    assert done.returncode == 1
    assert "nothing can be judged on tensor: its patch has no site" in done.stdout


@pytest.mark.usefixtures("few_pages")
def test_a_matrix_of_single_breaks(learner: Path) -> None:
    done = harness("matrix", "skip-unbroadcast", "--json", cwd=learner)
    matrix = json.loads(done.stdout)
    assert done.returncode == 0
    assert matrix["engine"]["name"] == "tensor"
    (row,) = matrix["breaks"]
    assert "add-new-axis" in row["caught_by"]["crash"]


@pytest.mark.usefixtures("few_pages")
def test_doctor_prints_settings_that_can_be_used(learner: Path, tmp_path: Path) -> None:
    done = harness("doctor", "--json", cwd=learner / "work")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["schema"]) == (1, "", 1)  # it has bugs
    assert found.keys() >= {"engine", "speech", "probes", "breaks", "settings", "accumulation"}
    assert "powers" in {defect["probe"] for defect in found["defects"]}
    written(tmp_path, CLOSURES, "lib/tensor.py")
    written(tmp_path, found["settings"], "harness.toml")
    again = harness("doctor", "--settings", cwd=tmp_path)
    assert again.returncode == 0
    assert again.stdout.splitlines()[2:] == found["settings"].splitlines()[2:]


@pytest.mark.usefixtures("few_pages")
def test_doctor_fails_where_something_looks_wrong_and_says_it_first(tmp_path: Path) -> None:
    engine = (
        written(tmp_path, changed(("fold(g * a.data, b", "fold(1.5 * g * a.data, b"))) + ":Tensor"
    )
    done = harness("doctor", engine, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(lines) <= 15) == (1, "", True)
    at = next(at for at, line in enumerate(lines) if line.startswith("Looks wrong 1 finding"))
    assert lines[at + 1].strip() == "`mul` (engine.py:29)"
    assert "expected" in lines[at + 2]
    assert lines[-2].startswith("Next        harness break ")
    assert lines[-1].split() == ["More", "harness", "doctor", engine, "--all"]


@pytest.mark.parametrize("command", ["break", "diff"])
def test_in_place_of_a_break_without_a_site_those_that_have_one_are_named(
    tmp_path: Path, command: str
) -> None:
    engine = written(tmp_path, SOUND)
    done = harness(command, "sigmoid-missing-1-minus", "--engine", engine, cwd=tmp_path)
    problem, remedy = done.stderr.splitlines()
    assert done.returncode == 1
    assert "`sigmoid-missing-1-minus` cannot be put into engine" in problem
    assert "others can: `" in remedy
    assert "searched for:" not in done.stderr


def test_the_whole_report_says_what_was_searched_for(tmp_path: Path) -> None:
    engine = written(tmp_path, SOUND)
    done = harness("break", "sigmoid-missing-1-minus", "--full", "--engine", engine, cwd=tmp_path)
    assert (done.returncode, "searched for:" in done.stderr) == (1, True)


def test_doctor_without_an_engine_says_how_to_name_one(tmp_path: Path) -> None:
    done = harness("doctor", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no harness.toml in this folder or above it" in done.stderr
    assert "remedy: name one: `harness doctor path/to/tensor.py:Tensor`" in done.stderr


def test_an_exercise_is_about_our_engine_unless_it_can_be_put_to_theirs(learner: Path) -> None:
    listed = json.loads(harness("list", "--json", cwd=learner).stdout)["pages"]
    exercise = next(page["id"] for page in listed if page["kind"] == "exercise")
    done = harness("exercise", exercise, cwd=learner)
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr


UNJUDGED = changed(("np.maximum(self.data, 0), (self,)", "np.maximum(self.data, 0) + 1, (self,)"))
"""Another meaning of `relu`, so that no break in its rule can be judged."""


@pytest.mark.usefixtures("few_pages")
@pytest.mark.parametrize("command", ["break", "check", "matrix"])
def test_nothing_judged_is_a_failure(tmp_path: Path, command: str) -> None:
    engine = written(tmp_path, UNJUDGED)
    arguments = (command, "relu-identity-grad", "--engine", engine)
    shown = harness(*arguments, cwd=tmp_path)
    assert shown.returncode == 1
    assert "othing was judged" in shown.stdout
    done = harness(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout).get("agrees", False) is False


@pytest.mark.usefixtures("few_pages")
def test_a_diagnosis_without_a_judged_probe_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = written(tmp_path, SOUND)
    monkeypatch.setattr(
        diagnosis,
        "fit",
        lambda _engine, probes, _baseline: {
            probe.name: Fit(probe.name, "lacks", verbatim("no")) for probe in probes
        },
    )
    done = harness("doctor", engine)
    assert (done.returncode, "Nothing was judged" in done.stdout) == (1, True)


BAD = {
    "no such file": ("missing.py:Tensor", 3, "does not exist"),
    "no such module": ("surely_missing_engine:Tensor", 3, "nor installed"),
    "no such class": ("engine.py:Matrix", 3, "does not define `Matrix`"),
    "no name": ("engine.py:9", 2, "not a valid class name"),
    "no engine": ("not-a-name", 2, "does not name an engine"),
    "no settings": ("missing.toml", 2, "cannot be read"),
    "an import that fails": ("raising.py:Tensor", 3, "ZeroDivisionError"),
    "an import that ends the process": ("leaving.py:Tensor", 3, "SystemExit"),
    "no tensors": ("plain.py:Tensor", 3, "no expressions were found"),
    "compiled": ("math:sin", 3, "math"),
    "no Python": ("wrong.py:Tensor", 3, "SyntaxError"),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with engines that cannot be tried."""
    folder = tmp_path_factory.mktemp("bad")
    for file, text in {
        "engine.py": SOUND,
        "raising.py": f"{SOUND}\n1 / 0\n",
        "leaving.py": f"import sys\nsys.exit(0)\n{SOUND}",
        "plain.py": "class Tensor:\n    def backward(self):\n        pass\n",
        "wrong.py": "class Tensor(:\n",
    }.items():
        written(folder, text, file)
    return folder


@pytest.mark.parametrize("command", ["doctor", "break"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_message_a_remedy_and_a_status(
    bad: Path, case: str, command: str
) -> None:
    said, status, words = BAD[case]
    arguments = ["break", "skip-unbroadcast", "--engine", said] if command == "break" else []
    done = harness(*(arguments or ["doctor", said]), cwd=bad)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr
    assert done.stderr.startswith("harness: ")
    assert done.stderr.count("harness: ") == 1
    assert done.stderr.count("\n  remedy: ") == 1
    assert "Traceback" not in done.stderr
    assert not list(bad.rglob("__pycache__"))


def test_variants_and_acceptance_are_for_our_engine(learner: Path) -> None:
    for arguments, words in (
        (["break", "skip-unbroadcast", "--on", "accumulate-in-place"], "leave --on out"),
        (["matrix", "skip-unbroadcast", "--accept"], "leave --accept out"),
    ):
        done = harness(*arguments, cwd=learner)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
