"""bug: real faults of distributed training, rebuilt in this workbook's own code and caught.

tests/bugs/NN_name/NAME.patch changes sources of ours as a public thread says of others', below a header:
    Bug: what is wrong, in one line
    Thread: its address; a line each
    Program: 08_expert_parallel
    Both: flags of all three trainings, beside those of SMALL; may be left out
    Ranks: flags of the trainings on two ranks
    Saved: flags of a right training before them; its first checkpoint is SAVED in Ranks; may be left out
    Within: how near numbers are that are equal, where the training is not in f64; may be left out
    Shows: what differs from the training on one rank, and what does not (SHOWN)
    Check: an executable of tests, and the test that finds it
"""

import dataclasses
import difflib
import math
import os
import pathlib
import re
import shlex
import sys
import tempfile

import catalog
import moments
import runner
import symptoms

sys.path.insert(0, str(catalog.ROOT / "tools"))
import mistakes  # noqa: E402  (beside this folder)

PATCHES = catalog.ROOT / "tests" / "bugs"
PAGE = catalog.ROOT / "docs" / "bugs_that_shipped.md"
SMALL = {"--layers": "2", "--hidden": "32", "--heads": "4", "--kv-heads": "2", "--ffn": "48", "--seq": "16",
         "--global-batch": "4", "--micro-batch": "2", "--steps": "6", "--warmup": "1", "--clip": "0",
         "--dtype": "f64"}
FIELDS = ("Bug", "Thread", "Program", "Both", "Ranks", "Saved", "Within", "Shows", "Check")
NEEDED = ("Bug", "Thread", "Program", "Ranks", "Shows", "Check")
SHOWN = re.compile(r"(?P<row>[a-z ]+?) (?:equal|(?P<differs>differs?)|x (?P<ratio>[\d.]+))|says '(?P<says>.+)'")
CHECK_SECONDS = 100
PAGE_TOLERANCE = 2e-3  # of the numbers that the page shows
LABEL = 37  # columns


@dataclasses.dataclass(frozen=True)
class Bug:
    """One patch."""

    patch: pathlib.Path
    fields: dict

    @property
    def name(self):
        return self.patch.stem

    @property
    def title(self):
        return self.fields["Bug"][0]

    @property
    def check(self):
        return self.one("Check").split(maxsplit=1)

    @property
    def tolerance(self):
        return float(self.one("Within") or 1e-6)

    def one(self, field):
        return " ".join(self.fields.get(field, []))

    def flags(self, *fields):
        """SMALL with what these fields say instead."""
        flags = dict(SMALL)
        for field in fields:
            words = shlex.split(self.one(field))
            for at, word in enumerate(words):
                if word.startswith("--"):
                    value = words[at + 1] if at + 1 < len(words) else ""
                    flags[word] = "" if value.startswith("--") else value
        return " ".join(f"{flag} {value}".strip() for flag, value in flags.items())

    def command(self):
        """What tells the training apart, for a reader."""
        return f"{self.one('Program')} {self.one('Both')} {self.one('Ranks')}".replace("  ", " ")

    def changes(self):
        """The lines that the patch takes away and adds."""
        text = self.patch.read_text(encoding="utf-8")
        lines = text[text.index("\n--- "):].splitlines()
        return [line for line in lines if line[:3] == "+++" or (line[:1] in ("+", "-") and line[:3] != "---")]


def read_bug(path):
    header = path.read_text(encoding="utf-8").split("\n--- ", 1)[0]
    fields = {}
    for field, value in re.findall(r"^(\w+): *(.+)$", header, re.MULTILINE):
        fields.setdefault(field, []).append(value)
    where = os.path.relpath(path, catalog.ROOT)
    for field in NEEDED:
        if field not in fields:
            raise catalog.UsageError(f"{where}: the header lacks the line '{field}: ...'")
    if unknown := set(fields) - set(FIELDS):
        raise catalog.UsageError(f"{where}: there is no field '{min(unknown)}'; it has {', '.join(FIELDS)}")
    bug = Bug(path, fields)
    for shown in bug.one("Shows").split("; "):
        if not SHOWN.fullmatch(shown):
            raise catalog.UsageError(f"{where}: cannot read '{shown}' of Shows")
    return bug


def read_bugs():
    return [read_bug(path) for path in sorted(PATCHES.glob("*/*.patch"), key=lambda path: path.stem.lower())]


def find_bug(name):
    """The bug of this name, in any case."""
    bugs = read_bugs()
    for bug in bugs:
        if bug.name.lower() == name.lower():
            return bug
    names = [bug.name for bug in bugs]
    near = difflib.get_close_matches(name, names, 3, 0.3)
    known = f"did you mean {' or '.join(near)}?" if near else "none is called so."
    raise catalog.UsageError(f"there is no bug '{name}': {known} ./workbook bug lists all {len(bugs)}")


# --- What the front door asks ---------------------------------------------------------------------

