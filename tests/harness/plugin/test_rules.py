"""`pytest --breaks-rules`, as a user runs it: in a process of its own, on small packages."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from harness.engines.rule_files import locate_rules
from harness.grade.rule_mutants import operators, rule_mutants, rules_of
from harness.pages.catalogue import open_catalogue
from harness.rules import find_rules
from tests.harness.plugin.process import ALONE, ROOT, Result, run_pytest
from tests.harness.report.published import Sarif

EXAMPLES = ROOT / "tests/rules"

MAIN = """
import functools


def double(x):
    return 2 * x


def double_backward(g):
    return 2 * g


@functools.cache
def power_backward(g, k):
    return g * k
"""


def run(folder: Path, *arguments: str, options: tuple[str, ...] = ALONE) -> Result:
    """Run pytest in a folder, with a report beside it."""
    report = folder.parent / f"{folder.name}-report.json"
    report.unlink(missing_ok=True)
    return run_pytest(folder, report, *options, *arguments, PYTHONDONTWRITEBYTECODE="1")


def example(folder: Path, *names: str) -> Path:
    """Copy files of the examples into a new folder."""
    package = folder / "package"
    package.mkdir()
    for name in names:
        shutil.copy(EXAMPLES / name, package)
    return package


def written(folder: Path, **files: str) -> Path:
    """Write files, by their names without `.py`, into a new folder."""
    package = folder / "package"
    package.mkdir()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    return package


ENGINE = ("engine_suite.py", "--breaks-rules=engine.py")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = example(tmp_path_factory.mktemp("engine"), "engine.py", "engine_suite.py")
    files = [f"--breaks-{form}={folder.parent / f'rules.{form}'}" for form in ("junit", "sarif")]
    return run(folder, *ENGINE, *files, "--breaks-min-score=90")


# ----- An engine of closures -----


def test_a_mutant_is_named_by_operator_rule_function_and_line(engine: Result) -> None:
    form = r"[a-z-]+@Tensor\.\w+\.(_backward|unbroadcast):\d+(#\d+)?"
    assert [name for name in engine.fates if not re.fullmatch(form, name)] == []


def test_the_gaps_of_the_suite_survive(engine: Result) -> None:
    fates = engine.fates
    assert fates["factor-dropped@Tensor.__mul__._backward:26"] == "killed"
    assert fates["transpose-dropped@Tensor.__matmul__._backward:36"] == "survived"
    assert fates["unbroadcast-dropped@Tensor.__add__._backward:16"] == "survived"
    assert fates["mask-dropped@Tensor.relu._backward:46"] == "survived"
    of_tanh = {fate for name, fate in fates.items() if ".tanh." in name}
    assert of_tanh == {"not-reached"}


def test_only_tests_that_reach_the_rule_are_run(engine: Result) -> None:
    reached = {entry["break"]: entry["reached_by"] for entry in engine.report["breaks"]}
    name = "transpose-dropped@Tensor.__matmul__._backward:36"
    assert reached[name] == ["engine_suite.py::test_matmul_of_a_symmetric_matrix"]


def test_the_summary_is_one_screen_with_the_tests_to_write(engine: Result) -> None:
    summary = engine.summary
    assert "5 rules, " in summary
    assert re.search(r"engine.py:36 +transpose-dropped +other.data.T -> other.data", summary)
    assert "Not reached by any test" in summary
    assert "Tests to write:" in summary
    assert "next: harness show " in summary
    assert summary.count("\n") <= 40


def test_a_survivor_has_the_reason_why_it_survives(engine: Result) -> None:
    reasons = {entry["break"]: entry.get("reason") for entry in engine.report["breaks"]}
    of_mul = reasons["cotangent-overwritten@Tensor.__mul__._backward:27"]
    assert (of_mul["kind"], of_mul["call"]) == ("assertion", 1)
    assert of_mul["test"] == "engine_suite.py::test_mul"
    shapes = reasons["unbroadcast-dropped@Tensor.__add__._backward:16"]
    assert (shapes["kind"], shapes["calls"], shapes["reveals"]) == ("inputs", 1, [])
    assert shapes["common"] == [{"kind": "equal-shapes", "argument": ""}]
    square = reasons["transpose-dropped@Tensor.__matmul__._backward:36"]
    assert {"kind": "square", "argument": ""} in square["common"]
    sign = reasons["mask-dropped@Tensor.relu._backward:46"]
    assert {"kind": "one-sign", "argument": "self.data"} in sign["common"]
    assert {
        bool(reason) for name, reason in reasons.items() if "survived" in engine.fates[name]
    } == {True}
    assert reasons["factor-dropped@Tensor.__mul__._backward:26"] is None


def test_the_reasons_are_in_every_format(engine: Result) -> None:
    assert "hidden by the inputs" in engine.summary
    assert "The inputs hide it: the right numbers in the only call" in engine.summary
    for form in ("junit", "sarif"):
        text = (engine.folder.parent / f"rules.{form}").read_text()
        assert "no assertion looked: the first wrong number is in call 1, in test_mul" in text


def test_too_low_a_score_fails_the_run(engine: Result) -> None:
    assert engine.status == 1
    assert "the score is below 90 %" in engine.text


def test_nothing_is_written_into_the_folder(engine: Result) -> None:
    assert {file.name for file in engine.folder.iterdir()} == {"engine.py", "engine_suite.py"}


def test_sarif_is_at_the_line_of_the_rule(engine: Result) -> None:
    text = (engine.folder.parent / "rules.sarif").read_bytes()
    msgspec.json.decode(text, type=Sarif)
    (log,) = json.loads(text)["runs"]
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    assert set(rules) <= {page.id for page in operators(open_catalogue())}
    lines = {
        (result["ruleId"], result["locations"][0]["physicalLocation"]["region"]["startLine"])
        for result in log["results"]
    }
    assert ("transpose-dropped", 36) in lines


def test_junit_has_a_case_for_each_mutant(engine: Result) -> None:
    cases = ElementTree.parse(engine.folder.parent / "rules.junit").iter("testcase")
    assert {case.get("name") for case in cases} == engine.fates.keys()


def test_a_change_is_in_the_json(engine: Result) -> None:
    changes = {entry["break"]: entry["change"] for entry in engine.report["breaks"]}
    change = changes["transpose-dropped@Tensor.__matmul__._backward:36"]
    assert (change["before"], change["after"]) == ("other.data.T", "other.data")
    assert change["write"]


def test_workers_share_the_mutants(engine: Result, tmp_path: Path) -> None:
    folder = example(tmp_path, "engine.py", "engine_suite.py")
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n2")
    assert run(folder, *ENGINE, options=options).fates == engine.fates


def test_one_rule_can_be_named(tmp_path: Path) -> None:
    folder = example(tmp_path, "engine.py", "engine_suite.py")
    result = run(folder, "engine_suite.py", "--breaks-rules=engine.py:Tensor.relu")
    assert {name.partition("@")[2].partition(":")[0] for name in result.fates} == {
        "Tensor.relu._backward"
    }


# ----- Controls -----


def test_the_same_result_survives_everywhere_and_zero_is_killed(tmp_path: Path) -> None:
    folder = example(tmp_path, "engine.py", "engine_suite.py")
    result = run(folder, *ENGINE, "-p", "tests.rules.controls")
    same = {fate for name, fate in result.fates.items() if name.startswith("same-result")}
    zero = {name: fate for name, fate in result.fates.items() if name.startswith("zero-gradient")}
    assert same == {"survived", "not-reached"}
    checked = {fate for name, fate in zero.items() if "relu" not in name and "tanh" not in name}
    assert checked == {"killed"}
    assert {fate for name, fate in zero.items() if "relu" in name} == {"survived"}


@pytest.mark.slow
def test_verdicts_equal_those_of_fresh_processes(engine: Result, tmp_path: Path) -> None:
    target = locate_rules(str(EXAMPLES / "engine.py"))
    mutants = rule_mutants(operators(open_catalogue()), rules_of(target), target.engine)
    assert [mutant.id for mutant in mutants] == list(engine.fates)
    for mutant in random.Random(0).sample(mutants, 20):
        folder = tmp_path / "copy"
        shutil.copytree(engine.folder, folder)
        (folder / "engine.py").write_text(next(iter(mutant.files.texts.values())))
        command = [sys.executable, "-m", "pytest", "-q", *ALONE, "engine_suite.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        assert (done.returncode == 1) == (engine.fates[mutant.id] == "killed"), mutant.id
        shutil.rmtree(folder)


def test_what_only_tensors_of_pytorch_have_is_written_in_no_other_rule() -> None:
    """There, `detach` would raise, which any test notices."""
    found = {}
    for name in ("engine.py", "torch_rules.py"):
        target = locate_rules(str(EXAMPLES / name))
        rules = find_rules({file: target.engine.sources[file] for file in target.files})
        mutants = rule_mutants(operators(open_catalogue()), rules, target.engine)
        found[name] = [m.id for m in mutants if m.id.startswith("cotangent-detached")]
    assert found["engine.py"] == []
    assert len(found["torch_rules.py"]) > 1


# ----- PyTorch -----


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Result:
    pytest.importorskip("torch")
    folder = example(tmp_path_factory.mktemp("torch"), "functions.py", "functions_suite.py")
    return run(folder, "functions_suite.py", "--breaks-rules=functions.py")


def test_functions_of_pytorch(functions: Result) -> None:
    fates = functions.fates
    assert fates["factor-dropped@Scale.backward:14"] == "killed"
    assert fates["cotangent-dropped@Mul.backward:32"] == "survived"
    assert fates["needs-input-grad-index@Mul.backward:31"] == "survived"
    assert Counter(fates.values())["not-reached"] == 0
    _, _, calls = functions.summary.partition("next: harness show ")
    assert "    harness.check_rule(Mul.apply, (a, b))\n" in calls


def test_reasons_of_functions_of_pytorch(functions: Result) -> None:
    reasons = {entry["break"]: entry.get("reason") for entry in functions.report["breaks"]}
    ones = reasons["cotangent-dropped@Mul.backward:32"]
    assert ones["common"] == [{"kind": "ones", "argument": "grad_output"}]
    frozen = reasons["needs-input-grad-index@Mul.backward:31"]
    assert frozen["common"] == [{"kind": "all-require-grad", "argument": ""}]
    assert reasons["cotangent-detached@Mul.backward:32"]["reveals"] == ["graph"]


def test_functions_of_pytorch_that_return_zero_are_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = example(tmp_path, "functions.py", "functions_suite.py")
    controls = ("-p", "tests.rules.controls")
    result = run(folder, "functions_suite.py", "--breaks-rules=functions.py", *controls)
    fates = {name.partition("@")[0]: fate for name, fate in result.fates.items()}
    assert fates == {"same-result": "survived", "zero-gradient": "killed"}


# ----- JAX -----


@pytest.mark.slow
def test_functions_of_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    folder = example(tmp_path, "jax_rules.py", "jax_suite.py")
    result = run(folder, "jax_suite.py", "--breaks-rules=jax_rules.py:mul")
    fates = result.fates
    assert fates["factor-dropped@mul.mul_bwd:19#1"] == "killed"
    reasons = {entry["break"]: entry.get("reason") for entry in result.report["breaks"]}
    assert reasons["factor-dropped@mul.mul_bwd:19#2"]["kind"] == "assertion"
    ones = reasons["cotangent-dropped@mul.mul_bwd:19#1"]
    assert ones["common"] == [{"kind": "ones", "argument": "g"}]


# ----- An engine's own rules beside the catalogue's breaks -----

OF_ENGINE = ("engine_suite.py", "--breaks-engine=engine.py:Tensor")


def test_an_engine_gets_the_breaks_and_the_mutants_of_its_rules(
    engine: Result, tmp_path: Path
) -> None:
    folder = example(tmp_path, "engine.py", "engine_suite.py")
    mark = '@pytest.mark.kills("mask-dropped", "relu-identity-grad")\ndef test_relu'
    suite = (folder / "engine_suite.py").read_text()
    (folder / "engine_suite.py").write_text(
        "import pytest\n" + suite.replace("def test_relu", mark)
    )
    result = run(folder, *OF_ENGINE, "--breaks")
    mutants = {name: fate for name, fate in result.fates.items() if "@" in name}
    assert mutants == engine.fates
    breaks = {name: fate for name, fate in result.fates.items() if name not in mutants}
    assert breaks["matmul-no-transpose"] == "survived"
    applied = [fate for fate in breaks.values() if fate != "does-not-apply"]
    shown = result.text.partition(" breaks ===")[2]
    assert f"of {len(applied)} breaks" in shown
    assert f"5 rules, {len(mutants)} mutants" in shown
    assert result.report["of"] == len(applied) + len(mutants)
    (claims,) = result.report["claims"].values()
    assert claims == ["mask-dropped", "relu-identity-grad"]
    assert shown.count("although its mark says so") == 1
    assert result.status == 1


def test_selected_breaks_come_without_mutants(tmp_path: Path) -> None:
    folder = example(tmp_path, "engine.py", "engine_suite.py")
    result = run(folder, *OF_ENGINE, "--breaks=matmul-no-transpose")
    assert list(result.fates) == ["matmul-no-transpose"]


# ----- CUDA -----

CUDA = """
import types

