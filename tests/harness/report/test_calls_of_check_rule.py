"""Which calls of `check_rule` end the summary of `pytest --breaks-rules`."""

import pytest

from harness.grade.feedback import DisclosedBreak
from harness.grade.suite import Reason, ReasonKind, RuleChange
from harness.report.grading.rules import to_paste
from harness.rules import Form, Rule


def survivor(rule: str, kind: ReasonKind = "inputs") -> DisclosedBreak:
    change = RuleChange("sign-flipped", rule, "", "backward", "a", "b", "")
    reason = Reason(kind)
    return DisclosedBreak(
        fate="survived", stage=None, by=[], reached_by=[], file="ops.py", change=change,
        reason=reason,
    )  # fmt: skip


def rule(name: str, *inputs: str, form: Form = Form.TORCH) -> Rule:
    return Rule(name, "ops.py", form, (), inputs)


def calls(survivors: list[DisclosedBreak], *rules: Rule) -> list[str]:
    return [line.strip() for line in to_paste(survivors, rules)][1:]


@pytest.mark.parametrize(
    ("inputs", "call"),
    [
        (("a", "b"), "harness.check_rule(F.apply, (a, b))"),
        (("x",), "harness.check_rule(F.apply, (x,))"),
        ((), "harness.check_rule(F.apply, inputs)"),
    ],
    ids=["two", "one", "not known"],
)
def test_the_call_has_the_inputs_of_the_rule(inputs: tuple[str, ...], call: str) -> None:
    assert calls([survivor("F")], rule("F", *inputs)) == [call]


def test_the_three_rules_with_the_most_survivors_come_first() -> None:
    survivors = [survivor(name) for name in "ABBCCCDD"]
    names = [line.partition(".apply")[0][-1] for line in calls(survivors, *map(rule, "ABCD"))]
    assert names == ["C", "B", "D"]


def test_a_rule_whose_survivors_may_all_be_equivalent_has_no_call() -> None:
    assert list(to_paste([survivor("F", "same")], [rule("F")])) == []


def test_a_rule_that_is_not_for_pytorch_has_no_call() -> None:
    assert list(to_paste([survivor("F")], [rule("F", form=Form.CLOSURE)])) == []
