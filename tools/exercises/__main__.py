"""The exercises' commands: check, hint, diff, status, reset, answer, mend, bug, assign (what ./workbook calls).

More serve the build and the tests: stub-guard, untouched-targets, mend-shows, bug-apply, bug-shows; and
the front door: pending-targets, mend-targets, bug-targets. tables keeps the chapters' tables of exercises
as the manifests say.
Standard library only.
"""

import argparse
import signal
import sys

import answer
import assignment
import bug
import catalog
import check
import compare_files
import grade
import guard
import hints
import mend
import reset
import status
import tables


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message):
        raise catalog.UsageError(f"{message}; ./workbook help shows how")


def parse_arguments(arguments):
    parser = Parser(prog="./workbook", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name, run, what):
        command = commands.add_parser(name, help=what, allow_abbrev=False)
        command.set_defaults(run=run)
        return command

    for name, run in (("check", check.run), ("pending-targets", check.print_pending_targets)):
        command = add(name, run, "test your exercises")
        command.add_argument("what", nargs="*", metavar="NN[.k]")
        command.add_argument("--again", action="store_true",
                             help="also those that passed and have not changed")
        command.add_argument("--format", choices=sorted(grade.FILES), help="write the results, too")
        command.add_argument("--output", metavar="FILE", help="where: results.json or results.xml")
        command.add_argument("--hidden-seed", type=seed, metavar="N",
                             help="what passes is run again on the draws of this seed")
    command = add("hint", hints.run, "the next hint for an exercise")
    command.add_argument("what", metavar="NN.k")
    command.add_argument("--all", action="store_true", help="every hint at once")
    command = add("diff", compare_files.run, "your exercise beside the solution")
    command.add_argument("what", metavar="NN[.k]")
    command = add("status", status.run, "what is written and what passes")
    command.add_argument("--certificate", metavar="FILE", help="a page of what passes")
    command.add_argument("--name", default="", help="whose page it is")
    add_assign(add)
    command = add("reset", reset.run, "give an exercise its shipped form back")
    command.add_argument("what", metavar="NN.k")
    command = add("answer", answer.run, "check a number that you have found for a problem")
    command.add_argument("what", metavar="NN[.pK]")
    command.add_argument("--working", action="store_true", help="how we found it")
    command.add_argument("value", nargs="*")
    add_mend(add)
    add_bug(add)
    command = add("tables", tables.run, "the chapters' tables of exercises")
    command.add_argument("--write", action="store_true", help="write those that differ")
    add("untouched-targets", guard.print_untouched_targets, "build targets of untouched exercises")
    command = add("stub-guard", guard.run, "prove that a shipped exercise reports itself unwritten")
    command.add_argument("chapter")
    command.add_argument("stem")
    command.add_argument("executable")
    return parser.parse_args(arguments)


def seed(text):
    """A seed as ULTRA_TEST_SEED takes it."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 0 to 2^63 - 1")
    return int(text)


def add_assign(add):
    command = add("assign", assignment.run, "a checkout to hand out, without some chapters' answers")
    command.add_argument("chapters", nargs="+", metavar="NN")
    command.add_argument("--out", metavar="DIR", help="where it goes: a folder that is not there yet")
    command.add_argument("--student", default="", help="whose seed the checks draw from")
    command.add_argument("--gradescope", metavar="FILE.zip", help="write the autograder")
    command.add_argument("--hidden-seed", type=seed, default=2**31 - 1, metavar="N",
                         help="the seed of the autograder's hidden tests")


def add_mend(add):
    for name, run in (("mend", mend.run), ("mend-targets", mend.print_targets)):
        command = add(name, run, "find the fault of a broken trainer")
        command.add_argument("what", metavar="NN[.mK], or a bug's name")
        command.add_argument("--again", action="store_true", help="start with the fault again")
        command.add_argument("--anyway", action="store_true", help="before the exercise is written")
    command = add("mend-shows", mend.shows, "prove that a broken trainer shows its fault")
    for argument in ("what", "right", "broken"):
        command.add_argument(argument)


def add_bug(add):
    for name, run in (("bug", bug.run), ("bug-targets", bug.print_targets)):
        command = add(name, run, "a real fault of distributed training, and what finds it")
        command.add_argument("what", nargs="?", metavar="NAME")
    command = add("bug-apply", bug.apply, "write the sources with the fault of a patch")
    for argument in ("patch", "folder"):
        command.add_argument(argument)
    command = add("bug-shows", bug.shows, "prove that a bug shows what its thread says, and is found")
    for argument in ("what", "right", "broken", "check"):
        command.add_argument(argument)
    command.add_argument("--write", action="store_true", help="write its block of the page")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `./workbook diff 01 | head` ends quietly
    try:
        options = parse_arguments(sys.argv[1:])
        return options.run(options)
    except catalog.UsageError as error:
        print(f"workbook: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a folder that cannot be written to, a disk that is full
        print(f"workbook: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
