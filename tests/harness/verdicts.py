"""Verdicts to compare with: by the English of their messages, whatever their templates are."""

from dataclasses import replace

from harness.core.message import verbatim
from harness.core.vocabulary import Alarm, Declined, Silent, Skipped, Verdict


def in_english(verdict: Verdict) -> Verdict:
    match verdict:
        case Alarm(message=message):
            return replace(verdict, message=verbatim(str(message)))
        case Declined(reason=reason) | Skipped(reason=reason):
            return replace(verdict, reason=verbatim(str(reason)))
        case Silent():
            return verdict


def alarm(text: str) -> Alarm:
    return Alarm(verbatim(text))


def declined(text: str) -> Declined:
    return Declined(verbatim(text))


def skipped(text: str) -> Skipped:
    return Skipped(verbatim(text))
