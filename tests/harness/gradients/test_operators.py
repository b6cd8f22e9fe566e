"""Every operator of the catalogue makes mutants that `check_rule` notices."""

import pytest

from harness.grade.operator_suites import RULE, block_of, mutants_of
from harness.grade.rule_mutants import operators
from harness.pages.page import Page
from harness.rules import Form, find_rules
from tests.harness.bundled import CATALOGUE

torch = pytest.importorskip("torch")

from harness import RuleError, check_rule  # noqa: E402  it needs PyTorch
from tests.rule_table import CASES, RULES, is_equivalent, mutants, numbers, rules_in  # noqa: E402

PAGES = operators(CATALOGUE)
FOR_TORCH = [
    page
    for page in PAGES
    if any(rule.form == Form.TORCH for rule in find_rules({"rule.py": block_of(page, RULE).text}))
]


@pytest.mark.parametrize("page", FOR_TORCH, ids=[page.id for page in FOR_TORCH])
def test_the_mutants_of_a_page_with_a_function_are_noticed(page: Page) -> None:
    (rule,) = find_rules({"rule.py": block_of(page, RULE).text})
    inputs = [numbers(2, 3), numbers(3, 2).detach().T.requires_grad_()]
    text = block_of(page, RULE).text
    count = text.split("def forward(")[1].split(")")[0].count(",")
    assert check_rule(rules_in(text)[rule.name].apply, inputs[:count])
    for mutant in mutants_of(page)[1]:
        fn = rules_in(mutant.files.texts["rule.py"])[rule.name].apply
        with pytest.raises(RuleError):
            check_rule(fn, inputs[:count])


def test_every_operator_has_a_site_in_the_rules_for_pytorch() -> None:
    assert {mutant.page.id for mutant in mutants()} == {page.id for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize("rule", CASES)
def test_the_mutants_of_every_operator_are_noticed(rule: str) -> None:
    inputs = CASES[rule].inputs
    assert check_rule(rules_in(RULES.read_text("utf-8"))[rule].apply, inputs)
    made = [one for one in mutants() if one.change is not None and one.change.rule == rule]
    passed = {
        one.id
        for one in made
        if check_rule(
            rules_in(one.files.texts["rules.py"])[rule].apply, inputs, raise_exception=False
        )
    }
    assert passed == {one.id for one in made if is_equivalent(one)}
