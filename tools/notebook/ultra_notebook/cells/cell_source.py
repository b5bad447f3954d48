"""The C++ source file that a cell becomes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INCLUDE = re.compile(r"^\s*#\s*include\b")


@dataclass(frozen=True)
class CellText:
    """The body of a cell, and where its first line stands."""

    body: str
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def with_lines(self, text: str) -> str:
        """The text, with errors pointing into the cell's file."""
        return f'#line {self.line} "{self.file}"\n{text}\n'


def header_source(cell: CellText) -> str:
    """The header file that a cell of definitions becomes."""
    return f"#pragma once\n{cell.with_lines(cell.body)}"


def program_source(
    cell: CellText, ranks: int, headers: Sequence[Path], *, mpi: bool = False
) -> str:
    """The program whose ranks run the cell as their body; `mpi`: it is for mpirun.

    `#include` lines of the cell move to the top of the file; all other lines keep their place.
    """
    world = "one_rank" if ranks == 1 and not mpi else "many_ranks"
    includes, body = _split_includes(cell)
    return f"""{_prelude(world, headers)}
{includes}
using namespace ultra;
using namespace ultra::notebook;

namespace {{
void cell([[maybe_unused]] World& world, [[maybe_unused]] const int rank,
          [[maybe_unused]] std::ostream& out) {{
{cell.with_lines(body)}}}
}}  // namespace

int main() {{
  return ultra::notebook::run_cell<ultra::notebook::World>(
      {ranks}, "{cell.place}",
      [](int ranks, auto function) {{ ultra::notebook::run_ranks(ranks, function); }}, cell);
}}
"""


def definitions_source(header: Path, headers: Sequence[Path]) -> str:
    """A program that does nothing but include a new header, to see whether it compiles."""
    return f"{_prelude('one_rank', [*headers, header])}\nint main() {{}}\n"


def _prelude(world: str, headers: Sequence[Path]) -> str:
    lines = [f'#include "notebook/{world}.hpp"', "using namespace ultra;"]
    lines += [f'#include "{header}"' for header in headers]
    return "\n".join(lines)


def _split_includes(cell: CellText) -> tuple[str, str]:
    includes, body = [], []
    for number, line in enumerate(cell.body.split("\n")):
        if INCLUDE.match(line):
            includes.append(f'#line {cell.line + number} "{cell.file}"\n{line}')
            body.append("")
        else:
            body.append(line)
    return "\n".join(includes), "\n".join(body)
