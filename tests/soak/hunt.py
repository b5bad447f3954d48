#!/usr/bin/env python3
"""Hunts lost messages: many short trainings in random layouts, on thread ranks and under mpirun, on a
machine that has too much to do.

A message that is lost ends a run in its time-out; one that is mixed up changes a loss. Each run's
losses are compared with those of one rank, and each time-out's diagnosis is kept: it tells a starved
rank from one that waits for what never comes.

    tests/soak/hunt.py --runs 3000 --load 20 --report hunt.json
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from layouts import MPI_ENVIRONMENT, mpirun

MODEL = ("--layers 2 --hidden 16 --heads 4 --kv-heads 4 --ffn 32 --seq 16 --global-batch 8 "
         "--micro-batch 1 --dtype f64 --steps 12 --clip 1").split()
DATA = Path(__file__).resolve().parents[1] / "data/arithmetic.txt"
TOLERANCE = 1e-9


def program(folder):
    return str(Path(folder) / "05_tensor_sequence_parallel")


def random_layout(rng):
    """Flags of a layout that the model and the batch allow, and its number of ranks."""
    tp, replicas = rng.choice([(1, 2), (1, 4), (2, 1), (2, 2), (4, 1), (1, 8), (2, 4)])
    flags = []
    if tp > 1:
        flags += ["--tp", str(tp)]
        flags += rng.choice([[], ["--sp", "on"], ["--sp", "on", "--tp-overlap", "ring"]])
    stage = rng.choice([0, 1, 2, 3]) if replicas > 1 else 0
    if stage:
        flags += ["--zero", str(stage)]
    flags += ["--progress", rng.choice(["thread", "on-call"])]
    flags += ["--collectives", rng.choice(["ours", "native"])]
    return flags, tp * replicas


def losses_of(metrics):
    lines = [json.loads(line) for line in Path(metrics).read_text().splitlines()]
    return [line["loss"] for line in lines if "step" in line and "loss" in line]


def train(folder, flags, ranks, mpi, timeout, limit):
    """Exit code (None: it had to be killed), losses and standard error of one training."""
    with tempfile.TemporaryDirectory() as scratch:
        metrics = Path(scratch) / "metrics.jsonl"
        words = [program(folder), *MODEL, "--data", str(DATA), *flags, "--timeout", str(timeout),
                 "--metrics", str(metrics)]
        if mpi:
            words = [*mpirun(ranks), *words]
        else:
            words += ["--ranks", str(ranks)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit,
                                  env={**os.environ, **MPI_ENVIRONMENT})
        except subprocess.TimeoutExpired as error:
            return None, [], str(error.stderr)
        return done.returncode, losses_of(metrics) if done.returncode == 0 else [], done.stderr


def equal(losses, expected):
    return len(losses) == len(expected) and all(
        abs(a - b) <= TOLERANCE * abs(b) for a, b in zip(losses, expected))


class Load:
    """Processes that compute for nothing."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                          for _ in range(self.count)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def hunt(options):
    rng = random.Random(options.seed)
    code, expected, error = train(options.programs, [], 1, False, 60, 600)
    if code != 0:
        sys.exit(f"one rank cannot train: {error}")
    counts = {"thread": 0, "mpi": 0}
    bad = []
    begin = time.time()
    with Load(options.load):
        for run in range(options.runs):
            flags, ranks = random_layout(rng)
            mpi = rng.random() < options.mpi
            counts["mpi" if mpi else "thread"] += 1
            code, losses, error = train(options.programs, flags, ranks, mpi, options.timeout,
                                        20 * options.timeout)
            if code == 0 and equal(losses, expected):
                continue
            kind = "killed" if code is None else "failed" if code else "other losses"
            bad.append({"run": run, "kind": kind, "ranks": ranks, "mpi": mpi, "flags": flags,
                        "error": error[-3000:]})
            print(f"run {run}: {kind}: {ranks} ranks {'mpirun ' if mpi else ''}{' '.join(flags)}\n"
                  f"{error[-3000:]}", flush=True)
    return {"seed": options.seed, "load": options.load, "cores": os.cpu_count(),
            "thread runs": counts["thread"], "mpi runs": counts["mpi"],
            "seconds": round(time.time() - begin), "bad": bad}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    default_programs = Path(__file__).resolve().parents[2] / "build/release/bin"
    parser.add_argument("--programs", default=default_programs, help="folder of the executables")
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--load", type=int, default=20, help="processes that compute beside the runs")
    parser.add_argument("--mpi", type=float, default=0.3, help="share of the runs under mpirun")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--report", help="a JSON file for the figures")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    figures = hunt(options)
    print(json.dumps({**figures, "bad": len(figures["bad"])}))
    if options.report:
        Path(options.report).write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if figures["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
