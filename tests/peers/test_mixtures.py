"""Mixtures of experts in transformers: those that are Mixtral's have its losses, the others it does not
load.

Covers: common/checkpoint/mixture_config.hpp
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
from transformers import AutoConfig, AutoModelForCausalLM, MixtralConfig, MixtralForCausalLM

SEQ, BATCH, STEPS = 16, 8, 3
TEXT = Path(program.ROOT) / "tests" / "data" / "arithmetic.txt"
MODEL = ("--layers", 2, "--hidden", 32, "--heads", 4, "--kv-heads", 2, "--ffn", 48)
MIXTURE = ("--experts", 8, "--balance", "none")
# transformers makes the affinities in f32, whatever the type of the weights.
OF_F32 = 1e-7
OTHERS = ("--router sigmoid", "--top-k 1", "--shared-experts 1", "--balance bias",
          "--capacity-factor 1.5")


def trained(folder, *flags):
    events = program.train(folder, "--data", TEXT, "--seq", SEQ, "--global-batch", BATCH,
                           "--micro-batch", 2, "--dtype", "f64", "--warmup", 1, *flags)
    return program.losses(events)


def expect_same_loss(folder, step, expected):
    text = np.frombuffer(TEXT.read_bytes(), np.uint8)
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, experts_implementation="eager", output_loading_info=True)
    assert isinstance(model, MixtralForCausalLM), type(model)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    with torch.no_grad():
        found = llama.loss_of(llama.in_f64(model), *sampler.batch(text, step, BATCH, SEQ)).item()
    assert abs(found - expected) < OF_F32 * expected, f"{found!r} instead of {expected!r}"
    print(f"transformers: {found:.9f}, the workbook: {expected:.9f}", flush=True)


def ours_in_theirs():
    for top_k in (2, 3, 8):
        with tempfile.TemporaryDirectory() as out:
            losses = trained(out, *MODEL, *MIXTURE, "--top-k", top_k, "--expert-ffn", 24,
                             "--steps", STEPS + 1, "--save-every", STEPS)
            expect_same_loss(Path(out) / "saved" / f"step-{STEPS:08}", STEPS, losses[STEPS])


def theirs_in_ours(seed):
    torch.manual_seed(seed)
    config = MixtralConfig(vocab_size=300, hidden_size=32, intermediate_size=24, num_hidden_layers=2,
                           num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                           num_local_experts=8, num_experts_per_tok=2,
                           rope_parameters={"rope_theta": 1e4, "rope_type": "default"})
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        MixtralForCausalLM(config).save_pretrained(folder)
        losses = trained(out, *MIXTURE, "--init", folder, "--steps", 1, "--lr", 0)
        expect_same_loss(folder, 0, losses[0])


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
    seed = random.SystemRandom().randrange(2**32) if len(sys.argv) < 2 else int(sys.argv[1])
    print(f"seed {seed}; run this file with it to repeat", flush=True)
    ours_in_theirs()
    theirs_in_ours(seed)
    others_are_not_loaded()
    return 0


if __name__ == "__main__":
    sys.exit(main())
