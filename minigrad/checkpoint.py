"""Checkpoints: everything that a training needs to continue, bit for bit, as if uninterrupted.

One .npz file, without pickle: the arrays by name, and a JSON header with the step and the states of
the random generators. It does not contain the program, the data, or the place within an epoch.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from minigrad.nn import Module
from minigrad.state import Stateful
from minigrad.types import Array

Generators = Mapping[str, np.random.Generator]

HEADER = "header"
FORMAT = "minigrad checkpoint 1"


def save(
    path: str | os.PathLike[str],
    step: int,
    *,
    model: Module,
    optimizer: Stateful | None = None,
    scheduler: Stateful | None = None,
    generators: Generators | None = None,
) -> None:
    """Write a checkpoint. An existing file is replaced atomically at the end.

    The model's own generators (dropout) are included; `generators` names any others, such as the
    data loader's.
    """
    parts = _parts(model, optimizer, scheduler)
    header = {
        "format": FORMAT,
        "step": int(step),
        "parts": list(parts),
        "generators": {
            name: generator.bit_generator.state
            for name, generator in _all_generators(model, generators).items()
        },
    }
    arrays = {HEADER: np.array(json.dumps(header, default=np.ndarray.tolist))}
    for part, stateful in parts.items():
        for name, array in stateful.state_dict().items():
            arrays[f"{part}/{name}"] = array

    path = Path(path)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            _write_npz(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load(
    path: str | os.PathLike[str],
    *,
    model: Module,
    optimizer: Stateful | None = None,
    scheduler: Stateful | None = None,
    generators: Generators | None = None,
) -> int:
    """Restore what `save`, called with the same parts, has stored; return the step.

    Raises ValueError if the file is not a checkpoint or has other parts or generators than these,
    and what `load_state_dict` raises.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays: dict[str, Array] = dict(file)
    header = json.loads(arrays.pop(HEADER, np.array("{}")).item())
    if header.get("format") != FORMAT:
        raise ValueError(f"{os.fspath(path)} is not a {FORMAT!r}")

    states: dict[str, dict[str, Array]] = {part: {} for part in header["parts"]}
    for name, array in arrays.items():
        part, _, rest = name.partition("/")
        states[part][rest] = array
    parts = _parts(model, optimizer, scheduler)
    own = _all_generators(model, generators)
    _check_same("parts", states, parts)
    _check_same("generators", header["generators"], own)

    for part, stateful in parts.items():
        stateful.load_state_dict(states[part])
    for name, generator in own.items():
        generator.bit_generator.state = header["generators"][name]
    return int(header["step"])


def _write_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Like `np.savez`, which takes `allow_pickle` only in newer releases.

    Raises ValueError for an array of Python objects: it would need pickle.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _parts(
    model: Module, optimizer: Stateful | None, scheduler: Stateful | None
) -> dict[str, Stateful]:
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    return {name: part for name, part in parts.items() if part is not None}


def _all_generators(model: Module, others: Generators | None) -> dict[str, np.random.Generator]:
    own = {f"model/{name}": generator for name, generator in model.generators().items()}
    return own | dict(others or {})


def _check_same(what: str, saved: Mapping[str, object], own: Mapping[str, object]) -> None:
    if saved.keys() != own.keys():
        raise ValueError(
            f"the checkpoint has the {what} {sorted(saved)}, but it is loaded into {sorted(own)}"
        )
