"""The test that a report shows: the invariant of a page, in a file for pytest."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.pages.checks import Invariant, invariant_of
from harness.pages.front_matter import TrainingBreak
from tests.harness.bundled import CATALOGUE, bundled_pages


def pasted(source: str) -> str:
    return Invariant("p", "it_holds", source, "p.md", 1).pasted()


def test_the_arguments_become_an_import_and_a_seeded_generator() -> None:
    text = "def it_holds(lib, rng):\n    assert lib.tensor(rng.normal(size=3)).size == 3\n"
    assert pasted(text) == (
        "import minigrad as lib\nimport numpy as np\n\n\n"
        "def test_it_holds(rng=np.random.default_rng(0)):\n"
        "    assert lib.tensor(rng.normal(size=3)).size == 3"
    )


def test_what_draws_nothing_has_no_generator_and_helpers_stay() -> None:
    helper = "def _one(lib):\n    return lib.tensor(1.0)\n\n\n"
    assert pasted(f"{helper}def it_holds(lib, rng):\n    assert _one(lib)\n") == (
        f"import minigrad as lib\n\n\n{helper}def test_it_holds():\n    assert _one(lib)"
    )


def test_numpy_is_imported_once() -> None:
    text = (
        "import numpy as np\n\n\ndef it_holds(lib, rng):\n    assert np.all(rng.normal(size=3))\n"
    )
    assert pasted(text).count("import numpy as np") == 1


def test_the_check_of_a_page_runs_the_text_as_it_is_pasted() -> None:
    invariant = invariant_of(CATALOGUE.page("skip-unbroadcast"))
    assert invariant is not None
    first, *others = invariant.tests()
    assert (first.source, first.takes_lib, first.seed) == (invariant.pasted(), False, None)
    assert all(test.takes_lib and test.seed for test in others)


@pytest.mark.slow
def test_the_tests_of_all_pages_pass_in_one_file_on_the_unbroken_engine(tmp_path: Path) -> None:
    invariants = [
        invariant
        for page in bundled_pages()
        if not isinstance(page.front, TrainingBreak) and (invariant := invariant_of(page))
    ]
    for invariant in invariants:
        name = f"test_{invariant.page.replace('-', '_')}.py"
        (tmp_path / name).write_text(f"{invariant.pasted()}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert f"{len(invariants)} passed" in done.stdout
