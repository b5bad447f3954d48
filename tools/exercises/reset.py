"""reset: gives an exercise its shipped form back, from the checkout's git history.

The manifest names the shipped form by its SHA-256, so it is found however often the learner has
committed since. The learner's version is kept in .workbook/backup/.
"""

import hashlib
import shutil
import subprocess
import time

import catalog
from progress import Progress


def git(*arguments):
    """Git's output as bytes; empty when git or the history is not there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=catalog.ROOT, capture_output=True,
                              check=False)
    except FileNotFoundError:
        return b""
    return done.stdout if done.returncode == 0 else b""


def shipped_text(exercise):
    """The file's content whose hash the manifest names; None when the history lacks it."""
    commits = git("log", "--all", "--format=%H", "--", exercise.path).decode().split()
    for commit in commits:
        text = git("cat-file", "blob", f"{commit}:./{exercise.path}")
        if hashlib.sha256(text).hexdigest() == exercise.stub_sha256:
            return text
    return None


def keep_copy(exercise):
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = catalog.STATE / "backup" / exercise.chapter / f"{exercise.file}.{stamp}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(catalog.ROOT / exercise.path, kept)
    return kept.relative_to(catalog.ROOT)


def run(options):
    exercise = catalog.find_exercise(options.what)
    if exercise.is_untouched():
        print(f"{exercise.path} is as shipped already.")
        return 0
    if (catalog.ROOT / exercise.path).is_dir():
        raise catalog.UsageError(exercise.absence())
    text = shipped_text(exercise)
    if text is None:
        raise catalog.UsageError(
            f"the shipped form of {exercise.path} is not in this checkout's git history; "
            "is this a full clone?")
    if exercise.exists():
        print(f"Your version is kept: {keep_copy(exercise)}")
    (catalog.ROOT / exercise.path).write_bytes(text)
    Progress().forget(exercise)
    print(f"{exercise.path} is as shipped again.")
    return 0
