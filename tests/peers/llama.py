"""Hugging Face's Llama: random folders, and its training in PyTorch, in f64 from end to end.

transformers computes norms, rotary angles and the loss in f32 whatever the weights are. Here the
model's own modules compute them in f64, by the same formulas; everything else is theirs.
"""

import math

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_default_dtype(torch.float32)


def random_config(random, **changes):
    heads = random.choice([4, 8])
    sizes = {"vocab_size": random.randint(257, 400), "hidden_size": heads * random.choice([4, 8]),
             "intermediate_size": 8 * random.randint(3, 9), "num_hidden_layers": random.randint(1, 3),
             "num_attention_heads": heads, "num_key_value_heads": random.choice([2, 4]),
             "max_position_embeddings": 64, "rms_norm_eps": random.choice([1e-6, 3e-5]),
             "rope_parameters": {"rope_theta": random.choice([1e4, 5e5]), "rope_type": "default"}}
    return LlamaConfig(**(sizes | changes))


def save_random(folder, random, tied=False, dtype=torch.float32, max_shard_size="1GB"):
    """A model with random weights, also of its norms, saved by transformers."""
    torch.manual_seed(random.randint(0, 2**31))
    model = LlamaForCausalLM(random_config(random, tie_word_embeddings=tied))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    return model.config


class Norm(torch.nn.Module):
    def __init__(self, theirs):
        super().__init__()
        self.weight, self.epsilon = theirs.weight, theirs.variance_epsilon

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)


class Rotary(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        head_dim = config.hidden_size // config.num_attention_heads
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.frequencies = config.rope_parameters["rope_theta"] ** -exponents

    def forward(self, x, position_ids):
        angles = position_ids[..., None].to(torch.float64) * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def load_f64(folder):
    return in_f64(LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64,
                                                   attn_implementation="sdpa"))


def in_f64(model):
    """A Llama, or a Mixtral but for its router, that computes in f64 what transformers does in f32."""
    model.model.rotary_emb = Rotary(model.config)
    model.model.norm = Norm(model.model.norm)
    for layer in model.model.layers:
        layer.input_layernorm = Norm(layer.input_layernorm)
        layer.post_attention_layernorm = Norm(layer.post_attention_layernorm)
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
