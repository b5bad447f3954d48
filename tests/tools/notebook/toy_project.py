"""A small project in a temporary folder: a library, an executable, ranks, and chapters to run.

It is configured and built once per test process. Its ranks are threads, or processes under
mpirun, that know their number and nothing else, which is all that the notebooks ask of a communicator.
"""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "tools" / "notebook"
sys.path.insert(0, str(TOOLS))
# What a learner's notebook does not have.
os.environ.pop("ULTRA_TEST_PATIENCE", None)

CMAKE = f"""
cmake_minimum_required(VERSION 3.22)
project(toy LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${{CMAKE_BINARY_DIR}}/bin)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)
enable_testing()
add_library(ultra_common STATIC common/toy/toy.cpp)
target_include_directories(ultra_common PUBLIC ${{CMAKE_SOURCE_DIR}})
target_link_libraries(ultra_common PUBLIC Threads::Threads)
add_executable(01_toy_main chapters/01_toy/main.cpp)
set_target_properties(01_toy_main PROPERTIES OUTPUT_NAME 01_toy)
set(ULTRA_VENV_PYTHON {sys.executable})
include({TOOLS}/notebook.cmake)
ultra_notebooks()
"""

FILES = {
    "CMakeLists.txt": CMAKE,
    "common/toy/toy.hpp": """#pragma once
#include <stdexcept>
namespace ultra {
int answer();
inline int constant() { return 5; }
struct ShapeError : std::runtime_error { using runtime_error::runtime_error; };
}
""",
    "common/toy/toy.cpp": """#include "common/toy/toy.hpp"
namespace ultra {
// [region answer]
/// The answer.
int answer() { return 42; }
// [/region]
}
""",
    "common/comm/run_ranks.hpp": """#pragma once
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>
namespace ultra {
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
 private:
  int rank_;
  int size_;
};
template <class Function>
void run_ranks(int size, Function function) {
  if (const char* own = std::getenv("OMPI_COMM_WORLD_RANK")) {
    Communicator world(std::atoi(own), std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE")));
    return function(world);
  }
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Communicator world(rank, size);
        try { function(world); }
        catch (...) { errors[static_cast<std::size_t>(rank)] = std::current_exception(); }
      });
    }
  }
  for (const auto& error : errors) if (error) std::rethrow_exception(error);
}
}
""",
    "chapters/01_toy/main.cpp": r"""#include <cstdio>
#include <cstring>
int main(int count, char** words) {
  for (int i = 1; i + 1 < count; ++i) {
    if (std::strcmp(words[i], "--break") == 0) { std::fputs("error: broken\n", stderr); return 2; }
    if (std::strcmp(words[i], "--trace") == 0) {
      std::FILE* file = std::fopen(words[i + 1], "w");
      std::fputs("{\"traceEvents\": []}", file);
      std::fclose(file);
    }
    if (std::strcmp(words[i], "--metrics") == 0) {
      std::FILE* file = std::fopen(words[i + 1], "w");
      std::fputs("{\"event\":\"step\",\"step\":1,\"loss\":5.5}\n"
                 "{\"event\":\"step\",\"step\":2,\"loss\":4.5}\n"
                 "{\"event\":\"summary\",\"parameters\":7}\n", file);
      std::fclose(file);
    }
  }
  std::puts("done");
}
""",
    "chapters/01_toy/01_toy.md": "# Toy\n",
    "chapters/02_toy/02_toy.md": "# Second toy\n",
}

HEADER = """<!--

---
jupyter:
  kernelspec:
    display_name: Ultra-Scale Workbook
    language: python
    name: ultra
---

-->

"""


class ToyProject:
    """The built project in its folder."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="toy-notebooks-"))
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)
        self.build_dir = self.root / "build" / "release"
        for path, text in FILES.items():
            self.write(path, text)
        self._run("cmake", "-G", "Ninja", "-S", str(self.root), "-B", str(self.build_dir),
                  "-DCMAKE_BUILD_TYPE=Release")
        self.build()

    def write(self, path: str, text: str) -> Path:
        """Writes a file of the project."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def build(self) -> None:
        """Builds what has changed."""
        self._run("cmake", "--build", str(self.build_dir))

    def write_chapter(self, text: str, name: str = "01_toy") -> Path:
        """Writes the text of a chapter, or of a room "01_toy/room", below the usual header."""
        return self.write(f"chapters/{name}/{Path(name).name}.md", HEADER + text)

    def run_chapters(self, *files: Path, options: Sequence[str] = ()) -> list[subprocess.CompletedProcess]:
        """Executes chapters with run.py, all at the same time."""
        runs = [subprocess.Popen([*self._runner(file), *options], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for file in files]
        return [subprocess.CompletedProcess(run.args, run.wait(), output)
                for run in runs for output in [run.communicate()[0]]]

    @property
    def output(self) -> Path:
        return self.root / "build" / "notebooks"

    def _runner(self, file: Path) -> list[str]:
        return [sys.executable, str(TOOLS / "run.py"), str(file), "--output", str(self.output)]

    def _run(self, *command: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "DESTDIR"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


@functools.cache
def toy_project() -> ToyProject:
    """The project that all tests of this process share."""
    return ToyProject()


def line_of(file: Path, text: str) -> int:
    """The number of the first line of a file that contains `text`."""
    lines = file.read_text(encoding="utf-8").split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)
