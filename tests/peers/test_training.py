"""Random Llama folders of transformers, trained by the workbook in many layouts and by PyTorch:
losses, norms and weights in f64, and the way back into transformers.

Covers: common/train/weights/initial_weights.hpp
"""

import random
import sys
import tempfile
from pathlib import Path

import llama
import numpy as np
import program
import sampler
import torch

SEQ, BATCH, STEPS = 16, 8, 3
TEXT = Path(program.ROOT) / "tests" / "data" / "arithmetic.txt"
LAYOUTS = ("", "--dp 2", "--dp 2 --zero 1", "--dp 3 --zero 2", "--dp 2 --zero 3", "--tp 2",
           "--tp 4", "--tp 2 --sp on", "--cp 2", "--dp 2 --tp 2 --sp on --zero 2",
           "--dp 2 --zero 3 --recompute full", "--cp 2 --tp 2 --dp 2 --zero 1",
           "--dp 2 --zero 3 --offload optimizer+params", "--recompute selective")
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
    model, report = llama.LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float64,
                                                           output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    return dict(model.named_parameters())


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
    for number, how in enumerate(MODELS):
        with tempfile.TemporaryDirectory() as folder:
            llama.save_random(folder, draw, **how)
            files = len(list(Path(folder).glob("*.safetensors")))
            model = llama.load_f64(folder)
            losses, norms = llama.train(model, batches)
            expected = losses, norms, dict(model.named_parameters())
            # All layouts with the first model; of the others one step after another has its turn.
            layouts = LAYOUTS if number == 0 else ("", *draw.sample(LAYOUTS[1:], 4))
            for layout in layouts:
                if "--tp 4" in layout and model.config.num_key_value_heads % 4 not in (0, 2):
                    continue
                compare(folder, layout, expected)
        print(f"{how}: {files} files, {len(layouts)} layouts are PyTorch's training", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
