"""Which exercises there are: exercises/NN_name/exercises.json and the files beside it."""

import dataclasses
import hashlib
import json
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATE = ROOT / ".workbook"


class UsageError(Exception):
    """What the user asked for cannot be done; the message is one line for the terminal."""


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One entry of a chapter's manifest."""

    chapter: str  # the folder's name: 01_memory
    number: int
    file: str  # adamw.cpp
    name: str
    title: str
    lines: str
    difficulty: str
    goal: str
    stub_sha256: str
    hints: tuple = ()
    targets: tuple = ()
    ranks: tuple = (1,)
    gpu: bool = False
    timeout_s: float = 60.0

    @property
    def id(self):
        return f"{self.chapter[:2]}.{self.number}"

    @property
    def stem(self):
        return pathlib.PurePath(self.file).stem

    @property
    def path(self):
        return f"exercises/{self.chapter}/{self.file}"

    @property
    def solution_path(self):
        return f"solutions/{self.chapter}/{self.file}"

    @property
    def test_path(self):
        return f"tests/exercises/{self.chapter}/{self.stem}_test.cpp"

    def target(self, side):
        """The CMake target that tests one side: "exercise" or "solution"."""
        return f"check.{self.chapter}.{self.stem}.{side}"

    def exists(self):
        return (ROOT / self.path).is_file()

    def absence(self):
        """Why there is no such file, and what to do."""
        if (ROOT / self.path).is_dir():
            return f"{self.path} is a folder: move it away, then ./workbook reset {self.id}"
        return f"the file is gone; ./workbook reset {self.id} brings it back"

    def is_untouched(self):
        return self.exists() and sha256_of(ROOT / self.path) == self.stub_sha256


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def in_ci():
    return os.environ.get("CI") == "true"


def chapters():
    """Folder names of all chapters, in order."""
    folder = ROOT / "chapters"
    return sorted(p.name for p in folder.glob("[0-9][0-9]_*") if p.is_dir())


def manifest_path(chapter):
    return ROOT / "exercises" / chapter / "exercises.json"


def read_manifest(chapter):
    """The chapter's exercises by number; none when it has no manifest."""
    path = manifest_path(chapter)
    if not path.is_file():
        return []
    where = path.relative_to(ROOT)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["exercises"]
        return sorted((exercise_from(chapter, entry) for entry in entries),
                      key=lambda exercise: exercise.number)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}:{error.lineno}: no valid JSON: {error.msg}") from error
    except (KeyError, TypeError) as error:
        raise UsageError(f"{where}: an entry lacks or misspells a field: {error}") from error


def exercise_from(chapter, entry):
    fields = {key: tuple(value) if isinstance(value, list) else value
              for key, value in entry.items()}
    return Exercise(chapter=chapter, **fields)


def all_exercises():
    return [exercise for chapter in chapters() for exercise in read_manifest(chapter)]


def find_chapter(text):
    """The chapter named by 1, 01 or 01_memory."""
    wanted = text.zfill(2) if text.isdigit() else text
    for chapter in chapters():
        if wanted in (chapter, chapter[:2]):
            return chapter
    known = ", ".join(chapters()) or "none yet"
    raise UsageError(f"there is no chapter '{text}'; the chapters are: {known}")


def find_exercise(text):
    """The exercise named by NN.k."""
    match = re.fullmatch(r"(\w+)\.(\d+)", text)
    if not match:
        raise UsageError(f"'{text}' names no exercise; write chapter.number, for example 01.2")
    chapter = find_chapter(match.group(1))
    exercises = read_manifest(chapter)
    for exercise in exercises:
        if exercise.number == int(match.group(2)):
            return exercise
    known = ", ".join(exercise.id for exercise in exercises) or "none"
    raise UsageError(f"there is no exercise '{text}'; chapter {chapter} has: {known}")


def select(text):
    """The exercises named by nothing (all), NN (a chapter's) or NN.k."""
    if text is None:
        chosen = all_exercises()
    elif "." in text:
        chosen = [find_exercise(text)]
    else:
        chosen = read_manifest(find_chapter(text))
    if not chosen:
        raise UsageError(f"no exercises found{' in chapter ' + text if text else ''}")
    return chosen
