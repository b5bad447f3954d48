"""The figures' numbers against the programs': random questions, asked of both."""

import json
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import stepper
from chromium import Browser, PageError
from figure_questions import MAKERS, Case

ROUNDS = 6
SEED = random.SystemRandom().randrange(10**6)
SAME = 1e-12
"""Relative: sums in the same order differ by no more than how a decimal is written."""
STEADY = 1e-6
"""Relative: a program's number that moves further than this when a question moves by 1e-9."""


def faults(browser: Browser, output: Path, programs: Path) -> list[str]:
    """What the page shows otherwise than the program says."""
    if not (output / "assets" / "modules" / "memory.js").is_file():
        print(
            "SKIPPED: the figures' numbers: the site was built without a compiler for WebAssembly"
        )
        return []
    browser.size(1400)
    browser.open((output / "figures.html").as_uri())
    found = []
    print(f"figures: seed {SEED}")
    chance = random.Random(SEED)
    for _ in range(ROUNDS):
        for make in MAKERS:
            found += list(_case_faults(browser, make(chance), programs))
    found += [*_refusal_faults(browser), *_address_faults(browser, output)]
    return found + list(_stepper_faults(browser, output, programs, chance))


def _case_faults(browser: Browser, case: Case, programs: Path) -> Iterator[str]:
    where = f"figure {case.figure} at {case.state}"
    try:
        shown = set_state(browser, case.figure, case.state)
    except PageError as error:
        if str(error) not in refusal_of(case, programs):
            yield f"{where}: {error}"
        return
    try:
        answer = answer_of(case, programs)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        yield f"{where}: the program does not answer: {getattr(error, 'stderr', error)}"
        return
    text = browser.evaluate(f"document.getElementById('figure-{case.figure}').textContent")
    for part in case.texts(answer):
        if part not in text:
            yield f"{where}: does not say what {' '.join(case.flags)} does: {part[:80]}"
    for name, truth in case.expected(answer).items():
        value = shown.get(name)
        if value is not None and abs(value - truth) <= SAME * abs(truth):
            continue
        if value is None or not hangs_on_rounding(case, name, truth, programs):
            yield f"{where}: {name} is {value}, but {' '.join(case.flags)} says {truth}"


def answer_of(case: Case, programs: Path) -> dict:
    """What a program prints as JSON, or writes to a file for which the flags have a {}."""
    if not case.flags:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        flags = [flag.replace("{}", str(file)) for flag in case.flags]
        done = subprocess.run(
            [programs / flags[0], *flags[1:]], capture_output=True, text=True, check=True
        )
        return json.loads(file.read_text() if file.is_file() else done.stdout)


def hangs_on_rounding(case: Case, name: str, truth: float, programs: Path) -> bool:
    """Whether the program itself says something else of nearly the same questions.

    It may add and multiply in one instruction, which rounds once and not twice.
    """
    for flags in case.nearby:
        close = Case(case.figure, case.state, flags, case.expected)
        other = close.expected(answer_of(close, programs)).get(name)
        if other is None or abs(other - truth) > STEADY * abs(truth):
            return True
    return False


def refusal_of(case: Case, programs: Path) -> str:
    """What a program says when it refuses; empty when it answers."""
    try:
        answer_of(case, programs)
    except subprocess.CalledProcessError as refused:
        return refused.stderr
    return ""


def set_state(browser: Browser, figure: str, state: dict) -> dict[str, float]:
    """Sets a figure's state, and returns the numbers that it shows."""
    section = f"document.getElementById('figure-{figure}')"
    # Again and again: figures that are drawn above it push it away.
    scroll = f"{section}.scrollIntoView({{behavior: 'instant'}})"
    browser.wait_for(f"({scroll}, {section}.workbookSet && {section}.dataset.asked)")
    words = {key: str(value) for key, value in state.items()}
    browser.evaluate(f"{section}.workbookSet({json.dumps(words)})")
    problem = browser.evaluate(
        f"{section}.dataset.state === 'problem' && {section}.querySelector('.problem').textContent"
    )
    if problem:
        raise PageError(problem)
    pairs = browser.evaluate(
        f"[...{section}.querySelectorAll('[data-value]')].map((one) => [one.dataset.name,"
        " Number(one.dataset.value)])"
    )
    return {name: value for name, value in pairs}


# What a reader does -------------------------------------------------------------------------------


