"""What executing a chapter found, cell by cell, and its report for CI (JUnit XML)."""

import xml.etree.ElementTree as xml
from dataclasses import dataclass, field

from .failures import plain

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
INVALID_IN_XML = {code: None for code in range(32) if chr(code) not in "\t\n\r"}


@dataclass
class CellResult:
    """One executed cell."""

    line: int
    language: str
    title: str
    """The cell's first line, to recognise it by."""
    outcome: str = SKIPPED
    seconds: float = 0.0
    message: str = ""
    """For a failed cell: `01_memory.md:88: rank 2 of 4: ...`."""


@dataclass
class ChapterResult:
    """One executed chapter."""

    name: str
    cells: list[CellResult] = field(default_factory=list)
    complaint: str = ""
    """What is wrong with the chapter as a whole: no cells, no assertions."""

    @property
    def failures(self) -> list[str]:
        """The messages of all that failed."""
        messages = [cell.message for cell in self.cells if cell.outcome == FAILED]
        return [*messages, self.complaint] if self.complaint else messages

    @property
    def seconds(self) -> float:
        return sum(cell.seconds for cell in self.cells)

    def count(self, outcome: str) -> int:
        return sum(cell.outcome == outcome for cell in self.cells)


def junit_report(result: ChapterResult) -> str:
    """The report in JUnit's XML: one test case per cell, and one for the chapter as a whole."""
    suite = xml.Element("testsuite", name=f"notebook.{result.name}", time=f"{result.seconds:.3f}")
    whole = xml.SubElement(suite, "testcase", classname=result.name, name="asserts what it says")
    if result.complaint:
        _add_text(whole, "failure", result.complaint)
    for number, cell in enumerate(result.cells, 1):
        case = xml.SubElement(
            suite,
            "testcase",
            classname=result.name,
            name=f"cell {number}, line {cell.line}, {cell.language}: {cell.title}",
            file=f"{result.name}.md",
            line=str(cell.line),
            time=f"{cell.seconds:.3f}",
        )
        if cell.outcome == FAILED:
            _add_text(case, "failure", cell.message)
        elif cell.outcome == SKIPPED:
            _add_text(case, "skipped", "an earlier cell failed")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(result.failures)))
    suite.set("skipped", str(result.count(SKIPPED)))
    return xml.tostring(suite, encoding="unicode", xml_declaration=True)


def _add_text(case: xml.Element, tag: str, text: str) -> None:
    text = plain(text).translate(INVALID_IN_XML)
    xml.SubElement(case, tag, message=text.partition("\n")[0]).text = text
