"""Hugging Face's transformers loads a checkpoint and computes what NumPy's Llama computes from it.

Exit code 77 where torch or transformers is not installed: nothing was compared.
"""

import json
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error.name} is not installed in {sys.executable}; pip install torch transformers "
          "there to compare")
    sys.exit(77)

import numpy_llama
import saved_run


def main():
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = saved_run.save(folder, "--zero", "3", "--dtype", "f64")
        hf = json.loads((checkpoint / "config.json").read_text())
        weights, _ = saved_run.read_safetensors(checkpoint / "model.safetensors")
        model, report = transformers.LlamaForCausalLM.from_pretrained(
            checkpoint, dtype=torch.float64, attn_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    config = {"num_layers": hf["num_hidden_layers"], "num_heads": hf["num_attention_heads"],
              "num_kv_heads": hf["num_key_value_heads"], "hidden_size": hf["hidden_size"],
              "rope_theta": hf["rope_theta"], "norm_epsilon": hf["rms_norm_eps"]}
    tokens = np.random.default_rng(1).integers(0, hf["vocab_size"], (2, 24))
    with torch.no_grad():
        found = model(torch.from_numpy(tokens)).logits.numpy()
    expected = numpy_llama.logits_of(tokens, weights, config)
    worst = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    print(f"transformers {transformers.__version__}: logits differ by {worst:.2g}")
    # Rotary angles and norms are computed in float32 there.
    assert worst < 1e-5
    return 0


if __name__ == "__main__":
    sys.exit(main())
