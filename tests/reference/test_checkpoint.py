"""A checkpoint's weights are the file that Hugging Face's programs expect: names, shapes, types, and the
same numbers whatever the layout that wrote them.
"""

import json
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed in", sys.executable, "(./workbook setup installs it)")
    sys.exit(77)

import saved_run


def main():
    for dtype in ("f32", "f64"):
        saved = {}
        for stage in ("0", "1", "2", "3"):
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = saved_run.save(folder, "--zero", stage, "--dtype", dtype)
                config = json.loads((checkpoint / "config.json").read_text())
                weights, metadata = saved_run.read_safetensors(checkpoint / "model.safetensors")
            assert metadata == {"format": "pt"}, metadata
            assert config["torch_dtype"] == {"f32": "float32", "f64": "float64"}[dtype]
            shapes = {name: array.shape for name, array in weights.items()}
            assert shapes == saved_run.llama_shapes(config), shapes
            assert {array.itemsize for array in weights.values()} == {int(dtype[1:]) // 8}
            saved[stage] = weights
        for stage, weights in saved.items():
            for name, array in weights.items():
                assert np.all(np.isfinite(array)), name
                if dtype == "f64":
                    worst = float(np.max(np.abs(array - saved["0"][name])))
                    assert worst < 1e-12, f"{name}: stage {stage} differs from stage 0 by {worst}"
        print(f"{dtype}: {len(saved['0'])} tensors from each of 4 stages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
