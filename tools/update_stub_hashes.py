"""For maintainers: writes the SHA-256 of every exercise, as it is now, into its chapter's manifest.

Run it after changing a file in exercises/; ctest's layout test fails until then. A file that no
longer throws NotWritten is refused: it may be a learner's work.
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "exercises"))
import catalog  # noqa: E402  (a folder of plain modules, not a package)


def update(chapter):
    """True when the manifest changed."""
    path = catalog.manifest_path(chapter)
    text = path.read_text(encoding="utf-8")
    digests = iter([digest_of(path.parent / entry["file"])
                    for entry in json.loads(text)["exercises"]])
    # In the text, entry by entry, so that the author's layout of the file stays.
    updated = re.sub(r'("stub_sha256": *)"[^"]*"', lambda m: f'{m.group(1)}"{next(digests)}"', text)
    path.write_text(updated, encoding="utf-8")
    return updated != text


def digest_of(stub):
    if "NotWritten" not in stub.read_text(encoding="utf-8"):
        sys.exit(f"{stub} does not throw NotWritten: is it still the shipped form?")
    return catalog.sha256_of(stub)


def main():
    for chapter in catalog.chapters():
        if catalog.manifest_path(chapter).is_file():
            print(f"{chapter}: {'updated' if update(chapter) else 'up to date'}")


if __name__ == "__main__":
    main()
