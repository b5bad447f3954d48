"""Times PyTorch's attention at the sizes of chapter 09's ladder, for measure_gpu.py.

    measure_sdpa.py    prints a line for each size, mask and way; 77, "skipped", without PyTorch or a GPU
"""

import sys

SKIPPED = 77
HEADS, HEAD_DIM = 16, 128
SIZES = ((4, 4096), (1, 16384))  # batch, tokens
LAUNCHES = 20


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def milliseconds(torch, function):
    """The median of some launches, after 0.2 seconds of others."""
    times = []
    total = 0.0
    while len(times) < LAUNCHES:
        first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        function()
        second.record()
        torch.cuda.synchronize()
        total += first.elapsed_time(second)
        if total > 200.0:
            times.append(first.elapsed_time(second))
    return sorted(times)[LAUNCHES // 2]


def measure(torch, backend, batch, tokens, is_causal):
    """TFLOP/s of the forward pass and of the backward pass."""
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    q, k, v = (torch.randn(batch, HEADS, tokens, HEAD_DIM, device="cuda", dtype=torch.bfloat16,
                           requires_grad=True) for _ in range(3))
    operations = 4.0 * batch * HEADS * HEAD_DIM * tokens * tokens / (2 if is_causal else 1)
    with sdpa_kernel(backend):
        forward = milliseconds(
            torch, lambda: scaled_dot_product_attention(q, k, v, is_causal=is_causal))
        o = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        d_o = torch.randn_like(o)
        backward = milliseconds(
            torch, lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True))
    return operations / forward / 1e9, 2.5 * operations / backward / 1e9


def main():
    try:
        import torch
    except ImportError:
        skip("there is no PyTorch")
    if not torch.cuda.is_available():
        skip("PyTorch finds no GPU")
    from torch.nn.attention import SDPBackend
    print(f"PyTorch {torch.__version__}, {HEADS} heads of {HEAD_DIM}, bf16, TFLOP/s")
    for batch, tokens in SIZES:
        for is_causal in (True, False):
            for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
                where = f"{batch}x{tokens} {'causal' if is_causal else 'full'} {backend.name}"
                try:
                    forward, backward = measure(torch, backend, batch, tokens, is_causal)
                    print(f"{where}: forward {forward:.1f}, backward {backward:.1f}", flush=True)
                except RuntimeError as error:
                    print(f"{where}: not available: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
