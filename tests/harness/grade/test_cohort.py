"""A cohort gets the same scores, whatever happens during the grading."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.core.errors import EnvironmentProblem, UsageError
from harness.grade.cohort.grader import GraderOpening
from harness.grade.cohort.results import (
    CONDITIONS,
    WHOLE,
    Ledger,
    ResultReader,
    Shard,
    SubmissionResult,
    feedback_file,
    merge,
    parse_shard,
)
from harness.grade.cohort.run import grade_cohort, local_pool
from harness.grade.cohort.tally import tally
from harness.grade.styles import Style
from harness.grade.suite import Weights
from harness.report.cohort import CohortProgress, summary, to_csv, to_markdown
from harness.report.html.reports import cohort_page

ROOT = Path(__file__).parents[3]
HEAD = "submission,gradable,reason,score,killed,of,survived,not_reached,recognised,tests,flaky"


class Course:
    """A folder of submissions, and what is graded from it with the stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.submissions, self.out = folder, folder / "all", folder / "out"
        self.log = folder / "log"
        self.catalogue = "1"
        self.submissions.mkdir(exist_ok=True)

    def add(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.submissions / f"{name}.py").write_text(text)

    def opening(self, seed: bytes) -> GraderOpening:
        arguments = {"log": str(self.log), "catalogue": self.catalogue}
        return GraderOpening("tests.harness.grade.stand_in:open_grader", arguments, seed)

    def grade(
        self,
        workers: int = 2,
        shard: Shard = WHOLE,
        out: Path | None = None,
        seed: bytes | None = b"seed",
        seconds: float = 100,
        again: tuple[str, ...] = (),
    ) -> bytes:
        """Grade, and return the scores as CSV; also note which submissions were graded."""
        self.log.write_text("")
        out = out or self.out
        pool = local_pool(workers, seconds)
        roster = grade_cohort(
            self.submissions, out, self.opening, pool, shard=shard, seed=seed, again=again
        )
        self.roster = roster
        self.tally = tally(out, roster)
        return to_csv(self.tally)

    @property
    def graded(self) -> list[str]:
        return sorted(name for name in self.log.read_text().split() if name != "prepared")

    @property
    def is_prepared(self) -> bool:
        """Whether the grader has done its slow preparation."""
        return "prepared" in self.log.read_text().split()

    @property
    def reasons(self) -> dict[str, str]:
        return {row.submission: row.reason for row in self.tally.rows}


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


def rows(scores: bytes) -> list[str]:
    """The lines without the columns of points and groups."""
    head, *lines = csv.reader(scores.decode().splitlines())
    number = len(HEAD.split(","))
    assert ",".join(head) == f"{HEAD},points,excluded,level 1,family made"
    return [",".join(line[:number]) for line in lines]


def test_every_submission_has_a_row(course: Course) -> None:
    course.add(ada="3", bea="reject no test")
    (course.submissions / "cleo" / "tests").mkdir(parents=True)
    (course.submissions / "cleo" / "tests" / "test_a.py").write_text("0")
    (course.submissions / ".hidden").write_text("")
    assert rows(course.grade()) == [
        "ada.py,yes,,75,3,4,1,0,0,3,0",
        "bea.py,no,no test,,0,0,0,0,0,0,0",
        "cleo,yes,,0,0,4,4,0,0,0,0",
    ]
    assert course.graded == ["ada.py", "bea.py", "cleo"]


def test_scores_do_not_depend_on_workers_order_or_interruptions(course: Course) -> None:
    course.add(**{f"person{i}": str(i % 4) for i in range(9)})
    expected = course.grade(workers=1)
    assert course.grade(workers=3, out=course.folder / "again") == expected
    file = course.out / "results.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(reversed(lines[:4])) + lines[5][:-40])  # as after a kill
    assert course.grade(workers=3) == expected
    assert len(course.graded) == 5
    assert course.tally.damaged == 1


def test_a_graded_submission_is_graded_again_only_if_it_changes(course: Course) -> None:
    course.add(ada="1", bea="2")
    course.grade()
    assert course.is_prepared
    assert course.grade() == to_csv(course.tally)
    assert course.graded == []
    assert not course.is_prepared
    course.add(bea="3")
    assert "bea.py,yes,,75,3,4,1,0,0,3,0" in rows(course.grade())
    assert course.graded == ["bea.py"]
    course.add(bea="2")  # its first result still counts
    assert "bea.py,yes,,50,2,4,2,0,0,2,0" in rows(course.grade())
    assert course.graded == []


