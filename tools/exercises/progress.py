"""What the learner has done so far, remembered in .workbook/progress.json.

An outcome counts only as long as everything that the check was built from is unchanged; that is
kept as one hash of all inputs.
"""

import hashlib
import json
import os
import sys

from catalog import ROOT, STATE, chapters, sha256_of

sys.path.append(str(ROOT / "tools"))
from source_files import CPP_SUFFIXES, repository_files  # noqa: E402  (beside this folder)


def sources_in(*folders):
    return [ROOT / path for path in repository_files(ROOT, *folders) if path.suffix in CPP_SUFFIXES]


class InputHasher:
    """Hashes what an exercise's check is built from; reads every file once."""

    def __init__(self):
        self._shared = {}

    def _hash_of_files(self, files):
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.relative_to(ROOT)} {sha256_of(path)}\n".encode())
        return digest.hexdigest()

    def _shared_inputs(self, chapter):
        """The core, the chapters up to this one with their solutions, and the test support."""
        if chapter not in self._shared:
            folders = ["common", "kernels", "tests/support"]
            for name in chapters():
                if name <= chapter:
                    folders += [f"chapters/{name}", f"solutions/{name}"]
            self._shared[chapter] = self._hash_of_files(sources_in(*folders))
        return self._shared[chapter]

    def inputs_of(self, exercise):
        own = [ROOT / exercise.path, ROOT / exercise.test_path]
        own += sorted((ROOT / exercise.test_path).parent.glob("*.hpp"))
        own_hash = self._hash_of_files(p for p in own if p.is_file())
        return f"{self._shared_inputs(exercise.chapter)[:32]}{own_hash[:32]}"


SECTIONS = ("exercises", "hints", "problems", "mended")


def _sections(data):
    """What the file holds, by section; raises where it is not what _save writes."""
    found = {name: dict(data.get(name, {})) for name in SECTIONS}
    for record in found["exercises"].values():
        if not all(isinstance(record[key], str) for key in ("outcome", "inputs")):
            raise ValueError
    if not all(isinstance(count, int) for count in found["hints"].values()):
        raise ValueError
    return found


def _shown(path):
    return path.relative_to(ROOT)


def note(text):
    """Said beside the command's own answer: that one does not depend on what is remembered."""
    print(f"workbook: {text}.", file=sys.stderr)


class Progress:
    """The remembered outcomes and the number of hints shown."""

    def __init__(self):
        self._path = STATE / "progress.json"
        self._damage = False
        self._data = self._read()
        self._hasher = InputHasher()

    def _read(self):
        """What the file holds; a missing or damaged one costs a few repeated checks, no more."""
        try:
            return _sections(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            pass
        except OSError as error:
            note(f"{_shown(self._path)} cannot be read ({error.strerror}): what you have done is not known")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._damage = True
            note(f"{_shown(self._path)} is damaged: what you had done is not known; the file is kept as "
                 f"{self._kept().name} when something new is remembered")
        return {name: {} for name in SECTIONS}

    def _kept(self):
        return self._path.with_suffix(".damaged.json")

    def outcome(self, exercise):
        """(outcome, current): the last check's outcome or None; whether it still holds."""
        record = self._data["exercises"].get(exercise.id)
        if record is None:
            return None, False
        return record["outcome"], record["inputs"] == self._hasher.inputs_of(exercise)

    def passed_and_unchanged(self, exercise):
        return self.outcome(exercise) == ("passed", True)

    def remember(self, exercise, outcome):
        self._data["exercises"][exercise.id] = {
            "outcome": outcome, "inputs": self._hasher.inputs_of(exercise)}
        self._save()

    def forget(self, exercise):
        self._data["exercises"].pop(exercise.id, None)
        self._save()

    def hints_shown(self, exercise):
        return self._data["hints"].get(exercise.id, 0)

    def remember_hints(self, exercise, count):
        self._data["hints"][exercise.id] = count
        self._save()

    def problem(self, problem):
        """Whether the last answer was right; None before the first."""
        return self._data["problems"].get(problem.id)

    def remember_problem(self, problem, right):
        """An answer that was right once stays so."""
        self._data["problems"][problem.id] = bool(right or self.problem(problem))
        self._save()

    def mended(self, case):
        return bool(self._data["mended"].get(case.id))

    def remember_mended(self, case):
        self._data["mended"][case.id] = True
        self._save()

    def _save(self):
        draft = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(exist_ok=True)
            draft.write_text(json.dumps(self._data, indent=2) + "\n", encoding="utf-8")
            if self._damage:
                os.replace(self._path, self._kept())
                self._damage = False
            os.replace(draft, self._path)
        except OSError as error:
            note(f"{_shown(self._path)} cannot be written ({error.strerror}): this is not remembered")
