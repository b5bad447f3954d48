"""device_run: on a GPU, on one that will not do, and without."""

import contextlib
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

import pandas

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "notebook"))

from ultra_notebook.device import device_run  # noqa: E402
from ultra_notebook.failures import TrainingFailed  # noqa: E402
from ultra_notebook.training import TrainingRun  # noqa: E402

NO_DRIVER = "device cuda: this machine has no NVIDIA driver. Install one. Or use --device cpu or emulated."
TRACKS = ("step", "compute stream", "communication stream", "phase")


def span(track, name, begin, seconds, rank=0):
    return {"ph": "X", "name": name, "pid": rank, "tid": TRACKS.index(track),
            "ts": begin * 1e6, "dur": seconds * 1e6}


def run_of(losses, *spans):
    names = [{"ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": {"name": track}}
             for rank in (0, 1) for tid, track in enumerate(TRACKS)]
    steps = pandas.DataFrame({"loss": losses})
    return TrainingRun("toy", steps, {}, "", {"traceEvents": [*names, *spans]})


class FakeExecutable:
    """Answers by device, and by whether it is the tiny model."""

    def __init__(self, answers):
        self.answers, self.flags = answers, []

    def __call__(self, chapter):
        self.chapter = chapter
        return self

    def train(self, flags, *, trace, timeout):
        self.flags.append(flags)
        device = flags.split("--device ")[1].split()[0]
        answer = self.answers[device if "--dtype f64" in flags else f"{device}, large"]
        if isinstance(answer, str):
            raise TrainingFailed(f"03_toy {flags}: exit code 2\nerror: {answer}")
        return answer


class DeviceRunTest(unittest.TestCase):
    def try_it(self, answers, *arguments, **named):
        self.fake = FakeExecutable(answers)
        with mock.patch("ultra_notebook.device.Executable", self.fake):
            return device_run("03", *arguments, **named)

    def said(self, ran):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            ran.skipped("nothing here is a time")
        return out.getvalue()

    def test_without_a_gpu_it_is_the_emulated_device(self):
        tiny = run_of([5.0, 4.5])
        ran = self.try_it({"cuda": NO_DRIVER, "emulated": tiny, "cpu": run_of([5.0, 4.25])},
                          "--ranks 2", tiny="--bucket-mb 1", gpu="--bucket-mb 9")
        self.assertEqual((ran.kind, ran.gpu, ran.shown, ran.difference), ("emulated", None, tiny, 0.25))
        self.assertEqual(self.said(ran), "SKIPPED: no GPU here, so nothing here is a time.\n")
        for flags in self.fake.flags:
            self.assertIn("--ranks 2", flags)
            self.assertIn("--bucket-mb 1", flags)
            self.assertNotIn("--bucket-mb 9", flags)

    def test_on_a_gpu_it_trains_a_larger_model_too(self):
        large = run_of([7.0])
        ran = self.try_it({"cuda": run_of([5.0]), "cpu": run_of([5.0]), "cuda, large": large},
                          tiny="--bucket-mb 1", gpu="--bucket-mb 9")
        self.assertEqual((ran.kind, ran.gpu, ran.shown, ran.difference), ("cuda", large, large, 0.0))
        self.assertEqual(self.said(ran), "")
        flags = [flags for flags in self.fake.flags if "--bucket-mb 9" in flags]
        self.assertEqual(len(flags), 1)
        self.assertIn("--device cuda", flags[0])
        self.assertNotIn("--bucket-mb 1", flags[0])

    def test_a_gpu_that_will_not_do_is_skipped_with_the_reason(self):
        answer = "device cuda: the NVIDIA driver is too old: it knows CUDA 11.0. Update the driver."
        ran = self.try_it({"cuda": answer, "emulated": run_of([5.0]), "cpu": run_of([5.0])})
        self.assertEqual(self.said(ran), "SKIPPED: device cuda: the NVIDIA driver is too old: it knows CUDA "
                         "11.0, so nothing here is a time.\n")

    def test_a_failure_on_a_gpu_is_no_reason_to_skip(self):
        for answer in ("device cuda: cudaMemcpyAsync: an illegal memory access", "--ranks: 0 is too few"):
            with self.subTest(answer), self.assertRaisesRegex(TrainingFailed, "exit code 2"):
                self.try_it({"cuda": answer, "emulated": run_of([5.0]), "cpu": run_of([5.0])})

    def test_runs_of_different_lengths_are_not_compared(self):
        ran = self.try_it({"cuda": NO_DRIVER, "emulated": run_of([5.0]), "cpu": run_of([5.0, 4.0])})
        with self.assertRaises(ValueError):
            _ = ran.difference

    SPANS = (span("step", "step 1", 0, 10), span("step", "step 2", 10, 10),
             span("compute stream", "matmul", 1, 2), span("compute stream", "matmul", 3, 2),
             span("compute stream", "add", 7, 1), span("compute stream", "add", 9, 1, rank=1),
             span("communication stream", "all_reduce of 'dp' [bucket 0]", 4, 2),
             span("communication stream", "all_reduce of 'dp' [bucket 1]", 6.5, 2),
             span("phase", "forward, block 0", 0, 10))

    def test_streams_without_a_gpu_have_no_times(self):
        emulated = run_of([5.0], *self.SPANS)
        ran = self.try_it({"cuda": NO_DRIVER, "emulated": emulated, "cpu": run_of([5.0])}, trace=True)
        found = ran.streams()
        self.assertEqual(list(found.columns), ["in a step"])
        self.assertEqual(found["in a step"].to_dict(),
                         {("communication", "all_reduce"): 1.0, ("compute", "add"): 0.5,
                          ("compute", "matmul"): 1.0})

    def test_streams_of_a_gpu_say_what_ran_beside_others(self):
        large = run_of([7.0], *self.SPANS)
        ran = self.try_it({"cuda": run_of([5.0]), "cpu": run_of([5.0]), "cuda, large": large}, trace=True)
        found = ran.streams()
        # Bucket 0 has one of its two seconds beside the second matmul, bucket 1 one beside the addition.
        self.assertAlmostEqual(found["beside others"]["communication", "all_reduce"], 2 / 4)
        self.assertAlmostEqual(found["beside others"]["compute", "matmul"], 1 / 4)
        self.assertAlmostEqual(found["beside others"]["compute", "add"], 1.0)
        self.assertAlmostEqual(found["ms in a step"]["compute", "matmul"], 2000.0)

    def test_a_stream_alone_is_beside_nothing(self):
        large = run_of([7.0], *self.SPANS[:3])
        ran = self.try_it({"cuda": run_of([5.0]), "cpu": run_of([5.0]), "cuda, large": large}, trace=True)
        self.assertEqual(ran.streams()["beside others"]["compute", "matmul"], 0.0)


if __name__ == "__main__":
    unittest.main()
