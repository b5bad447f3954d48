"""The notebooks' commands: `python3 tools/notebook run|open ...` (run.py and open.py)."""

import runpy
import sys
from pathlib import Path

COMMANDS = ("run", "open")


def main() -> None:
    """Runs the script of a command, as if it had been called by its path."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python3 tools/notebook {'|'.join(COMMANDS)} [chapter] ...")
    script = str(Path(__file__).with_name(f"{sys.argv[1]}.py"))
    sys.argv = [script, *sys.argv[2:]]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
