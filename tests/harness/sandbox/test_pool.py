"""A pool of forked processes leaves no process and no thread, however it ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children

import pytest

from harness.cli.session import Background, CommandSession
from harness.sandbox.parallel import map_in_parallel, map_sharing
from harness.sandbox.signals import Terminated, ignore_requests, requests_raised
from tests.harness.command import REQUESTS, handlers_restored


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    """None of the signals is ignored, as under nohup."""
    with handlers_restored():
        for number in REQUESTS:
            signal.signal(number, signal.SIG_DFL)
        yield


def test_a_signal_while_the_pool_ends_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would write to the closed pipe of such a thread at its exit, and print a traceback."""
    whole, threads = ProcessPoolExecutor.shutdown, threading.active_count()
    calls: list[bool] = []

    def interrupted(pool: ProcessPoolExecutor, **options: bool) -> None:
        calls.append(True)
        if len(calls) == 1:
            raise Terminated(130)
        whole(pool, **options)

    monkeypatch.setattr(ProcessPoolExecutor, "shutdown", interrupted)
    with pytest.raises(Terminated):
        list(map_in_parallel(abs, [-1, -2, -3], 2))
    assert threading.active_count() == threads
    assert not active_children()


def called(item: int, shared: Callable[[int], int]) -> int:
    return shared(item)


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_share_what_cannot_be_sent(processes: int) -> None:
    outer = map_sharing(called, lambda item: 10 * item, [1, 2, 3], processes)
    inner = map_sharing(called, lambda item: item + 1, [1, 2], processes)
    assert list(inner) == [2, 3]
    assert list(outer) == [10, 20, 30]


def pause(_: int) -> None:
    signal.pause()


class StoppedBackground(Background[list[None]]):
    """The first wait for it sends SIGTERM to this process."""

    waits = False

    def is_running(self) -> bool:
        if not self.waits:
            self.waits = True
            threading.Timer(0.01, signal.raise_signal, [signal.SIGTERM]).start()
        return super().is_running()


def test_a_stopped_command_ends_the_pool_in_its_background() -> None:
    background = StoppedBackground(lambda _: list(map_in_parallel(pause, [0, 1], 2)))
    while len(active_children()) < 2:
        assert not background._ended.is_set()
    with pytest.raises(Terminated), requests_raised():
        CommandSession(json=True).wait(background)
    assert background._ended.is_set()
    assert not active_children()


@pytest.mark.parametrize("number", REQUESTS)
def test_after_a_request_to_end_further_requests_are_ignored(number: signal.Signals) -> None:
    with pytest.raises(Terminated, match=str(128 + number)), requests_raised():
        signal.raise_signal(number)
    assert [signal.getsignal(other) for other in REQUESTS] == [signal.SIG_IGN] * 3


def test_without_a_request_the_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in REQUESTS]
    with requests_raised():
        assert [signal.getsignal(number) for number in REQUESTS] != before
    assert [signal.getsignal(number) for number in REQUESTS] == before


def test_a_handler_that_other_code_installed_is_kept() -> None:
    signal.signal(signal.SIGHUP, print)
    ignore_requests()
    assert signal.getsignal(signal.SIGHUP) is print
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