def test_a_submission_that_is_withdrawn_has_no_row(course: Course) -> None:
    course.add(ada="1", bea="2")
    course.grade()
    (course.submissions / "bea.py").unlink()
    assert [row.split(",")[0] for row in rows(course.grade())] == ["ada.py"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[:-2],
        lambda line: line[:30],
        lambda line: line.replace(b'"survived"', b'"killed"', 1),
        lambda line: line.replace(b'"final":true', b'"final":null'),
        lambda line: b"\0" * len(line),
        lambda _line: b'{"submission":"bea.py"}\n',
    ],
)
def test_a_damaged_line_counts_as_missing(course: Course, damage: Callable[[bytes], bytes]) -> None:
    course.add(ada="1", bea="2")
    expected = course.grade()
    file = course.out / "results.jsonl"
    first, second = file.read_bytes().splitlines(keepends=True)
    other = "bea.py" if b'"ada.py"' in first else "ada.py"
    file.write_bytes(first + damage(second))
    assert course.grade() == expected
    assert course.graded == [other]
    assert course.grade() == expected
    assert course.graded == []


# ----- Submissions that do harm -----


def test_what_ends_or_hangs_its_process_costs_nothing_of_the_others(course: Course) -> None:
    course.add(
        exiting="exit",
        hanging="hang",
        killing="kill",
        raising="raise an error",
        refused="refuse it has no tests",
        sound="4",
        unlucky=f"kill-once {course.folder / 'marker'}",
    )
    assert rows(course.grade(seconds=2)) == [
        "exiting.py,no,the process that grades it ended with the status 0,,0,0,0,0,0,0,0",
        "hanging.py,no,grading it takes more than 2 s,,0,0,0,0,0,0,0",
        "killing.py,no,the process that grades it ended with the status -9,,0,0,0,0,0,0,0",
        "raising.py,no,the grader failed: ValueError('an error'),,0,0,0,0,0,0,0",
        "refused.py,no,it has no tests,,0,0,0,0,0,0,0",
        "sound.py,yes,,100,4,4,0,0,0,4,0",
        "unlucky.py,yes,,25,1,4,3,0,0,1,0",
    ]
    assert course.graded.count("killing.py") == 3
    assert course.graded.count("unlucky.py") == 2
    assert course.graded.count("hanging.py") == 1
    assert course.tally.failed == ["exiting.py", "killing.py", "raising.py"]
    course.grade()
    assert "hanging.py" not in course.graded, "it had its time"
    assert "killing.py" in course.graded, "that was the grader's failure"


def test_a_worker_that_waits_does_not_delay_the_others(course: Course) -> None:
    last = course.folder / "last"
    course.add(a=f"wait-for {last}", **{f"b{i}": "1" for i in range(5)})
    graded = []
    pool = local_pool(2, 100)

    def progress(done: int, total: int, name: str) -> None:
        graded.append((done, total, name))
        if done == 5:
            last.touch()

    grade_cohort(course.submissions, course.out, course.opening, pool, progress=progress)
    assert graded[0] == (0, 6, "")
    assert graded[-1] == (6, 6, "a.py")


# ----- What is handed in -----


def test_an_empty_cohort_is_one_message(course: Course) -> None:
    (course.submissions / ".gitignore").write_text("")
    with pytest.raises(UsageError, match="there is no submission"):
        course.grade()
    assert not course.out.exists()
    course.submissions /= "missing"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        course.grade()


def test_two_submissions_of_one_name_are_both_refused(course: Course) -> None:
    course.add(ada="1", bea="2")
    (course.submissions / "ada").mkdir()
    (course.submissions / "Jose\u0301.py").write_text("1")
    (course.submissions / "Jos\u00e9.py").write_text("2")
    course.grade()
    assert course.graded == ["bea.py"]
    assert course.reasons["ada"] == course.reasons["ada.py"]
    assert course.reasons["ada"] == "2 submissions are called `ada`: only one may be handed in"
    assert course.reasons["Jose\u0301.py"].startswith("2 submissions are called")
    assert course.reasons["bea.py"] == ""


