"""Every command of docs/appendices/from_your_framework.md trains, and none is another training than
one rank's of the same model and batch.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "appendices" / "from_your_framework.md"
TEXT = ROOT / "tests" / "data" / "arithmetic.txt"
SMALL = {"--layers": 2, "--hidden": 32, "--heads": 4, "--kv-heads": 2, "--ffn": 48, "--seq": 32,
         "--global-batch": 8, "--micro-batch": 2, "--steps": 3, "--warmup": 1, "--dtype": "f64"}
# What changes the model, the batch or the gradients: no plain training has these losses.
OWN = ("--layers", "--hidden", "--ffn", "--heads", "--kv-heads", "--seq", "--global-batch", "--vocab",
       "--tied-embeddings", "--steps", "--lr", "--warmup", "--clip", "--compress", "--zero++",
       "--doc-length", "--window")


def commands():
    """The cells between back-quotes in the second column, of all tables."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!`)\|(?!`)", line)[1:-1]]
        if len(cells) == 3 and (found := re.fullmatch(r"`(\d\d )(.*)`", cells[1])):
            yield found[1].strip(), found[2]


def program(chapter):
    folder = ROOT / os.environ.get("ULTRA_BUILD_DIR", "build/release") / "bin"
    found = sorted(folder.glob(f"{chapter}_*"))
    names = [path for path in found if not path.name.endswith("_mine")]
    if not names:
        print(f"skipped: chapter {chapter}'s program is not built")
        sys.exit(77)
    return names[0]


def train(chapter, flags, folder):
    flags = flags.replace("DIR", str(folder / "saved")).replace("TEXT", str(TEXT)).split()
    (folder / "saved").mkdir(exist_ok=True)
    start = []
    if flags[:1] == ["--mpi"]:
        start = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", flags[1]]
        flags = flags[2:]
    small = [str(word) for flag, value in SMALL.items() if flag not in flags
             for word in (flag, value)]
    metrics = folder / "metrics.jsonl"
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([*start, program(chapter), *flags, *small, "--data", TEXT, "--metrics",
                           metrics], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{chapter} {' '.join(flags)}:\n{done.stdout}{done.stderr}"
    return json.loads(metrics.read_text().splitlines()[-1])["losses"]


def main():
    plain, seen = None, 0
    for chapter, flags in commands():
        if flags.startswith("--mpi") and shutil.which("mpirun") is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            losses = train(chapter, flags, Path(folder))
        if plain is None:
            with tempfile.TemporaryDirectory() as folder:
                plain = train(chapter, "", Path(folder))
        seen += 1
        if any(word in OWN for word in flags.split()):
            continue
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, plain))
        assert len(losses) == len(plain) and worst < 1e-10, f"{flags}: losses differ by {worst:.2g}"
    assert seen >= 50, f"{seen} commands were found in {PAGE}"
    print(f"{seen} commands train")
    return 0


if __name__ == "__main__":
    sys.exit(main())
