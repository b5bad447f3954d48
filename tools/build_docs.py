"""Builds the Doxygen reference into build/docs; any warning is an error.

    build_docs.py DOXYFILE    (CMake writes it: build/release/generated/Doxyfile)
"""

import pathlib
import re
import shutil
import subprocess
import sys

from source_files import ROOT, cpp_files

OUTPUT = ROOT / "build" / "docs"
SHOWN_LINES = 60


def undocumented_namespaces():
    """Namespaces without a page: their functions would be found by file name only."""
    first_header = {}
    for path in cpp_files():
        if path.suffix == ".hpp" and path.parts[0] in ("common", "chapters", "kernels"):
            text = (ROOT / path).read_text(encoding="utf-8")
            for name in re.findall(r"^namespace (ultra[\w:]*) {", text, re.MULTILINE):
                first_header.setdefault(name, path)
    for name, path in first_header.items():
        page = name.replace("_", "__").replace("::", "_1_1")
        if not (OUTPUT / f"namespace{page}.html").is_file():
            yield (f"{path}: namespace {name} is not documented: put a line `/// @brief ...` "
                   "above it, in one header")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if shutil.which("doxygen") is None:
        sys.exit("doxygen is not installed; ./workbook setup installs it")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    done = subprocess.run(["doxygen", sys.argv[1]], cwd=ROOT, capture_output=True, text=True,
                          errors="replace", check=False)
    warnings = [line.replace(f"{ROOT}/", "") for line in done.stderr.splitlines() if line.strip()]
    warnings += list(undocumented_namespaces())
    if done.returncode != 0 or warnings:
        print("\n".join(warnings[:SHOWN_LINES]))
        if len(warnings) > SHOWN_LINES:
            print(f"... and {len(warnings) - SHOWN_LINES} lines more")
        sys.exit("The reference has errors: every public declaration needs its @brief.")
    print(f"Wrote {pathlib.Path('build/docs/index.html')}")


if __name__ == "__main__":
    main()
