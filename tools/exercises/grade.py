"""What `check --format` writes: Gradescope's results.json, or JUnit's XML.

Formats: gradescope-autograders.readthedocs.io/en/latest/specs, and the schema junit-10.xsd of Jenkins'
xUnit plugin.
"""

import collections
import dataclasses
import json
import os
import re
import xml.etree.ElementTree as xml

import assignment
import catalog

POINTS = {"easy": 5, "medium": 10, "hard": 15}
HIDDEN_SHARE = 0.2  # of an exercise's points, when there are hidden tests
FILES = {"gradescope": "results.json", "junit": "results.xml"}


@dataclasses.dataclass
class Graded:
    """One exercise, checked."""

    exercise: catalog.Exercise
    outcome: str
    text: str  # what ./workbook check says of it
    seconds: float
    hidden: str | None = None  # the outcome on the hidden seed; None when that was not run


def points(exercise):
    return POINTS[exercise.difficulty]


def gradescope(graded, has_hidden):
    """The results as Gradescope reads them. An exercise has its points when all its tests pass."""
    share = HIDDEN_SHARE if has_hidden else 0
    tests = []
    for one in graded:
        most = points(one.exercise) * (1 - share)
        tests.append(gradescope_test(one, one.outcome, one.text, most, "visible"))
        if has_hidden:
            text = f"on shapes that were not shown: {one.hidden or 'not run, as the visible tests do not pass'}"
            tests.append(gradescope_test(one, one.hidden, text, points(one.exercise) * share, "after_published"))
    seconds = round(sum(one.seconds for one in graded), 1)
    return json.dumps({"execution_time": seconds, "stdout_visibility": "hidden", "tests": tests},
                      indent=2) + "\n"


def gradescope_test(one, outcome, text, most, visibility):
    passed = outcome == "passed"
    name = f"{one.exercise.id} {one.exercise.title}"
    return {"name": name if visibility == "visible" else f"{name} (hidden tests)",
            "score": round(most, 2) if passed else 0, "max_score": round(most, 2),
            "status": "passed" if passed else "failed", "output": text, "visibility": visibility}


def legal(text):
    """Without the characters that XML 1.0 has no place for."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


ELEMENTS = {"skipped": "skipped", "does not compile": "error", "does not link": "error",
            "cannot be built": "error"}


def junit(graded, _has_hidden):
    """One suite a chapter, one case an exercise. What is not written is a failure of that type."""
    suites = collections.defaultdict(list)
    for one in graded:
        suites[one.exercise.chapter].append(one)
    root = xml.Element("testsuites", name="workbook")
    for chapter, members in suites.items():
        suite = xml.SubElement(root, "testsuite", name=chapter, time=f"{sum(m.seconds for m in members):.3f}")
        found = collections.Counter(add_case(suite, member) for member in members)
        suite.attrib.update(tests=str(len(members)), failures=str(found["failure"]),
                            errors=str(found["error"]), skipped=str(found["skipped"]))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name)) for suite in root)))
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def add_case(suite, one):
    outcome = "failed" if one.outcome == "passed" and one.hidden not in (None, "passed") else one.outcome
    case = xml.SubElement(suite, "testcase", classname=one.exercise.chapter,
                          name=f"{one.exercise.id} {one.exercise.name}", time=f"{one.seconds:.3f}")
    if outcome == "passed":
        return "passed"
    kind = ELEMENTS.get(outcome, "failure")
    message = outcome if outcome == one.outcome else "failed on hidden tests"
    xml.SubElement(case, kind, type=outcome, message=message).text = legal(one.text)
    return kind


def write(graded, options):
    made = {"gradescope": gradescope, "junit": junit}[options.format](graded, options.hidden_seed is not None)
    path = assignment.users_path(options.output or FILES[options.format])
    draft = path.with_name(f".{path.name}.tmp")
    try:
        draft.write_text(made, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    print(f"{path}: {len(graded)} exercise{'' if len(graded) == 1 else 's'}")
