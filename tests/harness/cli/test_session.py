"""The session of a command: everything is opened once, and nothing is kept without a cache."""

from pathlib import Path

import pytest

from harness.cli.session import Session
from harness.core.errors import UsageError
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
    assert not (tmp_path / "cache").exists()


def test_what_a_session_opens_it_opens_once() -> None:
    session = Session(cached=False)
    assert session.catalogue is session.catalogue
    assert session.cache is session.cache
    assert session.engine is session.engine
    assert session.baseline.cache is session.cache


def test_a_whole_training_runs_on_minigrad_and_no_engine_can_be_named() -> None:
    session = Session(engine_name="other.py:Tensor", cached=False)
    with pytest.raises(UsageError, match="leave --engine out"):
        session.context_for(session.page("labels-noisy"))
    plain = session.page("sub-sign")
    assert session.context_for(plain) is session
