"""answer: checks what a learner has found for a problem.

Exit code: 0 right, or nothing was asked to be checked; 1 wrong; 2 no answer at all.
"""

import catalog
import problems
import quantities
from progress import Progress


def run(options):
    if "." not in options.what:
        return list_chapter(catalog.find_chapter(options.what))
    problem = problems.find_problem(options.what)
    if options.working:
        return show_working(problem)
    text = " ".join(options.value)
    if not text:
        return show_statement(problem)
    print(f"{problem.id}  {problem.title}")
    if problem.kind == "explain":
        say("There is no number to check: compare with the working.")
        return show_working(problem)
    return check(problem, text)


def check(problem, text):
    try:
        verdict = problems.judge(problem, text)
    except quantities.BadNumber as error:
        raise catalog.UsageError(f"{problem.id}: {error}") from error
    Progress().remember_problem(problem, verdict.right)
    say(verdict.text)
    if verdict.right:
        say(f"How we found it: ./workbook answer {problem.id} --working")
    return 0 if verdict.right else 1


def say(text):
    print(f"      {text}")


def list_chapter(chapter):
    found = problems.read_problems(chapter)
    if not found:
        raise catalog.UsageError(f"chapter {chapter} has no problems yet")
    progress = Progress()
    print(f"{chapter}: {problems.problems_path(chapter).relative_to(catalog.ROOT)}")
    for problem in found:
        print(f"  {problem.id}  {problem.title:<50} {state_of(problem, progress)}")
    return 0


def state_of(problem, progress):
    if problem.kind == "explain":
        return "to explain"
    return {None: "", True: "right", False: "not yet"}[progress.problem(problem)]


def show_statement(problem):
    print(f"{problem.id}  {problem.title}  {problem.path}:{problem.line}\n\n{problem.statement}\n")
    if problem.kind == "explain":
        print(f"To compare: ./workbook answer {problem.id} --working")
    else:
        wanted = "LETTER" if problem.kind == "choice" else f"VALUE{' in ' + problem.unit if problem.unit else ''}"
        print(f"Your answer: ./workbook answer {problem.id} {wanted}")
    return 0


def show_working(problem):
    print(f"\n{problem.working()}")
    return 0
