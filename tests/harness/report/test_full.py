"""The whole report on a break, probe by probe."""

from harness.core.message import verbatim
from harness.core.report import ClaimReport
from harness.core.vocabulary import LOSSES
from harness.pages.probe import Probe
from harness.report.full import show_full
from harness.report.terminal import Screen
from tests.harness.reports import report_of, report_with, run_of


def probe(name: str) -> Probe:
    return Probe(name, f"What {name} exercises.", "gradient", (), name, "", "p.py", 1)


def shown(report, *names: str) -> str:  # type: ignore[no-untyped-def]
    console = Screen(record=True, width=80, force_terminal=False, highlight=False)
    show_full(console, report, [probe(name) for name in names])
    return console.export_text()


def test_losses_that_end_alike_are_one_entry_and_others_are_not() -> None:
    alike = report_of(("p", "uniform", "crash"), ("p", "weighted", "crash"))
    assert "both losses ✗ crash" in shown(alike, "p")
    unlike = report_of(("p", "uniform", "disguised-correct"), ("p", "weighted", "crash"))
    assert "uniform     = hidden" in shown(unlike, "p")
    assert "weighted    ✗ crash" in shown(unlike, "p")


def test_evidence_of_one_loss_is_not_shown_as_that_of_both() -> None:
    numbers = {"uniform": "a.grad is 1", "weighted": "a.grad is 7"}
    runs = [run_of("p", loss, "crash", evidence=numbers[loss]) for loss in LOSSES]
    text = shown(report_with(runs), "p")
    assert "both losses ✗ crash" in text
    assert "under the weighted loss:" in text
    assert text.index("under the weighted loss:") < text.index("a.grad is 7")
    same = [run_of("p", loss, "crash", evidence="a.grad is 7") for loss in LOSSES]
    assert "under the" not in shown(report_with(same), "p")


def test_losses_that_are_right_for_other_reasons_are_two_entries() -> None:
    runs = [run_of("p", loss, "disguised-correct", why=f"why {loss}") for loss in LOSSES]
    assert "both losses" not in shown(report_with(runs), "p")


def test_a_run_shows_evidence_and_who_caught_and_missed_it() -> None:
    run = run_of(
        *("p", "weighted", "silent-corruption"),
        kind="shape",
        caught_by=["shape"],
        missed_by=["loss-falls"],
        better_than_correct=True,
    )
    text = shown(report_with([run]), "p")
    assert "≠ silent-corruption (shape)  better than correct" in text
    assert "what p showed" in text
    assert "caught by   shape" in text
    assert "missed by   loss-falls" in text
    assert "Everything is as the page says." in text


def test_a_diagnostic_that_declined_is_named_with_its_reason_and_not_as_idle() -> None:
    reasons = {"forward": "the output is NaN", "torch": f"it cannot run {'x' * 80}"}
    run = run_of("p", None, "silent-corruption", declined=reasons, missed_by=["crash"])
    text = shown(report_with([run]), "p")
    assert "declined    forward (the output is NaN), torch (it cannot run" in text
    assert "x" * 60 not in " ".join(text.split())
    assert "Not applicable" not in text
    alike = [run_of("p", loss, "crash", declined={"forward": "it is NaN"}) for loss in LOSSES]
    assert "both losses" in shown(report_with(alike), "p")
    unlike = [alike[0], run_of("p", "weighted", "crash", caught_by=[])]
    assert "both losses" not in shown(report_with(unlike), "p")


def test_a_run_that_was_not_reached_names_no_diagnostic() -> None:
    run = run_of(
        *("p", None, "not-reached"),
        missed_by=["shape"],
        declined={"torch": "it is NaN"},
        wrong_reason={"gradcheck": "noise"},
    )
    text = shown(report_with([run]), "p")
    assert not [name for name in ("shape", "torch", "gradcheck") if name in text]


def test_what_the_page_does_not_state_is_said_and_is_not_as_the_page_says() -> None:
    runs = [
        run_of("p", None, "crash"),
        run_of("q", None, "crash", expected=None, agrees=None),
    ]
    text = shown(report_with(runs, agrees=False), "p", "q")
    assert "1 of 2 runs are as the page says; not stated: q." in text
    assert text.count("✗ crash  not stated") == 1
    assert "Everything is as the page says." not in text
    assert "The page states nothing" in shown(report_with(runs[1:], agrees=False), "q")


def test_what_differs_from_the_page_is_said() -> None:
    run = run_of("p", "weighted", "crash", expected="disguised-correct", agrees=False)
    claim = ClaimReport("torch", "missed_by", False, verbatim("p: wrong"))
    text = shown(report_with([run], claims=[claim], agrees=False), "p")
    assert "the page says hidden" in text
    assert "the page says missed by torch: p: wrong" in text
    assert "Some results are not as the page says." in text


def test_an_alarm_on_the_clean_engine_too_is_said_to_be_no_catch() -> None:
    run = run_of("p", "weighted", "crash", wrong_reason={"gradcheck": "noise"})
    assert "gradcheck also raises an alarm on the clean engine: noise" in shown(
        report_with([run]), "p"
    )


def test_a_library_that_is_missing_is_said_once_with_the_remedy() -> None:
    reason = "torch is not installed: get it"
    runs = [run_of("p", loss, "crash", skipped={"torch": reason}) for loss in LOSSES]
    text = shown(report_with(runs, missing={"torch": verbatim(reason)}), "p")
    assert text.count("Skipped: torch, because torch is not installed: get it") == 1
    assert "Not applicable" not in text


def test_a_diagnostic_with_nothing_to_look_at_is_named_and_one_that_was_asked_is_not() -> None:
    first = run_of("p", "weighted", "crash", skipped={"mode": "no layer", "shape": "crashed"})
    second = run_of("q", None, "crash", skipped={"mode": "no layer"}, caught_by=["shape"])
    text = shown(report_with([first, second]), "p", "q")
    assert "Not applicable here: mode\n" in text
