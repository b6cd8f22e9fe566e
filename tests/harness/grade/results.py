"""Results of suites, as records that a grading would return."""

from typing import Any

from harness.grade.suite import BreakResult, CorrectEngine, Fate, SuiteReport

FATES: tuple[Fate, ...] = ("killed", "survived", "not-reached", "recognised", "does-not-apply")


def result(name: str, fate: Fate = "killed", level: int = 1, **details: Any) -> BreakResult:
    """A break's result; it was reached by two tests unless its fate says otherwise."""
    reached = (
        [] if fate in ("not-reached", "does-not-apply") else ["t.py::test_mul", "t.py::test_b"]
    )
    fields: dict[str, Any] = {
        "break_": name,
        "family": "broadcasting",
        "level": level,
        "fate": fate,
        "by": ["t.py::test_mul"] if fate in ("killed", "recognised") else [],
        "reached_by": reached,
        "path": "swapped",
        "seconds": 0.5,
        "file": "engine/ops.py",
        "line": 7,
    }
    return BreakResult(**fields | details)


def report(*breaks: BreakResult, **details: Any) -> SuiteReport:
    """A suite's result on these breaks."""
    fields: dict[str, Any] = {
        "schema": 1,
        "suite": ["t.py"],
        "engine": "minigrad",
        "gradable": True,
        "reason": "",
        "tests": 5,
        "breaks": list(breaks),
        "claims": {},
        "seconds": 1.25,
        "correct": [CorrectEngine("minigrad", 5, []), CorrectEngine("in-place", 5, [])],
        "shown": {f"t.py::{name}": f"t.py::{name}" for name in ("test_mul", "test_a", "test_b")},
        "stated": details.get("reason", ""),
    }
    return SuiteReport(**fields | details)


REJECTED = report(
    gradable=False,
    reason="2 tests fail on a correct engine",
    correct=[
        CorrectEngine("minigrad", 5, []),
        CorrectEngine("in-place", 3, ["t.py::test_a", "t.py::test_b"], "adds gradients in place"),
    ],
)

MIXED = report(
    result("sub-sign", level=1),
    result("mul-swap", level=1, family="rules", by=["t.py::test_mul", "t.py::test_b"]),
    result("unbroadcast-mean", "survived", level=2, stage="not-revealed"),
    result("detach-lost", "survived", level=2, family="graph", stage="not-infected"),
    result("tanh-input", "not-reached", level=3, family="rules", path=None),
    result("hashed", "recognised", level=3, family="rules"),
    result("no-tape", "does-not-apply", level=3, family="graph", file="", line=0, path=None),
    flaky=["t.py::test_random"],
    claims={"t.py::test_b": ["unbroadcast-mean"]},
)
