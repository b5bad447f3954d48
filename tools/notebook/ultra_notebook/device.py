"""Runs a chapter's executable on a device: on a GPU where there is one, on the emulated one elsewhere."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .failures import TrainingFailed
from .training import Executable, TrainingRun

if TYPE_CHECKING:
    import pandas

TINY = (
    "--layers 2 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 --seq 16 --micro-batch 1 "
    "--global-batch 4 --steps 3 --warmup 1 --dtype f64"
)
"""What the emulated device trains in a fraction of a second, in the type whose rounding hides least."""

LARGE = (
    "--layers 8 --hidden 512 --heads 8 --kv-heads 8 --ffn 1536 --seq 256 --micro-batch 8 "
    "--global-batch 32 --steps 6 --warmup 1"
)
"""What keeps a GPU busy enough for its timeline to say something."""

NO_GPU = ("this build has no CUDA", "no NVIDIA driver", "shows no GPU")
"""What an executable says where there is no GPU; see also UNFIT."""

UNFIT = ("is too old", "has no kernels")
"""What it says of a GPU or a driver that will not do. Any other error is a failure."""


@dataclass(frozen=True)
class DeviceRun:
    """A tiny training on a device and on the CPU, and where there is a GPU a larger one on it."""

    kind: str
    """The device: "cuda" or "emulated", as --device has it."""
    cpu: TrainingRun
    """The tiny training on the CPU."""
    tiny: TrainingRun
    """The same on the device."""
    gpu: TrainingRun | None
    """The larger one; None without a GPU."""
    refusal: str = field(default="", repr=False)
    """Why there is no GPU, in the executable's words."""

    @property
    def shown(self) -> TrainingRun:
        """The larger training where there is one, else the tiny one."""
        return self.gpu or self.tiny

    @property
    def difference(self) -> float:
        """The largest difference of a loss between device and CPU."""
        return max(abs(a - b) for a, b in zip(self.tiny.steps.loss, self.cpu.steps.loss, strict=True))

    def streams(self) -> "pandas.DataFrame":
        """What rank 0 put into its streams, from the trace: one row per stream and operation, with the
        number of times in a step, and on a GPU the milliseconds of a step, and which part of them
        other streams of the rank were busy as well."""
        import pandas

        spans = self.shown.spans
        spans = spans[spans["rank"] == 0]
        steps = spans.track.eq("step").sum()
        spans = spans[spans.track.str.endswith(" stream")]
        rows = []
        for (track, name), own in spans.assign(name=spans.name.map(_kind_of)).groupby(["track", "name"]):
            row = {"stream": track.removesuffix(" stream"), "operation": name, "in a step": len(own) / steps}
            if self.gpu:
                busy = (own.end - own.begin).sum()
                beside = _covered(own, spans[spans.track != track])
                row |= {"ms in a step": 1e3 * busy / steps, "beside others": beside / busy if busy else 0.0}
            rows.append(row)
        return pandas.DataFrame(rows).set_index(["stream", "operation"])

    def skipped(self, what: str) -> None:
        """Says what only a GPU shows; nothing where there is one."""
        if self.gpu:
            return
        why = "no GPU here" if _says(self.refusal, NO_GPU) else self.refusal.partition(". ")[0]
        print(f"SKIPPED: {why}, so {what}.")


def device_run(
    chapter: str, flags: str = "", *, tiny: str = "", gpu: str = "", trace: bool = False, timeout: float = 300
) -> DeviceRun:
    """Trains a tiny model on a device and on the CPU with these flags of a chapter's executable, and on a
    GPU a larger one too; `tiny` and `gpu` are flags for the one and the other model only.

    ran = device_run("03", "--ranks 2", trace=True); assert ran.difference < 1e-10

    @raises TrainingFailed with what the executable wrote to stderr
    """

    executable = Executable(chapter)

    def run(device: str, model: str) -> TrainingRun:
        words = f"{flags} --device {device} {model}".strip()
        return executable.train(words, trace=trace, timeout=timeout)

    small, large = f"{TINY} {tiny}", f"{LARGE} {gpu}"
    try:
        kind, refusal, on_device = "cuda", "", run("cuda", small)
    except TrainingFailed as error:
        refusal = str(error).partition("error: ")[2]
        if not _says(refusal, NO_GPU + UNFIT):
            raise
        kind, on_device = "emulated", run("emulated", small)
    on_gpu = None if refusal else run("cuda", large)
    return DeviceRun(kind, run("cpu", small), on_device, on_gpu, refusal)


def _says(refusal: str, words: tuple[str, ...]) -> bool:
    return any(some in refusal for some in words)


def _kind_of(name: str) -> str:
    """ "all_reduce" for "all_reduce of 'dp' [bucket 3]"."""
    return name.partition(" of '")[0]


def _covered(own: "pandas.DataFrame", others: "pandas.DataFrame") -> float:
    """Seconds of `own` in which some span of `others` was running, too."""
    import numpy

    busy = numpy.array(_merged(others)).reshape(-1, 2)
    if not busy.size:
        return 0.0
    so_far = numpy.cumsum(busy[:, 1] - busy[:, 0])
    seconds = numpy.column_stack([so_far - (busy[:, 1] - busy[:, 0]), so_far])
    until = (numpy.interp(moments, busy.ravel(), seconds.ravel()) for moments in (own.begin, own.end))
    begun, ended = (values.sum() for values in until)
    return ended - begun


def _merged(spans: "pandas.DataFrame") -> list[tuple[float, float]]:
    """The times at which any span was running, without overlaps."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(zip(spans.begin, spans.end, strict=True)):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
