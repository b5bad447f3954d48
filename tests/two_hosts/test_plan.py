"""A plan for two hosts: it knows them and their cable, and its memory is what a run takes.

Exit code 77: this machine cannot play two hosts; the reason is printed.
"""

import json
import tempfile
import unittest

from mpi_run import RANKS_PER_HOST
from plan import MESH, PlannedHosts, plan_here
from two_hosts import PAYLOAD_SHARE, CannotRun, TwoHosts, run_tests


class PlanForTwoHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts())
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        try:
            cls.planned = PlannedHosts(cls.hosts, folder)
        except CannotRun as reason:
            raise unittest.SkipTest(str(reason)) from reason
        cls.cluster = json.loads(cls.planned.cluster.read_text(encoding="utf-8"))
        cls.layouts = cls.planned.layouts()

    def test_the_profile_knows_the_hosts_and_their_cable(self):
        self.assertEqual(self.cluster["gpus_per_node"], RANKS_PER_HOST)
        rate = self.hosts.gbit_per_second * 1e9 / 8 * PAYLOAD_SHARE
        # Faster than the cable are only the first bytes, which its bucket lets pass.
        self.assertLess(self.cluster["inter"]["bandwidth"], 1.5 * rate)
        self.assertGreater(self.cluster["intra"]["bandwidth"], self.cluster["inter"]["bandwidth"])

    def test_no_matrix_is_split_between_hosts(self):
        self.assertLessEqual(self.layouts[0]["tp"], RANKS_PER_HOST)
        across = [layout for layout in self.layouts if layout["tp"] > RANKS_PER_HOST]
        self.assertGreater(across[0]["step_seconds"], self.layouts[0]["step_seconds"])

    # The plan's rank is the one that needs most in all, which another may exceed in states alone.
    def test_a_run_takes_the_memory_of_the_plan(self):
        for layout in plan_here.best_of_each_kind(self.layouts, MESH)[:2]:
            with self.subTest(layout=layout["layout"]):
                seconds, states = self.planned.measured(layout)
                self.assertGreater(seconds, 0)
                self.assertIn(plan_here.states_of(layout), states)


if __name__ == "__main__":
    run_tests()
