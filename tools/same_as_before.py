"""Whether a change of the code has changed what trainings compute, keep and send.

    same_as_before.py record BIN_FOLDER FILE     before the change
    same_as_before.py compare BIN_FOLDER FILE    after it: exit code 1, and what differs, if anything does

Runs every row of the chapters' compare.json, and the rows of MORE: losses and gradient norms have to be
equal bit for bit; parameters, peaks of memory by category and bytes sent by each rank to the byte. Buffers of
messages are compared in what is sent: when one is free again depends on the machine.
"""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import compare

ROOT = pathlib.Path(__file__).resolve().parents[1]
TINY = ("--layers 2 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 --seq 32 --global-batch 8 --micro-batch 1 "
        "--steps 3 --dtype f64")
MORE = {
    "11_five_d": [f"{TINY} {layout}" for layout in (
        "--device emulated", "--device emulated --tp 2 --sp on", "--device emulated --dp 2 --zero 3",
        "--device emulated --pp 2 --schedule zero-bubble-h1", "--device emulated --cp 2 --cp-method ring",
        "--dp 2 --tp 2 --pp 2", "--dp 2 --zero 3 --tp 2 --cp 2", "--recompute full --pp 2 --dp 2 --zero 1")],
}
TIMED = ("communication", "other", "total")
"""Categories of memory that hold buffers of messages."""


def runs(folder):
    """(program, flags) of all trainings."""
    for path in sorted(ROOT.glob("chapters/[0-9][0-9]_*/compare.json")):
        chapter = path.parent.name
        comparison = json.loads(path.read_text(encoding="utf-8"))
        for row in (comparison["baseline"], *comparison["rows"]):
            yield compare.program_of(chapter, row), " ".join(compare.flags_of(comparison, row))
        for flags in MORE.get(chapter, ()):
            yield chapter, flags


def facts_of(program, flags):
    """What a training computes, keeps and sends; or the last line of why it does not train."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        done = subprocess.run([program, *shlex.split(flags), "--metrics", metrics], cwd=ROOT, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            return {"refused": (done.stderr.strip().splitlines() or [""])[-1]}
        events = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    summary = events[-1]
    return {
        "losses": summary["losses"],
        "norms": [event.get("grad_norm") for event in events if event["event"] == "step"],
        "parameters": summary["parameters"],
        "ranks": [{"peaks": {name: count for name, count in rank["peak_bytes"].items() if name not in TIMED},
                   "sent": rank["sent_bytes"], "operations": rank["operations"]}
                  for rank in summary["ranks"]],
    }


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    _, mode, folder, file = sys.argv
    found = {f"{chapter} {flags}": facts_of(pathlib.Path(folder) / chapter, flags)
             for chapter, flags in runs(folder)}
    if mode == "record":
        pathlib.Path(file).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{len(found)} trainings recorded in {file}")
        return
    before = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    differing = [(name, fact) for name in before for fact in {**before[name], **found.get(name, {})}
                 if found.get(name, {}).get(fact) != before[name].get(fact)]
    for name, fact in differing:
        print(f"{name}\n    {fact}: {str(before[name].get(fact))[:300]}\n    now: "
              f"{str(found.get(name, {}).get(fact))[:300]}")
    print(f"{len(before)} trainings, {len({name for name, _ in differing})} of them differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
