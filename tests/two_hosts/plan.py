"""A plan for two hosts that one machine plays, and runs that confirm it, as a page of measurements.

    plan.py [LAYOUTS [RANKS_PER_HOST]]

Ranks of the last chapter's executable, two processes on each host unless told otherwise, measure
both hosts and the cable between them (--profile-machine), plan for what they found, and train by
the best layout of each mesh and ZeRO stage, LAYOUTS of them at most. Times say something only where
each rank has a core of its own.

Exit code 77: this machine cannot play two hosts; the reason is printed.
"""

import os
import pathlib
import sys
import tempfile

from mpi_run import RANKS_PER_HOST, Launcher, RunFailed
from two_hosts import HOSTS, SKIPPED, CannotRun, TwoHosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", ROOT / "build" / "release"))
PROGRAM = (BUILD / "bin" / "11_five_d").resolve()
MESH = ("dp", "pp", "cp", "tp")
sys.path.insert(0, str(ROOT / "tools"))

import plan_here  # noqa: E402  (after the path)


class PlannedHosts:
    """What the planner knows of two hosts, and runs over them."""

    def __init__(self, hosts, folder, ranks_per_host=RANKS_PER_HOST):
        self._launcher = Launcher(hosts, ranks_per_host)
        self._folder = pathlib.Path(folder)
        self.ranks = len(HOSTS) * ranks_per_host
        self.cluster = plan_here.profiled(PROGRAM, self.ranks, self._folder, self._run)

    def _run(self, command):
        return self._launcher.run("natural", [str(word) for word in command])

    def layouts(self):
        """The plan's layouts, best first."""
        return plan_here.planned(PROGRAM, self.cluster, self.ranks)

    def measured(self, layout):
        """Seconds of a step, and each rank's bytes of states."""
        return plan_here.measured(PROGRAM, plan_here.flags_of(layout), self._folder, self._run)


def main(count=8, ranks_per_host=RANKS_PER_HOST):
    with TwoHosts() as hosts, tempfile.TemporaryDirectory() as folder:
        planned = PlannedHosts(hosts, folder, ranks_per_host)
        layouts = plan_here.best_of_each_kind(planned.layouts(), (*MESH, "zero"))[:count]
        rows = [(layout, *planned.measured(layout)) for layout in layouts]
    plan_here.show_all(rows, f"`tests/two_hosts/plan.py`: {planned.ranks} ranks as processes on two "
                             f"hosts, a cable of {hosts.gbit_per_second:g} Gbit/s between them")


if __name__ == "__main__":
    try:
        main(*map(int, sys.argv[1:]))
    except CannotRun as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)
    except (RunFailed, plan_here.CannotPlan) as error:
        sys.exit(f"no plan for two hosts: {error}")
