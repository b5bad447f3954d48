"""The stepper: a block's step through the ranks, as chapter 11's `--step-through` tells it while the site is
built, with the line of code beside each deed. Recorded and not computed in the browser: what a step does is the
whole trainer, and WebAssembly has neither its threads nor its exceptions."""

import base64
import json
import re
import shlex
import subprocess
import zlib
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

COMMON = "--seq 4096 --micro-batch 1 --on dgx-h100"
DENSE = "--model llama-8b"
CONTEXT = 3
"""Lines of code before and behind the one that counts."""


@dataclass(frozen=True)
class Layout:
    """A step that can be walked through."""

    name: str
    title: str
    flags: str
    about: str


LAYOUTS = [
    Layout("tp", "tp 2", f"{DENSE} --layers 1 --tp 2 --global-batch 1",
           "Each matrix is cut in two; both ranks have every token."),
    Layout("sp", "tp 2 with sp", f"{DENSE} --layers 1 --tp 2 --sp on --global-batch 1",
           "As before, and between the matrices each rank has half of the tokens."),
    Layout("sp4", "tp 4 with sp", f"{DENSE} --layers 1 --tp 4 --sp on --global-batch 1",
           "Each matrix in four."),
    Layout("cp", "cp 2, a ring", f"{DENSE} --layers 1 --cp 2 --global-batch 1",
           "Each rank has an early and a late chunk of the sequence; keys and values travel round."),
    Layout("ulysses", "cp 2, tokens for heads", f"{DENSE} --layers 1 --cp 2 --cp-method ulysses --global-batch 1",
           "For attention, tokens are exchanged for heads."),
    Layout("pp", "pp 2", f"{DENSE} --layers 2 --pp 2 --global-batch 4",
           "A block on each rank; four micro-batches pass in the order 1F1B."),
    Layout("pp4", "pp 4", f"{DENSE} --layers 4 --pp 4 --global-batch 4", "Four stages of one block."),
    Layout("ep", "ep 2", "--model mixtral-8x7b --layers 1 --dp 2 --ep 2 --global-batch 2",
           "Four of eight experts on each rank; tokens travel to their experts and back."),
    Layout("dp", "dp 2", f"{DENSE} --layers 1 --dp 2 --global-batch 2",
           "Both ranks have the whole model, and a sequence each."),
    Layout("zero1", "dp 2 with ZeRO-1", f"{DENSE} --layers 1 --dp 2 --zero 1 --global-batch 2",
           "Each rank updates half of the weights."),
    Layout("zero3", "dp 2 with ZeRO-3", f"{DENSE} --layers 1 --dp 2 --zero 3 --global-batch 2",
           "Each rank keeps half of the weights, and gathers a unit before it is used."),
    Layout("all", "tp 2, sp, cp 2, dp 2, ZeRO-3", f"{DENSE} --layers 1 --tp 2 --sp on --cp 2 --dp 2 --zero 3 --global-batch 2",
           "Four axes on eight ranks."),
]


@dataclass(frozen=True)
class Rule:
    """What a deed has to be for a line of code to be the one that does it. Patterns are whole matches; a
    value that is left out may be anything."""

    file: str
    line: str
    where: dict = field(default_factory=dict)
    behind: int = CONTEXT
    """Lines that are shown behind it."""


def _exchange(file: str, line: str, label: str, kind: str = ".*", **more) -> Rule:
    return Rule(file, line, {"exchange": kind, "label": label, **more})