cuda = types.SimpleNamespace(is_initialized=lambda: True)


def set_num_threads(number):
    pass
"""


@pytest.mark.parametrize("place", ["conftest.py", "test_ops.py"])
def test_where_cuda_is_initialised_early_the_tests_are_imported_again(
    place: str, tmp_path: Path
) -> None:
    folder = written(tmp_path, ops=MAIN, test_ops=SUITE, torch=CUDA)
    with (folder / place).open("a") as file:
        file.write("\nimport torch\n")
    result = run(folder, "--breaks-rules=ops.py:double_backward")
    assert "CUDA was initialised before the first test" in result.text
    assert {entry["path"] for entry in result.report["breaks"]} == {"reloaded"}
    assert result.fates["factor-dropped@double_backward:10"] == "killed"


def test_a_stand_in_for_pytorch_may_be_empty(tmp_path: Path) -> None:
    stub = "import sys, types\nsys.modules['torch'] = types.ModuleType('torch')\n"
    folder = written(tmp_path, ops=MAIN, test_ops=SUITE, conftest=stub)
    result = run(folder, "--breaks-rules=ops.py:double_backward")
    assert result.fates["factor-dropped@double_backward:10"] == "killed"


# ----- What goes wrong -----

SUITE = """
from ops import double, double_backward


