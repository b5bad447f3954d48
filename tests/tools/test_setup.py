"""What ./workbook installs, seen through fake dpkg-query, apt-get and sudo."""

import os
import pathlib
import shutil
import tempfile
import unittest

from toy_workbook import SOURCE, ToyWorkbook

NEEDED = [line.split() for line in (SOURCE / "tools" / "packages.txt").read_text().splitlines()
          if line and not line.startswith("#")]


class Setup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.toy = ToyWorkbook()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.fake = pathlib.Path(temporary.name)
        (self.fake / "calls").touch()
        # For tests run by an ordinary user: nobody is asked for a password.
        self.fake_tool("sudo", '[ "$1" = -v ] || exec "$@"')

    def fake_tool(self, name, script):
        path = self.fake / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def record(self, name, rest="exit 0"):
        """A fake tool that notes how it was called."""
        self.fake_tool(name, f'echo "{name} $*" >>{self.fake}/calls\n{rest}')

    def calls(self):
        return (self.fake / "calls").read_text().splitlines()

    def install(self, installed, groups="build", before=""):
        """Runs need_packages on a machine with these packages."""
        lines = "\n".join(f"echo '{name} installed'" for name in installed)
        self.fake_tool("dpkg-query", f"{lines}\nexit 1")
        script = ("set -uo pipefail; source tools/front/terminal.sh; source tools/front/setup.sh; "
                  f"{before} need_packages {groups}; echo changed=$packages_changed")
        path = f"{self.fake}:{os.environ['PATH']}"
        return self.toy.run("bash", "-c", script, environment={"PATH": path})

    def packages(self, *groups):
        return [name for group, name in NEEDED if group in groups]

    def test_nothing_missing_calls_nothing(self):
        self.record("apt-get")
        code, output = self.install(self.packages("build"))
        self.assertEqual((code, output), (0, "changed=no\n"))
        self.assertEqual(self.calls(), [])

    def test_missing_packages_are_named_and_installed(self):
        self.record("apt-get")
        installed = [name for name in self.packages("build") if name not in ("cmake", "lld")]
        code, output = self.install(installed)
        self.assertEqual(code, 0, output)
        self.assertIn("are missing and will be installed: cmake lld", output)
        self.assertIn("changed=yes", output)
        self.assertIn("apt-get install --yes --no-install-recommends cmake lld", self.calls()[-1])

    def test_package_lists_are_refreshed_only_when_the_installation_fails(self):
        self.record("apt-get", f'[ "$1" = update ] && touch {self.fake}/lists\n'
                               f"[ -f {self.fake}/lists ]")
        code, output = self.install(self.packages("build")[1:])
        self.assertEqual(code, 0, output)
        self.assertEqual([call.split()[1] for call in self.calls()],
                         ["install", "update", "install"])

    def test_failed_installation_says_what_to_do(self):
        self.record("apt-get", "echo no network; exit 100")
        code, output = self.install([], groups="docs")
        self.assertEqual(code, 1, output)
        for text in ("FAILED: Installing packages", "no network", "build/logs/apt-install.log",
                     "apt-get install --no-install-recommends doxygen"):
            self.assertIn(text, output)

    def test_machine_without_dpkg_names_the_packages(self):
        script = ("set -uo pipefail; source tools/front/terminal.sh; source tools/front/setup.sh; "
                  "PATH=/nowhere; awk() { echo g++; }; need_packages build")
        code, output = self.toy.run("bash", "-c", script)
        self.assertEqual(code, 2, output)
        self.assertIn("no Debian or Ubuntu", output)

    def test_environment_is_made_once_per_requirements(self):
        self.fake_tool("dpkg-query", "\n".join(f"echo '{name} installed'" for _, name in NEEDED))
        path = f"{self.fake}:{os.environ['PATH']}"
        script = ("set -uo pipefail; source tools/front/terminal.sh; source tools/front/setup.sh; "
                  "make_venv() { mkdir -p build/venv/bin; echo made >>build/made; "
                  "cp /bin/true build/venv/bin/python3; }; need_venv")
        for _ in range(2):
            code, output = self.toy.run("bash", "-c", script, environment={"PATH": path})
            self.assertEqual(code, 0, output)
        self.assertEqual(self.toy.read("build/made"), "made\n")
        requirements = self.toy.read("tools/requirements.txt")
        self.toy.write("tools/requirements.txt", requirements + "# changed\n")
        self.toy.run("bash", "-c", script, environment={"PATH": path})
        self.assertEqual(self.toy.read("build/made"), "made\nmade\n")

    def peers(self, make):
        """Runs need_peers, whose environment is made by `make`."""
        (self.toy.root / "tests/peers").mkdir(parents=True, exist_ok=True)
        self.toy.write("tests/peers/requirements.txt", "")
        script = ("set -uo pipefail; source tools/front/terminal.sh; source tools/front/setup.sh; "
                  "source tools/front/peers.sh; need_packages() { :; }; "
                  f"make_peers() {{ {make}; }}; need_peers; echo went on")
        return self.toy.run("bash", "-c", script)

    def test_peers_that_cannot_be_made_are_skipped_with_the_reason(self):
        shutil.rmtree(self.toy.root / "build/peers", ignore_errors=True)
        code, output = self.peers("echo no network; return 1")
        self.assertEqual(code, 0, output)
        for text in ("no network", "SKIPPED: build/peers: it could not be made", "went on"):
            self.assertIn(text, output)
        self.assertIn("could not be made", self.toy.read("build/peers.reason"))

    def test_peers_are_made_once(self):
        make = "mkdir -p build/peers; echo made >>build/peers.made"
        for _ in range(2):
            code, output = self.peers(make)
            self.assertEqual((code, output.splitlines()[-1]), (0, "went on"), output)
        self.assertEqual(self.toy.read("build/peers.made"), "made\n")
        self.assertFalse((self.toy.root / "build/peers.reason").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
