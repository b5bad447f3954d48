#!/usr/bin/env python3
"""Says since when two trainings differ: the first step, the tensors, the elements, and the ranks that wrote them.

    ./workbook compare-runs A B

A and B are folders that --checkpoint has written (with --save-every 1: of every step), or files of --metrics.
Layouts may differ: weights are compared as a whole, an optimizer's states piece by piece wherever they stand.
Exits with 0 when all bits are equal, with 1 when some are not, with 2 when that cannot be said.
"""

import json
import pathlib
import struct
import sys
from array import array

# How numbers are read, and how they are compared: as bits.
FORMATS = {"F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2), "BF16": (None, 2), "I64": ("q", 8), "I32": ("i", 4)}

MOST_LINES = 6  # of weights, and of states


class Unusable(Exception):
    """What was given is no run."""


def numbers(data, dtype):
    """The numbers that bytes stand for."""
    code, _ = FORMATS[dtype]
    if code is None:  # bf16 is the upper half of an f32
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    if code == "e":
        return [number for number, in struct.iter_unpack("<e", data)]
    return array(code, data)


def tensors_of(file):
    """{name: (dtype, shape, first byte in the file, bytes)} of a safetensors file."""
    raw = file.read_bytes()
    try:
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + length])
        return {name: (entry["dtype"], entry["shape"], 8 + length + entry["data_offsets"][0],
                       raw[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
                for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{file} is no safetensors file ({error}). Save the checkpoint again.") from None


class Step:
    """What a checkpoint holds of a step."""

    def __init__(self, folder):
        self.folder = folder
        self.weights = tensors_of(folder / "model.safetensors")
        self.written = []  # (first byte, last byte + 1, rank) of model.safetensors
        for file in sorted(folder.glob("parts-*-of-*.json")):
            rank = int(file.name.split("-")[1])
            for part in json.loads(file.read_text(encoding="utf-8")):
                if part["file"] == "model.safetensors":
                    self.written.append((part["offset"], part["offset"] + part["bytes"], rank))

    def states(self):
        """{(state, tensor): {element: (rank, bits)}} of the optimizer."""
        found = {}
        for file in sorted(self.folder.glob("optimizer-*-of-*.safetensors")):
            rank = int(file.name.split("-")[1])
            for name, (dtype, _, _, data) in tensors_of(file).items():
                state, _, place = name.partition("/")
                tensor, _, begin = place.rpartition("@")
                if dtype not in FORMATS or not begin.isdigit():
                    continue
                size = FORMATS[dtype][1]
                of = found.setdefault((state, tensor), {"dtype": dtype, "bits": {}})
                for i in range(len(data) // size):
                    of["bits"][int(begin) + i] = (rank, data[i * size:(i + 1) * size])
        return found

    def writer(self, byte):
        """The rank that wrote a byte of the weights."""
        return next((rank for begin, end, rank in self.written if begin <= byte < end), None)


def steps_of(folder):
    """{step: its folder}."""
    found = {int(one.name.split("-")[1]): one for one in folder.glob("step-*") if (one / "model.safetensors").exists()}
    if not found:
        raise Unusable(f"{folder} has no step-* of a checkpoint. Train with --checkpoint {folder} --save-every 1.")
    return found


def metrics_of(file):
    """{step: {"loss": ..., "grad_norm": ...}}."""
    try:
        events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return {one["step"]: {key: one[key] for key in ("loss", "grad_norm", "validation_loss") if key in one}
                for one in events if one["event"] == "step"}
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{file} is no file of --metrics ({error}).") from None


def place_in(element, shape):
    """An element's index in each dimension."""
    index = []
    for extent in reversed(shape):
        index.append(element % extent)
        element //= extent
    return list(reversed(index))


def compare_weights(name, a, b):
    """A line on a weight that differs, or None."""
    (dtype, shape, at_a, data_a), (dtype_b, shape_b, at_b, data_b) = a.weights[name], b.weights[name]
    if (dtype, shape) != (dtype_b, shape_b):
        raise Unusable(f"{name} is {dtype} {shape} in one run and {dtype_b} {shape_b} in the other: not one model.")
    if data_a == data_b:
        return None
    size = FORMATS[dtype][1]
    elements = [i for i in range(len(data_a) // size) if data_a[i * size:(i + 1) * size] != data_b[i * size:(i + 1) * size]]
    left, right = numbers(data_a, dtype), numbers(data_b, dtype)
    largest = max(abs(left[i] - right[i]) for i in elements)
    first = elements[0]
    ranks = [one.writer(at + first * size) for one, at in ((a, at_a), (b, at_b))]
    return (f"{name}: {len(elements):,} of {len(left):,} elements, by up to {largest:.1e}; the first is "
            f"{place_in(first, shape)}, {left[first]!r} of rank {ranks[0]} and {right[first]!r} of rank {ranks[1]}")


def compare_states(a, b):
    """A line for each optimizer state that differs."""
    lines = []
    left, right = a.states(), b.states()
    for key in left:
        if key not in right or left[key]["dtype"] != right[key]["dtype"]:
            continue
        common = left[key]["bits"].keys() & right[key]["bits"].keys()
        differs = sorted(i for i in common if left[key]["bits"][i][1] != right[key]["bits"][i][1])
        if differs:
            ranks = [of[key]["bits"][differs[0]][0] for of in (left, right)]
            lines.append(f"{key[0]} of {key[1]}: {len(differs):,} of {len(common):,} elements; the first is {differs[0]}, "
                         f"of rank {ranks[0]} and of rank {ranks[1]}")
    return lines


def shortened(lines):
    """The first ones, and how many more there are."""
    left_out = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return lines[:MOST_LINES] + left_out


def compare_folders(a, b):
    """What two folders of checkpoints differ in: lines, and whether they do."""
    steps_a, steps_b = steps_of(a), steps_of(b)
    common = sorted(steps_a.keys() & steps_b.keys())
    if not common:
        raise Unusable(f"{a} and {b} have no step in common. Train both with --save-every 1.")
    for step in common:
        left, right = Step(steps_a[step]), Step(steps_b[step])
        if left.weights.keys() != right.weights.keys():
            raise Unusable(f"{a} and {b} have other tensors: not one model.")
        lines = shortened([line for name in left.weights if (line := compare_weights(name, left, right))])
        lines += shortened(compare_states(left, right))
        if lines:
            before = [one for one in common if one < step]
            said = f"The first of {len(common)} saved steps that differ is step {step}" + (
                f"; step {before[-1]} is equal in every bit." if before else ".")
            return [said, *("  " + line for line in lines)], True
    return [f"All of {len(common)} saved steps are equal in every bit, weights and states."], False


def compare_metrics(a, b):
    """The same of two files of --metrics."""
    left, right = metrics_of(a), metrics_of(b)
    common = sorted(left.keys() & right.keys())
    if not common:
        raise Unusable(f"{a} and {b} have no step in common.")
    for step in common:
        differs = [key for key in left[step] if key in right[step] and left[step][key] != right[step][key]]
        if differs:
            return [f"The first of {len(common)} steps that differ is step {step}.",
                    *(f"  {key}: {left[step][key]!r} and {right[step][key]!r}" for key in differs)], True
    return [f"All of {len(common)} steps have the same numbers, to the last bit."], False


def main():
    """The command line."""
    words = sys.argv[1:]
    if len(words) != 2 or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    a, b = (pathlib.Path(word) for word in words)
    try:
        for one in (a, b):
            if not one.exists():
                raise Unusable(f"there is no {one}.")
        if a.is_dir() != b.is_dir():
            raise Unusable("one is a folder and one a file. Give two folders of --checkpoint, or two files of --metrics.")
        lines, differ = compare_folders(a, b) if a.is_dir() else compare_metrics(a, b)
    except (Unusable, OSError) as error:
        print(f"compare-runs: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