def _refusal_faults(browser: Browser) -> Iterator[str]:
    """A question that has no answer gets the program's own words, and the next one an answer."""
    section = "document.getElementById('figure-pipeline')"
    try:
        set_state(
            browser, "pipeline", {"schedule": "interleaved:2", "stages": 4, "micro_batches": 6}
        )
        yield "figure pipeline: interleaves 6 micro-batches on 4 stages, which the program refuses"
    except PageError as error:
        if "multiple" not in str(error):
            yield f"figure pipeline: refuses without the program's words: {error}"
    set_state(browser, "pipeline", {"schedule": "1f1b"})
    if browser.evaluate(f"{section}.dataset.state") != "ready":
        yield "figure pipeline: does not recover from a refusal"


def _address_faults(browser: Browser, output: Path) -> Iterator[str]:
    """A link holds a figure's state, and a change of an input changes it."""
    browser.open((output / "figures.html").as_uri() + "#figure-memory?model=llama-70b&seq=2048")
    section = "document.getElementById('figure-memory')"
    browser.wait_for(f"{section}.dataset.state === 'ready'")
    first = browser.evaluate(
        f"{section}.workbookAnswer.model.name + ' ' + {section}.workbookAnswer.seq"
    )
    if first != "llama-70b 2048":
        yield f"figure memory: the link's state is llama-70b 2048, found {first}"
    browser.evaluate("""(() => { const input = document.getElementById('figure-memory-seq');
        input.value = '512'; input.dispatchEvent(new Event('input', { bubbles: true })); })()""")
    browser.wait_for(f"{section}.workbookAnswer && {section}.workbookAnswer.seq === 512")
    if "seq=512" not in browser.evaluate("location.hash"):
        yield "figure memory: the address does not follow its inputs"


def _stepper_faults(browser: Browser, output: Path, programs: Path, chance: random.Random) -> Iterator[str]:
    """What ranks have sent and keep, in any round of each layout; keys, and files of the reader's own."""
    program = programs / "11_five_d"
    browser.open((output / "stepper.html").as_uri())
    section = "document.getElementById('figure-stepper')"
    for layout in stepper.LAYOUTS:
        step = stepper.told(program, layout)
        last = len(step["rounds"])
        for shown in (chance.randint(1, last), last):
            numbers = set_state(browser, "stepper", {"layout": layout.name, "step": shown})
            for rank, story in enumerate(step["ranks"]):
                done = [story["deeds"][one[rank]] for one in step["rounds"][:shown] if one[rank] is not None]
                truth = {f"sent_{rank}": sum(deed.get("sent_bytes", 0) for deed in done),
                         f"in_use_{rank}": done[-1]["in_use"] if done else 0}
                for name, value in truth.items():
                    if numbers.get(name) != value:
                        yield f"figure stepper, {layout.name}, round {shown}: {name} is {numbers.get(name)}, not {value}"
        words = [word for word in stepper.words_of(layout) if word != "--step-through"]
        report = json.loads(subprocess.run([program, *words, "--on-json"], capture_output=True, check=True).stdout)
        sent = sum(one["sent_bytes"] for one in report["exchanges"])
        if numbers["sent_0"] != sent:
            yield f"figure stepper, {layout.name}: rank 0 sends {numbers['sent_0']}, but --on says {sent}"
    set_state(browser, "stepper", {"layout": "sp", "step": 4})
    browser.evaluate(f"{section}.querySelector('[type=range]').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    browser.wait_for(f"{section}.querySelector('.headline').textContent.startsWith('Round 5 ')")
    if "step=5" not in browser.evaluate(f"{section}.querySelector('.state-link').href"):
        yield "figure stepper: the link does not follow the keys"
    with_file = f"""(text => {{ const input = {section}.querySelector('[type=file]'), files = new DataTransfer();
        files.items.add(new File([text], 'mine.json')); input.files = files.files;
        input.dispatchEvent(new Event('change')); }})"""
    browser.evaluate(f"{with_file}('no step')")
    browser.wait_for(f"{section}.querySelector('.figure-body .problem').textContent.includes('mine.json is not')")
    browser.evaluate(f"{with_file}({json.dumps(json.dumps(stepper.told(program, stepper.LAYOUTS[0])))})")
    browser.wait_for(f"{section}.querySelector('.headline').textContent.startsWith('mine.json: before')")
