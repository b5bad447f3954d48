"""The Containerfile's steps, followed in a Debian that has nothing: the first chapter trains in what they make,
as a user who is no root. Skipped, with the reason, where such a Debian cannot be had.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
STEPS = 4


def why_not():
    """What is missing for a Debian in a folder; empty when nothing is."""
    if os.geteuid() != 0:
        return "a machine in a folder takes root's rights"
    for tool in ("debootstrap", "unshare", "git"):
        if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin"):
            return f"'{tool}' is not installed"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode != 0:
        return "this machine gives no namespaces"
    if shutil.disk_usage(tempfile.gettempdir()).free < 8e9:
        return f"{tempfile.gettempdir()} has less than 8 GB left"
    mirror = subprocess.run([ROOT / "tests/bare_machine/run.sh", "--mirror"], capture_output=True, text=True, check=False)
    if mirror.returncode != 0:
        return mirror.stderr.strip()
    try:
        with urllib.request.urlopen(f"{mirror.stdout.strip()}/dists/bookworm/Release", timeout=20):
            return ""
    except (urllib.error.URLError, OSError) as error:
        return f"no network to Debian's packages: {error}"


class Container(unittest.TestCase):
    def test_trains_in_what_the_steps_make(self):
        with tempfile.TemporaryDirectory() as folder:
            command = f'id --user --name; ./workbook doctor; ./workbook run 01 --steps {STEPS} && ls build'
            done = subprocess.run([ROOT / "tests/bare_machine/run.sh", "--container", folder, "sh", "-c", command],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        said = done.stdout[done.stdout.rindex("\nCMD "):]
        self.assertIn("\nlearner\n", said)
        self.assertRegex(said, rf"step +{STEPS}/{STEPS} +loss \d\.\d", said[-3000:])
        self.assertNotRegex(said, re.compile("sudo|apt-get install", re.IGNORECASE), "everything is there already")


if __name__ == "__main__":
    if reason := why_not():
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)
    unittest.main()
