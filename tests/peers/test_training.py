"""Random folders of transformers' models, trained by the workbook in many layouts and by PyTorch:
losses, norms and weights in f64, and the way back into transformers.

Covers: common/train/weights/initial_weights.hpp, common/checkpoint/models/model_family.hpp
"""

import random
import sys
import tempfile
from pathlib import Path

import models
import numpy as np
import program
import sampler
import torch
from transformers import AutoModelForCausalLM

SEQ, BATCH, STEPS = 16, 8, 3
TEXT = Path(program.ROOT) / "tests" / "data" / "arithmetic.txt"
LAYOUTS = ("", "--dp 2", "--dp 2 --zero 1", "--dp 3 --zero 2", "--dp 2 --zero 3", "--tp 2",
           "--tp 4", "--tp 2 --sp on", "--cp 2", "--dp 2 --tp 2 --sp on --zero 2",
           "--dp 2 --zero 3 --recompute full", "--cp 2 --tp 2 --dp 2 --zero 1",
           "--dp 2 --zero 3 --offload optimizer+params", "--recompute selective")
# Every family in layouts that differ in what they do to a block.
OF_FAMILIES = ("", "--dp 2 --zero 1", "--dp 2 --zero 3 --recompute selective", "--tp 2",
               "--tp 4 --sp on", "--tp 2 --sp on --tp-overlap ring --recompute full", "--cp 2",
               "--pp 2 --schedule zero-bubble-h1", "--pp 2 --tp 2 --dp 2 --zero 1",
               "--cp 2 --tp 2 --dp 2 --zero 2")
OF_MIXTURES = ("", "--dp 2 --ep 2", "--dp 2 --ep 2 --zero 1", "--dp 2 --zero 3 --recompute selective",
               "--tp 2", "--tp 4 --sp on", "--cp 2 --ep 2", "--pp 2 --schedule 1f1b",
               "--pp 2 --tp 2 --dp 2 --ep 2 --zero 1", "--cp 2 --tp 2 --dp 2 --ep 4 --zero 2")
EXPERTS = "--experts 4 --top-k 2 --balance none"
FAMILIES = {"llama 3.2": OF_FAMILIES, "mistral": OF_FAMILIES, "qwen2.5": OF_FAMILIES, "qwen3": OF_FAMILIES,
            "deepseek-v3": OF_FAMILIES,
            "mixtral": OF_MIXTURES, "qwen3-moe": OF_MIXTURES}
# What is trained from nothing here has the names of these.
OWN = {"LlamaForCausalLM": "", "MistralForCausalLM": "--window 5",
       "Qwen2ForCausalLM": "--qkv-bias",
       "Qwen3ForCausalLM": "--qk-norm --head-dim 12",
       "DeepseekV3ForCausalLM": "--attention mla --kv-lora-rank 16 --q-lora-rank 20 --qk-nope-head-dim 12 "
                                "--qk-rope-head-dim 4 --v-head-dim 8",
       "MixtralForCausalLM": f"{EXPERTS} --expert-ffn 16",
       "Qwen3MoeForCausalLM": f"{EXPERTS} --expert-ffn 16 --qk-norm --head-dim 12"}
MODELS = ({"tied": False}, {"tied": True}, {"tied": False, "dtype": torch.bfloat16},
          {"tied": True, "dtype": torch.float16, "max_shard_size": "20KB"},
          {"tied": False, "max_shard_size": "10KB"})


def expect_near(found, expected, what, tolerance=1e-10):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"{what}: {found.shape} instead of {expected.shape}"
    worst = float(np.max(np.abs(found - expected)) / max(1e-30, np.max(np.abs(expected))))
    assert worst < tolerance, f"{what}: they differ by {worst:.2g}"


def load_back(checkpoint):
    """The weights, opened by transformers without a word of complaint."""
    model, report = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float64,
                                                         output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    return dict(model.named_parameters())


def compare_own(architecture, flags, text):
    """A training from nothing, whose checkpoint is transformers' model: the loss of the next step."""
    with tempfile.TemporaryDirectory() as out:
        events = program.train(out, "--layers", 2, "--hidden", 32, "--heads", 4, "--kv-heads", 4 if "mla" in flags else 2,
                               "--ffn", 48, "--data", TEXT, "--seq", SEQ, "--global-batch", BATCH,
                               "--micro-batch", 2, "--steps", STEPS + 1, "--save-every", STEPS,
                               "--warmup", 1, "--lr", 1e-2, "--dtype", "f64", *flags.split())
        checkpoint = Path(out) / "saved" / f"step-{STEPS:08}"
        load_back(checkpoint)
        model = models.load_f64(checkpoint)
    assert type(model).__name__ == architecture, type(model)
    with torch.no_grad():
        loss = models.loss_of(model, *sampler.batch(text, STEPS, BATCH, SEQ)).item()
    expect_near([program.losses(events)[STEPS]], [loss], f"the loss of '{flags}'")
    print(f"{architecture}: trained here, transformers has its loss", flush=True)


def compare(folder, layout, expected):
    losses, norms, weights = expected
    with tempfile.TemporaryDirectory() as out:
        flags = ["--init", folder, "--data", TEXT, "--seq", SEQ, "--global-batch", BATCH,
                 "--micro-batch", 2, "--steps", STEPS, "--warmup", 1, "--lr", 1e-3,
                 "--dtype", "f64", *layout.split()]
        events = program.train(out, *flags)
        saved = load_back(Path(out) / "saved" / f"step-{STEPS:08}")
    expect_near(program.losses(events), losses, f"losses of '{layout}'")
    expect_near([event["grad_norm"] for event in events[:-1]], norms, f"norms of '{layout}'", 1e-9)
    for name, weight in weights.items():
        expect_near(saved[name].detach(), weight.detach(), f"{name} of '{layout}'")


def main():
    seed = random.SystemRandom().randrange(2**32) if len(sys.argv) < 2 else int(sys.argv[1])
    print(f"seed {seed}; run this file with it to repeat", flush=True)
    draw = random.Random(seed)
    text = np.frombuffer(TEXT.read_bytes(), np.uint8)
    batches = [sampler.batch(text, step, BATCH, SEQ) for step in range(STEPS)]
    every = [*MODELS, *({"kind": kind, "tied": draw.random() < 0.5, "num_hidden_layers": 4} for kind in FAMILIES)]
    for number, how in enumerate(every):
        with tempfile.TemporaryDirectory() as folder:
            models.save_random(folder, draw, **how)
            files = len(list(Path(folder).glob("*.safetensors")))
            model = models.load_f64(folder)
            losses, norms = models.train(model, batches)
            expected = losses, norms, dict(model.named_parameters())
            # All layouts with the first model; of the others one step after another has its turn.
            layouts = FAMILIES[how["kind"]] if "kind" in how else LAYOUTS
            experts = EXPERTS if layouts is OF_MIXTURES else ""
            if 0 < number < len(MODELS):
                layouts = ("", *draw.sample(LAYOUTS[1:], 4))
            for layout in layouts:
                if "--tp 4" in layout and model.config.num_key_value_heads % 4 not in (0, 2):
                    continue
                compare(folder, f"{layout} {experts}", expected)
        print(f"{how}: {files} files, {len(layouts)} layouts are PyTorch's training", flush=True)
    for architecture, flags in OWN.items():
        compare_own(architecture, flags, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
