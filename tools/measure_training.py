"""Times PyTorch's training step of bench_train_step's models, for measure_gpu.py.

    measure_training.py MODEL [eager|compile] [--micro-batch N] [--steps N] [--recompute]

MODEL is gpt2-124m or llama-1b: the same Llama, in bf16 with f32 weights (autocast), scaled-dot-product
attention, and the fused AdamW. Prints one line of JSON; exits 77, "skipped", without PyTorch or a GPU.
"""

import argparse
import json
import statistics
import sys
import time

SKIPPED = 77
WARM_UP = 5
PEAK_TFLOPS = 989  # dense bf16 of an H100 SXM, by its data sheet
# layers, hidden, heads, key/value heads, ffn, tokens, vocabulary; the output matrix is the token table
MODELS = {"tiny": (2, 64, 4, 2, 96, 32, 256),
          "gpt2-124m": (12, 768, 12, 12, 2048, 1024, 50304),
          "llama-1b": (16, 2048, 32, 8, 8192, 4096, 128256)}


def flops_per_token(shape, parameters):
    """6 per weight of the products and 12 L h s for attention (PaLM, app. B): as bench_train_step."""
    layers, hidden, _, _, _, tokens, _ = shape
    return 6.0 * parameters + 12.0 * layers * hidden * tokens


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def make_model(torch, shape, recompute):
    """A Llama of torch.nn's parts."""
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint
    layers, hidden, heads, kv_heads, ffn, tokens, vocabulary = shape
    width = hidden // heads

    def rotated(x, cosines, sines):
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.ffn_norm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
            self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * width, bias=False)
            self.o = nn.Linear(hidden, hidden, bias=False)
            self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
            self.down = nn.Linear(ffn, hidden, bias=False)

        def forward(self, x, cosines, sines):
            batch, length, _ = x.shape
            qkv = self.qkv(self.attention_norm(x)).view(batch, length, -1, width).transpose(1, 2)
            q, k, v = qkv.split((heads, kv_heads, kv_heads), dim=1)
            q, k = rotated(q, cosines, sines), rotated(k, cosines, sines)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                        enable_gqa=heads != kv_heads)
            x = x + self.o(y.transpose(1, 2).reshape(batch, length, hidden))
            gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
            return x + self.down(functional.silu(gate) * up)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.RMSNorm(hidden)
            angles = torch.outer(torch.arange(tokens), 10000.0 ** (-torch.arange(0, width, 2) / width))
            self.register_buffer("cosines", angles.cos())
            self.register_buffer("sines", angles.sin())

        def forward(self, ids, targets):
            x = self.embedding(ids)
            for block in self.blocks:
                if recompute:
                    x = checkpoint(block, x, self.cosines, self.sines, use_reentrant=False)
                else:
                    x = block(x, self.cosines, self.sines)
            logits = functional.linear(self.norm(x), self.embedding.weight)
            return functional.cross_entropy(logits.view(-1, vocabulary).float(), targets.view(-1))

    return Llama()


def measure(torch, arguments):
    """Tokens per second: the median over the steps, each waited for."""
    shape = MODELS[arguments.model]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    model = make_model(torch, shape, arguments.recompute).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=device == "cuda")
    run = torch.compile(model) if arguments.how == "compile" else model
    ids = torch.randint(shape[-1], (arguments.micro_batch, shape[5] + 1), device=device)
    seconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        last = loss.item()
        wait()
        seconds.append(time.perf_counter() - begin)
    tokens = arguments.micro_batch * shape[5]
    rate = tokens / statistics.median(seconds[min(WARM_UP, len(seconds) - 1):])
    flops = flops_per_token(shape, parameters)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return {"model": arguments.model, "parameters": parameters,
            "program": f"PyTorch {torch.__version__} {arguments.how}", "precision": "bf16",
            "tokens_per_step": tokens, "tokens_per_second": rate, "teraflops": flops * rate / 1e12,
            "mfu": flops * rate / (PEAK_TFLOPS * 1e12), "peak_bytes": peak, "last_loss": last}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("how", nargs="?", choices=("eager", "compile"), default="eager")
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="also without a GPU: to try it out")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        skip("there is no PyTorch")
    if not torch.cuda.is_available() and not arguments.cpu:
        skip("PyTorch finds no GPU")
    print(json.dumps(measure(torch, arguments)))


if __name__ == "__main__":
    main()