def test_names_of_any_letters_are_kept_and_formulas_are_not_executed(course: Course) -> None:
    names = ["=cmd()", "+1", "@a", "-1", "a, b", "Ζωή Ω", "two  \n lines", "\x1b[31mred", "a\\b"]
    for name in names:
        (course.submissions / f"{name}.py").write_text("1")
    scores = course.grade().decode()
    assert len(scores.splitlines()) == len(names) + 1
    for shown in ("'=cmd().py,", "'+1.py", "'@a.py", "'-1.py", '"a, b.py"', "Ζωή Ω.py"):
        assert f"\n{shown}" in scores
    assert r"two \n lines.py" in scores
    assert r"\x1b[31mred.py" in scores
    assert set(course.reasons.values()) == {""}


def test_a_name_that_is_not_utf8_is_a_line_of_its_own(course: Course) -> None:
    course.add(ada="1")
    os.close(os.open(bytes(course.submissions) + b"/b\xff.py", os.O_CREAT | os.O_WRONLY))
    course.grade()
    assert course.reasons == {"ada.py": "", r"b\xff.py": r"the name of `b\xff.py` is not UTF-8"}


def test_what_is_not_a_regular_file_is_not_followed(course: Course) -> None:
    course.add(ada="1")
    for name in ("folder", "empty", "pipe", "large"):
        (course.submissions / name).mkdir()
    (course.submissions / "folder" / "test_a.py").symlink_to(course.submissions / "ada.py")
    (course.submissions / "linked").symlink_to("/etc")
    (course.submissions / "linked.py").symlink_to("nowhere")
    (course.submissions / "notes.txt").write_text("1")
    os.mkfifo(course.submissions / "pipe" / "test_a.py")
    with (course.submissions / "large" / "test_a.py").open("wb") as large:
        large.truncate(10**9)
    (course.submissions / "linked.py").rename(course.submissions / "other.py")
    course.grade()
    assert course.graded == ["ada.py"]
    assert course.reasons == {
        "ada.py": "",
        "empty": "the folder is empty",
        "folder": "`test_a.py` is a symbolic link; hand in the file itself",
        "large": "its files are larger than 8 MiB",
        "linked": "`linked` is a symbolic link; hand in the file itself",
        "notes.txt": "it is neither a Python file nor a folder",
        "other.py": "`other.py` is a symbolic link; hand in the file itself",
        "pipe": "`test_a.py` is not a regular file",
    }


def test_results_within_the_folder_of_submissions_are_not_a_submission(course: Course) -> None:
    course.add(ada="1")
    course.out = course.submissions / "out"
    assert course.grade() == course.grade()
    assert list(course.reasons) == ["ada.py"]
    course.out = course.submissions
    with pytest.raises(UsageError, match="has the submissions in it"):
        course.grade()


# ----- What belongs together -----


def test_the_seed_is_drawn_once_and_stays_secret(course: Course) -> None:
    course.add(ada="1")
    course.grade(seed=None)
    course.add(bea="1")
    course.grade(seed=None)
    reader = ResultReader(SubmissionResult)
    engines = {result.report.engine for result in reader.read(course.out / "results.jsonl")}
    assert len(engines) == 1, "both were graded with the same seed"
    assert re.fullmatch("made with [0-9a-f]{64}", *engines)
    for file in (CONDITIONS, "results.jsonl"):  # which quotes what suites have printed
        assert (course.out / file).stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="made with another seed"):
        course.grade(seed=b"another")


def test_results_of_another_catalogue_are_not_mixed(course: Course) -> None:
    course.add(ada="1")
    course.grade()
    course.catalogue = "2"
    with pytest.raises(UsageError, match="made under other conditions: catalogue"):
        course.grade()
    assert course.log.read_text() == ""


def test_a_cut_file_of_conditions_is_one_message(course: Course) -> None:
    course.add(ada="1")
    course.grade()
    file = course.out / CONDITIONS
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(EnvironmentProblem, match=r"cohort\.json cannot be read"):
        course.grade()


@pytest.mark.parametrize("name", [CONDITIONS, "submissions.json", "results-2-of-2.jsonl"])
@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
def test_what_is_not_a_regular_file_of_results_is_one_message(
    course: Course, name: str, target: str
) -> None:
    course.add(ada="1")
    course.grade()
    os.mkfifo(course.folder / "pipe")
    (course.out / name).unlink(missing_ok=True)
    (course.out / name).symlink_to(course.folder / target)
    with pytest.raises(EnvironmentProblem, match=f"{re.escape(name)} cannot be read.*regular"):
        merge([course.out], course.folder / "merged")


