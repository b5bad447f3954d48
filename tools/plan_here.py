"""Plans a small training for this machine, and runs the plan: the end of `./workbook run`.

    plan_here.py PROGRAM [RANKS] [--all]

PROGRAM is the last chapter's executable. It measures this machine (--profile-machine), plans for it
(--plan), and trains as the plan says; the table sets the plan's figures beside the run's. --all
runs every layout of the plan instead of the first, and prints a page for docs/measurements.
"""

import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from compare import ROOT

MODEL = ["--layers", "4", "--hidden", "256", "--heads", "8", "--kv-heads", "8", "--ffn", "512"]
SEQUENCE = 128
BATCH = 16  # sequences of a step
STEPS = 6
LAYOUTS = 400  # of a plan, of which --all runs the best of each mesh and ZeRO stage
STATES = ("parameters", "gradients", "optimizer")
KIND = ("dp", "pp", "cp", "tp", "zero", "schedule", "recompute")
LONGEST_RUN = 600  # seconds


class CannotPlan(Exception):
    """What the executable said."""


def output_of(command):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=LONGEST_RUN)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise CannotPlan(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


def planned(program, cluster, ranks):
    """The layouts of the plan, best first, as the planner's JSON has them."""
    answer = output_of([program, "--plan", "--plan-json", "--plan-cluster", cluster,
                        "--plan-model", "custom", *MODEL, "--plan-gpus", ranks,
                        "--plan-precision", "fp32", "--plan-seq", SEQUENCE,
                        "--plan-software", "workbook",
                        "--plan-batch", BATCH * SEQUENCE, "--plan-count", LAYOUTS])
    return json.loads(answer)["layouts"]


def best_of_each_kind(layouts, kind=KIND):
    """The first layout of each mesh, ZeRO stage, schedule and recomputation, or of other kinds."""
    kinds = {}
    for layout in layouts:
        kinds.setdefault(tuple(layout[key] for key in kind), layout)
    return list(kinds.values())


def flags_of(layout):
    """The flags of a training by a layout."""
    flags = []
    for axis in ("dp", "pp", "cp", "tp"):
        if layout[axis] > 1:
            flags += [f"--{axis}", str(layout[axis])]
    if layout["zero"] > 0:
        flags += ["--zero", str(layout["zero"])]
    if layout["hybrid_shard"] > 0:
        flags += ["--hybrid-shard", str(layout["hybrid_shard"])]
    if layout["pp"] > 1:
        flags += ["--schedule", layout["schedule"]]
    if layout["recompute"] != "none":
        flags += ["--recompute", layout["recompute"]]
    if layout.get("sequence_parallel") and layout["tp"] > 1:
        flags += ["--sp", "on"]
    return [*flags, "--micro-batch", str(layout["micro_batch"])]


def profiled(program, ranks, folder, run=output_of):
    """The cluster file of the machine, or of the machines that `run` starts the ranks on."""
    cluster = folder / "machine.json"
    cluster.write_text(run([program, "--profile-machine", "--ranks", ranks, *MODEL,
                            "--seq", SEQUENCE]), encoding="utf-8")
    return cluster


def measured(program, flags, folder, run=output_of):
    """Seconds of a step, and each rank's bytes of states."""
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    run([program, *MODEL, "--seq", SEQUENCE, "--global-batch", BATCH, "--steps", STEPS,
         *flags, "--metrics", metrics])
    events = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    speeds = [event["tokens_per_second"] for event in events if event["event"] == "step"]
    states = [sum(rank["peak_bytes"][name] for name in STATES) for rank in events[-1]["ranks"]]
    # The first step also allocates and warms up.
    return BATCH * SEQUENCE / statistics.median(speeds[1:]), states


def difference(value, predicted):
    return f"{100 * (value / predicted - 1):+.1f} %"


def states_of(layout):
    return sum(layout["memory"][part] for part in STATES)


def show_first(layout, ranks, seconds, states):
    print(f"\nA plan for this machine with {ranks} ranks: {layout['layout']}")
    print(f"  {shlex.join(flags_of(layout))}\n")
    print(f"  {'':<24}{'planned':>12}{'measured':>12}")
    for what, plan, run, decimals in (
            ("milliseconds of a step", 1e3 * layout["step_seconds"], 1e3 * seconds, 1),
            ("MB of states on a rank", states_of(layout) / 1e6, max(states) / 1e6, 3)):
        print(f"  {what:<24}{plan:>12.{decimals}f}{run:>12.{decimals}f}  {difference(run, plan)}")


def show_all(rows, how):
    print(f"# Plans for a machine, and their runs on it\n\n{how}, f32: {shlex.join(MODEL)} "
          f"--seq {SEQUENCE} --global-batch {BATCH}.\n")
    print("| layout | planned ms | measured ms | | planned MB of states | measured MB | |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for layout, seconds, states in rows:
        print(f"| {layout['layout']} | {1e3 * layout['step_seconds']:.1f} | {1e3 * seconds:.1f} "
              f"| {difference(seconds, layout['step_seconds'])} | {states_of(layout) / 1e6:.3f} "
              f"| {max(states) / 1e6:.3f} | {difference(max(states), states_of(layout))} |")
    errors = [abs(seconds / layout["step_seconds"] - 1) for layout, seconds, _ in rows]
    print(f"\nMedian distance of the step times: {100 * statistics.median(errors):.1f} %.")


def main(program, ranks, all_layouts):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        layouts = planned(program, profiled(program, ranks, folder), ranks)
        rows = [(layout, *measured(program, flags_of(layout), folder))
                for layout in (best_of_each_kind(layouts) if all_layouts else layouts[:1])]
    if all_layouts:
        show_all(rows, f"`tools/plan_here.py` with --all, {ranks} ranks as threads")
    else:
        layout, seconds, states = rows[0]
        show_first(layout, ranks, seconds, states)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--all"]
    if not words:
        sys.exit(__doc__)
    try:
        main(pathlib.Path(words[0]).resolve(), int(words[1]) if len(words) > 1 else 2,
             "--all" in sys.argv)
    except (CannotPlan, subprocess.TimeoutExpired) as error:
        sys.exit(f"no plan for this machine: {error}")
