"""What a folder of checkpoints holds, read without the program that wrote it."""

import array
import json
import math
import pathlib
import struct

PREFIX = "step-"


class Loss(Exception):
    """Something that a run had saved is gone, or is not what it was."""


class CheckpointFolder:
    """The checkpoints of one training, in the program's own format."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def steps(self):
        """The steps of the complete checkpoints, ascending."""
        return sorted(int(name.removeprefix(PREFIX)) for name in self._names()
                      if name.startswith(PREFIX))

    def newest(self):
        """The step of the newest complete checkpoint; 0 without any."""
        return max(self.steps(), default=0)

    def unfinished(self):
        """Names of what is not complete, or is being removed."""
        return [name for name in self._names() if name.startswith(".")
                and (self.path / name).is_dir()]

    def size(self):
        """Bytes of everything in the folder."""
        return sum(entry.stat().st_size for entry in self.path.rglob("*") if entry.is_file())

    def losses(self, step):
        """The losses of all steps up to that of a checkpoint, as it tells them."""
        record = json.loads((self._folder(step) / "training.json").read_text(encoding="utf-8"))
        columns = record["step_columns"]
        number, loss = columns.index("step"), columns.index("loss")
        rows = record["steps"]
        if [row[number] for row in rows] != list(range(1, step + 1)):
            raise Loss(f"{self._folder(step)} does not tell of the steps 1 to {step}, each once")
        return [row[loss] for row in rows]

    def weights(self, step):
        """{name: its numbers} of a checkpoint in f64."""
        data = (self._folder(step) / "model.safetensors").read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + length])
        weights = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            if entry["dtype"] != "F64":
                raise Loss(f"{name} has the type {entry['dtype']}, not F64")
            begin, end = entry["data_offsets"]
            numbers = array.array("d", data[8 + length + begin:8 + length + end])
            if len(numbers) != math.prod(entry["shape"]):
                raise Loss(f"{name} has {len(numbers)} numbers, not {entry['shape']}")
            weights[name] = numbers
        return weights

    def _folder(self, step):
        return self.path / f"{PREFIX}{step:08}"

    def _names(self):
        return [entry.name for entry in self.path.iterdir()] if self.path.is_dir() else []


def loss_distance(found, expected):
    """The largest relative distance of losses from those of the same steps."""
    return max((abs(a - b) / abs(b) for a, b in zip(found, expected)), default=0.0)


def weight_distance(found, expected):
    """The largest distance of a weight, relative to the largest of its tensor; infinite if one is NaN."""
    if found.keys() != expected.keys():
        raise Loss(f"the weights are {sorted(found)}, not {sorted(expected)}")
    worst = 0.0
    for name, numbers in found.items():
        largest = max(abs(value) for value in expected[name])
        if any(map(math.isnan, numbers)):
            return math.inf
        far = max(abs(a - b) for a, b in zip(numbers, expected[name], strict=True))
        worst = max(worst, far / largest)
    return worst
