"""Runs a test of tests/peers in the environment build/peers.

Exit code 77 where that could not be made: nothing was compared. ./workbook test --peers makes it.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "peers"


def main():
    python = ENVIRONMENT / "bin" / "python3"
    if not (ENVIRONMENT / "stamp").exists():
        reason = ENVIRONMENT.with_name("peers.reason")
        why = reason.read_text().strip() if reason.exists() else "./workbook test --peers makes it"
        print(f"skipped: there is no environment {ENVIRONMENT}: {why}")
        return 77
    return subprocess.run([python, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
