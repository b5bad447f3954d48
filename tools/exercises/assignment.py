"""assign: a checkout to hand out, without the solutions of some chapters, and what grades it.

In what is handed out, the learner's own file stands where the solution stood, so later exercises and
programs build on it. assignment.json at its root says what was assigned, and the seed from which the
checks draw their shapes: one for each student.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import catalog
import reset

sys.path.append(str(catalog.ROOT / "tools"))
from source_files import repository_files  # noqa: E402  (beside this folder)

RECORD = "assignment.json"
TEMPLATE = pathlib.Path(__file__).resolve().parent / "gradescope"


def users_path(text):
    """A path as the user means it: relative to where ./workbook was called."""
    return pathlib.Path(os.environ.get("WORKBOOK_CALLED_FROM", ".")) / text


def read_record():
    """What this checkout was assigned as; empty when it was not."""
    path = catalog.ROOT / RECORD
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {"chapters": list(record["chapters"]), "seed": int(record["seed"])}
    except (ValueError, TypeError, KeyError) as error:
        raise catalog.UsageError(
            f"{RECORD} is damaged ({error}); git checkout {RECORD} brings it back") from error


def seed_of(student):
    """A seed of 31 bits that is a student's own; nobody's is drawn from an empty name."""
    return int(hashlib.sha256(student.encode()).hexdigest(), 16) % 2**31


def is_answer(path, chapters):
    """Whether a file gives an assigned exercise away: a mistake or a bug shows the solution around it."""
    parts = path.parts
    if parts[0] == "exercises":
        return parts[1] in chapters and path.name == "mend.json"
    if parts[:2] == ("tests", "mistakes"):
        return parts[2] in chapters
    if parts[:2] == ("tests", "bugs"):
        text = (catalog.ROOT / path).read_text(encoding="utf-8")
        return any(f"--- solutions/{chapter}/" in text for chapter in chapters)
    return parts[:2] == ("tests", "mutations") and path.stem in chapters


def copy_without_answers(folder, chapters):
    for path in repository_files(catalog.ROOT):
        if is_answer(path, chapters):
            continue
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(catalog.ROOT / path, target, follow_symlinks=False)


def restore_stub(exercise, folder):
    text = reset.shipped_text(exercise)
    if text is None:
        raise catalog.UsageError(f"the shipped form of {exercise.path} is not in this checkout's git "
                                 "history; is this a full clone?")
    (folder / exercise.path).write_bytes(text)


def put_exercises_in_solutions_places(folder, chapters):
    for chapter in chapters:
        for exercise in catalog.read_manifest(chapter):
            restore_stub(exercise, folder)
            (folder / exercise.solution_path).write_text(
                f"// Assigned: {exercise.id} is yours to write, and all that needs it uses your file.\n"
                f'#pragma GCC diagnostic ignored "-Wunused-variable"\n#include "{exercise.path}"\n',
                encoding="utf-8")


def make_history(folder):
    """One commit: ./workbook reset finds the shipped files there, and nobody the solutions."""
    identity = ["-c", "user.name=workbook", "-c", "user.email=workbook@localhost"]
    for command in (["init", "--quiet"], ["add", "--all", "--force"],
                    ["commit", "--quiet", "--message", "The assignment"]):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True, capture_output=True)


def write_folder(target, chapters, seed):
    """All of it or nothing: it is made beside its place and moved there."""
    if target.exists():
        raise catalog.UsageError(f"--out {target} exists already; name a folder that does not")
    if not target.parent.is_dir():
        raise catalog.UsageError(f"--out {target}: there is no folder {target.parent}")
    with tempfile.TemporaryDirectory(prefix=".assign_", dir=target.parent) as scratch:
        draft = pathlib.Path(scratch) / "checkout"
        copy_without_answers(draft, chapters)
        put_exercises_in_solutions_places(draft, chapters)
        write_record(draft / RECORD, chapters, seed)
        make_history(draft)
        draft.rename(target)


def write_record(path, chapters, seed):
    path.write_text(json.dumps({"chapters": chapters, "seed": seed}, indent=2) + "\n", encoding="utf-8")


def write_zip(target, chapters, hidden_seed):
    """The autograder: setup.sh and run_autograder at its root, the whole checkout in workbook/."""
    if target.exists():
        raise catalog.UsageError(f"--gradescope {target} exists already; name a file that does not")
    draft = target.with_name(f".{target.name}.tmp")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("setup.sh", "run_autograder"):
                archive.write(TEMPLATE / name, name)
            archive.writestr("assigned", "".join(f"{chapter}\n" for chapter in chapters))
            archive.writestr("hidden_seed", f"{hidden_seed}\n")
            for path in repository_files(catalog.ROOT):
                archive.write(catalog.ROOT / path, f"workbook/{path}")
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)


def run(options):
    if not options.out and not options.gradescope:
        raise catalog.UsageError("assign needs --out DIR, --gradescope FILE.zip or both")
    chapters = sorted({catalog.find_chapter(text) for text in options.chapters})
    for chapter in chapters:
        if not catalog.read_manifest(chapter):
            raise catalog.UsageError(f"chapter {chapter} has no exercises to assign")
    if options.out:
        target = users_path(options.out)
        write_folder(target, chapters, seed_of(options.student))
        print(f"{target}: to hand out, without the answers of {', '.join(chapters)}")
    if options.gradescope:
        target = users_path(options.gradescope)
        write_zip(target, chapters, options.hidden_seed)
        print(f"{target}: to upload as Gradescope's autograder; it holds the solutions")
    return 0