_SP = "solutions/05_tensor_sequence_parallel/sequence_region.cpp"
_RING = "solutions/06_context_parallel"
_LINKS = "chapters/07_pipeline_parallel/execution/pipeline_links.cpp"
_VOCABULARY = "chapters/05_tensor_sequence_parallel/vocabulary/vocabulary_layers.cpp"
_REGION = "chapters/05_tensor_sequence_parallel/region.cpp"
_MOE = "chapters/08_expert_parallel/moe_layer.cpp"
_BLOCK = "common/nn/transformer_block.cpp"
_LINEAR = "common/nn/layers/linear.cpp"
_TP = "solutions/05_tensor_sequence_parallel"
CODE = [
    _exchange(_SP, "SequenceRegion::enter(const", "input", "all-gather"),
    _exchange(_SP, "SequenceRegion::enter_backward(const", "input gradient", "reduce-scatter"),
    _exchange(_SP, "SequenceRegion::leave(const", "output", "reduce-scatter"),
    _exchange(_SP, "SequenceRegion::leave_backward(const", "output gradient", "all-gather"),
    _exchange(_REGION, '.labeled("input gradient").all_reduce', "input gradient", "all-reduce"),
    _exchange(_REGION, '.labeled("output").all_reduce', "output", "all-reduce", group="tp"),
    _exchange(_VOCABULARY, 'labeled("highest logit").all_reduce(highest', "highest logit"),
    _exchange(_VOCABULARY, 'labeled("sum of exponentials").all_reduce(sums)', "sum of exponentials"),
    _exchange(f"{_TP}/partial_gradients.cpp", 'labeled("gradients of copies")', "gradients of copies"),
    _exchange("chapters/03_data_parallel/bucket_exchange.cpp", "dp_.all_reduce(bucket)", "bucket .*", "all-reduce"),
    _exchange("solutions/04_zero/zero_step.cpp", "groups_.shards.reduce_scatter(bucket, shard_)", "reduce bucket .*", "reduce-scatter"),
    _exchange("solutions/04_zero/shard_reducer.cpp", "labeled.reduce_scatter(flat, own)", "reduce .*", "reduce-scatter"),
    _exchange("solutions/04_zero/zero_step.cpp", 'shards.labeled("weights").all_gather', "weights", "all-gather"),
    _exchange("solutions/04_zero/unit_weights.cpp", "shards_.all_gather(shard_, whole_)", "gather .*", "all-gather"),
    _exchange("solutions/08_expert_parallel/dispatch_counts.cpp", 'ep.labeled("dispatch counts")', "dispatch counts"),
    _exchange("chapters/08_expert_parallel/moe/expert_exchange.cpp", "counts.send_rows, counts.receive_rows", "dispatch", group="ep"),
    _exchange("chapters/08_expert_parallel/moe/expert_exchange.cpp", "counts.receive_rows, counts.send_rows", "combine", group="ep"),
    _exchange("chapters/08_expert_parallel/balancing/expert_observer.cpp", 'labeled("expert loads")', "expert loads"),
    _exchange("chapters/06_context_parallel/attention_methods/head_scattered_attention.cpp", "group.ranks.labeled(label).all_to_all", ".*", "all-to-all", group="cp"),
    _exchange("common/train/step.cpp", 'labeled("loss and norm")', "loss and norm"),
    Rule(_LINKS, "sends_.push_back(pp_.labeled", {"to": ".*", "group": "pp"}),
    Rule(_LINKS, "arrival.work.wait();", {"from": ".*", "group": "pp"}),
    Rule(f"{_RING}/ring_forward.cpp", "ring_shift(here.both(), next.both(), hops)", {"to": ".*", "group": "cp", "pass": "forward"}),
    Rule(f"{_RING}/ring_forward.cpp", "shift.wait();", {"from": ".*", "group": "cp", "pass": "forward"}),
    Rule(f"{_RING}/ring_backward.cpp", "for (std::size_t i = 0;", {"to": ".*", "group": "cp", "pass": "backward"}, behind=20),
    Rule(f"{_RING}/ring_backward.cpp", "d_shift.wait();  // or", {"from": ".*", "group": "cp", "pass": "backward"}),
    Rule(f"{_TP}/column_parallel.cpp", "ops::matmul(as_matrix(all)", {"works": "matmul.*", "kind": "column_linear", "pass": "forward", "tp": "yes"}),
    Rule(f"{_TP}/column_parallel.cpp", "ops::matmul_into(as_matrix(part)", {"works": "matmul.*", "kind": "column_linear", "pass": "backward", "tp": "yes"}),
    Rule(f"{_TP}/row_parallel.cpp", "ops::matmul(as_matrix(x)", {"works": "matmul.*", "kind": "row_linear", "pass": "forward", "tp": "yes"}),
    Rule(f"{_TP}/row_parallel.cpp", "ops::matmul(as_matrix(d_all)", {"works": "matmul.*", "kind": "row_linear", "pass": "backward", "tp": "yes"}),
    Rule(_LINEAR, "const Tensor y = ops::matmul(rows", {"works": "matmul.*", "kind": "(column|row)_linear", "pass": "forward"}),
    Rule(_LINEAR, "ops::matmul_into(as_matrix(d_x)", {"works": "matmul.*", "kind": "(column|row)_linear", "pass": "backward"}),
    Rule(f"{_RING}/ring_forward.cpp", "queries.attend(partial, here", {"works": ".*merge_attention.*", "kind": "attention_core"}),
    Rule(f"{_RING}/ring_backward.cpp", "d_output, whole, here.at(ring.chunks[owner])", {"works": ".*attention_backward.*add.*", "kind": "attention_core"}),
    Rule("common/nn/layers/attention_layer.cpp", "ops::attention(query, key, value", {"works": ".*attention", "kind": "attention_core", "pass": "forward"}),
    Rule("common/nn/layers/attention_layer.cpp", "ops::attention_backward(d_output", {"works": ".*attention_backward.*", "kind": "attention_core"}),
    Rule("common/nn/layers/norm.cpp", "auto [y, reciprocal_rms] = ops::rms_norm", {"works": "rms_norm", "kind": "norm"}),
    Rule("common/nn/layers/norm.cpp", "return ops::rms_norm_backward", {"works": "rms_norm_backward.*", "kind": "norm"}),
    Rule("common/nn/layers/feed_forward.cpp", "const Tensor product = ops::swiglu", {"works": "swiglu"}),
    Rule("common/nn/layers/feed_forward.cpp", "ops::swiglu_backward(d_product", {"works": "swiglu_backward"}),
    Rule(_BLOCK, "ops::add_into(residual, x);", {"works": "add", "phase": "forward.*"}),
    Rule(_BLOCK, "ops::add_into(d_residual, d_y);", {"works": "add", "phase": "backward.*"}),
    Rule("common/nn/layers/embedding_layer.cpp", "return ops::embedding(table_", {"works": "embedding"}),
    Rule("common/nn/layers/embedding_layer.cpp", "ops::embedding_backward_into(grad", {"works": ".*embedding_backward"}),
    Rule("common/nn/layer_factory.cpp", "loss = ops::cross_entropy_into_gradient(", {"works": "cross_entropy"}),
    Rule(_MOE, "const Tensor outputs = experts_.forward(", {"works": ".*swiglu;.*"}),
    Rule(_MOE, "exchange_.dispatch(rows_of_tokens(rows", {"works": ".*take_rows", "phase": "forward.*"}),
    Rule(_MOE, "Tensor y = tokens_of_rows(combined", {"works": ".*sum_rows.*", "phase": "forward.*"}),
    Rule(_MOE, "const Decision decision = router_.forward(", {"works": "matmul.*copy to the host", "phase": "forward.*"}),
]
"""The first rule that fits a deed says where it is done."""


