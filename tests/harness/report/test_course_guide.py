"""docs/your-course.md: the doctor says of each course's engine what the guide shows."""

import re
import shutil
from pathlib import Path

import pytest

from tests.harness.command import harness

ROOT = Path(__file__).parents[3]
COURSES = ROOT / "tests" / "engines" / "courses"
GUIDE = (ROOT / "docs" / "your-course.md").read_text(encoding="utf-8")
SECTIONS = {
    "needle": ("needle", "python/needle"),
    "MiniTorch": ("scalar.py", "minitorch/scalar.py"),
    "TinyTorch": ("tinytorch.py", "tinytorch.py"),
    "Layers in pairs": ("cs231n", "."),
}
"""Where the engine of each section comes from, and where the guide has it."""


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_the_doctor_says_what_the_guide_shows(title: str, tmp_path: Path) -> None:
    source, target = COURSES / SECTIONS[title][0], tmp_path / SECTIONS[title][1]
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
    section = GUIDE.partition(f"### {title}")[2].partition("\n##")[0]
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", section, re.M | re.S)
    assert len(settings.splitlines()) <= 4
    (tmp_path / "harness.toml").write_text(settings)
    (text,) = re.findall(r"^```text\n(.*?)^```$", section, re.M | re.S)
    shown = harness("doctor", cwd=tmp_path).stdout
    lines = [line for line in text.splitlines() if line[0] not in "+-" and " kills " not in line]
    assert lines
    assert [line for line in lines if line not in shown] == []
