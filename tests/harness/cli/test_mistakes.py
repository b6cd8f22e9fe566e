"""Pages with mistakes in a `--breaks` folder: commands that do not need them report them."""

from pathlib import Path

import pytest

from tests.harness.command import harness


@pytest.mark.parametrize(
    "command",
    [
        "html sub-sign --out missing/a.html",
        "hunt --buy no:probe",
        "fix sub-sign --dir .",
        "doctor no:T",
    ],
)
def test_a_page_that_cannot_be_read_is_mentioned(command: str, tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text('+++\nid = "mine"\nkind = "break"\n+++\n# Mine\n', "utf-8")
    done = harness(*command.split(), "--breaks", str(tmp_path), cwd=tmp_path)
    assert f"{tmp_path / 'mine.md'}:1: key `family` is missing" in done.stderr
    assert done.stderr.count("mine.md") == 1