def test_two_processes_never_write_one_file(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.add(ada="1")
    course.grade()
    file = course.out / "results.jsonl"
    monkeypatch.setattr("harness.grade.cohort.results.PATIENCE", 0.0)
    with Ledger(file):
        child = os.fork()
        if child == 0:
            try:
                Ledger(file)
            except EnvironmentProblem as error:
                os._exit(7 if "another process is writing" in error.problem else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    Ledger(file).__exit__(None, None, None)


def test_shards_in_their_own_folders_merge_to_the_same_scores(course: Course) -> None:
    course.add(**{f"person{i}": str(i % 4) for i in range(12)}, hanging="kill")
    expected = course.grade()
    folders = [course.folder / f"shard{number}" for number in (1, 2, 3)]
    for number, folder in enumerate(folders, 1):
        course.grade(shard=Shard(number, 3), out=folder)
        assert 0 < len(set(course.graded)) < 13
    merged = course.folder / "merged"
    assert to_csv(tally(merged, merge(folders, merged))) == expected
    assert to_csv(tally(folders[0], merge(folders, folders[0]))) == expected
    partial = course.folder / "partial"
    assert tally(partial, merge(folders[1:2], partial)).missing


def test_shards_that_share_a_folder_need_no_merging(course: Course) -> None:
    course.add(**{f"person{i}": str(i % 4) for i in range(6)})
    expected = course.grade(out=course.folder / "whole")
    course.grade(shard=Shard(2, 2))
    course.grade(shard=Shard(1, 2), seed=None)
    assert course.grade() == expected
    assert course.graded == []


def test_a_submission_that_was_graded_twice_counts_once(course: Course) -> None:
    course.add(ada="1", bea="2")
    scores = course.grade()
    table = to_markdown(course.tally)
    lines = (course.out / "results.jsonl").read_bytes()
    (course.out / "results-1-of-2.jsonl").write_bytes(lines)
    assert course.grade() == scores
    assert to_markdown(course.tally) == table


def test_shards_of_different_cohorts_are_not_merged(course: Course) -> None:
    course.add(ada="1", bea="1")
    first, second, third = (course.folder / name for name in ("first", "second", "third"))
    course.grade(out=first)
    course.grade(out=second, seed=b"another")
    course.add(bea="2")
    course.grade(out=third)
    with pytest.raises(UsageError, match="other conditions: the secret seed"):
        merge([first, second], course.out)
    with pytest.raises(UsageError, match=r"of other submissions: `bea\.py` differs"):
        merge([first, third], course.out)
    with pytest.raises(UsageError, match="there are no results"):
        merge([first, course.submissions], course.out)


def test_the_first_shard_draws_the_seed_for_all(course: Course) -> None:
    course.add(ada="1", bea="2", cleo="3")
    first, second = course.folder / "first", course.folder / "second"
    with pytest.raises(UsageError, match="need a common seed"):
        course.grade(shard=Shard(2, 2), seed=None, out=second)
    course.grade(shard=Shard(1, 2), seed=None, out=first)
    second.mkdir()
    (second / CONDITIONS).write_bytes((first / CONDITIONS).read_bytes())
    course.grade(shard=Shard(2, 2), seed=None, out=second)
    assert not tally(course.out, merge([first, second], course.out)).missing


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "-1/4", "1/0", "a/b", "1/4/4"])
def test_what_is_not_a_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shard"):
        parse_shard(text)


# ----- Reports -----


def test_weights_change_the_scores_and_nothing_that_is_stored(course: Course) -> None:
    course.add(ada="1", bea="3", cleo="reject it")
    even = course.grade()
    roster = {row.submission: course.roster[row.submission] for row in course.tally.rows}
    weighted = tally(course.out, roster, Weights(points=10, breaks={"first": 0, "third": 3}))
    assert [(row.killed, row.of, row.score, row.points) for row in weighted.rows] == [
        (0, 3, 0.0, 0.0),
        (2, 3, 80.0, 8.0),
        (0, 0, None, None),
    ]
    assert "first" not in {count.break_ for count in weighted.breaks}
    assert course.grade() == even
    assert course.graded == []


