"""The model of common/nn in plain NumPy float64: the independent witness of its forward pass.

Written from the papers and the published Llama architecture, not from our C++: one function per
equation, whole matrices, no blocks, no cleverness. Weights are a dictionary from Hugging Face's
Llama names to arrays of shape [out_features, in_features].

Every function also takes complex arrays and continues itself analytically (only the real part picks
a maximum): the derivative by a complex step is then exact, see derivative().
"""

import numpy as np


def rms_norm(x, weight, epsilon):
    """Zhang & Sennrich 2019: x / sqrt(mean(x^2) + epsilon) * weight, over the last axis."""
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + epsilon) * weight


def rotate(x, theta):
    """Su et al. 2021, with Llama's pairing of element i with element i + head_dim / 2.

    x: [batch, seq, heads, head_dim].
    """
    seq, head_dim = x.shape[1], x.shape[3]
    half = head_dim // 2
    frequency = theta ** (-2.0 * np.arange(half) / head_dim)
    angle = np.arange(seq)[:, None] * frequency[None, :]  # [seq, half]
    cosine = np.cos(angle)[None, :, None, :]
    sine = np.sin(angle)[None, :, None, :]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def softmax(scores):
    weights = np.exp(scores - np.max(scores.real, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def attention(x, weights, prefix, config):
    """Causal self-attention; each group of query heads shares one key/value head."""
    batch, seq, hidden = x.shape
    heads, kv_heads = config["num_heads"], config["num_kv_heads"]
    head_dim = hidden // heads

    def project(name, count):
        y = x @ weights[f"{prefix}.{name}_proj.weight"].T
        return y.reshape(batch, seq, count, head_dim)

    query = rotate(project("q", heads), config["rope_theta"])
    key = rotate(project("k", kv_heads), config["rope_theta"])
    value = project("v", kv_heads)
    key = np.repeat(key, heads // kv_heads, axis=2)
    value = np.repeat(value, heads // kv_heads, axis=2)
    scores = np.einsum("bihd,bjhd->bhij", query, key) / np.sqrt(head_dim)
    future = np.triu(np.ones((seq, seq), dtype=bool), k=1)
    scores[:, :, future] = -np.inf
    mixed = np.einsum("bhij,bjhd->bihd", softmax(scores), value)
    return mixed.reshape(batch, seq, hidden) @ weights[f"{prefix}.o_proj.weight"].T


def feed_forward(x, weights, prefix):
    """Shazeer 2020: down(silu(gate(x)) * up(x))."""
    gate = x @ weights[f"{prefix}.gate_proj.weight"].T
    up = x @ weights[f"{prefix}.up_proj.weight"].T
    silu = gate / (1.0 + np.exp(-gate))
    return (silu * up) @ weights[f"{prefix}.down_proj.weight"].T


def final_hidden_states(tokens, weights, config):
    """[batch, seq] tokens to the normalised [batch, seq, hidden] that the head reads."""
    epsilon = config["norm_epsilon"]
    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_layers"]):
        prefix = f"model.layers.{layer}"
        normed = rms_norm(x, weights[f"{prefix}.input_layernorm.weight"], epsilon)
        x = x + attention(normed, weights, f"{prefix}.self_attn", config)
        normed = rms_norm(x, weights[f"{prefix}.post_attention_layernorm.weight"], epsilon)
        x = x + feed_forward(normed, weights, f"{prefix}.mlp")
    return rms_norm(x, weights["model.norm.weight"], epsilon)


def logits_of(tokens, weights, config):
    """[batch, seq] tokens to [batch, seq, vocab] logits."""
    return final_hidden_states(tokens, weights, config) @ weights["lm_head.weight"].T


def loss_of(logits, targets, normalizer):
    """Sum over tokens of -log softmax(logits)[target], divided by the normaliser."""
    highest = np.max(logits.real, axis=-1, keepdims=True)
    log_sum = np.log(np.sum(np.exp(logits - highest), axis=-1)) + highest[..., 0]
    chosen = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return np.sum(log_sum - chosen) / normalizer


def derivative(function, array, index):
    """d function() / d array[index]: the imaginary part over the step, without a difference.

    Squire & Trapp 1998, "Using complex variables to estimate derivatives of real functions". The
    array must be complex; there is no truncation and no cancellation at a step of 1e-30.
    """
    step = 1e-30
    before = array[index]
    array[index] = before + 1j * step
    slope = function().imag / step
    array[index] = before
    return float(slope)
