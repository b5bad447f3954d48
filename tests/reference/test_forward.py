"""Compares the C++ model with NumPy's: logits, loss, and elements of the gradient.

`reference_dump FOLDER SEED` (dump.cpp) writes models of random shapes; this script computes the same
numbers from the same weights. Exit code 77: NumPy is not there, nothing was compared.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed in", sys.executable, "(./workbook setup installs it)")
    sys.exit(77)

import numpy_llama

EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}


def load(case):
    """The description and the arrays of one dumped case; see dump.cpp for the format."""
    description = json.loads((case / "case.json").read_text())
    arrays = {}
    for entry in description["arrays"]:
        raw = np.fromfile(case / entry["file"], dtype="<" + entry["dtype"])
        arrays[entry["name"]] = raw.reshape(entry["shape"])
    return description, arrays


def roundings(config, seq):
    """Length of all sums on the longest way through the model; each term may round once."""
    hidden, head_dim = config["hidden_size"], config["hidden_size"] // config["num_heads"]
    attention = hidden + head_dim + seq + hidden
    feed_forward = hidden + config["ffn_hidden_size"]
    norms = 2 * hidden
    return config["num_layers"] * (attention + feed_forward + norms) + 2 * hidden


def check(what, found, expected, tolerance):
    worst = float(np.max(np.abs(np.asarray(found, dtype=np.float64) - expected)))
    if not worst <= tolerance:
        sys.exit(f"FAILED {what}: off by {worst:.3g}, tolerance {tolerance:.3g}")
    return worst


def check_gradients(draw, name, weights, gradient, loss, noise):
    """The element of the largest gradient of a weight, and two random ones."""
    largest = np.unravel_index(np.argmax(np.abs(gradient)), gradient.shape)
    others = [tuple(draw.randrange(n) for n in gradient.shape) for _ in range(2)]
    tolerance = 1e-6 * float(np.max(np.abs(gradient))) + noise
    moved = {**weights, name: weights[name].astype(complex)}
    for index in [tuple(int(i) for i in largest), *others]:
        slope = numpy_llama.derivative(lambda: loss(moved), moved[name], index)
        check(f"gradient of {name}{list(index)}", gradient[index], slope, tolerance)


def check_case(case, draw):
    description, arrays = load(case)
    config, dtype = description["config"], description["dtype"]
    weights = {
        name[len("weight/"):]: array.astype(np.float64)
        for name, array in arrays.items()
        if name.startswith("weight/")
    }
    tokens, targets = arrays["tokens"], arrays["targets"]
    hidden = numpy_llama.final_hidden_states(tokens, weights, config)
    logits = hidden @ weights["lm_head.weight"].T
    loss = numpy_llama.loss_of(logits, targets, description["normalizer"])

    if dtype == "f64":
        tolerance = 1e-12 * float(np.max(np.abs(logits)))
    else:
        # n roundings on terms of this total size (Higham 2002, ch. 3).
        size = float(np.max(np.abs(hidden) @ np.abs(weights["lm_head.weight"]).T))
        tolerance = roundings(config, tokens.shape[1]) * EPSILON[dtype] * size
    worst = check(f"{case.name} logits", arrays["logits"], logits, tolerance)
    # The loss moves by at most the largest change of a logit, twice, per token.
    per_token = tokens.size / description["normalizer"]
    check(f"{case.name} loss", description["loss"], loss, 2 * tolerance * per_token)

    if dtype == "f64":
        # Some gradients are exactly zero (attention over one key); rounding makes them this large.
        noise = roundings(config, tokens.shape[1]) * EPSILON[dtype] * max(1.0, loss)
        for name in weights:
            check_gradients(
                draw, name, weights, arrays["gradient/" + name],
                lambda moved: numpy_llama.loss_of(
                    numpy_llama.logits_of(tokens, moved, config), targets,
                    description["normalizer"]),
                noise)
    print(f"{case.name} {dtype} logits {list(logits.shape)}: off by {worst:.2g}, "
          f"tolerance {tolerance:.2g}, loss {loss:.6f}")


def main():
    program = Path(os.environ.get("ULTRA_BUILD_DIR", "build/release")) / "tests" / "reference_dump"
    if not program.exists():
        sys.exit(f"FAILED: {program} is not built")
    seed = int(os.environ.get("ULTRA_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"seed {seed}; ULTRA_TEST_SEED={seed} repeats this run", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, str(seed)], check=True)
        cases = sorted(Path(folder).iterdir())
        if not cases:
            sys.exit("FAILED: reference_dump wrote no case")
        draw = random.Random(seed)
        for case in cases:
            check_case(case, draw)
    print(f"{len(cases)} cases agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
