"""The formats of learning platforms, of test reports and of code scanning, as they are published.

Each decoder accepts what the publication allows and nothing else: unknown keys, missing ones and
values of other types are errors.
"""

import re
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

import msgspec
from msgspec import Meta

Natural = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """An object without other keys."""


# ----- Gradescope: https://gradescope-autograders.readthedocs.io/en/latest/specs/ -----

Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]


class GradescopeTest(Table):
    score: float | None = None
    max_score: float | None = None
    name: str = ""
    number: str = ""
    output: str = ""
    tags: list[str] = []
    visibility: Visibility = "visible"
    extra_data: dict[str, Any] = {}


class Leader(Table):
    name: str
    value: float | str
    order: Literal["asc", "desc"] = "desc"


class Gradescope(Table):
    score: float | None = None
    execution_time: float | None = None
    output: str = ""
    visibility: Visibility = "visible"
    stdout_visibility: Visibility = "hidden"
    extra_data: dict[str, Any] = {}
    tests: list[GradescopeTest] = []
    leaderboard: list[Leader] = []

    def __post_init__(self) -> None:
        if self.score is None and (not self.tests or any(t.score is None for t in self.tests)):
            raise ValueError("a score is required, for the submission or for every test")


# ----- PrairieLearn: https://prairielearn.readthedocs.io/en/latest/externalGrading/ -----

LARGEST = 1_000_000


class PrairieLearnTest(Table):
    name: str
    points: Annotated[float, Meta(ge=0)]  # the element that shows them needs both
    max_points: Annotated[float, Meta(ge=0)]
    description: str = ""
    message: str = ""
    output: str = ""


class PrairieLearn(Table):
    gradable: bool = True
    score: Annotated[float, Meta(ge=0, le=1)] | None = None
    format_errors: list[str] | str = []
    message: str = ""
    output: str = ""
    tests: list[PrairieLearnTest] = []

    def __post_init__(self) -> None:
        if self.gradable and self.score is None:
            raise ValueError("a gradable submission needs a score")
        if self.gradable and self.format_errors:
            raise ValueError("format errors belong to a submission that is not gradable")


# ----- SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/ -----
# The objects and keys of `sarif-schema-2.1.0.json` that we write, with its constraints, and what
# GitHub requires besides, so that it shows a result: at least one location with the URI of a file,
# and texts that are not empty.
# https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning

SarifLevel = Literal["none", "note", "warning", "error"]


class SarifMessage(Table):
    text: Text


class Described(Table):
    text: Annotated[str, Meta(min_length=1, max_length=1024)]


class Region(Table):
    startLine: Annotated[int, Meta(ge=1)]  # noqa: N815


class Artifact(Table):
    uri: Text

    def __post_init__(self) -> None:
        """A relative reference or an absolute URI, in ASCII and without spaces (RFC 3986)."""
        parts = urlsplit(self.uri)
        if not self.uri.isascii() or " " in self.uri or parts.scheme not in ("", "file"):
            raise ValueError(f"{self.uri!r} is not a URI reference")


class PhysicalLocation(Table):
    artifactLocation: Artifact  # noqa: N815
    region: Region


class Location(Table):
    physicalLocation: PhysicalLocation  # noqa: N815


class Suppression(Table):
    kind: Literal["inSource", "external"]
    status: Literal["accepted", "underReview", "rejected"] = "accepted"
    justification: Text = "-"


class SarifResult(Table):
    ruleId: Text  # noqa: N815
    ruleIndex: Natural  # noqa: N815
    message: SarifMessage
    locations: Annotated[list[Location], Meta(min_length=1, max_length=10)]
    level: SarifLevel = "warning"
    baselineState: Literal["new", "unchanged", "updated", "absent"] | None = None  # noqa: N815
    suppressions: list[Suppression] = []


class Tags(msgspec.Struct):
    tags: Annotated[list[str], Meta(max_length=20)] = []


class Rule(Table):
    id: Text
    shortDescription: Described  # noqa: N815
    fullDescription: Described  # noqa: N815
    help: SarifMessage
    properties: Tags = msgspec.field(default_factory=Tags)


class Driver(Table):
    name: Text
    rules: list[Rule]


class Tool(Table):
    driver: Driver


class Notification(Table):
    message: SarifMessage
    level: SarifLevel = "warning"


class Invocation(Table):
    executionSuccessful: bool  # noqa: N815
    toolExecutionNotifications: list[Notification] = []  # noqa: N815


class SarifRun(Table):
    tool: Tool
    results: list[SarifResult]
    invocations: list[Invocation] = []
    columnKind: Literal["utf16CodeUnits", "unicodeCodePoints"] = "utf16CodeUnits"  # noqa: N815

    def __post_init__(self) -> None:
        rules = [rule.id for rule in self.tool.driver.rules]
        if len(set(rules)) != len(rules):
            raise ValueError("two rules have one id")
        for result in self.results:
            if rules[result.ruleIndex] != result.ruleId:
                raise ValueError("a result's index is not the one of its rule")


class Sarif(Table):
    version: Literal["2.1.0"]
    runs: Annotated[list[SarifRun], Meta(min_length=1, max_length=20)]
    schema: str = msgspec.field(name="$schema", default="")


# ----- JUnit XML -----
# The elements that we write, as `junit-10.xsd` of Jenkins' xunit plugin describes them. Pytest
# tests its reports against it, too. Ant's schema differs: it requires a host name and a time stamp.
# https://github.com/jenkinsci/xunit-plugin/tree/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd

SECONDS = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")


class Element(NamedTuple):
    """What an element must have, what it may have, and what may be in it."""

    required: frozenset[str]
    optional: frozenset[str]
    children: frozenset[str]


def _element(required: str, optional: str, children: str) -> Element:
    return Element(*(frozenset(names.split()) for names in (required, optional, children)))


JUNIT = {
    "testsuites": _element("", "name time tests failures errors", "testsuite"),
    "testsuite": _element(
        "name tests failures errors",
        "group time skipped timestamp hostname id package file log url",
        "testsuite properties testcase system-out system-err",
    ),
    "testcase": _element("name", "time classname group", "skipped error failure"),
    "failure": _element("", "type message", ""),
    "error": _element("", "type message", ""),
    "skipped": _element("", "type message", ""),
}


def check_junit(element: ElementTree.Element) -> None:
    """Raise AssertionError unless an element and all in it are as described."""
    description = JUNIT[element.tag]
    attributes = set(element.keys())
    assert description.required <= attributes
    assert attributes <= description.required | description.optional
    if element.tag != "testcase":  # there, any text is a time
        assert SECONDS.fullmatch(element.get("time", ""))
    for child in element:
        assert child.tag in description.children
        check_junit(child)


def read_junit(text: str) -> dict[str, str]:
    """The test cases with their failure, which is empty for one that passes or is skipped."""
    root = ElementTree.fromstring(text)
    check_junit(root)
    assert root.tag == "testsuites"
    cases: dict[str, str] = {}
    for suite in root:
        found = list(suite.iter("testcase"))
        assert suite.get("tests") == str(len(found))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        for case in found:
            assert float(case.get("time", "x")) >= 0
            failure = case.find("failure")
            assert failure is None or failure.get("type")
            cases[case.get("name", "")] = "" if failure is None else failure.get("message", "")
        assert len(cases) == len(found)
    return cases
