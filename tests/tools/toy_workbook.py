"""A complete little workbook in a temporary folder: this checkout's machinery, one toy chapter.

The toy's files are in tests/tools/toy; it is built without CUDA and MPI, in its own build folder.
"""

import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOY = SOURCE / "tests" / "tools" / "toy"
MACHINERY = ["workbook", "CMakeLists.txt", "CMakePresets.json", "cmake", "docs", "tools",
             "kernels/CMakeLists.txt", "kernels/device", "kernels/simt/config.hpp",
             "kernels/simt/error.hpp",
             "common/CMakeLists.txt", "common/base/errors.hpp", "common/base/errors.cpp",
             "chapters/CMakeLists.txt", "tests/CMakeLists.txt", "bench/CMakeLists.txt",
             "tests/support/exercise_main.cpp", ".gitignore", ".clang-format"]
# Of what is precompiled, a dozen sources include GoogleTest alone.
CMAKE_ARGUMENTS = ("-DULTRA_CUDA=OFF -DULTRA_MPI=OFF -DULTRA_PRECOMPILED_LIBRARY=<cstddef> "
                   "-DULTRA_PRECOMPILED_TEST=<gtest/gtest.h>")


def copy(relative, folder):
    target = folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    if (SOURCE / relative).is_dir():
        # The notebooks' machinery has tests of its own and needs a Python environment; the recipes
        # quote files that a toy lacks.
        ignore = shutil.ignore_patterns("__pycache__", "notebook", "extending.md")
        shutil.copytree(SOURCE / relative, target, ignore=ignore)
    else:
        shutil.copy2(SOURCE / relative, target)


class ToyWorkbook:
    """One toy checkout; removed when the tests end."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="toy_workbook_"))
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)
        for relative in MACHINERY:
            copy(relative, self.root)
        shutil.copytree(TOY, self.root, dirs_exist_ok=True)
        code, output = self.python("tools/update_stub_hashes.py")
        if code != 0:
            raise RuntimeError(output)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments):
        identity = ["-c", "user.name=toy", "-c", "user.email=toy@localhost"]
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "toy")

    def run(self, *command, cwd=None, environment=None):
        """(exit code, stdout and stderr together) of a command in the checkout."""
        settings = dict(os.environ, WORKBOOK_CMAKE_ARGS=CMAKE_ARGUMENTS,
                        PYTHONDONTWRITEBYTECODE="1", COLUMNS="100")
        # What this test runs in is not what a learner's shell has.
        for name in ("CI", "ULTRA_TEST_PATIENCE"):
            settings.pop(name, None)
        settings.update(environment or {})
        done = subprocess.run(command, cwd=cwd or self.root, env=settings, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace", check=False)
        return done.returncode, done.stdout

    def workbook(self, *arguments, **options):
        return self.run(str(self.root / "workbook"), *arguments, **options)

    def python(self, script, *arguments, **options):
        return self.run("/usr/bin/python3", script, *arguments, **options)

    def write(self, relative, text):
        (self.root / relative).write_text(text, encoding="utf-8")

    def read(self, relative):
        return (self.root / relative).read_text(encoding="utf-8")

    def write_exercise(self, name, body):
        """The learner writes: the whole signature and body of the toy's one function."""
        self.write(f"exercises/01_toy/{name}.cpp",
                   f'#include "chapters/01_toy/toy.hpp"\nnamespace ultra::toy {{\n{body}\n}}\n')

    def solve(self, name):
        self.write(f"exercises/01_toy/{name}.cpp", self.read(f"solutions/01_toy/{name}.cpp"))


@functools.cache
def shared_toy():
    """The toy checkout of a process: what one test has built, the next need not build."""
    return ToyWorkbook()


class ToyTest(unittest.TestCase):
    """Tests of one toy checkout, which each of them finds as it was shipped."""

    @classmethod
    def setUpClass(cls):
        cls.toy = shared_toy()

    def setUp(self):
        self.toy.git("checkout", "--quiet", ".")
        self.toy.git("clean", "--quiet", "--force", "-d", "-x", ".workbook")

    def workbook(self, *arguments, code=0, says=(), **options):
        """Runs ./workbook and expects its exit code and these texts; returns the output."""
        found, output = self.toy.workbook(*arguments, **options)
        self.assertEqual(found, code, output)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, output)
        return output