def run(options):
    if options.what is None:
        return list_bugs()
    bug = find_bug(options.what)
    print(f"{bug.name}  {bug.title}\n" + "\n".join(f"  {thread}" for thread in bug.fields["Thread"]) + "\n")
    program, broken, check = executables(bug)
    print("\n".join(table(bug, measure(bug, program, broken))))
    print("\n" + what_the_check_says(bug, check))
    print(f"\nThe fault: {bug.patch.relative_to(catalog.ROOT)}    Its story: {PAGE.relative_to(catalog.ROOT)}")
    return 0


def list_bugs():
    bugs = read_bugs()
    if not bugs:
        raise catalog.UsageError("tests/bugs/ has no patch")
    for bug in bugs:
        print(f"  {bug.name:<23}{bug.title}")
    print(f"\n{len(bugs)} real bugs. Build and run one: ./workbook bug {bugs[0].name}"
          f"    All their stories: {PAGE.relative_to(catalog.ROOT)}")
    return 0


def print_targets(options):
    if options.what is not None:
        bug = find_bug(options.what)
        print(f"{bug.one('Program')}_main\nbug.{bug.name}\nbug.{bug.name}.check")
    return 0


def executables(bug, whose=""):
    """The right program, the one with the fault, and the tests with it; or those with the learner's sources."""
    broken = runner.BUILD / "tests" / "bugs" / f"{bug.name}{whose}"
    return runner.BUILD / "bin" / bug.one("Program"), broken, broken.with_name(f"{broken.name}.check")


# --- Three trainings ------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Training:
    """What became of a training."""

    code: int
    output: str
    rows: dict  # name: number


def measure(bug, program, broken):
    """The trainings on one rank, on two ranks, and on two ranks with the bug."""
    with tempfile.TemporaryDirectory(prefix="ultra-bug-") as folder:
        ranks, first = bug.flags("Both", "Ranks"), 1
        if bug.one("Saved"):
            saved = pathlib.Path(folder) / "saved"
            train(program, f"{bug.flags('Both', 'Saved')} --checkpoint {saved}", 0, folder)
            checkpoint = min(saved.glob("step-*"))
            ranks, first = ranks.replace("SAVED", str(checkpoint)), int(checkpoint.name[5:]) + 1
        return [train(program, bug.flags("Both"), first, pathlib.Path(folder) / "one"),
                train(program, ranks, first, pathlib.Path(folder) / "two"),
                train(broken, ranks, first, pathlib.Path(folder) / "broken")]


def train(program, flags, first, folder):
    """A training, of which the losses and the gradients from step `first` on count."""
    if first:
        flags += f" --checkpoint {folder} --save-every 1"
    code, output, events = symptoms.run_program(program, flags, with_metrics=True)
    events = [event for event in events if event["step"] >= first]
    rows = {}
    if first and events:
        rows[f"loss, step {first}"] = events[0]["loss"]
        rows[f"loss, step {events[-1]['step']}"] = events[-1]["loss"]
        rows[f"norm that is reported, step {first}"] = events[0]["grad_norm"]
        of = "gradient of" if first == 1 else "first moment of"
        for kind, norm in moments.norms(folder / f"step-{first:08}", first).items():
            rows[f"{of} {kind}"] = norm
    return Training(code, output, rows)


def table(bug, trainings, last="with the bug"):
    """The numbers of all three, side by side."""
    one, two, broken = (training.rows for training in trainings)
    lines = [bug.command(), f"{'':<{LABEL}}{'one rank':>14}{'two ranks':>14}{last:>14}"]
    for name, value in one.items():
        numbers = [value, two.get(name), broken.get(name)]
        cells = "".join(f"{'-' if number is None else f'{number:.6g}':>14}" for number in numbers)
        lines.append(f"{name:<{LABEL}}{cells}{told_apart(bug, value, broken.get(name))}")
    if trainings[2].code != 0:
        lines += ["", *trainings[2].output.strip().splitlines()[-1:]]
    return lines


def told_apart(bug, right, wrong):
    if wrong is None or math.isclose(right, wrong, rel_tol=bug.tolerance):
        return ""
    return f"   x {wrong / right:.6g}"


# --- What the tests expect ------------------------------------------------------------------------

def missing(bug, trainings):
    """What of its symptoms a bug does not show, in words; empty when it shows all."""
    one, two, broken = trainings
    for training, which in ((one, "one rank"), (two, "two ranks without the bug")):
        if training.code != 0:
            return f"the training on {which} ended with exit code {training.code}:\n{training.output}"
    for name, value in one.rows.items():
        if not math.isclose(value, two.rows[name], rel_tol=bug.tolerance):
            return f"without the bug, {name} is {two.rows[name]} on two ranks and {value} on one"
    shown = [SHOWN.fullmatch(text) for text in bug.one("Shows").split("; ")]
    named = {name for match in shown if match["row"] not in (None, "rest")
             for name in rows_of(one.rows, match["row"], set())}
    for match in shown:
        if match["says"]:
            if match["says"] not in broken.output or match["says"] in two.output:
                return f"not only the bug says '{match['says']}':\n{broken.output}"
            continue
        if broken.code != 0:
            return f"the training with the bug ended with exit code {broken.code}:\n{broken.output}"
        names = rows_of(one.rows, match["row"], named)
        if not names:
            return f"there is no row '{match['row']}'"
        for name in names:
            if fault := not_as_expected(bug, match, name, one.rows[name], broken.rows[name]):
                return fault
    return ""


