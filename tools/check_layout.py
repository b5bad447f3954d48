"""Checks what the compiler cannot: that every file is where it belongs and within its size.

Prints one line per fault, `path: what is wrong`, and exits with 1 if there is any. A learner's
changed exercise is the learner's own: it is checked in CI only.
"""

import collections
import pathlib
import re
import sys

from source_files import ROOT, cpp_files, repository_files

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "exercises"))
import catalog  # noqa: E402  (a folder of plain modules, not a package)
import mistakes  # noqa: E402  (beside this file)

# What each module of common/ may include directly; what those may include follows from it.
MODULE_USES = {
    "base": (),
    "gpu": ("base",),
    "replay": ("base", "gpu"),
    "tensor": ("base", "gpu"),
    "storage": ("base",),
    "comm": ("tensor",),
    "ops": ("tensor",),
    "nn": ("ops",),
    "optim": ("ops",),
    "data": ("ops",),
    "trace": ("ops",),
    "checkpoint": ("nn", "comm", "optim"),
    "train": ("nn", "comm", "optim", "data", "trace", "checkpoint", "replay"),
}
HEADER_LINES, CHECK_LINES, TEST_LINES, SOURCE_LINES = 350, 200, 500, 600
FOLDER_FILES = 25
SIZED_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def read(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def learners_files():
    if catalog.in_ci():
        return set()
    return {e.path for e in catalog.all_exercises() if not e.is_untouched()}


# --- Exercises -----------------------------------------------------------------------------------

def faults_of_entry(exercise):
    if not exercise.exists():
        yield exercise.path, "is in the manifest but does not exist"
    elif catalog.in_ci() and not exercise.is_untouched():
        yield exercise.path, ("differs from its stub_sha256; after a wanted change run: "
                              "python3 tools/update_stub_hashes.py")
    elif exercise.is_untouched() and f'"{exercise.id} ' not in read(exercise.path):
        yield exercise.path, f'must throw NotWritten("{exercise.id} ...")'
    for path in (exercise.solution_path, exercise.test_path):
        if not (ROOT / path).is_file():
            yield exercise.path, f"has no {path}"


def unlisted_files(chapter, files, exercises):
    listed = {exercise.file for exercise in exercises}
    for path in files:
        if path.parts[:2] in (("exercises", chapter), ("solutions", chapter)):
            if path.suffix in (".cpp", ".cu") and path.name not in listed:
                yield path, f"is not listed in exercises/{chapter}/exercises.json"


def exercise_faults(files):
    for chapter in catalog.chapters():
        exercises = catalog.read_manifest(chapter)
        numbers = [exercise.number for exercise in exercises]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"exercises/{chapter}/exercises.json", f"numbers are {numbers}, not 1, 2, ..."
        for exercise in exercises:
            yield from faults_of_entry(exercise)
        yield from unlisted_files(chapter, files, exercises)
    for path in files:
        if path.parts[0] == "solutions" and "TODO" in read(path):
            yield path, "a solution must not contain a TODO"


def mistake_faults(files):
    """A mistake names the exercise whose solution it changes, and stands in the file of that exercise or chapter."""
    solutions = {exercise.id: pathlib.PurePosixPath(exercise.solution_path) for exercise in catalog.all_exercises()}
    for path in files:
        folder = path.parts[1] if path.parts[0] == "tests" else ""
        if folder not in ("mistakes", "mutations") or (folder == "mutations" and path.suffix != ".patches"):
            continue
        try:
            found = mistakes.parsed(read(path))
        except ValueError as error:
            yield path, str(error)
            continue
        for mistake in found:
            solution = solutions.get(mistake.exercise)
            if str(solution) != mistake.solution:
                yield path, ("its `Exercise:` and the solution in its `--- ` line "
                             f"do not belong together: '{mistake.name}'")
                continue
            parts = solution.parts[1:2] if folder == "mutations" else (solution.parts[1], solution.stem)
            place = pathlib.PurePosixPath("tests", folder, *parts).with_suffix(".patches")
            if path != place:
                yield path, f"'{mistake.name}' must stand in {place}"


# --- Module boundaries ---------------------------------------------------------------------------

ON_BOTH_SIDES = {"kernels/generic/elements/exact_digits.hpp"}
"""Headers of kernels/ without a kernel: what host and device compute alike."""


def reachable_modules(module):
    found = {module}
    for used in MODULE_USES[module]:
        found |= reachable_modules(used)
    return found


def may_include(path, included):
    """Whether a file may include a header of ours; both as parts of their paths."""
    kind, target = path.parts[0], included.parts[0]
    if target not in ("common", "kernels", "chapters", "exercises", "solutions", "tests"):
        return True  # build_config.hpp, or a header beside the file
    if kind == "tests" or kind == "bench":
        return True
    if kind == "kernels":
        return target == "kernels"
    if kind == "common":
        if target == "kernels":
            return (str(included) in ON_BOTH_SIDES or path.parts[1] == "gpu"
                    or not {"backend", "device"}.isdisjoint(path.parts[2:-1]))
        return target == "common" and included.parts[1] in reachable_modules(path.parts[1])
    if kind in ("chapters", "exercises", "solutions"):
        if target == "chapters":
            return included.parts[1] <= path.parts[1]
        return target in ("common", "kernels")
    return True


def include_faults(files, skipped):
    for path in files:
        if str(path) in skipped:
            continue
        if path.parts[0] == "common" and len(path.parts) > 2 and path.parts[1] not in MODULE_USES:
            yield path, "its module is not in MODULE_USES of tools/check_layout.py"
            continue
        for ours, system in INCLUDE.findall(read(path)):
            if ours and not may_include(path, pathlib.PurePosixPath(ours)):
                yield path, f'may not include "{ours}": it breaks the direction of dependencies'
            if path.suffix in (".cpp", ".hpp") and (ours or system).startswith(("cuda", "cublas")):
                yield path, f"a .cpp or .hpp may not include the CUDA header {ours or system}"


# --- Tests, sizes, notebooks ---------------------------------------------------------------------

def covered_headers(files):
    """Headers that a test names in its comment, `// Covers: common/x/y.hpp, common/x/z.hpp`."""
    covered = set()
    for path in files:
        if path.parts[0] == "tests":
            for line in re.findall(r"^// Covers: *(.+)$", read(path), re.MULTILINE):
                covered |= {name.strip(" .") for name in line.split(",")}
    return covered


def missing_tests(files):
    covered = covered_headers(files)
    names = {str(path) for path in files}
    for path in files:
        if path.parts[0] == "common" and path.suffix == ".hpp":
            stem = f"tests/{path.with_suffix('')}"
            tests = {f"{stem}{ending}" for ending in
                     ("_test.cpp", "_ranks_test.cpp", "_gpu_test.cpp")}
            if not tests & names and str(path) not in covered:
                yield path, (f"has no {stem}_test.cpp, and no test says "
                             f"`// Covers: {path}`")


def size_faults(files, skipped):
    for path in files:
        if path.suffix not in SIZED_SUFFIXES or str(path) in skipped:
            continue
        limit = SOURCE_LINES
        if path.suffix in (".hpp", ".cuh"):
            limit = HEADER_LINES
        elif path.parts[:2] == ("tests", "exercises"):
            limit = CHECK_LINES
        elif path.parts[0] == "tests":
            limit = TEST_LINES
        count = read(path).count("\n")
        if count > limit:
            yield path, f"has {count} lines; {limit} is the stop size of its kind"


def crowded_folders(files):
    """Folders that take long to read, but those of what nobody reads as a whole: data, documents, figures."""
    counts = collections.Counter(path.parent for path in files if path.parts[0] not in ("data", "docs"))
    for folder, count in counts.items():
        if count > FOLDER_FILES and folder.name != "figures":
            yield folder, f"has {count} files; with more than {FOLDER_FILES} it needs folders by what they are about"


def missing_notebooks():
    for chapter in catalog.chapters():
        if not (ROOT / "chapters" / chapter / f"{chapter}.md").is_file():
            yield f"chapters/{chapter}", f"has no notebook {chapter}.md"


# --- What can be added without a change of the core ----------------------------------------------

KNOWS_NO_ADDITION = {  # words, and the files of common/ that may have them
    "axis": (r'"(tp|pp|cp|ep|etp|outer|second)"', set()),
    "optimizer": (r"(?i)\b(sgd|muon)\b", {f"common/optim/{file}" for file in (
        "sgd.hpp", "sgd.cpp", "muon.hpp", "muon.cpp", "newton_schulz.hpp", "rules.cpp")}),
    "model": (r"(?i)qwen|mixtral|deepseek", {
        "common/nn/named_models.hpp", "common/nn/named_models.cpp",
        *(f"common/checkpoint/models/{file}" for file in (
            "model_family.hpp", "families.cpp", "qwen2.cpp", "qwen3.cpp", "deepseek_v3.cpp", "mixtral.cpp",
            "config_json.cpp"))}),
}
MOST_KNOW_META = 25  # files that ask whether a device has numbers: elsewhere it is a device like others
EXCERPT = re.compile(r"^<!-- in (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def additions_in_the_core(sources):
    """The core names no axis, optimizer or model but where it makes them: docs/extending.md."""
    for path in sources:
        for what, (words, own) in KNOWS_NO_ADDITION.items():
            found = re.search(words, read(path)) if path.parts[0] == "common" and str(path) not in own else None
            if found:
                yield path, f"the core knows no {what} by name, and this names {found.group()}"


def meta_faults(sources):
    """What runs on no device stays in few places."""
    knowing = [path for path in sources if path.parts[0] in ("common", "chapters", "solutions")
               and re.search(r"\bhas_numbers\(|\bDeviceKind::kMeta\b", read(path))]
    for path in sorted(knowing)[MOST_KNOW_META:]:
        yield path, (f"knows a device without numbers, as {len(knowing)} files do; "
                     f"{MOST_KNOW_META} may")


def excerpt_faults():
    page = "docs/extending.md"
    if not (ROOT / page).is_file():
        return
    for path, excerpt in EXCERPT.findall(read(page)):
        text = read(path) if (ROOT / path).is_file() else ""
        there = {line.strip() for line in text.splitlines()}
        for line in excerpt.splitlines():
            if line.strip() and line.strip() not in there:
                yield page, f"shows a line that {path} does not have: {line.strip()}"


def all_faults():
    files = repository_files()
    sources = cpp_files()
    skipped = learners_files()
    yield from exercise_faults(files)
    yield from mistake_faults(files)
    yield from include_faults(sources, skipped)
    yield from missing_tests(sources)
    yield from additions_in_the_core(sources)
    yield from meta_faults(sources)
    yield from excerpt_faults()
    yield from size_faults(files, skipped)
    yield from crowded_folders(files)
    yield from missing_notebooks()


def main():
    faults = [f"{path}: {what}" for path, what in all_faults()]
    print("\n".join(faults) or "The layout is in order")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
