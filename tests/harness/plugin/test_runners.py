"""Runners, without pytest: the limits of a fork."""

import os
import time

import pytest

from harness.plugin.runners import BreakOutcome, TimeLimit, outcome_in_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def _loop() -> BreakOutcome:
    while True:
        pass


def _wait() -> BreakOutcome:
    time.sleep(300)
    return BreakOutcome()


def test_tests_that_do_not_end_have_little_processor_time() -> None:
    outcome = outcome_in_fork(_loop, TimeLimit(300.0, 0.1))
    assert outcome.problem.startswith("not done after 0.")
    assert outcome.problem.endswith("seconds of processor time")


def test_tests_that_wait_have_as_long_as_a_busy_machine_needs() -> None:
    outcome = outcome_in_fork(_wait, TimeLimit(0.2, 60.0))
    assert outcome.problem == "not done after 0 seconds"
