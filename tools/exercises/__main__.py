"""The exercises' commands: check, hint, diff, status, reset (what ./workbook calls).

Two more serve the tests: stub-guard, untouched-targets; one the front door: pending-targets.
Standard library only.
"""

import argparse
import signal
import sys

import catalog
import check
import compare_files
import guard
import hints
import reset
import status


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
        command.add_argument("what", nargs="?", metavar="NN[.k]")
        command.add_argument("--again", action="store_true",
                             help="also those that passed and have not changed")
    command = add("hint", hints.run, "the next hint for an exercise")
    command.add_argument("what", metavar="NN.k")
    command.add_argument("--all", action="store_true", help="every hint at once")
    command = add("diff", compare_files.run, "your exercise beside the solution")
    command.add_argument("what", metavar="NN[.k]")
    add("status", status.run, "what is written and what passes")
    command = add("reset", reset.run, "give an exercise its shipped form back")
    command.add_argument("what", metavar="NN.k")
    add("untouched-targets", guard.print_untouched_targets, "build targets of untouched exercises")
    command = add("stub-guard", guard.run, "prove that a shipped exercise reports itself unwritten")
    command.add_argument("chapter")
    command.add_argument("stem")
    command.add_argument("executable")
    return parser.parse_args(arguments)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `./workbook diff 01 | head` ends quietly
    try:
        options = parse_arguments(sys.argv[1:])
        return options.run(options)
    except catalog.UsageError as error:
        print(f"workbook: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
