"""Which breaks a selection names."""

from harness.grade.mutants import select
from tests.harness.bundled import CATALOGUE


def test_a_unit_selects_the_breaks_among_its_pages() -> None:
    unit = CATALOGUE.course["losses"]
    chosen = {page.id for page in select(CATALOGUE, "unit:losses")}
    assert "mse-target-broadcast" in chosen
    assert "falling-loss-means-right-gradient" in set(unit.pages) - chosen
    assert chosen == {page for page in unit.pages if CATALOGUE.page(page).front.kind == "break"}
