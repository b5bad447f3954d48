"""The figures' numbers against the programs': random questions, asked of both."""

import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from chromium import Browser, PageError

ROUNDS = 6
SEED = random.SystemRandom().randrange(10**6)
SAME = 1e-12
"""Relative: sums in the same order differ by no more than how a decimal is written."""


class Case:
    """A state of a figure, and the numbers that the program gives for it."""

    def __init__(
        self, figure: str, state: dict, flags: list[str], expected: Callable[[dict], dict]
    ):
        self.figure, self.state, self.flags, self.expected = figure, state, flags, expected


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
        for make in (memory_case, costs_case, player_case, stages_case, pipeline_case):
            found += list(_case_faults(browser, make(chance), programs))
    return found + list(_refusal_faults(browser)) + list(_address_faults(browser, output))


def _case_faults(browser: Browser, case: Case, programs: Path) -> Iterator[str]:
    where = f"figure {case.figure} at {case.state}"
    try:
        shown = set_state(browser, case.figure, case.state)
    except PageError as error:
        yield f"{where}: {error}"
        return
    try:
        expected = case.expected(answer_of(case, programs))
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        yield f"{where}: the program does not answer: {getattr(error, 'stderr', error)}"
        return
    for name, truth in expected.items():
        value = shown.get(name)
        if value is None or abs(value - truth) > SAME * abs(truth):
            yield f"{where}: {name} is {value}, but {' '.join(case.flags)} says {truth}"


def answer_of(case: Case, programs: Path) -> dict:
    """What a program prints as JSON, or writes to a file for which the flags have a {}."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        flags = [flag.replace("{}", str(file)) for flag in case.flags]
        done = subprocess.run(
            [programs / flags[0], *flags[1:]], capture_output=True, text=True, check=True
        )
        return json.loads(file.read_text() if file.is_file() else done.stdout)


def set_state(browser: Browser, figure: str, state: dict) -> dict[str, float]:
    """Sets a figure's state, and returns the numbers that it shows."""
    section = f"document.getElementById('figure-{figure}')"
    browser.evaluate(f"{section}.scrollIntoView()")
    browser.wait_for(f"{section}.workbookSet && {section}.dataset.asked")
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


# The questions ------------------------------------------------------------------------------------


def memory_case(chance: random.Random) -> Case:
    heads = chance.choice([4, 8, 12, 32])
    model = {
        "layers": chance.randint(1, 90),
        "hidden": heads * 2 * chance.randint(1, 120),
        "heads": heads,
        "kv_heads": chance.choice([1, 2, 4]),
        "ffn": chance.randint(1, 30000),
        "vocab": chance.randint(300, 130000),
    }
    state = {
        "model": chance.choice(["custom", "llama-70b", "gpt3-175b", "llama-405b"]),
        "seq": chance.randint(1, 30) * 64,
        "micro_batch": chance.randint(1, 9),
        "precision": chance.choice(["bf16-mixed", "bf16-mixed-fp32grads", "fp32", "fp64"]),
        "recompute": chance.choice(["none", "selective", "full"]),
    }
    if state["recompute"] == "full":
        state["recompute_every"] = chance.randint(1, 5)
    flags = [
        "01_memory",
        "--estimate",
        state["model"],
        "--json",
        "--seq",
        str(state["seq"]),
        "--micro-batch",
        str(state["micro_batch"]),
        "--precision",
        state["precision"],
        "--recompute",
        state["recompute"],
        "--recompute-every",
        str(state.get("recompute_every", 1)),
    ]
    if state["model"] == "custom":
        state.update(model)
        for name, value in model.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]

    def expected(answer: dict) -> dict:
        return {
            **answer["bytes"],
            "parameters_count": answer["parameters"],
            "per_layer": answer["activation_bytes"]["per_layer"],
            "kept_by_layers": answer["activation_bytes"]["kept_by_layers"],
        }

    return Case("memory", state, flags, expected)


