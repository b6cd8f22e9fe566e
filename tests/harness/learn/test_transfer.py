"""Progress as a file: what is written is read, and anything else is refused with its reason."""

from pathlib import Path

import msgspec
import pytest

from harness.core.errors import PageError, UsageError
from harness.learn.events import read_export, write_export
from tests.harness.learn.events import one_of_each_kind


def test_what_is_exported_is_imported(tmp_path: Path) -> None:
    events = tuple(one_of_each_kind())
    write_export(events, tmp_path / "mine.json")
    assert read_export(tmp_path / "mine.json") == events
    table = msgspec.json.decode((tmp_path / "mine.json").read_bytes())
    assert table["schema"] == 1
    assert [event["kind"] for event in table["events"]] == [
        *("prediction", "finished", "attempt", "hint", "draw", "answer"),
        *("hunt", "clue", "hunt-answer", "fix"),
    ]


def test_an_export_replaces_no_file(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write_export((), tmp_path / "mine.json")
    assert (tmp_path / "mine.json").read_text() == "mine"


TIME = '"time": "2026-01-01T00:00:00Z"'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not an export"),
        ("[]", "not an export"),
        ('{"schema": "1", "events": []}', "not an export"),
        ('{"schema": 2, "events": "changed"}', "its schema is 2, and .* knows 1"),
        ('{"schema": 1}', "missing required field `events`"),
        (f'{{"schema": 1, "events": [{{"kind": "flight", {TIME}}}]}}', "Invalid value 'flight'"),
        (f'{{"schema": 1, "events": [{{"kind": "finished", "page": "../x", {TIME}}}]}}', "regex"),
        ('{"schema": 1, "events": [{"kind": "finished", "page": "x", "time": "noon"}]}', "time"),
        ('{"schema": 1, "events": ' + "[" * 5000 + "]" * 5000 + "}", "not an export"),
    ],
)
def test_another_file_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(PageError, match=reason):
        read_export(path)


def test_keys_that_a_later_version_adds_are_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "later.json"
    event = f'{{"kind": "finished", "page": "x", "more": 1, {TIME}}}'
    path.write_text(f'{{"schema": 1, "more": 1, "events": [{event}]}}')
    assert len(read_export(path)) == 1