class Codes:
    """The excerpts that deeds point to, each once."""

    def __init__(self, root: Path, href=lambda path, fragment: ""):
        self.root, self.href = root, href
        self.excerpts: list[dict] = []
        self._places: dict[int, int] = {}

    def of(self, deed: dict, story: dict) -> int | None:
        """The number of the excerpt for a deed; None for operations that no rule names.

        @raises LookupError for what travels without a rule, and for a line that is not there once
        """
        facts = facts_of(deed, story)
        for number, rule in enumerate(CODE):
            if all(name in facts and re.fullmatch(pattern, facts[name]) for name, pattern in rule.where.items()):
                if number not in self._places:
                    self._places[number] = len(self.excerpts)
                    self.excerpts.append(self.excerpt(rule))
                return self._places[number]
        if "works" in deed:
            return None
        raise LookupError(f"tools/site/stepper.py: no rule says which code does {facts}")

    def excerpt(self, rule: Rule) -> dict:
        """The line of a rule, with its neighbours."""
        lines = (self.root / rule.file).read_text(encoding="utf-8").splitlines()
        found = [i for i, line in enumerate(lines) if rule.line in line]
        if len(found) != 1:
            raise LookupError(f"tools/site/stepper.py: {rule.file} has {rule.line!r} {len(found)} times, not once")
        first = max(0, found[0] - CONTEXT)
        return {
            "file": rule.file,
            "line": found[0] + 1,
            "first": first + 1,
            "text": lines[first : found[0] + rule.behind + 1],
            "href": self.href(self.root / rule.file, f"L{found[0] + 1}"),
        }


