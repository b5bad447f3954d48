"""Random questions for the figures, with the flags that ask the programs the same."""

import random
from collections.abc import Callable


class Case:
    """A state of a figure, and the numbers that a program, or a formula, gives for it."""

    def __init__(
        self,
        figure: str,
        state: dict,
        flags: list[str],
        expected: Callable[[dict], dict],
        texts: Callable[[dict], list[str]] = lambda answer: [],
        nearby: tuple[list[str], ...] = (),
    ):
        self.figure, self.state, self.flags, self.expected = figure, state, flags, expected
        self.texts = texts
        self.nearby = nearby
        """Flags of nearly the same questions, where an answer may hang on how sums are rounded."""


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
        "model": chance.choice(["custom", "llama-70b", "llama-405b"]),
        "seq": chance.randint(1, 30) * 64,
        "micro_batch": chance.randint(1, 9),
        "precision": chance.choice(["fp32", "fp64"]),
        "recompute": chance.choice(["none", "selective", "full"]),
    }
    if state["recompute"] == "full":
        state["recompute_every"] = chance.randint(1, 5)
    flags = [
        "01_memory",
        "--on",
        "dgx-h100",
        "--on-json",
        "--seq",
        str(state["seq"]),
        "--micro-batch",
        str(state["micro_batch"]),
        "--global-batch",
        str(state["micro_batch"]),
        "--dtype",
        {"fp32": "f32", "fp64": "f64"}[state["precision"]],
        "--recompute",
        state["recompute"],
        "--recompute-every",
        str(state.get("recompute_every", 1)),
    ]
    if state["model"] == "custom":
        state.update(model)
        for name, value in model.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
    else:
        flags += ["--model", state["model"]]

    def expected(answer: dict) -> dict:
        # What a recorded step takes, not what the figure's own formulas say.
        highest = answer["memory"][0]["highest_bytes"]
        kept = {
            name: highest[name] for name in ("parameters", "gradients", "optimizer", "activations")
        }
        return kept | {"total": sum(kept.values()), "parameters_count": answer["parameters"]}

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
        f"nodes={state['nodes']},gpus={state['gpus']},nics={state['nics']}"
        f",intra-us={state['intra_us']},intra-gb-per-second={state['intra_gb']}"
        f",inter-us={state['inter_us']},inter-gb-per-second={state['inter_gb']}"
    )
    # Messages that ask for a port at the same moment are served in the order of rounded sums.
    close = [
        machine.replace(f"{name}={state[key]},", f"{name}={state[key] * (1 + change):.12f},")
        for name, key in (("intra-us", "intra_us"), ("inter-us", "inter_us"))
        for change in (1e-9, -1e-9)
    ]
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

    nearby = tuple([one if flag == machine else flag for flag in flags] for one in close)
    return Case("costs", state, flags, expected, nearby=nearby)


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
    per = {"bf16-mixed": (2, 2, 12), "fp32": (4, 4, 8), "bf16-mixed-fp32grads": (2, 6, 12)}
    parameters = millions * 1_000_000

    def expected(answer: dict) -> dict:
        # The paper's table 1, and its section 7 for one micro-batch.
        numbers = {}
        for stage in range(4):
            kept = [
                bytes_ / (shards if stage > 2 - kind else 1)
                for kind, bytes_ in enumerate(per[state["precision"]])
            ]
            numbers[f"total_{stage}"] = sum(kept) * parameters
            numbers[f"largest_{stage}"] = 80e9 / sum(kept)
            trips = (3 if stage == 3 else 2) if stage else 0
            inside = trips * parameters * (shards - 1) / shards
            between = 2 * parameters * (copies - 1) / copies / shards
            whole = 2 * parameters * (shards * copies - 1) / (shards * copies)
            numbers[f"sent_{stage}"] = inside + between if stage else whole
        return numbers

    return Case("stages", state, [], expected)


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


def planner_case(chance: random.Random) -> Case:
    model, least = chance.choice(
        [
            ("llama-8b", 8),
            ("megatron-22b", 64),
            ("llama-70b", 128),
            ("gpt3-175b", 256),
            ("mixtral-8x7b", 64),
            ("custom", 8),
        ]
    )
    seq = chance.choice([2048, 4096, 8192])
    state = {
        "model": model,
        "cluster": chance.choice(["dgx-a100", "dgx-h100", "h200", "h100-efa"]),
        "software": chance.choice(["modern", "megatron-2023", "megatron-core", "llama3"]),
        "precision": chance.choice(["bf16-mixed", "bf16-mixed-fp32grads"]),
        "gpus": max(1, least * chance.choice([1, 4, 16, 32, 64]) // 16),
        "batch": seq * 256 * chance.randint(1, 6),
        "seq": seq,
        "shown": chance.randint(1, 4),
    }
    flags = ["11_five_d", "--plan", "--plan-json"]
    for name in ("model", "cluster", "software", "precision", "gpus", "batch", "seq"):
        flags += [f"--plan-{name}", str(state[name])]
    if model == "custom":
        heads = chance.choice([16, 32, 40])
        shape = {
            "layers": 4 * chance.randint(4, 12),
            "hidden": 64 * heads,
            "heads": heads,
            "kv_heads": chance.choice([4, 8]),
            "ffn": 256 * chance.randint(10, 60),
            "vocab": 128 * chance.randint(250, 1000),
        }
        state.update(shape)
        for name, value in shape.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]

    def expected(answer: dict) -> dict:
        numbers = {name: answer[name] for name in ("parameters", "possible", "too_large")}
        for i, layout in enumerate(answer["layouts"]):
            numbers[f"step_{i}"] = layout["step_seconds"]
            numbers[f"mfu_{i}"] = layout["mfu"]
            numbers[f"memory_{i}"] = layout["memory"]["total"]
        shown = answer["layouts"][min(state["shown"], len(answer["layouts"])) - 1]
        numbers |= {f"time_{part}": value for part, value in shown["time"].items() if value > 0}
        del shown["memory"]["total"]
        numbers |= {f"bytes_{kind}": value for kind, value in shown["memory"].items()}
        return numbers | {f"gain_{i}": one["gain"] for i, one in enumerate(answer["what_if"])}

    def texts(answer: dict) -> list[str]:
        return [
            *(layout["layout"] for layout in answer["layouts"]),
            *answer["steps"].values(),
            *(rule["advice"] for rule in answer["recipes"]),
            *(answer["export"][name].rstrip() for name in ("11_five_d", "megatron", "nanotron")),
        ]

    return Case("planner", state, flags, expected, texts)


MAKERS = (memory_case, costs_case, player_case, stages_case, pipeline_case, planner_case)
"""One for each figure that answers as a program does."""
