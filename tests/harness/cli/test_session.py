"""The session of a command: everything is opened once, and nothing is kept without a cache."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.session import CommandSession, Count, _wrapped
from harness.core.errors import UsageError
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness
from tests.harness.engines.texts import SOUND, written


@pytest.mark.parametrize("command", ["break", "exercise"])
def test_without_a_cache_no_command_keeps_anything_of_an_engine(
    tmp_path: Path, command: str
) -> None:
    engine = written(tmp_path, SOUND)
    page = {"break": "sub-sign", "exercise": "only-trees"}[command]
    done = harness(
        *(command, page, "--engine", engine, "--no-cache", "--json"),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert "Traceback" not in done.stderr
    assert [path for path in (tmp_path / "cache").rglob("*") if not path.is_dir()] == []


def test_an_error_is_broken_between_words_and_commands_and_code_stay_whole() -> None:
    remedy = "  remedy: one-two three, or `harness fix a-page --check --dir some-where` four"
    assert _wrapped(remedy, 30) == [
        *(
            "  remedy: one-two three, or",
            "  `harness fix a-page --check --dir some-where`",
            "  four",
        )
    ]
    assert _wrapped(remedy, 100) == [remedy]
    code = "    x = 1 + " + "1 + " * 20
    assert _wrapped(code, 30) == [code]


def test_a_terminal_without_controls_has_its_width_too() -> None:
    shown = dialogue(["explain", "silent"], columns=46, TERM="dumb")
    assert 30 < max(map(len, shown.lines)) <= 46
    assert "\x1b" not in shown.shown


def test_what_a_session_opens_it_opens_once() -> None:
    session = CommandSession(cached=False)
    assert session.catalogue is session.catalogue
    assert session.cache is session.cache
    assert session.engine is session.engine
    assert session.baseline.cache is session.cache


def test_a_whole_training_runs_on_minigrad_and_no_engine_can_be_named() -> None:
    session = CommandSession(engine_name="other.py:Tensor", cached=False)
    with pytest.raises(UsageError, match="leave --engine out"):
        session.context_for(session.page("labels-noisy"))
    plain = session.page("sub-sign")
    assert session.context_for(plain) is session


def test_what_runs_in_the_background_says_what_it_is_doing() -> None:
    count = Count()
    assert str(count.progress) == "Running ..."
    count.add("torch", "")
    assert str(count.progress) == "Running ... 0 done, loading torch"
    count.add("torch", "add")
    assert str(count.progress) == "Running ... 1 done, torch: add"


def test_items_are_yielded_one_by_one_each_as_soon_as_it_is_there() -> None:
    made: list[int] = []
    threads = set[int]()

    def items() -> Iterator[int]:
        for item in range(3):
            made.append(item)
            threads.add(threading.get_ident())
            yield item

    for item in CommandSession(cached=False).each(items()):
        assert made == list(range(item + 1))
    assert made == [0, 1, 2]
    assert threads == {threading.get_ident()}, "forked processes end with the thread that forks"


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        (["diff", "sub-sign"], "Reading the engine ..."),
        (["check", "allclose-compares-shapes"], "Running ..."),
    ],
)
def test_on_a_terminal_a_sign_says_that_a_command_is_at_work(command: list[str], sign: str) -> None:
    assert sign in dialogue(command).shown
