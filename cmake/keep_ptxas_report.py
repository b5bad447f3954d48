"""A launcher of nvcc that keeps what ptxas reports: registers, shared memory, spills.

    keep_ptxas_report.py FOLDER COMMAND... -c SOURCE.cu -o OBJECT

Runs COMMAND, which must compile with -Xptxas=-v. The report goes to FOLDER/SOURCE.cu.txt, SOURCE as
the repository names it; everything else that the compiler says is passed on. A source that does not
compile leaves no report. ccache repeats the report of an object that it has.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# ptxas's own lines; a property's value is on a line of its own, indented.
REPORT_LINE = re.compile(r"^(ptxas info\b|    \d+ bytes stack frame)")


def report_path(folder, command):
    source = pathlib.Path(command[command.index("-c") + 1]).resolve()
    inside = source.is_relative_to(ROOT)
    return folder / f"{source.relative_to(ROOT) if inside else source.name}.txt"


def main():
    path = report_path(pathlib.Path(sys.argv[1]), sys.argv[2:])
    path.unlink(missing_ok=True)
    done = subprocess.run(sys.argv[2:], stderr=subprocess.PIPE, text=True, errors="replace",
                          check=False)
    lines = done.stderr.splitlines(keepends=True)
    sys.stderr.writelines(line for line in lines if not REPORT_LINE.match(line))
    if done.returncode == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line for line in lines if REPORT_LINE.match(line)),
                        encoding="utf-8")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
