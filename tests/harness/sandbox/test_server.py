"""Forks that answer requests."""

import os
import signal
import time
from multiprocessing.connection import Connection

import pytest

from harness.sandbox import parallel
from harness.sandbox.fork import can_fork
from harness.sandbox.parallel import Server, end_all

pytestmark = pytest.mark.skipif(not can_fork(), reason="this process cannot be forked")


def _echo(connection: Connection) -> None:
    while True:
        connection.send(connection.recv())


def _ignore(connection: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _echo(connection)


def test_a_server_answers_until_it_is_ended() -> None:
    echo = Server(_echo)
    for request in ("first", "second"):
        echo.connection.send(request)
        assert echo.connection.recv() == request
    ended_by_itself = 1 << 8  # its connection was closed
    assert echo.end() in (signal.SIGTERM, ended_by_itself)


def test_idle_servers_end_although_they_ignore_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "_PATIENCE", 300.0)
    servers = [Server(_ignore) for _ in range(3)]
    for one in servers:
        one.connection.send("")
        one.connection.recv()
    end_all(servers)
    assert [os.waitstatus_to_exitcode(one.status or 0) for one in servers] == [1, 1, 1]


def test_a_server_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_PATIENCE", 0.05)

    def stay(connection: Connection) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        connection.send("")
        time.sleep(600)

    stubborn = Server(stay)
    stubborn.connection.recv()
    assert stubborn.end() == signal.SIGKILL


def test_a_server_that_something_else_has_reaped_counts_as_ended() -> None:
    quick = Server(lambda _: None)
    os.waitpid(quick.pid, 0)
    assert (quick.poll(), quick.end()) == (1 << 8, 1 << 8)
