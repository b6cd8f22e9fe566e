"""What recorded values say about a right result, and what they cannot say."""

from harness.answer_key.reason import reason_of
from harness.core.run import Digest, Part, PartValue, Run

VALUE = PartValue(Digest(1, 2.0), (2,), [1.0, 2.0])


def reason(count: int, recorded: int) -> str:
    """The reason of a right run in which `b` was as `a` each time that was recorded."""
    values = [VALUE] * recorded
    broken = Run("probe", "uniform", parts={"0": Part("b", "a", values, count)})
    clean = Run("probe", "uniform", parts={"0": Part("a", "b", values, count)})
    return str(reason_of(broken, clean, [0], {}, is_right=True))


def test_equal_values_explain_a_right_result() -> None:
    assert reason(3, 3) == "`a` became `b`: here both are [1, 2]"


def test_values_that_were_not_recorded_are_not_said_to_be_equal() -> None:
    assert reason(65, 64) == ""


def test_a_constant_that_became_another_one_is_no_reason() -> None:
    def part(text: str, other: str, value: str) -> Part:
        return Part(text, other, [PartValue(Digest(0, 0.0), None, text=value)], 1)

    def run(first: str, constant: str, text: str, other: str, value: str) -> Run:
        parts = {"0": part(constant, first, constant), "1": part(text, other, value)}
        return Run("probe", "uniform", parts=parts)

    clean = run("True", "False", "a or b", "a and b", "True")
    same = run("False", "True", "a and b", "a or b", "True")
    assert str(reason_of(same, clean, [0, 1], {}, is_right=True)) == (
        "`a or b` became `a and b`: here both are True"
    )
