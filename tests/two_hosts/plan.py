"""A plan for two hosts that one machine plays, and runs that confirm it, as a page of measurements.

    plan.py [LAYOUTS]

Four ranks of the last chapter's executable, two processes on each host, measure both hosts and the
cable between them (--profile-machine), plan for what they found, and train by the best layout of
each mesh, LAYOUTS of them at most.

Exit code 77: this machine cannot play two hosts; the reason is printed.
"""

import os
import pathlib
import sys
import tempfile

from mpi_run import RANKS, Launcher, RunFailed
from two_hosts import SKIPPED, CannotRun, TwoHosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", ROOT / "build" / "release"))
PROGRAM = (BUILD / "bin" / "11_five_d").resolve()
MESH = ("dp", "pp", "cp", "tp")
sys.path.insert(0, str(ROOT / "tools"))

import plan_here  # noqa: E402  (after the path)


class PlannedHosts:
    """What the planner knows of two hosts, and runs over them."""

    def __init__(self, hosts, folder):
        self._launcher = Launcher(hosts)
        self._folder = pathlib.Path(folder)
        self.cluster = plan_here.profiled(PROGRAM, RANKS, self._folder, self._run)

    def _run(self, command):
        return self._launcher.run("natural", [str(word) for word in command])

    def layouts(self):
        """The plan's layouts, best first."""
        return plan_here.planned(PROGRAM, self.cluster, RANKS)

    def measured(self, layout):
        """Seconds of a step, and bytes of states of the rank that has most."""
        return plan_here.measured(PROGRAM, plan_here.flags_of(layout), self._folder, self._run)


def main(count):
    with TwoHosts() as hosts, tempfile.TemporaryDirectory() as folder:
        planned = PlannedHosts(hosts, folder)
        rows = [(layout, *planned.measured(layout))
                for layout in plan_here.best_of_each_kind(planned.layouts(), MESH)[:count]]
    plan_here.show_all(rows, f"`tests/two_hosts/plan.py`: {RANKS} ranks as processes on two hosts, "
                             f"a cable of {hosts.gbit_per_second:g} Gbit/s between them")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    except CannotRun as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)
    except (RunFailed, plan_here.CannotPlan) as error:
        sys.exit(f"no plan for two hosts: {error}")
