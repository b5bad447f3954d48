"""What an executed notebook was made from, when and where: whether its outputs are still true."""

import hashlib
import os
import re
import time
from pathlib import Path

CODE = ("common", "kernels", "chapters", "solutions", "tools/notebook")
RUN_METADATA = "workbook_run"
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".py"}


def digest_of_code(root: Path, file: Path) -> str:
    """Of all that a notebook can reach: its text, its chapter, earlier ones, and the core."""
    chapter = file.relative_to(root / "chapters").parts[0]
    digest = hashlib.sha256(file.read_bytes())
    for folder in CODE:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            is_later = parts[0] in ("chapters", "solutions") and parts[1] > chapter
            if path.suffix in SUFFIXES and not is_later and path.is_file():
                digest.update(str(path.relative_to(root)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def run_on_this_machine() -> dict[str, str]:
    """The day and the machine of a run, for the notebook's metadata."""
    information = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.+)$", information.read_text(), re.MULTILINE) if information.is_file() else None
    processor = " ".join(named[1].split()) if named else "a processor without a name"
    return {"day": time.strftime("%Y-%m-%d"), "machine": f"{os.cpu_count()} cores, {processor}"}
