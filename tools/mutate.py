"""Puts wrong versions of the solutions before the exercises' checks: what no check notices is a failure.

    mutate.py [04 | 04.2 ...] [--number N] [--seconds S] [--seed N] [--jobs N] [--list] [--build-dir DIR]

First the patches of tests/mutations/NN_name.patches, of which each must fail its check with its hint; then
mutants that tools/mutants.py makes of the solutions, in an order that the seed decides, at most N a chapter
and for S seconds at most: a check must end otherwise than with 0, also by a crash or not at all. Those that
compute the same as the solution stand in tests/mutations/equivalent.txt, with the reason. What does not
compile says nothing of a check and is not counted.

Each is one source compiled and linked in place of the solution in the check `check.NN_name.FILE.solution`,
which must be built; standard containers check their indices there. The solution itself must pass first.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import itertools
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mistakes
import mutants
from source_files import ROOT

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "exercises"))
import catalog  # noqa: E402  (a folder of plain modules, not a package)

MUTATIONS = ROOT / "tests" / "mutations"
PASSED, NOTHING_RUN, HANGS = 0, 4, "hangs"
MEMORY = 8 * 2**30  # bytes of address space: a loop that never ends must not take the machine's
SOLUTION_S, MUTANT_S, TIMES_SOLUTION = 120, 20, 20  # on an idle machine: a mutant's limit grows with the solution


@dataclasses.dataclass(frozen=True)
class Change:
    """A wrong version of a solution."""

    where: str
    what: str
    before: str
    after: str
    text: str
    hint: str = ""  # what the check must print; nothing particular where it is empty


# --- What is tried -------------------------------------------------------------------------------

def patches(exercise):
    """The changes of tests/mutations/NN_name.patches to this exercise."""
    path = MUTATIONS / f"{exercise.chapter}.patches"
    for mistake in mistakes.read(path) if path.is_file() else []:
        if mistake.exercise == exercise.id:
            lines = mistake.patch[mistake.patch.index("\n@@"):].splitlines()
            before, after = (" ".join(line[1:].strip() for line in lines if line[:1] == sign) for sign in "-+")
            yield Change(f"{path.relative_to(ROOT)}: {mistake.name}", mistake.what, before, after,
                         mistakes.patched(ROOT / exercise.solution_path, mistake.patch, f"Name: {mistake.name}"),
                         mistake.hint)


def equivalents():
    """{(solution, line before, line after or *): why it is left out}."""
    text = (MUTATIONS / "equivalent.txt").read_text(encoding="utf-8")
    found = {}
    for paragraph in re.split(r"^(?=\S+/\S+$)", text, flags=re.MULTILINE)[1:]:
        path, entries = paragraph.split("\n", 1)
        for before, after, why in re.findall(r"^  - (.*)\n  \+ (.*)\n  = (.*)\n", entries, re.MULTILINE):
            found[path, before, after] = why
    return found


def generated(exercise, seed):
    """The exercise's mutants, but for those that are known to compute the same, as the seed orders them: an edit
    of the solution or of the list moves no other."""
    path = exercise.solution_path
    text = (ROOT / path).read_text(encoding="utf-8")
    known = equivalents()
    found = [Change(f"{path}:{m.line}", m.kind, m.before, m.after, m.apply(text))
             for m in mutants.mutants(text) if not {(path, m.before, m.after), (path, m.before, "*")} & set(known)]
    return sorted(found, key=lambda c: hashlib.sha256(f"{seed}{path}{c.before}{c.after}".encode()).digest())


def drawn(exercises, seed):
    """(exercise, mutant) of all exercises by turns."""
    queues = [[(exercise, change) for change in generated(exercise, seed)] for exercise in exercises]
    return [pair for turn in itertools.zip_longest(*queues) for pair in turn if pair]


# --- How it is tried -----------------------------------------------------------------------------

class Check:
    """An exercise's check, with another source in place of the solution."""

    def __init__(self, exercise, build, scratch):
        self.exercise, self.build, self.scratch = exercise, build, scratch
        name = f"tests/check.{exercise.chapter}.{exercise.stem}.solution"
        if not (build / name).is_file():
            sys.exit(f"there is no {build / name}: cmake --build {build} --target {exercise.target('solution')}")
        self.link = self._command_for(name).replace(f"-o {name} ", "-o {program} ")
        own = f"/{exercise.chapter}.{exercise.stem}.solution.dir/"
        self.commands = {part: self._compilation(shlex.split(self._command_for(part)))
                         for part in self.link.split() if own in part and part.endswith(".cpp.o")}  # not nvcc's
        self.limit_s = patient(SOLUTION_S)

    def _command_for(self, name):
        """The command by which the build makes this file."""
        done = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", name],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip().splitlines()[-1]

    def _compilation(self, command):
        """A compile command of the build, without its warnings and notes, with indices checked."""
        command = [part for part, before in zip(command, ["", *command])
                   if not part.startswith(("-W", "-M")) and before not in ("-MF", "-MT")]
        command += ["-w", "-D_GLIBCXX_ASSERTIONS"]
        if "-include" in command:
            at = command.index("-include") + 1
            command[at] = str(self._precompiled(command, pathlib.Path(command[at])))
        return command

    def _precompiled(self, command, header):
        """The build's precompiled header, for these flags."""
        own = self.scratch / header.parent.name / header.name
        if not own.is_file():
            own.parent.mkdir()
            shutil.copy(header, own)
            flags = command[:command.index("-include")] + command[command.index("-c") + 2:]
            subprocess.run([*flags, "-x", "c++-header", "-o", f"{own}.gch", own], cwd=self.build, check=True)
        return own

    def make(self, text, folder):
        """The check of another text of the solution, in `folder`; what the compiler says against it."""
        source = folder / self.exercise.file
        source.write_text(text, encoding="utf-8")
        link = self.link
        for number, (name, command) in enumerate(self.commands.items()):
            command, compiled = list(command), source
            at = command.index("-c") + 1
            if source.suffix == ".cu":
                compiled = folder / f"side_{number}.cpp"
                compiled.write_text(f'#include "{source}"\n', encoding="utf-8")
            output = folder / f"{number}.o"
            command[at], command[command.index("-o") + 1] = str(compiled), str(output)
            done = subprocess.run(command, cwd=self.build, capture_output=True, text=True, check=False,
                                  env=dict(os.environ, CCACHE_DISABLE="1"))
            if done.returncode != 0:
                return done.stderr
            link = link.replace(name, str(output))
        subprocess.run(link.replace("{program}", str(folder / "check")), shell=True, cwd=self.build, check=True)
        return ""

    def run(self, folder):
        """(exit code or HANGS, output, seconds)."""
        begin = time.monotonic()
        with subprocess.Popen([folder / "check"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limit_memory) as process:
            try:
                output, _ = process.communicate(timeout=self.limit_s)
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                code = HANGS
        return code, output.decode(errors="replace"), time.monotonic() - begin

    def try_solution(self):
        """The solution must pass, or what its mutants do says nothing; it also sets the limit of time."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            text = (ROOT / self.exercise.solution_path).read_text(encoding="utf-8")
            errors = self.make(text, pathlib.Path(folder))
            code, output, seconds = (1, errors, 0) if errors else self.run(pathlib.Path(folder))
        if code != PASSED:
            sys.exit(f"{self.exercise.solution_path} does not pass its own check ({code}):\n{output}")
        self.limit_s = patient(MUTANT_S) + TIMES_SOLUTION * seconds

    def verdict(self, change):
        """(what became of it, in words that begin with one of a few; seconds of the check)."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = pathlib.Path(name)
            try:
                errors = self.make(change.text, folder)
            except subprocess.CalledProcessError:
                return "FAILS: does not link", 0.0
            if errors:
                return ("FAILS: does not compile\n" + errors if change.hint else "no C++"), 0.0
            code, output, seconds = self.run(folder)
        if code in (PASSED, NOTHING_RUN):
            return "SURVIVES", seconds
        if not change.hint:
            return "caught" if code == mistakes.FAILED else f"caught: {code}", seconds
        if code != mistakes.FAILED:
            return f"FAILS: ends with {code}, not with {mistakes.FAILED}", seconds
        if mistakes.one_line(change.hint) not in mistakes.one_line(output):
            return f"FAILS: without the hint '{change.hint}'", seconds
        return "caught", seconds


def patient(seconds):
    return seconds * float(os.environ.get("ULTRA_TEST_PATIENCE", "1"))


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Trial:
    """Tries changes, several at a time, until the budget is spent; prints and counts what becomes of them."""

    def __init__(self, checks, jobs):
        self.checks, self.jobs = checks, jobs
        self.lock = threading.Lock()
        self.counts = collections.Counter()

    def run(self, changes, number, until):
        """Tries (exercise, change) in their order; at most `number` that compile, none begun after `until`."""
        waiting, left = iter(changes), [number]

        def worker():
            while True:
                with self.lock:
                    if left[0] <= 0 or time.monotonic() > until:
                        return
                    pair = next(waiting, None)
                    if pair is None:
                        return
                    left[0] -= 1
                verdict, seconds = self.checks[pair[0].id].verdict(pair[1])
                with self.lock:
                    left[0] += verdict == "no C++"
                    self._tell(pair[1], verdict, seconds)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for done in [pool.submit(worker) for _ in range(self.jobs)]:
                done.result()

    def _tell(self, change, verdict, seconds):
        self.counts[verdict.split(":")[0]] += 1
        if verdict != "no C++":
            print(f"{verdict}, {seconds:.1f} s: {change.where}: {change.what}\n"
                  f"  - {change.before}\n  + {change.after}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="chapters or exercises: 04 or 04.2; all without it")
    parser.add_argument("--number", type=int, default=10**9, help="at most so many mutants, beside the patches")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after so many")
    parser.add_argument("--seed", default="1", help="decides which mutants are tried first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the mutants in their order and try none")
    build = os.environ.get("ULTRA_BUILD_DIR", ROOT / "build" / "release")
    parser.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path(build))
    return parser.parse_args()


def main():
    given = arguments()
    until = time.monotonic() + given.seconds
    try:
        exercises = [exercise for text in given.what or [None] for exercise in catalog.select(text)]
    except catalog.UsageError as error:
        sys.exit(str(error))
    changes = drawn(exercises, given.seed)
    if given.list:
        for _, change in changes:
            print(f"{change.where}: {change.what}\n  - {change.before}\n  + {change.after}")
        return
    with tempfile.TemporaryDirectory(prefix="mutants_") as scratch:
        checks = {e.id: Check(e, given.build_dir.resolve(), pathlib.Path(scratch)) for e in exercises}
        for check in checks.values():
            check.try_solution()
        trial = Trial(checks, given.jobs)
        trial.run([(e, change) for e in exercises for change in patches(e)], sys.maxsize, float("inf"))
        number_of_patches = sum(trial.counts.values())
        trial.run(changes, given.number, until)
    tried = sum(trial.counts.values()) - number_of_patches - trial.counts["no C++"]
    failures = trial.counts["SURVIVES"] + trial.counts["FAILS"]
    print(f"{number_of_patches} patches; {tried} of {len(changes)} mutants with seed {given.seed}, "
          f"{trial.counts['no C++']} more that do not compile: {trial.counts['caught']} caught, {failures} not")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
