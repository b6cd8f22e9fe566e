"""What the doctor found out about an engine, in words: see `harness.doctor.diagnosis`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harness.core.message import as_text
from harness.doctor.defects import Defect
from harness.doctor.diagnosis import Diagnosis
from harness.doctor.roots import Feature, Use
from harness.engines.survey import Reducer


def in_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the table for JSON. Schema 1: keys may be added, never renamed."""
    table: dict[str, Any] = msgspec.to_builtins(diagnosis, enc_hook=as_text)
    return table | {
        "defects": [
            {"root": root_of(defect), **record}
            for defect, record in zip(diagnosis.defects, table["defects"], strict=True)
        ],
        "storage": list(storage(diagnosis)),
        "accumulation": list(accumulation(diagnosis)),
        "unbroadcasting": list(unbroadcasting(diagnosis)),
    }


# ----- What looks wrong -----

_USES: Mapping[str, str] = {
    Use.CREATED: "broadcasting to a new axis",
    Use.STRETCHED: "broadcasting of a stretched axis",
    Use.BROADCASTING: "broadcasting",
    Use.LEAF_TWICE: "a leaf that is used twice",
    Use.RESULT_TWICE: "a result that is used twice",
    Use.TWICE: "a tensor that is used twice",
    Use.CHAIN: "a backward pass through several ops",
    Use.SECOND: "a result as the second operand",
}

_USES_OF_AN_OP: Mapping[str, str] = {
    Use.CREATED: " with a new axis",
    Use.STRETCHED: " with a stretched axis",
    Use.SAME: " of a tensor and itself",
}


def root_of(defect: Defect) -> str:
    """Return what the probes that show a defect have in common, in a few words."""
    return words_of(defect.feature) if defect.feature else f"`{defect.probe}`"


def words_of(feature: Feature) -> str:
    """Return a feature in a few words."""
    if feature.op:
        return f"`{feature.op}`" + _USES_OF_AN_OP.get(feature.detail, "")
    return _USES[feature.detail]


# ----- Storage -----

_STORED = {
    "scalars": "a tensor is a single number: probes use NumPy arrays of them, with NumPy's shapes",
    "functional": (
        "it differentiates functions: a probe is the function, traced for each of its leaves"
    ),
}
"""By the kind of engine."""


def storage(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what storing does to shapes and dtypes."""
    found = diagnosis.storage
    if diagnosis.kind in _STORED:
        yield _STORED[diagnosis.kind]
    if found.shape_changes:
        changes = "; ".join(
            f"{change.shape} is "
            + ("refused" if change.stored is None else f"stored as {change.stored}")
            for change in found.shape_changes
        )
        yield f"shapes are changed: {changes}; only probes of the other ranks can be judged"
    if found.dtype != "float64":
        yield f"float64 is stored as {found.dtype}, and compared in that precision"
    if found.reads_late:
        yield (
            "a rule reads the value of its operand when it runs: a step between the forward and "
            "the backward pass changes the gradient"
        )


# ----- Accumulation -----

_BEFORE = {
    "none": "a leaf has no gradient before the first backward pass, which stores the first one",
    "zeros": "every leaf starts with a buffer of zeros",
    "number": "a gradient starts as a Python number",
}
_SECOND = {
    "returned": "gradients are returned, not stored, so nothing is accumulated",
    "in place": "a second backward pass adds into the same array",
    "rebound": "a second backward pass makes a new array",
    "replaced": "a second backward pass replaces the gradient instead of adding to it",
    "refused": "a second backward pass is refused",
}


_UNSUMMED = {
    ("crash", "crash"): "a gradient of the wrong shape crashes where it is added",
    ("crash", "stored"): "a gradient of the wrong shape crashes where it is added to a leaf",
    ("crash", ""): "a gradient of the wrong shape crashes where it is added to a leaf",
    ("stored", "crash"): (
        "a gradient of the wrong shape is stored silently in a leaf, and crashes inside the graph"
    ),
    ("stored", "stored"): "a gradient of the wrong shape is stored silently",
    ("stored", ""): "a gradient of the wrong shape is stored silently in a leaf",
    ("", "crash"): "a gradient of the wrong shape crashes inside the graph",
    ("", "stored"): "a gradient of the wrong shape is passed on silently inside the graph",
}
"""What happened to a gradient that was not summed, in a leaf and inside the graph."""


def accumulation(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how gradients are accumulated."""
    found = diagnosis.accumulation
    if found.second_backward == "returned":
        yield _SECOND["returned"]
        return
    for table, key in ((_BEFORE, found.initial_gradient), (_SECOND, found.second_backward)):
        if key in table:
            yield table[key]
    if found.shares_memory:
        yield "a gradient is stored without a copy, and shares memory with another one"
    if text := _UNSUMMED.get((found.unsummed_in_leaf, found.unsummed_inside)):
        yield text


# ----- Un-broadcasting -----

_UNBROADCASTING = {
    "scalars": "none: a number has no shape",
    "named": ("judging by the name, {names}; no function was observed to sum ones((4, 3)) to (3,)"),
    "inside": "it un-broadcasts inside its ops, not in a separate function",
    "missing": "it does not un-broadcast: {reason}",
    "refused": "it does not broadcast: {reason}",
    "unknown": "none was found",
}


def unbroadcasting(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how gradients are summed to the shapes of operands."""
    found = diagnosis.unbroadcasting
    if found.kind == "functions":
        for reducer in diagnosis.reducers:
            yield from _reducer(reducer) if reducer.callers else ()
    else:
        names = ", ".join(f"`{name}`" for name in found.names)
        yield _UNBROADCASTING[found.kind].format(names=names, reason=found.reason)


def _reducer(reducer: Reducer) -> Iterator[str]:
    yield f"`{reducer.name}` ({reducer.file}) sums ones((4, 3)) to {reducer.shape}"
    if reducer.central:
        yield f"it is central: every op's gradient passes through `{reducer.central}`"
    else:
        yield "each op calls it: " + "; ".join(
            f"{op} in {', '.join(f'`{caller}`' for caller in callers)}"
            for op, callers in reducer.callers.items()
        )
    for flaw in reducer.flaws:
        yield f"`{reducer.name}` is wrong: {flaw}"
