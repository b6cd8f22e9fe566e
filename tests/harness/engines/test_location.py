"""Locating an engine's files from its name, without importing anything."""

import sys
import sysconfig
from pathlib import Path

import pytest

from harness.core.errors import EnvironmentProblem, PageError, UsageError
from harness.engines import nearest_settings
from harness.engines.location import locate
from tests.harness.engines.texts import SOUND, written

BOMB = "raise RuntimeError('imported')\n"


def test_a_single_file_is_a_module_in_its_folder(tmp_path: Path) -> None:
    target = locate(written(tmp_path, SOUND, "tensor.py") + ":Tensor")
    assert (target.module, target.name, target.root) == ("tensor", "Tensor", tmp_path)
    assert dict(target.sources) == {"tensor.py": SOUND}


def test_nothing_is_imported(tmp_path: Path) -> None:
    before = set(sys.modules)
    target = locate(written(tmp_path, BOMB, "bomb.py"))
    assert (target.module, target.name) == ("bomb", None)
    assert set(sys.modules) - before <= {"harness.engines.location"}


def test_a_file_in_a_package_is_imported_through_it(tmp_path: Path) -> None:
    written(tmp_path, "", "mine/__init__.py")
    written(tmp_path, "from ..ops import add\n", "mine/core/tensor.py")
    written(tmp_path, "", "mine/core/__init__.py")
    written(tmp_path, "", "mine/ops.py")
    target = locate(f"{tmp_path}/mine/core/tensor.py:Tensor")
    assert (target.module, target.root) == ("mine.core.tensor", tmp_path)
    assert set(target.sources) == {
        *("mine/__init__.py", "mine/core/__init__.py", "mine/core/tensor.py", "mine/ops.py")
    }


def test_a_package_beside_it_that_it_imports_belongs_to_the_engine(tmp_path: Path) -> None:
    written(tmp_path, "", "mine/__init__.py")
    written(tmp_path, "import numpy\nfrom rules.sums import add\n", "mine/tensor.py")
    for file in ("__init__", "sums", "unused"):
        written(tmp_path, "", f"rules/{file}.py")
    for other in ("numpy", "others"):
        written(tmp_path, "", f"{other}/__init__.py")
    target = locate(f"{tmp_path}/mine/tensor.py:Tensor")
    assert set(target.sources) == {
        *("mine/__init__.py", "mine/tensor.py", "rules/__init__.py", "rules/sums.py")
    }


def test_a_package_beside_its_folder_shows_the_root(tmp_path: Path) -> None:
    written(tmp_path, "from surely_rules.sums import add\n", "mine/tensor.py")
    written(tmp_path, "", "surely_rules/sums.py")
    target = locate(f"{tmp_path}/mine/tensor.py:Tensor")
    assert (target.module, target.root) == ("mine.tensor", tmp_path)
    assert set(target.sources) == {"mine/tensor.py", "surely_rules/sums.py"}


