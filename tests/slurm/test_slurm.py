"""Trainings under Slurm: two nodes, ranks that srun starts, jobs that end before they have finished.

The losses must be those of ranks as threads of one process, in every digit.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

from slurm_cluster import CannotRun, SlurmCluster, patient

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", SOURCE / "build/release"))
PROGRAM = "11_five_d"
SCRIPT = SOURCE / "tools/slurm/workbook.sbatch"
TRAINING = ("--layers", "2", "--dp", "2", "--tp", "2", "--seq", "32", "--global-batch", "4", "--micro-batch", "1")
SKIPPED = 77


def losses(path):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line and "step" in line}


class Slurm(unittest.TestCase):
    cluster: SlurmCluster
    shared: pathlib.Path

    def train(self, *words):
        """What one process with a thread for each rank computes."""
        path = self.shared / "threads.jsonl"
        done = self.cluster.run([BUILD / "bin" / PROGRAM, *TRAINING, "--metrics", path, *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        return losses(path)

    def submit(self, *words, options=()):
        """A job of four ranks on two nodes; its number."""
        done = self.cluster.run(["env", f"WORKBOOK_BUILD={BUILD}", "sbatch", "--parsable", "--nodes=2",
                                 "--ntasks-per-node=2", *options, SCRIPT, *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def state(self, job):
        shown = self.cluster.run(["scontrol", "show", "job", job]).stdout
        return next(word[len("JobState="):] for word in shown.split() if word.startswith("JobState="))

    def log(self, job):
        path = self.shared / f"workbook-{job}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def wait(self, job, *states):
        deadline = time.monotonic() + patient(120)
        while (state := self.state(job)) not in states:
            self.assertLess(time.monotonic(), deadline, f"job {job} is {state}:\n{self.log(job)}")
            time.sleep(0.2)

    def test_ranks_of_srun_compute_what_threads_compute(self):
        path = self.shared / "job.jsonl"
        job = self.submit(PROGRAM, *TRAINING, "--steps", "6", "--metrics", path)
        self.wait(job, "COMPLETED")
        self.assertEqual(losses(path), self.train("--steps", "6"))
        self.assertEqual(len(losses(path)), 6)

    def test_a_job_that_was_stopped_goes_on(self):
        checkpoints, path = self.shared / "checkpoints", self.shared / "stopped.jsonl"
        words = (PROGRAM, *TRAINING, "--steps", "80", "--checkpoint", checkpoints, "--save-every", "2")
        job = self.submit(*words)
        deadline = time.monotonic() + patient(60)
        while len(list(checkpoints.glob("step-*"))) < 2:
            self.assertLess(time.monotonic(), deadline, self.log(job))
            time.sleep(0.05)
        self.assertEqual(self.cluster.run(["scancel", job]).returncode, 0)
        self.wait(job, "CANCELLED")
        last = max(int(p.name[5:]) for p in checkpoints.glob("step-*"))
        job = self.submit(*words, "--metrics", path)
        self.wait(job, "COMPLETED")
        self.assertIn(f": {last} of 80 steps have been made", self.log(job))
        self.assertEqual(losses(path), self.train("--steps", "80"))  # those before the stop, too

    def test_tasks_without_ranks_are_refused(self):
        done = self.cluster.run(["srun", "--mpi=none", "--ntasks=2", BUILD / "bin" / PROGRAM, *TRAINING, "--steps", "1"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("srun started 2 tasks and told none its rank", done.stderr)
        self.assertIn("--mpi=pmix", done.stderr)

    def test_another_number_of_tasks_than_ranks_is_refused(self):
        job = self.submit(PROGRAM, "--dp", "8", "--steps", "1")
        self.wait(job, "FAILED")
        self.assertIn("8 ranks", self.log(job))

    def test_a_program_that_is_not_built_is_named(self):
        job = self.submit("12_beyond")
        self.wait(job, "FAILED")
        self.assertIn(f"error: there is no program '{BUILD}/bin/12_beyond'", self.log(job))
        self.assertIn("./workbook run", self.log(job))

    def test_a_rank_that_dies_ends_the_job(self):
        job = self.submit(PROGRAM, *TRAINING, "--steps", "100000")
        self.wait(job, "RUNNING")
        begun = time.monotonic() + patient(60)
        while "step" not in self.log(job):
            self.assertLess(time.monotonic(), begun, self.log(job))
            time.sleep(0.1)
        self.assertEqual(self.cluster.run(["scancel", "--signal=KILL", f"{job}.0"]).returncode, 0)
        self.wait(job, "FAILED", "CANCELLED")


def main():
    with contextlib.ExitStack() as stack:
        Slurm.shared = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=BUILD, prefix="slurm_test.")))
        try:
            Slurm.cluster = stack.enter_context(SlurmCluster(Slurm.shared))
        except CannotRun as reason:
            print(f"SKIPPED: {reason}")
            return SKIPPED
        return 0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
