"""Diagnoses to show, made without an engine."""

from typing import Any

from harness.core.message import verbatim
from harness.core.report import SiteReport
from harness.doctor.defects import Alike, Defect
from harness.doctor.diagnosis import (
    Accumulation,
    Applicability,
    Application,
    Diagnosis,
    Storage,
    Unbroadcasting,
)
from harness.doctor.roots import Feature
from harness.experiment.conformance import Fit

SITE = SiteReport("engine/tensor.py", 12, "Tensor.__mul__")


def defect(number: int, alike: bool = False, evidence: str = "a.grad is 1, expected 2") -> Defect:
    return Defect(
        feature=Feature(f"op{number}"),
        probe=f"probe-{number}",
        kind="value",
        evidence=verbatim(evidence),
        site=SITE,
        probes=["another", "and-another"],
        alike=[Alike("sub-sign", "The sign of a difference")] if alike else [],
    )


def diagnosis(*defects: Defect, verdict: Any = "fits", **fields: Any) -> Diagnosis:
    made = {
        "schema": 1,
        "engine": "engine.tensor:Tensor",
        "files": 2,
        "kind": "arrays",
        "interface": {"leaf": "Tensor(data)", "data": "t.data", "grad": "t.grad", "backward": "b"},
        "storage": Storage(dtype="float32"),
        "accumulation": Accumulation("zeros", "in place", shares_memory=True),
        "unbroadcasting": Unbroadcasting("unknown"),
        "reducers": [],
        "ops": {},
        "probes": [Fit("p", verdict), Fit("q", "lacks", verbatim("no such thing"))],
        "breaks": [
            Application("mine", [SITE], ["p"]),
            Application("other", [], [], "absent", Applicability.ABSENT),
        ],
        "settings": "[engine]\n",
        "defects": list(defects),
    }
    return Diagnosis(**{**made, **fields})
