"""What an executed notebook was made from, when and where: whether its outputs are still true."""

import hashlib
import os
import re
import sys
import time
from pathlib import Path

from .workspace import TOOLS

sys.path.append(str(TOOLS.parent))  # a folder of plain modules, not a package

from source_files import repository_files  # noqa: E402  (after the path)

CODE = ("common", "kernels", "chapters", "solutions", "tools/notebook")
RUN_METADATA = "workbook_run"
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".py"}


def digest_of_code(root: Path, file: Path) -> str:
    """Of all that a notebook can reach: its text, its chapter, earlier ones, and the core."""
    chapter = file.relative_to(root / "chapters").parts[0]
    digest = hashlib.sha256(file.read_bytes())
    for path in repository_files(root, *CODE):
        is_later = path.parts[0] in ("chapters", "solutions") and path.parts[1] > chapter
        if path.suffix in SUFFIXES and not is_later:
            digest.update(str(path).encode())
            digest.update((root / path).read_bytes())
    return digest.hexdigest()


def run_on_this_machine() -> dict[str, str]:
    """The day and the machine of a run, for the notebook's metadata."""
    information = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.+)$", information.read_text(), re.MULTILINE) if information.is_file() else None
    processor = " ".join(named[1].split()) if named else "a processor without a name"
    return {"day": time.strftime("%Y-%m-%d"), "machine": f"{os.cpu_count()} cores, {processor}"}
