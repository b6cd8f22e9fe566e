"""Records between processes: bytes that are not an array are refused when they are read."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from harness.core.run import Array, Measured, Run, failure_of, pack
from harness.core.vocabulary import Phase
from harness.runs.protocol import decode_record


@pytest.mark.parametrize("dtype", ["?", "i1", "<f2", ">f8", "<c16", "u8", "g"])
def test_what_is_packed_is_the_same_array(dtype: str) -> None:
    array = np.ones((2, 0, 3), dtype)
    assert pack(array).numpy().dtype == array.dtype
    assert pack(array).numpy().shape == array.shape


@pytest.mark.parametrize("dtype", [",", "O", "V8", "f8,f8", "(2,)f8", "<M8[s]", "<U0", "<f8\0", ""])
def test_a_dtype_that_is_not_of_numbers_is_refused(dtype: str) -> None:
    assert is_refused({"dtype": dtype, "shape": [0], "data": b""})


@pytest.mark.parametrize("shape", [[2], [-1, 0], [0, 2**63], [0, 2**62], [0, 2**61, 4], [0] * 65])
def test_a_shape_that_no_array_has_is_refused(shape: list[int]) -> None:
    assert is_refused({"dtype": "<f8", "shape": shape, "data": b""})


def is_refused(array: dict[str, object]) -> bool:
    """Whether a child that sends it is not believed."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(array, Array)
    run = msgspec.msgpack.encode({"probe": "p", "loss": None, "output": array})
    return decode_record(run, Run) is None


def test_a_run_without_free_memory_or_with_such_a_measurement_is_not_repeatable() -> None:
    run = Run("p", None)
    assert run.repeatable
    failures = [failure_of(Phase.RUN, error) for error in (ValueError("no"), MemoryError())]
    assert [failure.repeatable for failure in failures] == [True, False]
    assert [replace(run, failure=failure).repeatable for failure in failures] == [True, False]
    for repeatable in (True, False):
        measured = {"m": Measured(), "n": Measured(failure="it failed", repeatable=repeatable)}
        assert replace(run, measured=measured).repeatable is repeatable


def test_losses_are_those_that_are_single_numbers() -> None:
    logged = [np.array(3.0), np.ones(5), np.array([2.0])]
    log = [{"w": pack(1.0)}, *({"loss": pack(loss)} for loss in logged)]
    assert Run("p", None, log=log).losses == [3.0, 2.0]
