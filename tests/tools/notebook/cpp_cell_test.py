"""C++ cells: what they show, how they fail, what they leave for the next cell."""

import contextlib
import io
import pathlib
import re
import shutil
import unittest

from toy_project import line_of, toy_project

from IPython.core.error import UsageError

from ultra_notebook.failures import CellFailed, plain
from ultra_notebook.cells.magic import CppMagic
from ultra_notebook.workspace import open_workspace


class CppCellTest(unittest.TestCase):
    """Each test is a notebook of its own: a chapter's file with the test's cells."""

    def setUp(self):
        self.project = toy_project()
        self.names = {}
        self.cells([])

    def cells(self, bodies):
        """Writes the chapter with these C++ cells; the magic starts afresh."""
        text = "".join(f"Some prose.\n\n```c++\n{body}\n```\n\n" for body in bodies)
        self.file = self.project.write_chapter(f"# Toy\n\n{text}")
        workspace = open_workspace(self.file, self.project.build_dir)
        self.magic = CppMagic(workspace, self.names)

    def run_cell(self, body, options=""):
        """Runs one cell; returns what it printed to stdout and to stderr."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.magic(options, body + "\n")
        return out.getvalue(), plain(err.getvalue())

    def failure(self, body, options=""):
        """The message with which a cell fails."""
        with self.assertRaises(CellFailed) as caught:
            self.run_cell(body, options)
        return plain(str(caught.exception))

    def test_output_is_shown(self):
        out, _ = self.run_cell('out << "answer " << answer() << "\\n"; std::cout << "end";')
        self.assertEqual(out, "answer 42\nend\n")

    def test_rows_become_a_table(self):
        self.run_cell('emit({{"n", 1}, {"x", 0.5}, {"text", "a\\"b"}, {"yes", true}});\n'
                      'emit({{"n", 2}, {"x", 0.1f}, {"text", std::string("c")}, {"yes", false}});')
        rows = self.names["rows"]
        self.assertEqual(list(rows.columns), ["n", "x", "text", "yes"])
        self.assertEqual(list(rows.n), [1, 2])
        self.assertEqual(list(rows.text), ['a"b', "c"])
        self.assertEqual(rows.x[1], 0.10000000149011612)

    def test_rows_under_a_name(self):
        self.run_cell('emit({{"loss", 1.0 / 0.0}});', "--rows losses")
        self.assertEqual(self.names["losses"].loss[0], float("inf"))
        self.assertNotIn("rows", self.names)

    def test_named_rows_must_come(self):
        self.assertIn("emitted no rows", self.failure("", "--rows losses"))

    def test_failed_expectation_names_the_line(self):
        body = "int x = 1;\nx += 1;\nEXPECT_EQ(x, 3) << \"the sum\";"
        self.cells(["int other;", body])
        message = self.failure(body)
        line = line_of(self.file, "EXPECT_EQ(x, 3)")
        self.assertTrue(message.startswith(f"01_toy.md:{line}: Expected equality"), message)
        self.assertIn("the sum", message)

    def test_compile_error_names_the_line(self):
        body = "#include <map>\nint x = 1;\nx += unknown_name;"
        self.cells([body])
        line = line_of(self.file, "unknown_name")
        self.assertIn(f"01_toy.md:{line}:6: error: ‘unknown_name’", self.failure(body))

    def test_cells_that_read_the_same_are_told_apart(self):
        body = "EXPECT_TRUE(false);"
        self.cells([body, body])
        first, second = self.failure(body), self.failure(body)
        line = line_of(self.file, body)
        self.assertIn(f"01_toy.md:{line}:", first)
        self.assertIn(f"01_toy.md:{line + 6}:", second)

    def test_exception_names_its_type(self):
        body = "\nthrow ShapeError(\"[2, 3] is not [3, 2]\");"
        self.cells([body])
        message = self.failure(body)
        self.assertRegex(message, r"01_toy.md:\d+: ultra::ShapeError: \[2, 3\] is not \[3, 2\]")

    def test_crash_names_the_signal_and_keeps_the_output(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), self.assertRaises(CellFailed) as caught:
            self.magic("", 'std::cout << "before\\n"; std::raise(SIGSEGV);\n#include <csignal>\n')
        self.assertIn("crashed with SIGSEGV (Segmentation fault)", str(caught.exception))
        self.assertEqual(out.getvalue(), "before\n")

    def test_exit_code_fails(self):
        self.assertIn("ended with exit code 3", self.failure("std::exit(3);"))

    def test_timeout_stops_the_cell(self):
        message = self.failure("for (volatile bool on = true; on;) {}", "--timeout 0.5")
        self.assertIn("still running after 0.5 s: stopped", message)

    def test_expected_error_is_shown(self):
        _, err = self.run_cell('throw ShapeError("2 != 3");', '--fails "ShapeError: 2 != 3"')
        self.assertIn("ultra::ShapeError: 2 != 3", err)

    def test_expected_compile_error_is_shown(self):
        _, err = self.run_cell("answer() = 3;", "--fails 'lvalue required'")
        self.assertIn("lvalue required", err)

    def test_expected_error_that_reads_differently(self):
        message = self.failure('throw ShapeError("2 != 3");', "--fails '4 != 5'")
        self.assertIn("expected an error that matches '4 != 5', but it reads:", message)
        self.assertIn("ShapeError: 2 != 3", message)

    def test_expected_error_that_does_not_come(self):
        self.assertIn("but the cell succeeded", self.failure("answer();", "--fails anything"))

    def test_headers_are_there_for_later_cells(self):
        definition = "#include <vector>\nint twice(int x) { return 2 * x; }"
        self.cells([definition])
        self.run_cell(definition, "--header doubling")
        self.run_cell("EXPECT_EQ(twice(answer()), 84);")
        self.run_cell("int twice(int x) { return 2 * x + 1; }", "--header doubling")
        self.run_cell("EXPECT_EQ(twice(2), 5);")

    def test_broken_header_names_the_line_and_is_not_kept(self):
        definition = "int half(int x) {\n  return x / two;\n}"
        self.cells([definition])
        line = line_of(self.file, "x / two")
        self.assertIn(f"01_toy.md:{line}:14: error:", self.failure(definition, "--header half"))
        self.run_cell("EXPECT_EQ(constant(), 5);")

    def test_release_defines_optimisation(self):
        self.run_cell("#ifndef __OPTIMIZE__\nthrow 1;\n#endif", "--release")

    def test_ranks_speak_in_their_order(self):
        out, _ = self.run_cell(
            "#include <chrono>\n#include <thread>\n"
            "std::this_thread::sleep_for(std::chrono::milliseconds(20 * (3 - rank)));\n"
            'out << "first " << rank << "\\nsecond\\n";', "--ranks 3")
        self.assertEqual(out.splitlines()[:3], ["rank 0 │ first 0", "rank 0 │ second",
                                                "rank 1 │ first 1"])

    def test_failure_names_the_rank(self):
        body = "EXPECT_NE(rank, 2) << world.size();"
        self.cells([body])
        line = line_of(self.file, body)
        message = self.failure(body, "--ranks 4")
        self.assertIn(f"01_toy.md:{line}: rank 2 of 4: Expected", message)
        self.assertEqual(message.count("01_toy.md"), 1)

    def test_rows_of_ranks_come_in_order(self):
        self.run_cell('for (int i = 0; i < 2; ++i) emit({{"i", i}});', "--ranks 3")
        self.assertEqual(list(self.names["rows"]["rank"]), [0, 0, 1, 1, 2, 2])
        self.assertEqual(list(self.names["rows"].i), [0, 1] * 3)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_ranks_under_mpirun_are_processes(self):
        self.run_cell('static int calls = 0; emit({{"calls", ++calls}, {"size", world.size()}});\n'
                      'out << "rank " << rank << "\\n";', "--ranks 3 --mpi")
        self.assertEqual(list(self.names["rows"]["rank"]), [0, 1, 2])
        self.assertEqual(list(self.names["rows"].calls), [1, 1, 1])
        self.assertEqual(list(self.names["rows"]["size"]), [3, 3, 3])

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_failure_under_mpirun_names_the_rank_and_nothing_else(self):
        body = "EXPECT_NE(rank, 1);"
        self.cells([body])
        message = self.failure(body, "--ranks 2 --mpi")
        self.assertIn("rank 1 of 2: Expected", message)
        self.assertEqual(message.count("01_toy.md"), 1)
        self.assertNotIn("mpirun", message)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_timeout_ends_the_processes_too(self):
        body = ("#include <chrono>\n#include <thread>\n#include <unistd.h>\n"
                'out << getpid(); if (rank == 1) std::this_thread::sleep_for(std::chrono::hours(1));')
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            with self.assertRaisesRegex(CellFailed, "still running after 2 s"):
                self.magic("--ranks 2 --mpi --timeout 2", body + "\n")
        process = re.search(r"rank 1 │ (\d+)", out.getvalue()).group(1)
        state = pathlib.Path("/proc", process, "stat")
        # It is gone, or dead and nobody has asked for its exit code yet.
        self.assertTrue(not state.exists() or state.read_text().split(") ")[1].startswith("Z"))

    def test_bad_options(self):
        for options in ("--rank 3", "--ranks 0", "--ranks", "--header 2x"):
            with self.subTest(options), self.assertRaises(UsageError):
                self.run_cell("", options)


if __name__ == "__main__":
    unittest.main()
