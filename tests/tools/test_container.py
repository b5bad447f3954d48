"""The container's description: its packages are the front door's, and what runs in it is no root."""

import json
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "Containerfile"


def stages():
    """The text of each stage by its name."""
    parts = re.split(r"^FROM \S+ AS (\w+)\n", CONTAINERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


class Container(unittest.TestCase):
    def test_installs_what_the_front_door_would(self):
        wanted = [line.split()[1] for line in (ROOT / "tools/packages.txt").read_text(encoding="utf-8").splitlines()
                  if line.strip() and not line.startswith("#")]
        self.assertGreater(len(wanted), 20)
        for name, text in stages().items():
            command = re.search(r"\$\((awk .*?) /tmp/packages.txt\)", text)
            self.assertIsNotNone(command, name)
            found = subprocess.run(["sh", "-c", f"{command[1]} {ROOT}/tools/packages.txt"], capture_output=True,
                                   text=True, check=True).stdout.split()
            self.assertEqual(found, wanted, name)

    def test_what_runs_is_no_root(self):
        for name, text in stages().items():
            self.assertLess(text.index("USER learner"), text.index("COPY --chown=learner"), name)
            self.assertTrue(text.rstrip().endswith('CMD ["./workbook", "run"]'), name)

    def test_editors_build_its_stages(self):
        files = list((ROOT / ".devcontainer").rglob("devcontainer.json"))
        self.assertEqual(len(files), 2)
        targets = set()
        for file in files:
            description = json.loads(file.read_text(encoding="utf-8"))
            build = description["build"]
            self.assertEqual((file.parent / build["dockerfile"]).resolve(), CONTAINERFILE)
            self.assertEqual((file.parent / build["context"]).resolve(), ROOT)
            self.assertEqual(description["remoteUser"], "learner")
            targets.add(build["target"])
        self.assertEqual(targets, set(stages()))

    def test_what_was_built_outside_stays_outside(self):
        self.assertIn("build", (ROOT / ".dockerignore").read_text(encoding="utf-8").split())


if __name__ == "__main__":
    unittest.main()