def test_what_is_installed_beside_it_belongs_to_its_own_distribution(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    written(installed, "import rules, others\n", "mine/__init__.py")
    for name in ("rules", "others"):
        written(installed, "", f"{name}/__init__.py")
    record = "mine/__init__.py,,\nrules/__init__.py,,\n"
    written(installed, record, "mine-1.dist-info/RECORD")
    written(installed, "others/__init__.py,,\n", "others-1.dist-info/RECORD")
    target = locate(f"{installed}/mine/__init__.py:Tensor")
    assert set(target.sources) == {"mine/__init__.py", "rules/__init__.py"}


@pytest.mark.parametrize("folder", ["site-packages", "here"])
def test_a_module_does_not_bring_the_packages_that_we_need(tmp_path: Path, folder: str) -> None:
    written(tmp_path / folder, "import numpy\nimport others\n", "mine.py")
    for name in ("numpy", "others"):
        written(tmp_path / folder, "", f"{name}/__init__.py")
    files = set(locate(f"{tmp_path / folder}/mine.py:Tensor").sources)
    assert files == {"mine.py", *(["others/__init__.py"] if folder == "here" else [])}


def test_tests_and_hidden_folders_are_excluded_from_a_package(tmp_path: Path) -> None:
    for file in ("__init__.py", "tests/test_all.py", ".venv/thing.py", "__pycache__/x.py"):
        written(tmp_path, "", f"mine/{file}")
    assert set(locate(f"{tmp_path}/mine").sources) == {"mine/__init__.py"}


def test_relative_imports_make_a_package_of_a_folder_without_init(tmp_path: Path) -> None:
    written(tmp_path, "from .ops import add\n", "mine/tensor.py")
    written(tmp_path, "", "mine/ops.py")
    target = locate(f"{tmp_path}/mine/tensor.py:Tensor")
    assert (target.module, target.root) == ("mine.tensor", tmp_path)
    assert set(target.sources) == {"mine/tensor.py", "mine/ops.py"}


def test_absolute_imports_of_its_own_folder_show_the_root(tmp_path: Path) -> None:
    written(tmp_path, "from mine.ops import add\n", "mine/tensor.py")
    written(tmp_path, "", "mine/ops.py")
    target = locate(f"{tmp_path}/mine/tensor.py:Tensor")
    assert (target.module, target.root) == ("mine.tensor", tmp_path)


def test_a_single_file_includes_the_files_that_it_imports(tmp_path: Path) -> None:
    written(tmp_path, "import ops\nfrom deep.er import x\n", "tensor.py")
    for file in ("ops.py", "deep/er.py", "other.py"):
        written(tmp_path, "", file)
    target = locate(f"{tmp_path}/tensor.py")
    assert set(target.sources) == {"tensor.py", "ops.py", "deep/er.py"}


@pytest.mark.parametrize("folder", ["", "src/"])
def test_a_module_is_found_in_the_folder_and_in_src(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    written(tmp_path, SOUND, f"{folder}mine/tensor.py")
    written(tmp_path, "", f"{folder}mine/__init__.py")
    monkeypatch.chdir(tmp_path)
    target = locate("mine.tensor:Tensor")
    assert (target.module, target.root) == ("mine.tensor", tmp_path / folder)


def test_an_installed_module_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, BOMB, "installed_engine/__init__.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    target = locate("installed_engine:Tensor")
    assert target.root == tmp_path


def test_an_editable_install_is_followed_to_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install is a finder on `sys.meta_path`, or a `.pth` line on `sys.path`."""
    from importlib.machinery import PathFinder

    written(tmp_path, SOUND, "project/src/editable_engine/tensor.py")
    written(tmp_path, "", "project/src/editable_engine/__init__.py")

    class Editable:
        @staticmethod
        def find_spec(name: str, *_: object) -> object:
            if name != "editable_engine":
                return None
            return PathFinder.find_spec(name, [str(tmp_path / "project" / "src")])

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    target = locate("editable_engine.tensor:Tensor")
    assert target.root == tmp_path / "project" / "src"


def test_settings_name_the_target_relative_to_their_own_folder(tmp_path: Path) -> None:
    written(tmp_path, SOUND, "lib/tensor.py")
    path = written(tmp_path, '[engine]\ntarget = "lib/tensor.py:Tensor"\n', "harness.toml")
    for engine in (path, str(tmp_path)):
        target = locate(engine)
        assert (target.module, target.root) == ("tensor", tmp_path / "lib")


def test_settings_set_the_import_root(tmp_path: Path) -> None:
    written(tmp_path, SOUND, "lib/mine/tensor.py")
    settings = '[engine]\ntarget = "lib/mine/tensor.py:Tensor"\nroot = "lib"\n'
    target = locate(written(tmp_path, settings, "harness.toml"))
    assert (target.module, target.root) == ("mine.tensor", tmp_path / "lib")


def test_the_nearest_settings_apply(tmp_path: Path) -> None:
    outer = Path(written(tmp_path, "", "harness.toml"))
    inner = Path(written(tmp_path, "", "a/b/harness.toml"))
    (tmp_path / "a" / "b" / "c").mkdir()
    assert nearest_settings(tmp_path / "a" / "b" / "c") == inner
    assert nearest_settings(tmp_path / "a") == outer


USAGE = {
    "an invalid class name": ("tensor.py:2nd", "not a valid class name"),
    "an invalid module name": ("not-a-module:Tensor", "does not name an engine"),
    "no settings": ("missing.toml", "cannot be read"),
    "not TOML": ("bad.toml", "cannot be read"),
    "no target": ("empty.toml", "target"),
    "an unknown key": ("typo.toml", "keys are"),
    "a root elsewhere": ("root.toml", "correct `root`"),
    "a device as settings": ("zero.toml", "not a regular file"),
    "too large settings": ("large.toml", "too large"),
}
ENVIRONMENT = {
    "no file": ("tensors.py:Tensor", "the files in .* are .*, tensor.py"),
    "a folder": ("plain:Tensor", "name the file that defines the class"),
    "no module": ("surely_not_installed:Tensor", "install it"),
    "a missing submodule": ("json.surely_not:X", "the module `json.surely_not` is neither"),
    "another suffix": ("./notes.txt:Tensor", "not Python source"),
    "built in": ("_sre:Tensor", "built into Python"),
    "a name of the standard library": ("token.py:Tensor", "rename the file"),
    "a name that the harness needs": ("numpy:ndarray", "harness itself needs"),
    "a file that cannot be imported": ("./my-tensor.py:T", "not a valid module name"),
    "another encoding": ("latin.py:Tensor", "UTF-8"),
    "an encoding of text as text": ("rot13.py:Tensor", "UTF-8"),
    "a device": ("zero.py:Tensor", "not a regular file"),
    "too large": ("large.py:Tensor", "too large"),
    "a null byte in the target": ("null.toml", "does not exist"),
    "a null byte in the root": ("null-root.toml", "null byte"),
}


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files that cannot be used as an engine."""
    for file in ("tensor.py", "token.py", "my-tensor.py", "notes.txt"):
        written(tmp_path, SOUND, file)
    written(tmp_path, "", "plain/thing.txt")
    (tmp_path / "latin.py").write_bytes("# größer\n".encode("latin-1"))
    written(tmp_path, "# coding: rot13\n", "rot13.py")
    written(tmp_path, "target: x", "bad.toml")
    written(tmp_path, '[engine]\ntarget = "a\\u0000.py:T"\n', "null.toml")
    written(tmp_path, '[engine]\ntarget = "tensor.py:T"\nroot = "\\u0000"\n', "null-root.toml")
    for name in ("large.py", "large.toml"):
        written(tmp_path, "#" * 1024 * 1025, name)
    for name in ("zero.py", "zero.toml"):
        (tmp_path / name).symlink_to("/dev/zero")
    written(tmp_path, "[engine]\n", "empty.toml")
    written(tmp_path, '[engine]\ntarget = "tensor.py:T"\nclass = "T"\n', "typo.toml")
    written(tmp_path, '[engine]\ntarget = "tensor.py:T"\nroot = "plain"\n', "root.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize(("engine", "words"), USAGE.values(), ids=list(USAGE))
def test_malformed_name_is_a_usage_error(engine: str, words: str) -> None:
    with pytest.raises((UsageError, PageError), match=words) as caught:
        locate(engine)
    assert caught.value.exit_status == 2
    assert "remedy: " in str(caught.value)


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize(("engine", "words"), ENVIRONMENT.values(), ids=list(ENVIRONMENT))
def test_engine_that_cannot_be_loaded_is_an_environment_problem(engine: str, words: str) -> None:
    with pytest.raises(EnvironmentProblem, match=words) as caught:
        locate(engine)
    assert "remedy: " in str(caught.value)


def test_a_compiled_module_is_named_as_such(tmp_path: Path) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    (tmp_path / f"fast{suffix}").write_bytes(b"\x7fELF")
    with pytest.raises(EnvironmentProblem, match=r"is compiled.*\n.*target = "):
        locate(f"{tmp_path}/fast{suffix}:Tensor")


def test_a_folder_without_init_is_named_without_the_class(tmp_path: Path) -> None:
    (tmp_path / "tensor").mkdir()
    with pytest.raises(EnvironmentProblem) as caught:
        locate(f"{tmp_path}/tensor:Tensor")
    assert caught.value.problem == f"{tmp_path}/tensor is a folder without `__init__.py`"
    assert caught.value.remedy.endswith(f"as in `{tmp_path}/tensor/tensor.py:Tensor`")
