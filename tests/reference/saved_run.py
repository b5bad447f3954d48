"""Checkpoints that the reference tests read: written by the program, read by the format's specification.

The reader is ours no less than the writer, but in another language and from the specification alone:
https://github.com/huggingface/safetensors, "Format".
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

TYPES = {"F32": "<f4", "F64": "<f8"}


def save(folder, *flags):
    """Trains a small model on three ranks for four steps; the folder of its only checkpoint."""
    program = Path(os.environ.get("ULTRA_BUILD_DIR", "build/release")) / "bin" / "04_zero"
    if not program.exists():
        sys.exit(f"FAILED: {program} is not built")
    data = Path(__file__).parent.parent / "data" / "arithmetic.txt"
    subprocess.run([program, "--data", data, "--layers", "3", "--hidden", "48", "--heads", "6",
                    "--kv-heads", "2", "--ffn", "100", "--seq", "24", "--global-batch", "6",
                    "--micro-batch", "2", "--steps", "4", "--warmup", "1", "--dp", "3",
                    "--checkpoint", folder, *flags], check=True, stdout=subprocess.DEVNULL)
    return Path(folder) / "step-00000004"


def read_safetensors(path):
    """Name to array, and the metadata; asserts all that the specification asks for."""
    raw = Path(path).read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    assert raw[8:9] == b"{", "the header begins with a brace"
    data = raw[8 + length:]
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{name} begins at {begin}, the one before ends at {end}"
        array = np.frombuffer(data[begin:stop], dtype=TYPES[entry["dtype"]])
        arrays[name], end = array.reshape(entry["shape"]), stop
    assert end == len(data), f"{len(data) - end} bytes behind the last tensor"
    return arrays, metadata


def llama_shapes(config):
    """The tensors of Hugging Face's LlamaForCausalLM, by its config.json."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden),
              "model.norm.weight": (hidden,), "lm_head.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
            "mlp.down_proj": (hidden, ffn)}.items()}
    return shapes