def test_the_scores_have_a_column_for_each_level_and_family(course: Course) -> None:
    course.add(ada="1", cleo="reject it")
    head, ada, cleo = course.grade().decode().splitlines()
    assert head.split(",")[-4:] == ["points", "excluded", "level 1", "family made"]
    assert ada.split(",")[-4:] == ["25", "0", "25", "25"]
    assert cleo.split(",")[-4:] == ["", "0", "", ""]


def test_feedback_has_a_file_for_each_submission_whatever_its_name(tmp_path: Path) -> None:
    names = ["ada.py", "ada", "é" * 120 + "1.py", "é" * 120 + "2.py"]
    files = [feedback_file(tmp_path, name, ".txt") for name in names]
    assert files[0] == tmp_path / "feedback" / "ada.py.txt"
    for file in files:
        file.touch()
    assert len(set(files)) == 4


def test_the_table_begins_with_what_most_submissions_miss(course: Course) -> None:
    course.add(**{"ada_1": "1", "bea": "3", "cleo": "reject it"})
    course.grade()
    lines = to_markdown(course.tally).decode().splitlines()
    assert lines[2] == "3 submissions, 2 of them gradable."
    assert lines[6:] == [
        "| `fourth` | made | 1 | 100% | 0 | 2 | 0 | 0 | ada\\_1.py, bea.py |",
        "| `second` | made | 1 | 50% | 1 | 1 | 0 | 0 | ada\\_1.py |",
        "| `third` | made | 1 | 50% | 1 | 1 | 0 | 0 | ada\\_1.py |",
        "| `first` | made | 1 | 0% | 2 | 0 | 0 | 0 |  |",
    ]
    assert list(summary(course.tally)) == [
        "3 submissions graded: 2 gradable",
        "Score: median 50.0 %, quartiles 37.5 and 62.5 %",
        "Missed most often:",
        "  fourth  2 of 2",
        "  second  1 of 2",
        "  third   1 of 2",
        "Not gradable (1):",
        "  cleo.py: it",
    ]


def test_a_pipe_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.report.cohort._INTERVAL", -1.0)
    with CohortProgress() as progress:
        progress.watch(2, 4, "")
        progress.watch(3, 4, "ada.py")
        progress.watch(4, 4, "bea.py")
    assert capsys.readouterr().err.splitlines() == [
        "harness: 2 of 4 graded",
        "harness: 3 of 4 graded, about 1 min left",
        "harness: 4 of 4 graded",
    ]
    monkeypatch.undo()
    with CohortProgress() as progress:
        progress.watch(3, 4, "ada.py")
    assert capsys.readouterr().err == ""


# ----- Kills -----

