"""The first moments of AdamW in a checkpoint: after one step they are the gradient, whatever the layout."""

import array
import json
import math
import struct

BETA1 = 0.9
TYPES = {"F64": "d", "F32": "f"}
# What a part of a weight's name says of it; the first that fits.
KINDS = (("experts.", "experts"), (".gate.", "router"), ("norm.", "norms"), ("q_proj", "queries"),
         ("k_proj", "keys and values"), ("v_proj", "keys and values"), ("o_proj", "outputs of attention"),
         ("mlp.", "feed-forward"), ("embed_tokens", "embedding"), ("lm_head", "output"))


def kind_of(name):
    return next((kind for part, kind in KINDS if part in name), "other weights")


def norms(folder, step):
    """{kind of weights: norm of what the optimizer got}: of the first step's gradient, as it was after
    clipping; of a later step, of its first moment."""
    squares = {}
    for path in sorted(folder.glob("optimizer-*.safetensors")):
        for name, numbers in tensors(path, "exp_avg/"):
            kind = kind_of(name)
            squares[kind] = squares.get(kind, 0.0) + math.fsum(x * x for x in numbers)
    scale = 1 - BETA1 if step == 1 else 1
    order = [kind for _, kind in KINDS] + ["other weights"]
    return {kind: math.sqrt(squares[kind]) / scale for kind in sorted(squares, key=order.index)}


def tensors(path, prefix):
    """(name, numbers) of a safetensors file's tensors whose names begin so."""
    content = path.read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    for name, entry in json.loads(content[8:begin]).items():
        if name.startswith(prefix):
            first, last = (begin + offset for offset in entry["data_offsets"])
            numbers = array.array(TYPES[entry["dtype"]])
            numbers.frombytes(content[first:last])
            yield name, numbers