def costs_case(chance: random.Random) -> Case:
    state = {
        "op": chance.choice(
            ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"]
        ),
        "nodes": chance.randint(1, 4),
        "gpus": chance.randint(2, 5),
        "nics": 1,
        "intra_us": chance.randint(1, 90) / 10,
        "intra_gb": chance.randint(20, 900),
        "inter_us": chance.randint(10, 200) / 10,
        "inter_gb": chance.randint(10, 100),
    }
    machine = (
        f"nodes={state['nodes']},gpus={state['gpus']},nics={state['nics']},intra-us={state['intra_us']},"
        f"intra-gb-per-second={state['intra_gb']},inter-us={state['inter_us']},inter-gb-per-second={state['inter_gb']}"
    )
    sizes = "1000,4000,16000,64000,256000,1000000,4000000,16000000,64000000,256000000"
    flags = [
        "02_collectives",
        "--simulate",
        machine,
        "--simulate-op",
        state["op"],
        "--simulate-sizes",
        sizes,
        "--simulate-json",
    ]

    def expected(answer: dict) -> dict:
        numbers = {"ranks": answer["topology"]["ranks"]}
        for run in answer["runs"]:
            numbers.setdefault(f"{run['algorithm']}:first", run["seconds"])
            numbers[f"{run['algorithm']}:last"] = run["seconds"]
        return numbers | {
            f"crossover_{i}": one["bytes"] for i, one in enumerate(answer["crossovers"])
        }

    return Case("costs", state, flags, expected)


def player_case(chance: random.Random) -> Case:
    op, algorithm = chance.choice(
        [
            ("all_reduce", "ring"),
            ("all_reduce", "rabenseifner"),
            ("all_reduce", "binomial"),
            ("broadcast", "binomial"),
            ("all_gather", "ring"),
            ("reduce_scatter", "ring"),
            ("all_to_all", "bruck"),
            ("gather", "binomial"),
            ("all_reduce", "pairwise"),
        ]
    )
    ranks = chance.randint(2, 9)
    elements = ranks * chance.randint(1, 3)
    state = {"op": op, "algorithm": algorithm, "ranks": ranks, "elements": elements}
    flags = [
        "02_collectives",
        "--simulate",
        f"nodes=1,gpus={ranks},nics=1",
        "--simulate-op",
        op,
        "--simulate-algorithms",
        algorithm,
        "--simulate-sizes",
        str(4 * elements),
        "--simulate-json",
        "--simulate-messages",
    ]

    def expected(answer: dict) -> dict:
        messages = answer["runs"][0]["message_list"]
        return {
            "messages": len(messages),
            "sent_elements": sum(m["elements"][1] - m["elements"][0] for m in messages),
        }

    return Case("player", state, flags, expected)


def stages_case(chance: random.Random) -> Case:
    shards, copies = chance.randint(1, 64), chance.randint(1, 8)
    millions = chance.randint(1, 400_000)
    state = {
        "billions": millions / 1000,
        "ranks": shards * copies,
        "node_size": shards,
        "precision": chance.choice(["bf16-mixed", "fp32", "bf16-mixed-fp32grads"]),
    }
    flags = [
        "04_zero",
        "--estimate",
        f"{millions}M",
        "--dp",
        str(shards * copies),
        "--precision",
        state["precision"],
        "--json",
    ]
    if copies > 1:
        flags += ["--hybrid-shard", str(shards)]

    def expected(answer: dict) -> dict:
        numbers = {}
        for stage in answer["stages"]:
            numbers[f"total_{stage['stage']}"] = stage["bytes"]["total"]
            numbers[f"largest_{stage['stage']}"] = stage["largest_model_80gb"]
            numbers[f"sent_{stage['stage']}"] = stage["sent_elements"]["total"]
        return numbers

    return Case("stages", state, flags, expected)


def pipeline_case(chance: random.Random) -> Case:
    stages = chance.randint(1, 6)
    state = {
        "schedule": chance.choice(
            [
                "naive",
                "afab",
                "1f1b",
                "interleaved:2",
                "zero-bubble-h1",
                "zero-bubble-h2",
                "zb-v",
                "dualpipe-v",
            ]
        ),
        "stages": stages,
        "micro_batches": stages * chance.randint(2, 5),
        "forward": chance.randint(1, 9) / 4,
        "backward_input": chance.randint(1, 9) / 4,
        "backward_weight": chance.randint(1, 9) / 4,
        "head": chance.randint(0, 4) / 4,
        "latency": chance.randint(0, 4) / 8,
        "message": chance.randint(0, 4) / 8,
    }
    flags = [
        "07_pipeline_parallel",
        "--pp-table",
        str(stages),
        "--pp-table-micro-batches",
        str(state["micro_batches"]),
        "--pp-table-schedules",
        state["schedule"],
        "--pp-table-gantt",
        "{}",
    ]
    for name in ("forward", "backward_input", "backward_weight", "head", "latency", "message"):
        flags += [f"--pp-table-{name.replace('_', '-')}", str(state[name])]

    def expected(answer: dict) -> dict:
        return {
            name: answer[name] for name in ("seconds", "bubble_over_ideal", "bubble_over_total")
        } | {"peak": max(answer["peak_activations"]) / answer["chunks"]}

    return Case("pipeline", state, flags, expected)


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
