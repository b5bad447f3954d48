"""From a text to a model that generates: tokens by tools/tokenize_text.py, a training of the
workbook, and back to transformers with its tokenizer.

Covers: tools/tokenize_text.py
"""

import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import program
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast

TEXT = program.ROOT / "data" / "workbook.txt"
TOOL = program.ROOT / "tools" / "tokenize_text.py"


def make_tokenizer(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<s>", "</s>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(TEXT)], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>",
                            eos_token="</s>").save_pretrained(folder)
    return tokenizer


def tokenize(*arguments, exit_code=0):
    done = subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stdout + done.stderr


def expect_tokens(folder, tokenizer):
    """The file has the tokenizer's ids, in both widths, and the tool says what it does."""
    text = folder / "text"  # of several pieces
    text.write_text(2 * TEXT.read_text(encoding="utf-8"), encoding="utf-8")
    expected = np.array(tokenizer.encode(text.read_text(encoding="utf-8")).ids)
    for kind in ("u16", "u32"):
        out = folder / f"x.{kind}.bin"
        said = tokenize(folder / "model", text, out, "--tokens", kind)
        assert np.array_equal(np.fromfile(out, f"<{kind[0]}{int(kind[1:]) // 8}"), expected)
        assert f"--tokens {kind}" in said and f"{len(expected):,} tokens" in said, said
    return len(expected)


def expect_refusals(folder):
    (folder / "latin").write_bytes(b"caf\xe9")
    (folder / "empty").write_bytes(b"")
    (folder / "broken.json").write_text("{")
    out = folder / "out.bin"
    for arguments, part in (((folder / "none.json", TEXT), "does not exist"),
                            ((folder / "broken.json", TEXT), "is no tokenizer.json"),
                            ((folder, TEXT), "has no tokenizer.json"),
                            ((folder / "model", folder / "none.txt"), "does not exist"),
                            ((folder / "model", folder / "latin"), "is not UTF-8"),
                            ((folder / "model", folder / "empty"), "have no tokens")):
        said = tokenize(*arguments, out, exit_code=2)
        assert part in said and "Traceback" not in said, said
        assert not out.exists(), "no partial file"


class Complaints(logging.Handler):
    """Keeps what libraries warn about."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.found = []

    def emit(self, record):
        self.found.append(record.getMessage())


def expect_generation(checkpoint):
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    logging.getLogger("transformers").addHandler(complaints)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
        prompt = tokenizer("all-reduce", return_tensors="pt")
        prompt.pop("token_type_ids", None)
        ids = model.generate(**prompt, max_new_tokens=8, do_sample=False, pad_token_id=1)
    assert not complaints.found, complaints.found
    text = tokenizer.decode(ids[0])
    assert text.startswith("all-reduce"), text
    return text


def main():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = make_tokenizer(folder / "model")
        config = LlamaConfig(vocab_size=500, hidden_size=32, intermediate_size=48,
                             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                             max_position_embeddings=256, bos_token_id=0, eos_token_id=1)
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / "model")
        count = expect_tokens(folder, tokenizer)
        expect_refusals(folder)
        events = program.train(folder, "--init", folder / "model", "--data", folder / "x.u16.bin",
                               "--tokens", "u16", "--tp", 2, "--dp", 2, "--seq", 32, "--steps", 20,
                               "--global-batch", 8, "--micro-batch", 2,
                               "--val-data", folder / "x.u16.bin", "--val-every", 10)
        losses = program.losses(events)
        assert losses[-1] < losses[0], losses
        assert len(events[-1]["validation_losses"]) == 2, events[-1]
        text = expect_generation(folder / "saved" / "step-00000020")
    print(f"{count:,} tokens, loss {losses[0]:.3f} to {losses[-1]:.3f}, and then: {text!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