def facts_of(deed: dict, story: dict) -> dict[str, str]:
    """What rules ask of a deed, in words."""
    facts = {key: str(deed[key]) for key in ("phase", "exchange", "group", "label", "to", "from") if key in deed}
    if "works" in deed:
        facts["works"] = "; ".join(re.sub(r", \d+ times$", "", work) for work in deed["works"])
    if "part" in deed:
        part = story["parts"][deed["part"]]
        facts |= {"kind": part["kind"], "pass": part["pass"]}
    return facts | {"tp": "yes" if "tp" in story["place"] else "no"}


def words_of(layout: Layout) -> list[str]:
    """The flags behind the program's name."""
    return shlex.split(f"{layout.flags} {COMMON} --step-through")


def told(program: Path, layout: Layout) -> dict:
    """What the program tells of a layout."""
    done = subprocess.run([program, *words_of(layout), "--step-through-json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def step_of(program: Path, layout: Layout, codes_of) -> dict:
    """What the page shows of a layout: what the program tells, and the code."""
    step = told(program, layout)
    codes = codes_of()
    for story in step["ranks"]:
        for deed in story["deeds"]:
            code = codes.of(deed, story)
            if code is not None:
                deed["code"] = code
    command = f"./workbook run 11 {' '.join(words_of(layout))}"
    return step | {"codes": codes.excerpts, "command": command, "title": layout.title, "about": layout.about}


def as_script(name: str, step: dict) -> str:
    """A script that hands a step to stepper.js: packed, as modules are."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps(step, separators=(",", ":")).encode()) + packer.flush()
    return f"workbookSteps[{json.dumps(name)}] = {json.dumps(base64.b64encode(packed).decode())};\n"


ABOUT = (
    "One step of training, deed by deed: who has which rows and columns of each tensor, what is computed, what"
    " travels in which group, how many bytes each rank has sent by then, and the line of code that does it. The"
    " model is one block of Llama 3 8B (or a few), with its real sizes, on sequences of 4,096 tokens."
)


def write_stepper_page(site) -> None:
    """The page, and what it shows; without chapter 11's program, a page that says so."""
    program = site.root / "build" / "release" / "bin" / "11_five_d"
    there = program.is_file()
    picture = site.root / "chapters/05_tensor_sequence_parallel/figures/half_block.svg"
    shown = site.shelf.picture(picture.read_bytes(), "svg+xml", "Half a block on two ranks", "picture")
    note = "" if there else "<p>Built before chapter 11's program was: there is nothing to step through.</p>"
    data = ' data-figure="stepper"' if there else ""
    names = [[layout.name, layout.title] for layout in LAYOUTS]
    body = (
        "<h1>A block, rank by rank</h1>"
        f'<p>{ABOUT}</p><section class="figure" id="figure-stepper"{data} data-layouts="{escape(json.dumps(names))}"'
        ' aria-labelledby="figure-stepper-title"><h3 id="figure-stepper-title">Step through it</h3>'
        '<p class="about">Arrow keys move the slider. Deeds stand where the program issues them; a receive, where'
        " its rank waits for it. Each round, every rank does its next deed, if those it needs are there: a row of the"
        " order, not of seconds, which <code>--trace</code> has.</p>"
        f'<div class="fallback">{shown}{note}</div></section>'
        "<h2>Where the numbers come from</h2><p>The program that trains has told all of this: the same code, on"
        " a device that computes nothing and writes down what it is asked for"
        f' (<a href="{_elsewhere(site)}">how</a>). The command of each layout stands below its picture; it'
        " prints the same as text, or with <code>--step-through-json</code> as a file that the page opens.</p>"
    )
    scripts = []
    if there:
        folder = site.output / "assets" / "steps"
        folder.mkdir(parents=True)
        for layout in LAYOUTS:
            step = step_of(program, layout, lambda: Codes(site.root, site.shelf.sources.href))
            (folder / f"{layout.name}.js").write_text(as_script(layout.name, step), encoding="utf-8")
        scripts = ["assets/figures/stepper.js"]
    site.write("stepper", "A block, rank by rank", body, figures=there, scripts=scripts)
    site.search.add("stepper.html", "", "A block, rank by rank", "Step through a block", ABOUT)


def _elsewhere(site) -> str:
    rooms = [room for chapter in site.book.chapters for room in chapter.rooms]
    return next((room.href for room in rooms if room.name.endswith("elsewhere")), "index.html")
