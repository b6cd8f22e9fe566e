"""The check of an operator's page: its suites are run on its rule and on every mutant."""

from pathlib import Path

import pytest

from harness.check.pages import check_page
from harness.core.errors import UsageError
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.patching import put
from harness.pages.catalogue import BUNDLED, open_catalogue
from harness.pages.front_matter import Operator
from harness.runs.cache import Cache
from tests.harness.bundled import CATALOGUE

TEXT = (BUNDLED / "operators" / "square-dropped.md").read_text(encoding="utf-8")
TEXT = TEXT.replace("square-dropped", "my-slip").replace(
    "](../op-formulas/div-missing-square.md)", "]"
)
TEXT = TEXT.replace("[div-missing-square]", "`div-missing-square`")


def problems(folder: Path, old: str = "", new: str = "") -> list[str]:
    """Check the page with one change, and return what is found."""
    assert old in TEXT
    (folder / "operators").mkdir()
    (folder / "operators" / "my-slip.md").write_text(TEXT.replace(old, new, 1) if old else TEXT)
    context = OpenContext(open_catalogue([folder]), find_engine(), Baseline(Cache(None)))
    return [finding.problem for finding in check_page("my-slip", context).findings]


def test_a_true_page_passes(tmp_path: Path) -> None:
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("reciprocal(np.ones(3)), 1.0)", "reciprocal(np.ones(3)), 2.0)",
         "fails on the unchanged rule"),
        ("def test_at_one():\n", "def test_at_one():\n    assert reciprocal_backward(4, 2) == -1\n",
         "notices my-slip@reciprocal_backward:6, which must survive this suite"),
        ("    assert np.allclose(reciprocal_backward(g, x), g * numeric)\n", "",
         "no test notices my-slip@reciprocal_backward:6"),
        ("-$a ** 2\n+$a", "-$a ** 5\n+$a", "the patch has no site in the rule"),
        ("def reciprocal_backward", "def slope", "no rule is found: looked for"),
        ("@@ rule.backward @@", "@@ add @@", "`add` is not the scope of an operator"),
        ("write   = ", "writes  = ", "key `writes` is unknown"),
    ],
)  # fmt: skip
def test_a_page_that_is_not_true(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert any(problem in found for found in problems(tmp_path, old, new))


def test_every_operator_says_which_test_to_write_and_where_it_was_seen() -> None:
    pages = [page for page in CATALOGUE.valid_pages() if isinstance(page.front, Operator)]
    assert len(pages) == 35
    for page in pages:
        assert isinstance(page.front, Operator)
        assert page.front.write.endswith((".", "`."))
        seen = page.section("Seen in")
        assert all(source == "std" or source in seen for source in page.front.sources), page.id


def test_an_operator_is_not_put_into_an_engine() -> None:
    with pytest.raises(UsageError, match="it is for rules of your own"):
        put(CATALOGUE.page("square-dropped"), find_engine())