def rows_of(rows, word, others):
    """The rows that a word of Shows is about: `rest` is all gradients that no other word is about."""
    losses = [name for name in rows if name.startswith("loss")]
    if word.startswith("loss "):
        return {"loss first": losses[:1], "loss last": losses[-1:]}.get(word, [])
    if word == "norm":
        return [name for name in rows if name.startswith("norm")]
    gradients = [name for name in rows if " of " in name]
    if word == "rest":
        return [name for name in gradients if name not in others]
    return [name for name in gradients if name.endswith(f" of {word}")]


def not_as_expected(bug, match, name, right, wrong):
    ratio = float(match["ratio"] or 1)
    equal = math.isclose(right * ratio, wrong, rel_tol=bug.tolerance)
    if equal != bool(match["differs"]):
        return ""
    return f"{name} is {right} on one rank and {wrong} with the bug, and Shows has '{match[0]}'"


def run_check(bug, check):
    os.environ.setdefault("ULTRA_TEST_SEED", "1")  # the same shapes each time: without, each run draws others
    return runner.run_with_timeout([str(check), f"--gtest_filter={bug.check[1]}"], CHECK_SECONDS)


def failures(output):
    """What a failed test says, without the names of files."""
    found = re.search(r"^\S+:\d+: Failure\n(.*?)(?=^\[|^\S+:\d+: Failure|\Z)", output, re.MULTILINE | re.DOTALL)
    return found[1].strip().splitlines() if found else []


def what_the_check_says(bug, check):
    code, output = run_check(bug, check)
    target, test = bug.check
    if code in (0, None):
        return f"{target} does not find it: exit code {code}."
    return "\n".join([f"The check that finds it: {test} of {target} fails:",
                      *(f"  | {line}" for line in failures(output)[:8])])


def shows(options):
    """For the test suite: the bug shows what its thread says, a test of ours finds it, the page is right."""
    bug = find_bug(options.what)
    trainings = measure(bug, options.right, options.broken)
    print("\n".join(table(bug, trainings)))
    faults = [missing(bug, trainings)]
    code, output = run_check(bug, options.check)
    if code != 1 or f"[  FAILED  ] {bug.check[1]}" not in output:
        faults.append(f"{' '.join(bug.check)} does not find it: exit code {code}\n{output}")
    if options.write:
        write_block(bug, trainings)
    faults += page_faults(bug, trainings)
    for fault in filter(None, faults):
        print(f"{bug.name}: {fault}")
    return 1 if any(faults) else 0


# --- The page -------------------------------------------------------------------------------------

def block(bug, trainings):
    """What the page shows of a bug: the fault, and the numbers."""
    return "\n".join([f"<!-- bug {bug.name} -->", "```diff", *bug.changes(), "```", "", "```text",
                      f"./workbook bug {bug.name}", *table(bug, trainings), "```", "<!-- /bug -->"])


def block_pattern(bug):
    return re.compile(rf"<!-- bug {re.escape(bug.name)} -->\n.*?<!-- /bug -->", re.DOTALL)


def write_block(bug, trainings):
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(block_pattern(bug).sub(lambda _: block(bug, trainings), text), encoding="utf-8")


def page_faults(bug, trainings):
    """Where the page says something else; numbers may differ in their last digits."""
    found = block_pattern(bug).search(PAGE.read_text(encoding="utf-8"))
    where = PAGE.relative_to(catalog.ROOT)
    if not found:
        return [f"{where} has no block '<!-- bug {bug.name} -->'"]
    there, here = (text.split() for text in (found[0], block(bug, trainings)))
    tolerance = max(PAGE_TOLERANCE, bug.tolerance)
    for old, new in zip(there, here):
        if old != new and not near(old, new, tolerance):
            return [f"{where} says '{old}', and a run says '{new}'. Add --write to the test's command."]
    return [] if len(there) == len(here) else [f"{where} has another table. Add --write to the test's command."]


def near(old, new, tolerance):
    try:
        return math.isclose(float(old), float(new), rel_tol=tolerance)
    except ValueError:
        return False


def faulty_sources(patch):
    """(path below the root, text with the fault) of each source that a patch changes."""
    text = pathlib.Path(patch).read_text(encoding="utf-8")
    for part in re.split(r"^(?=--- )", text, flags=re.MULTILINE)[1:]:
        path = part.split(maxsplit=2)[1]
        yield path, mistakes.patched(catalog.ROOT / path, part, patch)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def apply(options):
    """Writes the sources with the fault, each at its place below a folder."""
    for path, text in faulty_sources(options.patch):
        write(pathlib.Path(options.folder, path), text)
