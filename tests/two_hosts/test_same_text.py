"""Two hosts that hold different texts under one path do not train together.

Exit code 77: this machine cannot play two hosts; the reason is printed.
"""

import os
import pathlib
import unittest

from mpi_run import Launcher, RunFailed
from two_hosts import CannotRun, TwoHosts, run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", ROOT / "build" / "release"))
TRAINING = [str((BUILD / "bin" / "02_collectives").resolve()),
            *("--layers 1 --hidden 8 --heads 2 --kv-heads 1 --ffn 8 --seq 8 --global-batch 4 "
              "--micro-batch 1 --steps 1 --data").split()]
TEXT = "To be or not to be, that is the question."


class SameText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts())
        cls.launcher = Launcher(cls.hosts)

    def train(self, texts):
        """Trains two ranks on each host, each host with a text of its own under the same path."""
        (path,) = {self.hosts.write(host, "text", text) for host, text in enumerate(texts)}
        return self.train_on(path)

    def train_on(self, path):
        try:
            return self.launcher.run("natural", [*TRAINING, path])
        except CannotRun as reason:
            self.skipTest(str(reason))

    def test_trains_the_hosts_together(self):
        self.assertIn("step     1/1", self.train([TEXT, TEXT]))

    def test_another_text_is_refused_with_the_first_rank_that_has_it(self):
        with self.assertRaisesRegex(
                RunFailed, "error: rank 2 reads '/dev/shm/text' with 40 bytes and the hash .*, "
                           "rank 0 reads '/dev/shm/text' with 41 bytes and the hash"):
            self.train([TEXT, TEXT[1:]])

    def test_a_missing_text_is_named_with_its_rank(self):
        path = self.hosts.write(0, "only_here", TEXT)
        with self.assertRaisesRegex(RunFailed, f"error: rank 2: data file '{path}' does not exist"):
            self.train_on(path)


if __name__ == "__main__":
    run_tests()
