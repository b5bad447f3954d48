"""What a newcomer waits for: what the first chapter's program is built from."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", "build/release"))
MOST_OBJECTS = 150
OF_DEVICES = re.compile(r"ultra_(device_|kernels)")
"""Where there are tests there are devices, which a first build leaves out."""


def inputs_of(target):
    """All files that a target is built from; None where ninja cannot tell."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", target], capture_output=True, text=True,
                          check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


class FirstBuild(unittest.TestCase):
    def setUp(self):
        self.inputs = inputs_of("bin/01_memory")
        if self.inputs is None:
            self.skipTest("this ninja has no tool inputs (1.11 has)")
        self.objects = [name for name in self.inputs
                        if name.endswith(".o") and not OF_DEVICES.search(name)]

    def test_is_of_few_objects(self):
        self.assertGreater(len(self.objects), 20)  # the question was understood
        self.assertLessEqual(len(self.objects), MOST_OBJECTS, "chapter 1's program has grown: a first "
                             "number within ninety seconds has no room for more")

    def test_has_no_kernel_and_no_other_chapter(self):
        for name in self.objects:
            self.assertNotIn("/kernels/", name)
            self.assertIsNone(re.search(r"/(0[2-9]|1\d)_\w+", name), name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--verbose"])
