"""Makes the text that programs train on by default, data/workbook.txt: a snapshot of the book.

It was made once, and changes only when somebody decides so: every loss of a training without --data
follows from it. Afterwards adapt its size and hash in common/data/dataset.cpp (the message of a run
without --data shows them) and its SHA-256 in tests/tools/test_make_text.py.
"""

import subprocess

from source_files import ROOT

TEXT = ROOT / "data" / "workbook.txt"
# What it consists of: prose, and the code that the chapters share.
PARTS = (("chapters/", (".md",)), ("common/", (".md", ".hpp", ".cpp")))


def committed(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    return done.stdout


def workbook_text():
    """The files of the last commit, one after the other, in the order of their paths."""
    names = committed("ls-tree", "-r", "-z", "--name-only", "HEAD").decode().split("\0")
    chosen = sorted(name for name in names
                    if any(name.startswith(folder) and name.endswith(endings)
                           for folder, endings in PARTS))
    return b"".join(committed("show", f"HEAD:{name}") for name in chosen)


def main():
    TEXT.parent.mkdir(exist_ok=True)
    TEXT.write_bytes(workbook_text())
    print(f"{TEXT}: {TEXT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
