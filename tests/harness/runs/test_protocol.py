"""Which parts of a job are sent."""

import msgspec
import pytest

from harness.core.vocabulary import Loss
from harness.runs.protocol import Job, decode_task, encode_task
from tests.harness.tiny import tiny_job


def named_steps(job: Job) -> list[tuple[str, Loss | None]]:
    return [(job.probes[index].name, loss) for index, loss in job.steps]


@pytest.mark.parametrize(
    ("positions", "sent"),
    [
        ([6, 0, 5, 1], ["square", "square_again"]),
        ([4], ["steps"]),
        ([3, 6, 2], ["square_again"]),
        ([], []),
    ],
)
def test_only_the_probes_that_a_step_runs_are_sent(positions: list[int], sent: list[str]) -> None:
    whole = tiny_job()
    whole = msgspec.structs.replace(whole, steps=(*whole.steps, whole.steps[0], whole.steps[3]))
    job = whole.only(positions)
    received = decode_task(encode_task(job))
    assert isinstance(received, Job)
    assert named_steps(received) == [named_steps(whole)[at] for at in positions]
    assert [probe.function for probe in received.probes] == sent