def test_double():
    assert double(3.0) == 6.0
    assert double_backward(1.0) == 2.0
"""


def test_a_red_suite_says_nothing_about_rules(tmp_path: Path) -> None:
    suite = SUITE.replace("== 2.0", "== 3.0")
    result = run(written(tmp_path, ops=MAIN, test_ops=suite), "--breaks-rules=ops.py")
    assert "No mutant was tried: 1 test fails without a break." in result.summary
    assert result.status == 1


def test_a_flaky_test_does_not_count(tmp_path: Path) -> None:
    suite = f"{SUITE}\n\ndef test_once(tmp_path_factory):\n    import os\n"
    suite += "    assert os.getpid() == int(os.environ['FIRST'])\n"
    conftest = "import os\nos.environ.setdefault('FIRST', str(os.getpid()))\n"
    folder = written(tmp_path, ops=MAIN, test_ops=suite, conftest=conftest)
    result = run(folder, "--breaks-rules=ops.py")
    assert "Not counted, since their results vary: test_once" in result.summary
    assert result.report["flaky"] == ["test_ops.py::test_once"]


def test_a_rule_that_no_test_reaches(tmp_path: Path) -> None:
    suite = "from ops import double\n\n\ndef test_double():\n    assert double(3.0) == 6.0\n"
    result = run(written(tmp_path, ops=MAIN, test_ops=suite), "--breaks-rules=ops.py")
    assert set(result.fates.values()) == {"not-reached"}
    assert "No test reaches a rule: write one that calls it" in result.summary


def test_a_kill_by_time_out_is_named(tmp_path: Path) -> None:
    text = "def count_backward(g, n):\n    while n > 0:\n        n = n - 1\n    return g * 2\n"
    suite = (
        "from ops import count_backward\n\n\ndef test():\n    assert count_backward(1.0, 3) == 2\n"
    )
    folder = written(tmp_path, ops=text, test_ops=suite)
    result = run(folder, "--breaks-rules=ops.py")
    late = [entry for entry in result.report["breaks"] if entry.get("timed_out")]
    assert late
    assert all(entry["fate"] == "killed" for entry in late)
    assert f"Killed only because the tests did not end in time: {len(late)}" in result.summary


def test_a_rule_that_an_import_calls_is_imported_again(tmp_path: Path) -> None:
    text = f"{MAIN}\nTABLE = double_backward(1.0)\n"
    result = run(written(tmp_path, ops=text, test_ops=SUITE), "--breaks-rules=ops.py")
    paths = {entry["break"]: entry["path"] for entry in result.report["breaks"]}
    name = "factor-dropped@double_backward:10"
    assert paths[name] == "reloaded"
    assert result.fates[name] == "killed"


@pytest.mark.parametrize(
    ("target", "problem", "remedy"),
    [
        ("nothing.py", "no file or folder nothing.py", "name a file, a folder or a module"),
        ("test_ops.py", "no backward rule in test_ops.py: looked for", "name the file"),
        ("ops.py:Mul", "no rule `Mul`", "the rules are double_backward, power_backward"),
        ("broken.py", "this is not Python", "correct the file"),
        ("math", "no source|not Python source", "name"),
        ("no_such_module", "no module `no_such_module`", "name a file"),
    ],
)
def test_a_mistake_in_the_target(tmp_path: Path, target: str, problem: str, remedy: str) -> None:
    folder = written(tmp_path, ops=MAIN, test_ops=SUITE, broken="x = (\n")
    result = run(folder, f"--breaks-rules={target}")
    assert result.status == 4
    assert re.search(problem, result.text)
    assert re.search(f"remedy: .*{remedy}", result.text)
    assert "Traceback" not in result.text


def test_a_library_that_is_missing(tmp_path: Path) -> None:
    text = "import jax\n\n@jax.custom_vjp\ndef f(x):\n    return x\n\n"
    text += "def fwd(x):\n    return x, x\n\ndef bwd(res, ct):\n    return (ct * res,)\n\n"
    text += "f.defvjp(fwd, bwd)\n"
    result = run(written(tmp_path, ops=text, test_ops=SUITE), "--breaks-rules=ops.py")
    try:
        import jax  # noqa: F401  the message is for those without it
    except ImportError:
        assert "the rules need jax, which is not installed" in result.text
        assert "remedy: pip install jax" in result.text


@pytest.mark.parametrize("line", ["raise RuntimeError('not here')", "import no_such_module"])
def test_a_file_that_cannot_be_imported(line: str, tmp_path: Path) -> None:
    folder = written(tmp_path, ops=f"{MAIN}\n{line}\n", test_ops=SUITE)
    result = run(folder, "--breaks-rules=ops.py")
    assert result.status == 2
    assert result.text.count("ERROR test_ops.py") == 1
    assert "No mutant was tried: the tests cannot be collected" in result.summary


def test_breaks_and_rules_are_two_runs(tmp_path: Path) -> None:
    folder = written(tmp_path, ops=MAIN, test_ops=SUITE)
    result = run(folder, "--breaks-rules=ops.py", "--breaks")
    assert "--breaks and --breaks-rules cannot be combined" in result.text