GRADE = """
import sys
from pathlib import Path
from harness.sandbox.signals import requests_raised
from tests.harness.grade.test_cohort import Course
with requests_raised():
    Course(Path(sys.argv[1])).grade()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_leaves_nothing_and_continues(
    course: Course, number: signal.Signals
) -> None:
    course.add(**{f"a{i}": str(i) for i in range(3)}, b="hang", c="hang")
    process = subprocess.Popen(
        [sys.executable, "-c", GRADE, str(course.folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: course.log.exists() and len(course.graded) == 5)
    forks = children_of(process.pid)
    wait_until(lambda: (course.out / "results.jsonl").read_bytes().count(b"\n") == 3)
    process.send_signal(number)
    assert process.wait(60) in (-number, 128 + number)
    assert len(forks) >= 2
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in forks))
    course.add(b="4", c="4")
    scores = rows(course.grade())
    assert course.graded == ["b.py", "c.py"]
    assert [row.split(",")[4] for row in scores] == ["0", "1", "2", "4", "4"]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_table_counts_one_submission(course: Course) -> None:
    course.add(ada="1")
    course.grade()
    assert to_markdown(course.tally).decode().splitlines()[2] == "1 submission, 1 of them gradable."


# ----- Grading again -----


def stored(out: Path) -> list[SubmissionResult]:
    files = sorted(out.glob("results*.jsonl"))
    return [one for file in files for one in ResultReader(SubmissionResult).read(file)]


def test_the_newest_result_counts_and_none_is_lost(course: Course) -> None:
    marker = course.folder / "marker"
    course.add(ada="3", bea=f"reject-once {marker}")
    assert rows(course.grade())[1] == "bea.py,no,once,,0,0,0,0,0,0,0"
    first = (course.out / "results.jsonl").read_bytes()
    course.grade()
    assert course.graded == []
    assert rows(course.grade(again=("bea.py",)))[1] == "bea.py,yes,,25,1,4,3,0,0,1,0"
    assert course.graded == ["bea.py"]
    assert (course.out / "results.jsonl").read_bytes().startswith(first)
    assert [past.score for past in course.tally.history["bea.py"]] == [None, 25]
    assert [one.number for one in stored(course.out) if one.submission == "bea.py"] == [0, 1]
    assert rows(course.grade())[1].startswith("bea.py,yes,,25")


def test_a_grader_that_fails_the_second_time_changes_nothing(course: Course) -> None:
    course.add(ada=f"kill-later {course.folder / 'marker'}")
    before = course.grade()
    assert course.grade(again=("ada.py",)) == before
    assert [one.final for one in stored(course.out)] == [True, False]


def test_the_newest_result_counts_whatever_file_it_is_in(course: Course) -> None:
    course.add(ada=f"reject-once {course.folder / 'marker'}")
    course.grade()
    old = stored(course.out)
    course.grade(again=("ada.py",))
    new = [one for one in stored(course.out) if one not in old]
    with Ledger(course.out / "results.jsonl") as ledger:
        os.truncate(course.out / "results.jsonl", 0)
        ledger.append(new)
    with Ledger(course.out / "results-2-of-2.jsonl") as ledger:
        ledger.append(old)  # read last
    assert tally(course.out, course.roster).rows[0].score == 25


def test_merging_keeps_old_results_and_adds_none_twice(course: Course) -> None:
    course.add(ada="3", bea=f"reject-once {course.folder / 'marker'}")
    course.grade()
    merged = course.folder / "merged"
    merge([course.out], merged)
    course.add(ada="4")
    course.grade(again=("bea.py",))
    for _ in range(2):
        roster = merge([course.out], merged)
        assert len(stored(merged)) == 4
    found = tally(merged, roster)
    assert [[past.score for past in found.history[name]] for name in sorted(found.history)] == [
        [75, 100],
        [None, 25],
    ]


def test_an_unknown_submission_is_not_graded_again(course: Course) -> None:
    course.add(ada="3")
    with pytest.raises(UsageError, match=r"no submission `ade.py`.*\n.*did you mean `ada.py`"):
        course.grade(again=("ade.py",))


def test_a_class_page_shows_the_trend_and_the_styles(course: Course) -> None:
    course.add(ada="1", bea="2", cleo="reject no test")
    course.grade()
    first = stored(course.out)
    styles: dict[str, list[Style]] = {"ada.py": ["plain"], "bea.py": ["properties"]}
    with Ledger(course.out / "results.jsonl") as ledger:
        os.truncate(course.out / "results.jsonl", 0)
        for number, day, name, kills in (
            (0, "2026-03-01", "ada.py", 1),
            (0, "2026-03-01", "bea.py", 1),
            (1, "2026-03-08", "bea.py", 4),
        ):
            (one,) = (one for one in first if one.submission == name)
            breaks = [
                msgspec.structs.replace(judged, fate="killed" if i < kills else "survived")
                for i, judged in enumerate(one.report.breaks)
            ]
            report = msgspec.structs.replace(one.report, breaks=breaks, styles=styles[name])
            result = msgspec.structs.replace(one, report=report, number=number, day=day)
            ledger.append([result])
    text = to_markdown(tally(course.out, course.roster)).decode()
    assert "| second | made | 1 | 50% | 100% | 1 | 1 | 0 | 0 | 0% | 100% | ada.py |" in (
        text.replace("`", "")
    )
    assert "| missed on 2026-03-01 |" in text
    assert "| missed: properties (Hypothesis) | missed: plain tests |" in text
    assert "| properties (Hypothesis) | 1 | 100 % |\n| plain tests | 1 | 25 % |" in text
    assert "| 2026-03-01 | 2 | 25 % |\n| 2026-03-08 | 2 | 62.5 % |" in text
    assert "| bea.py | 25 %, 100 % |" in text
    html = cohort_page(tally(course.out, course.roster), {"second": "<b>"})
    assert "<summary>50 %</summary><p>ada.py</p>" in html
    assert "&lt;b&gt;" in html
