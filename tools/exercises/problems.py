"""Problems for pencil and paper: exercises/NN_name/problems.md, and what answers them.

A problem is a section `## NN.pK Title` with its statement, and behind it, folded, its working; a
fence `answer` in the working says what is right:

    unit: GB                              (may be missing: a number without a unit)
    inputs: b = 4; h = 4096               (names for the expressions; later ones may use earlier ones)
    value: 2 * b * h / 1e9                (arithmetic)
    tolerance: 2%                         (1% unless told; 0: exactly)
    mistake: b * h / 1e9 -> what to say   (any number of them)
    program: 05 --flags                   (a program that knows the value, and where in what it
    check: run["bytes"] / 1e9              prints as JSON, or in its summary; tests compare)

or, for a question with a choice, `choice: b` and `wrong: a -> why not`; or `explain: yes`, when
only the reader can compare.
"""

import dataclasses
import re

import catalog
import quantities

HEADING = re.compile(r"^## (\d\d)\.p(\d+) +(.+)$", re.MULTILINE)
WORKING = re.compile(r"<details>\s*<summary>Working</summary>\n(.*?)</details>", re.DOTALL)
ANSWER = re.compile(r"^```answer\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
FIELDS = {"unit", "inputs", "value", "tolerance", "mistake", "program", "check", "choice", "wrong",
          "explain"}
REPEATED = {"mistake", "wrong"}


@dataclasses.dataclass(frozen=True)
class Problem:
    """One section of a chapter's problems."""

    chapter: str
    number: int
    title: str
    statement: str
    working_text: str
    fields: dict
    line: int

    @property
    def id(self):
        return f"{self.chapter[:2]}.p{self.number}"

    @property
    def path(self):
        return f"exercises/{self.chapter}/problems.md"

    @property
    def kind(self):
        return next((kind for kind in ("choice", "explain") if kind in self.fields), "number")

    @property
    def unit(self):
        return self.fields.get("unit", "")

    @property
    def tolerance(self):
        text = self.fields.get("tolerance", "1%")
        return quantities.evaluate(text.rstrip("%")) / (100 if text.endswith("%") else 1)

    def inputs(self):
        names = {}
        for part in filter(str.strip, self.fields.get("inputs", "").split(";")):
            name, _, expression = part.partition("=")
            names[name.strip()] = quantities.evaluate(expression, names)
        return names

    def value(self):
        return quantities.evaluate(self.fields["value"], self.inputs())

    def working(self):
        """The working with its numbers filled in, outside formulas: {value}, {b}."""
        if self.kind != "number":
            return self.working_text
        names = {name: quantities.shown(value) for name, value in self.inputs().items()}
        names["value"] = quantities.shown(self.value(), self.unit)
        parts = re.split(r"(\$\$.*?\$\$|\$.*?\$)", self.working_text, flags=re.DOTALL)
        return "".join(part if part.startswith("$") else
                       re.sub(r"\{(\w+)\}", lambda m: names.get(m[1], m[0]), part)
                       for part in parts)


def problems_path(chapter):
    return catalog.ROOT / "exercises" / chapter / "problems.md"


def read_problems(chapter):
    """The chapter's problems in their order; none when it has no such file."""
    path = problems_path(chapter)
    return parse(chapter, path.read_text(encoding="utf-8")) if path.is_file() else []


def parse(chapter, text):
    heads = list(HEADING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    problems = [problem_from(chapter, head, text[head.end():end], text.count("\n", 0, head.start()) + 1)
                for head, end in zip(heads, ends)]
    numbers = [problem.number for problem in problems]
    if numbers != list(range(1, len(numbers) + 1)):
        raise catalog.UsageError(f"exercises/{chapter}/problems.md: numbers are {numbers}, not 1, 2, ...")
    return problems


def problem_from(chapter, head, body, line):
    where = f"exercises/{chapter}/problems.md:{line}: {head[1]}.p{head[2]}"
    if head[1] != chapter[:2]:
        raise catalog.UsageError(f"{where}: this is the file of chapter {chapter[:2]}")
    working = WORKING.search(body)
    answer = ANSWER.search(working[1]) if working else None
    if not answer:
        raise catalog.UsageError(f"{where}: has no <details> with the summary Working and a fence "
                                 "```answer in it")
    fields = fields_of(answer[1], where)
    return Problem(chapter, int(head[2]), head[3].strip(), body[:working.start()].strip(),
                   ANSWER.sub("", working[1]).strip(), fields, line)


def fields_of(text, where):
    fields = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.split("   #")[0].strip()
        if not colon or name not in FIELDS or (name in fields and name not in REPEATED):
            raise catalog.UsageError(f"{where}: its answer has a line '{line}'")
        if name in REPEATED:
            what, _, reply = value.partition("->")
            fields.setdefault(name, []).append((what.strip(), reply.strip()))
        else:
            fields[name] = value
    kinds = [kind for kind in ("value", "choice", "explain") if kind in fields]
    if len(kinds) != 1:
        raise catalog.UsageError(f"{where}: its answer needs one of value:, choice: and explain:")
    return fields


def find_problem(text):
    """The problem named by NN.pK."""
    match = re.fullmatch(r"(\w+)\.p(\d+)", text)
    if not match:
        raise catalog.UsageError(f"'{text}' names no problem; write chapter.pnumber, for example 01.p2")
    chapter = catalog.find_chapter(match[1])
    problems = read_problems(chapter)
    for problem in problems:
        if problem.number == int(match[2]):
            return problem
    known = ", ".join(problem.id for problem in problems) or "none"
    raise catalog.UsageError(f"there is no problem '{text}'; chapter {chapter} has: {known}")


def judge_number(problem, text):
    """@raises quantities.BadNumber when the text is no number of the problem's unit"""
    value = quantities.value_of(text, problem.unit)
    verdict = quantities.judge(value, problem.value(), problem.tolerance, problem.unit)
    if not verdict.right:
        replies = known_mistakes(problem, value)
        if replies:
            return quantities.Verdict(False, f"Not yet. {replies[0]}")
    return verdict


def known_mistakes(problem, value):
    """What to say of a wrong number that a known mistake gives; the nearest mistake first."""
    found = []
    for expression, reply in problem.fields.get("mistake", []):
        known = quantities.evaluate(expression, problem.inputs())
        if quantities.is_close(value, known, min(problem.tolerance, 0.02)):
            found.append((abs(value - known), reply))
    return [reply for _, reply in sorted(found)]


def judge_choice(problem, text):
    letter = text.strip().strip("()").lower()
    offered = sorted({problem.fields["choice"]} | {wrong for wrong, _ in problem.fields.get("wrong", [])})
    if letter == problem.fields["choice"]:
        return quantities.Verdict(True, "Right.")
    if letter not in offered:
        raise quantities.BadNumber(f"'{text}' is none of the choices {', '.join(offered)}")
    reply = dict(problem.fields.get("wrong", [])).get(letter, "")
    return quantities.Verdict(False, f"No. {reply}".strip())


def judge(problem, text):
    """@raises quantities.BadNumber for what is no answer at all"""
    return (judge_choice if problem.kind == "choice" else judge_number)(problem, text)


def as_markdown(chapter):
    """All problems of a chapter for its page: statements, and the workings folded."""
    parts = []
    for problem in read_problems(chapter):
        check = "" if problem.kind == "explain" else f" `./workbook answer {problem.id} …`"
        parts.append(f"**{problem.id} {problem.title}.**{check}\n\n{problem.statement}\n\n"
                     f"<details>\n<summary>Working</summary>\n\n{problem.working()}\n\n</details>")
    return "\n\n".join(parts)
