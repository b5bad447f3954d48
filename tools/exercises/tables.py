"""Tables that are made, not written: each says once what two places would say differently.

The exercises in each chapter's text, from its exercises.json, stand between `<!-- exercises -->` and
`<!-- /exercises -->`. What a chapter needs and how long it takes stands in its first lines, and from
there in the last columns of the README's table. Without --write, says what differs and exits with 1.
"""

import collections
import re
import sys

import catalog
import grade

sys.path.insert(0, str(catalog.ROOT / "tools"))
import mistakes  # noqa: E402  (beside this folder)

TEACHING = catalog.ROOT / "docs" / "teaching"
TABLE = re.compile(r"<!-- exercises -->\n.*?<!-- /exercises -->", re.DOTALL)
TIMES = re.compile(r"^\*You need: (.*?) · Reading: (.*?) · Exercises: (.*?)\*$", re.MULTILINE | re.DOTALL)


def text_path(chapter):
    return catalog.ROOT / "chapters" / chapter / f"{chapter}.md"


def table(chapter):
    """The table, between its marks."""
    rows = [f"| {e.id} | {e.title} | {e.lines} | {e.difficulty} | `./workbook check {e.id}` |"
            for e in catalog.read_manifest(chapter)]
    head = ["| | task | lines | difficulty | check |", "|---|---|---|---|---|"]
    return "\n".join(["<!-- exercises -->", *head, *rows, "<!-- /exercises -->"])


def with_table(chapter, text):
    """The chapter's text with the table that its manifest makes."""
    return TABLE.sub(lambda _: table(chapter), text)


def points():
    """Each chapter's points: of every exercise, and of all."""
    lines = ["| chapter | points of its exercises | sum |", "|---|---|---|"]
    for chapter in catalog.chapters():
        of_each = [(e.id, grade.points(e)) for e in catalog.read_manifest(chapter)]
        shown = ", ".join(f"{number}: {most}" for number, most in of_each)
        lines.append(f"| {chapter[:2]} | {shown} | {sum(most for _, most in of_each)} |")
    return lines


def catalogue():
    """What each exercise's catalogue of mistakes says, with the hint that its check gives."""
    lines = []
    for chapter in catalog.chapters():
        lines += [f"## {chapter[:2]}", "", "| exercise | what is wrong | what its check says |", "|---|---|---|"]
        known = collections.defaultdict(list)
        for mistake in mistakes.of_chapter(chapter):
            known[mistake.exercise].append(mistake)
        for exercise in catalog.read_manifest(chapter):
            for mistake in known[exercise.id]:
                cells = (f"{exercise.id} {exercise.title}", mistake.what, mistake.hint)
                lines.append("| " + " | ".join(re.sub(r"([|<>*_$])", r"\\\1", cell) for cell in cells) + " |")
        lines.append("")
    return lines


def with_block(name, lines, text):
    """The text with what is made between `<!-- name -->` and `<!-- /name -->`."""
    made = "\n".join([f"<!-- {name} -->", *lines, f"<!-- /{name} -->"])
    return re.sub(rf"<!-- {name} -->\n.*?<!-- /{name} -->", lambda _: made, text, flags=re.DOTALL)


def with_times(text):
    """The README with what each chapter says of what it needs and takes."""
    for chapter in catalog.chapters():
        path = text_path(chapter)
        times = TIMES.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        if times:
            needs, reading, exercises = (" ".join(part.split()) for part in times.groups())
            row = re.compile(rf"^(\| {chapter[:2]} \|[^|\n]*\|[^|\n]*\|).*\|$", re.MULTILINE)
            made = f" {needs} | {reading}; {exercises} |"
            text = row.sub(lambda m, made=made: m[1] + made, text)
    return text


def faults(chapter, text):
    """What a chapter's text lacks of what tables are made from."""
    if catalog.read_manifest(chapter) and not TABLE.search(text):
        yield "has no <!-- exercises --> and <!-- /exercises -->"
    if not TIMES.search(text):
        yield "has no line '*You need: ... · Reading: ... · Exercises: ...*' below its title"


def made_files():
    """(path, its text now, its text as it should be) of every file with a table."""
    for chapter in catalog.chapters():
        if text_path(chapter).is_file():
            text = text_path(chapter).read_text(encoding="utf-8")
            yield text_path(chapter), text, with_table(chapter, text)
    for file, name, make in (("grading.md", "points", points), ("assistants.md", "mistakes", catalogue)):
        if (TEACHING / file).is_file():
            text = (TEACHING / file).read_text(encoding="utf-8")
            yield TEACHING / file, text, with_block(name, make(), text)
    readme = catalog.ROOT / "README.md"
    if readme.is_file():
        text = readme.read_text(encoding="utf-8")
        yield readme, text, with_times(text)


def run(options):
    found = []
    for path, text, made in made_files():
        where = path.relative_to(catalog.ROOT)
        if made != text and options.write:
            path.write_text(made, encoding="utf-8")
            print(f"{where}: updated")
        elif made != text:
            found.append(f"{where}: a table is not what it is made from; run: "
                         "python3 tools/exercises tables --write")
        if path.parent.name in catalog.chapters():
            found += [f"{where}: {fault}" for fault in faults(path.parent.name, text)]
    print("\n".join(found) or "All tables are what they are made from")
    return 1 if found else 0
