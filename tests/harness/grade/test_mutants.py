"""Breaks as code: which of them a selection names, and what they are compiled to."""

import pytest

from harness.core.errors import UsageError
from harness.engines.engine import find_engine
from harness.engines.loading import compile_files
from harness.grade.mutants import mutants, select
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE


def test_a_unit_selects_the_breaks_among_its_pages() -> None:
    unit = CATALOGUE.course["losses"]
    chosen = {page.id for page in select(CATALOGUE, "unit:losses")}
    assert "mse-target-broadcast" in chosen
    assert "falling-loss-means-right-gradient" in set(unit.listed) - chosen
    assert chosen == {page for page in unit.listed if CATALOGUE.page(page).front.kind == "break"}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("sub-sign,unit:walks", "did you mean `unit:walk`"),
        ("family:nothing", "no break is selected by `family:nothing`"),
    ],
)
def test_a_name_that_selects_nothing_is_a_usage_error(selection: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select(CATALOGUE, selection)


def test_a_unit_without_a_selection_is_not_proposed() -> None:
    with pytest.raises(UsageError, match="no break is selected by `unit:seeds`") as caught:
        select(CATALOGUE, "unit:seeds")  # its breaks need many seeds
    assert "`unit:seeds`" not in str(caught.value.remedy)


def test_a_mutant_has_the_code_that_its_text_compiles_to() -> None:
    engine = find_engine()
    (mutant,) = mutants([CATALOGUE.page("skip-unbroadcast")], engine, open_cache(enabled=False))
    compiled = compile_files(engine.root, mutant.files.texts, ())
    assert mutant.codes == compiled
    pending = [*mutant.codes.values()]
    for code in pending:
        assert code.co_filename in {str(engine.root / file) for file in compiled}
        pending += [inner for inner in code.co_consts if isinstance(inner, type(code))]
    assert len(pending) > 10
