"""`harness merge FOLDER...`: merge the results of the shards of a cohort."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.cohort import ResultsFolder, show_cohort
from harness.cli.options import Breaks, EngineName, HtmlLang, Json
from harness.cli.results import FeedbackName, FormatName, WeightsFile, open_results
from harness.cli.session import Session


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="The folders with their results.")
    ],
    out: ResultsFolder,
    engine: EngineName = None,
    breaks: Breaks = None,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    form: FormatName = None,
    lang: HtmlLang = None,
    json: Json = False,
) -> int:
    """Merge the results of the shards of a cohort."""
    from harness.grade.cohort.results import merge as merge_shards

    session = Session(breaks, engine, json=json)
    results = open_results(session, feedback=feedback, weights=weights, form=form, lang=lang)
    roster = merge_shards(folders, out)
    return show_cohort(out, roster, results, feedback=bool(feedback or form))
