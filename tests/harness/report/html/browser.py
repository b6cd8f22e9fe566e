"""Chromium, and a page opened in it, without a network."""

import shutil
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Visit:
    """A page in the browser, with its error messages and its requests.

    It loads nothing but its file and, if it is part of a site, files in the folder `site`.
    """

    def __init__(
        self, browser: Any, file: Path, place: str = "", *, site: Path | None = None, **options: Any
    ) -> None:
        self.own = (site or file).as_uri()
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{file.as_uri()}{place}")

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *_: object) -> None:
        try:
            assert self.problems == []
            addresses = {url.partition("#")[0] for url in self.requests if url[:5] != "blob:"}
            outside = {url for url in addresses if not url.startswith(f"{self.own}/")}
            assert outside <= {self.own}
        finally:
            self.context.close()


def answer_by_clicking(lesson: Any) -> None:
    """Answer everything: the first, the second, the third choice in turn."""
    numbers = "fields => fields.map(field => field.querySelectorAll('.choice').length)"
    for number, choices in enumerate(lesson.locator("fieldset").evaluate_all(numbers)):
        field = lesson.locator("fieldset").nth(number)
        if choices:
            field.locator(".choice").nth(number % choices).click()
        else:
            field.locator("input[type=text]").fill("1.5")
            field.locator(".typed button").click()
        assert field.locator(".answer").is_visible()
