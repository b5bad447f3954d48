"""Hugging Face's models: random folders, and their training in PyTorch, in f64 from end to end.

transformers computes norms, rotary angles and the loss in f32 whatever the weights are. Here the
model's own modules compute them in f64, by the same formulas; everything else is theirs.
"""

import math

import torch
from transformers import (AutoModelForCausalLM, DeepseekV3Config, LlamaConfig, MistralConfig,
                          MixtralConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig)

# Llama 3.2's, but for sequences that are as short as those here: some rotations are scaled, some are
# not, and some partly.
SCALED = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 24}
EXPERTS = {"num_experts_per_tok": 2, "output_router_logits": False}
KINDS = {"llama": (LlamaConfig, {}),
         "llama 3.2": (LlamaConfig, {"rope": SCALED}),
         "mistral": (MistralConfig, {"sliding_window": 5}),
         "qwen2.5": (Qwen2Config, {}),
         "qwen3": (Qwen3Config, {"head_dim": 12}),
         # Latents, and no experts; its code has one epsilon for the norms of latents.
         "deepseek-v3": (DeepseekV3Config, {"kv_lora_rank": 10, "q_lora_rank": 14, "qk_nope_head_dim": 8,
                                            "qk_rope_head_dim": 4, "v_head_dim": 6, "rms_norm_eps": 1e-6,
                                            "rope_interleave": False}),
         "mixtral": (MixtralConfig, EXPERTS | {"num_local_experts": 4}),
         "qwen3-moe": (Qwen3MoeConfig, EXPERTS | {"num_experts": 4, "moe_intermediate_size": 16,
                                                  "head_dim": 12, "norm_topk_prob": True})}
torch.set_default_dtype(torch.float32)


def random_config(random, kind="llama", rope=None, **changes):
    make, of_kind = KINDS[kind]
    of_kind = dict(of_kind)
    rope = rope or of_kind.pop("rope", None) or {"rope_type": "default"}
    heads = random.choice([4, 8])
    sizes = {"vocab_size": random.randint(257, 400), "hidden_size": heads * random.choice([4, 8]),
             "intermediate_size": 8 * random.randint(3, 9), "num_hidden_layers": random.randint(1, 3),
             "num_attention_heads": heads, "num_key_value_heads": random.choice([2, 4]),
             "max_position_embeddings": 64, "rms_norm_eps": random.choice([1e-6, 3e-5]),
             "rope_parameters": rope | {"rope_theta": random.choice([1e4, 5e5])}}
    sizes |= of_kind | changes
    if kind == "deepseek-v3":
        sizes |= {"num_key_value_heads": heads, "first_k_dense_replace": sizes["num_hidden_layers"]}
    return make(**sizes)


def save_random(folder, random, kind="llama", tied=False, dtype=torch.float32, max_shard_size="1GB",
                **changes):
    """A model with random weights, also of its norms and biases, saved by transformers."""
    torch.manual_seed(random.randint(0, 2**31))
    config = random_config(random, kind, tie_word_embeddings=tied, **changes)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or "bias" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    return model.config


class Norm(torch.nn.Module):
    def __init__(self, theirs):
        super().__init__()
        self.weight, self.epsilon = theirs.weight, theirs.variance_epsilon

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)


class Router(torch.nn.Module):
    """A softmax over all experts, the best of them, their weights divided by the sum."""

    def __init__(self, theirs):
        super().__init__()
        self.weight, self.top_k = theirs.weight, theirs.top_k

    def forward(self, x):
        logits = torch.nn.functional.linear(x.reshape(-1, x.shape[-1]), self.weight)
        scores, indices = torch.topk(torch.softmax(logits, dim=-1), self.top_k, dim=-1)
        return logits, scores / scores.sum(dim=-1, keepdim=True), indices


def scaled(frequency, rope):
    """As transformers' _compute_llama3_parameters says it, one frequency at a time."""
    wave = 2 * math.pi / frequency
    original = rope["original_max_position_embeddings"]
    if wave < original / rope["high_freq_factor"]:
        return frequency
    if wave > original / rope["low_freq_factor"]:
        return frequency / rope["factor"]
    smooth = (original / wave - rope["low_freq_factor"]) / (
        rope["high_freq_factor"] - rope["low_freq_factor"])
    return (1 - smooth) * frequency / rope["factor"] + smooth * frequency


class Rotary(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        rope = config.rope_parameters
        frequencies = [rope["rope_theta"] ** -(i / head_dim) for i in range(0, head_dim, 2)]
        if rope["rope_type"] == "llama3":
            frequencies = [scaled(frequency, rope) for frequency in frequencies]
        self.frequencies = torch.tensor(frequencies, dtype=torch.float64)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].to(torch.float64) * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def load_f64(folder):
    return in_f64(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64,
                                                       attn_implementation="sdpa",
                                                       experts_implementation="eager"))


def in_f64(model):
    """A model that computes in f64 what transformers does in f32."""
    model.model.rotary_emb = Rotary(model.config)
    model.model.norm = Norm(model.model.norm)
    for layer in model.model.layers:
        layer.input_layernorm = Norm(layer.input_layernorm)
        layer.post_attention_layernorm = Norm(layer.post_attention_layernorm)
        for name in ("q_norm", "k_norm", "q_a_layernorm", "kv_a_layernorm"):
            if getattr(layer.self_attn, name, None) is not None:
                setattr(layer.self_attn, name, Norm(getattr(layer.self_attn, name)))
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate = Router(layer.mlp.gate)
    return model


def loss_of(model, tokens, targets):
    logits = model(torch.from_numpy(tokens)).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                             torch.from_numpy(targets).flatten())


def learning_rate(step, peak, warmup, steps):
    """Warm-up, then a cosine down to a tenth; 1 is the first step."""
    if step < warmup:
        return peak * step / warmup
    if steps <= warmup:
        return peak
    return peak * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))))


def train(model, batches, peak=1e-3, warmup=1, clip=1.0):
    """AdamW over the batches; the losses, and the norm of each step's gradient."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": vectors, "weight_decay": 0.0}],
                                  lr=peak, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step, (tokens, targets) in enumerate(batches, start=1):
        loss = loss_of(model, tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))
        if norm > clip:  # max / norm, without the 1e-6 that PyTorch adds to the norm
            for parameter in model.parameters():
                parameter.grad.mul_(clip / norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, peak, warmup, len(batches))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms
