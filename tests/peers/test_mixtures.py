"""Mixtures of experts in transformers: those that are published ones' have their losses, the others it
does not load.

Covers: common/checkpoint/models/config_json.hpp
"""

import sys
import tempfile
from pathlib import Path

import models
import numpy as np
import program
import sampler
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SEQ, BATCH, STEPS = 16, 8, 3
TEXT = Path(program.ROOT) / "tests" / "data" / "arithmetic.txt"
MODEL = ("--layers", 2, "--hidden", 32, "--heads", 4, "--kv-heads", 2, "--ffn", 48)
MIXTURE = ("--experts", 8, "--balance", "none")
TOLERANCE = 1e-10
OTHERS = ("--router sigmoid", "--top-k 1", "--shared-experts 1", "--balance bias",
          "--capacity-factor 1.5", "--qkv-bias", "--qk-norm --shared-experts 1")


def trained(folder, *flags):
    events = program.train(folder, "--data", TEXT, "--seq", SEQ, "--global-batch", BATCH,
                           "--micro-batch", 2, "--dtype", "f64", "--warmup", 1, *flags)
    return program.losses(events)


def expect_same_loss(folder, architecture, step, expected):
    text = np.frombuffer(TEXT.read_bytes(), np.uint8)
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, experts_implementation="eager", output_loading_info=True)
    assert type(model).__name__ == architecture, type(model)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    with torch.no_grad():
        found = models.loss_of(models.in_f64(model), *sampler.batch(text, step, BATCH, SEQ)).item()
    assert abs(found - expected) < TOLERANCE * expected, f"{found!r} instead of {expected!r}"
    print(f"transformers: {found:.9f}, the workbook: {expected:.9f}", flush=True)


def ours_in_theirs():
    for architecture, flags in (("MixtralForCausalLM", ()), ("Qwen3MoeForCausalLM", ("--qk-norm",))):
        for top_k in (2, 3, 8):
            with tempfile.TemporaryDirectory() as out:
                losses = trained(out, *MODEL, *MIXTURE, *flags, "--top-k", top_k,
                                 "--expert-ffn", 24, "--steps", STEPS + 1, "--save-every", STEPS)
                expect_same_loss(Path(out) / "saved" / f"step-{STEPS:08}", architecture, STEPS,
                                 losses[STEPS])


def others_are_not_loaded():
    for flags in OTHERS:
        with tempfile.TemporaryDirectory() as out:
            trained(out, *MODEL, "--experts", 8, "--expert-ffn", 24, "--steps", 1, *flags.split())
            try:
                AutoConfig.from_pretrained(Path(out) / "saved" / "step-00000001")
            except ValueError as error:
                assert "ultra_scale_mixture" in str(error), error
            else:
                raise AssertionError(f"a mixture of {flags} was loaded")
    print(f"not loaded: {', '.join(OTHERS)}", flush=True)


def main():
    ours_in_theirs()
    others_are_not_loaded()
    return 0


if __name__ == "__main__":
    sys.exit(main())
