"""Measures the kernels, and training, on a machine with a GPU.

    measure_gpu.py pack [FOLDER]      where the workbook builds: programs, their libraries, what the
                                      emulator counts; and FOLDER.tar.xz, at most 64 MiB
    measure_gpu.py test               each GPU test in a process of its own, streams and pools first
    measure_gpu.py time [LADDER]      each rung beside its ceiling: a ladder in one process, and rungs
                                      alone where that ends early
    measure_gpu.py sanitize [TOOL]    compute-sanitizer's memcheck, racecheck, initcheck, synccheck
    measure_gpu.py counters [LADDER]  what the emulator counts beside what Nsight Compute measures
    measure_gpu.py gpu-tests          every operation and every chapter's layouts, against the CPU
    measure_gpu.py train [MODEL]      tokens per second of whole trainings, beside PyTorch's
    measure_gpu.py profile [MODEL]    the same trainings' kernels, each timed alone by Nsight Compute
    measure_gpu.py run                all of these, in parts: first the kernels of the headlines and
                                      training, then operations and layouts, then the rest

FOLDER is build/gpu_pack unless given; carry it to the other machine: this file is in it. The parts
but pack need Python and the driver only, and take --folder FOLDER and

    --output OUTPUT    where results go (gpu_results); report.md there grows with every process
    --limit SECONDS    what one process may take (90; 300 of train); it is killed then, and the next begins
    --budget SECONDS   when to end, whatever runs; the same command then goes on where it ended
    --only REGEX       only what matches: "matmul_bf16/1[0-2]". Without it, sanitize and counters take
                       each ladder's last rung, and those for Hopper
    --jobs N           tests at a time (1); what is timed runs alone
    --again            also what is done already

OUTPUT.tar.gz holds all results after every part; times.jsonl there has a line for each rung timed.
Exit code 1 when something is wrong, 3 when the budget has ended before the work.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_machine  # noqa: E402  (beside this file, here and in the packed folder)

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = pathlib.Path(__file__).resolve().parent
CARRIED = ("measure_gpu.py", "gpu_machine.py", "measure_sdpa.py", "measure_training.py")
PROGRAM = gpu_machine.PROGRAM
# The tests of theirs that use a device.
STREAMS = {"test.common.gpu": "*", "test.common.tensor": "Device*:HostView*:Caching*"}
TESTS = ("test.kernels.simt.gpu", "test.chapters.09_kernels.gpu")
OPERATIONS = "test.common.ops"
LAYOUTS = "test.devices.gpu"
TRAINING = "bench_train_step"
# Sequences of a step: what fits 80 GB without recomputation.
MODELS = {"gpt2-124m": ("--micro-batch", "32"), "llama-1b": ("--micro-batch", "4")}
LIMITS = {"train": 300.0, "profile": 300.0}  # seconds of a process
ARCHITECTURE = "90a-real"  # of the pack: H100 and H200
MOST_BYTES = 64 << 20      # of the packed archive
EMULATED = "emulated"      # in the pack: what the emulator has counted
# What is measured before all else: rungs by which the project is judged, and their tests.
HEADLINES = (r"^test test\.(common|kernels)|(matmul_bf16|matmul_turned|matmul_fp8|attention_bf16|"
             r"attention_backward_bf16)[/_]|PyTorch's attention")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The C library is the other machine's own; it must be as new as the one here.
OF_THE_SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread)\.so)")
# What Nsight Compute counts over all instructions and the emulator over what is recorded.
NOT_COMPARED = ("smsp__sass_branch_targets", "smsp__thread_inst")
DURATION = "gpu__time_duration.sum"  # nanoseconds
# Of a rung's line of JSON, what times.jsonl keeps.
KEPT = ("ladder", "rung", "name", "sizes", "seed", "status", "unit", "rate", "median_seconds",
        "of_ceiling", "worst_error")
WRONG, BUDGET_ENDED = 1, 3


# --- pack ----------------------------------------------------------------------------------------

def libraries_of(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [path for path in map(pathlib.Path, re.findall(r"=> (/\S+)", listed))
            if not OF_THE_SYSTEM.match(path.name)]


def build_programs(build):
    """For any processor of this kind, and with no library that is not used. Programs look for their
    libraries in the folder lib beside them: no variable has to say so, which other programs that
    start them (ncu, compute-sanitizer) would obey, too."""
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DULTRA_TESTS=ON", "-DULTRA_CUDA=ON", "-DULTRA_MPI=OFF", "-DULTRA_URING=OFF",
                    "-DULTRA_NATIVE=OFF", "-DULTRA_ONEDNN=OFF",
                    f"-DCMAKE_CUDA_ARCHITECTURES={ARCHITECTURE}",
                    "-DCMAKE_BUILD_RPATH=$ORIGIN/lib",
                    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed,--disable-new-dtags"], check=True)
    subprocess.run(["cmake", "--build", build, "--target", f"{PROGRAM}_main", *STREAMS, *TESTS,
                    OPERATIONS, LAYOUTS, TRAINING], check=True)


def collect(build, folder):
    """Copies the programs of a build, stripped, their libraries, and what measures them."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    programs = [build / "bin" / PROGRAM, build / "bin" / TRAINING,
                *(build / "tests" / test for test in (*STREAMS, *TESTS, OPERATIONS, LAYOUTS))]
    for program in programs:
        shutil.copy(program, folder)
        subprocess.run(["strip", folder / program.name], check=True)
        for library in libraries_of(program):
            shutil.copy(library, folder / "lib")
    for name in CARRIED:
        shutil.copy(HERE / name, folder)


def emulate(program, folder):
    """Counts each rung in the emulator, which needs no GPU, takes its time, and wants a program with
    its symbols."""
    (folder / EMULATED).mkdir()
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    for ladder, rungs in gpu_machine.ladders_of(listed.stdout).items():
        for rung in rungs:
            subprocess.run([program, "--emulate", "--kernel", f"{ladder}/{rung.number}",
                            "--metrics", folder / EMULATED / f"{ladder}_{rung.number}.jsonl"],
                           check=True, stdout=subprocess.DEVNULL)


def compress(folder):
    """FOLDER.tar.xz; ends with an error when it is larger than what can be carried."""
    packed = folder.with_name(f"{folder.name}.tar.xz")
    with tarfile.open(packed, "w:xz") as file:
        file.add(folder, arcname=folder.name)
    size = packed.stat().st_size
    print(f"{packed}: {size / 2 ** 20:.1f} MiB of {MOST_BYTES / 2 ** 20:.0f}", flush=True)
    if size > MOST_BYTES:
        sys.exit(f"{packed} is too large to be carried. What to do: look for the largest files in "
                 f"{folder}, and leave out what they are for")


def pack(folder):
    build_programs(ROOT / "build/gpu")
    collect(ROOT / "build/gpu", folder)
    emulate(ROOT / "build/gpu/bin" / PROGRAM, folder)
    compress(folder)
    print("Next, on the machine with the GPU, as often as it says that the budget has ended: tar xf "
          f"{folder.name}.tar.xz && python3 {folder.name}/measure_gpu.py run --folder {folder.name} "
          "--jobs 14 --budget 560", flush=True)


# --- The parts -----------------------------------------------------------------------------------

def tests(machine, unit, program, name, chosen):
    """The tests that a filter has chosen, in a process of their own, as a line of a table."""
    return (unit, program, f"--gtest_filter={chosen}"), {
        "then": lambda done: machine.row(name, done.verdict(), f"{done.seconds:.1f}")}


def test(machine, _):
    """Each test in a process of its own: the error of a kernel spoils all that follows in it."""
    machine.section("Tests", "| test | result | seconds |", "|---|---|---|")
    machine.together([tests(machine, f"test {program}", program, program, chosen)
                      for program, chosen in STREAMS.items()])
    machine.together([tests(machine, f"test {program} {name}", program, name, name)
                      for program in TESTS for name in machine.tests_of(program)])


def clocks_in_words(clocks):
    medians = [clocks.median_of(field) for field in ("clocks.sm", "power.draw")]
    return [*("-" if x is None else f"{x:.0f}" for x in medians), clocks.reasons()]


def time_row(machine, done, rung, event):
    """A line of the table of times, from a line of JSON that the program has written."""
    event = event or {}
    if "rate" not in event:
        machine.row(rung, "-", "-", "-", "-", *clocks_in_words(done.clocks),
                    event.get("message") or done.verdict())
        return
    ceiling = event.get("ceiling", {})
    machine.keep("times.jsonl", {key: event[key] for key in KEPT if key in event} | {
        "ceiling": {key: ceiling[key] for key in ("name", "rate") if key in ceiling},
        "megahertz": done.clocks.median_of("clocks.sm")})
    machine.row(f"{rung} {event['name']}", f"{event['median_seconds'] * 1e3:.4f}",
                f"{event['rate']:.1f} {event['unit']}",
                f"{ceiling['rate']:.1f}: {ceiling['name']}" if ceiling else "-",
                f"{event['of_ceiling']:.1%}" if ceiling else "-",
                *clocks_in_words(done.clocks), event["status"])


def time_ladder(machine, ladder, rungs):
    """A ladder in one process; where an error or the limit ends it early, what is left alone."""
    def times(events):
        return [event for event in gpu_machine.read_events(events) if "rate" in event]

    unit = f"time {ladder}"
    machine.once(unit, PROGRAM, "--gpu", "--kernel", ladder, writes_events=True, is_timed=True,
                 then=lambda done: [time_row(machine, done, f"{ladder}/{event['rung']:02}", event)
                                    for event in times(done.events)])
    is_done = unit in machine.done  # else what lies there is an earlier run's
    timed = [event["rung"] for event in times(machine.events_of(unit))] if is_done else []
    for rung in (rung.number for rung in rungs if rung.number not in timed):
        time_rung(machine, f"{ladder}/{rung}", f"{ladder}/{rung:02}")


def time_rung(machine, rung, title, *flags):
    """A rung in a process of its own."""
    machine.once(" ".join(("time", rung, *flags[1::2])), PROGRAM, "--gpu", "--kernel", rung, *flags,
                 then=lambda done: time_row(machine, done, title, done.event()),
                 writes_events=True, is_timed=True)


def time(machine, wanted):
    """Each ladder at its size for a GPU."""
    machine.section(
        "Times",
        "| rung | ms | rate | ceiling | of it | SM MHz | W | slowed down by | result |",
        "|---|---|---|---|---|---|---|---|---|")
    for ladder, rungs in machine.ladders(wanted).items():
        time_ladder(machine, ladder, rungs)
    # The other masks of attention: even seeds are not causal. 16384 tokens, as papers have it.
    masks = machine.ladders("attention_bf16") if wanted in ("", "attention_bf16") else {}
    for rungs in masks.values():
        for size, seed in (("4x4x4x4096x128", 4), ("1x4x4x16384x128", 5), ("1x4x4x16384x128", 4)):
            rung = rungs[-1].number
            time_rung(machine, f"attention_bf16/{rung}", f"attention_bf16/{rung:02} {size} "
                      f"{'causal' if seed % 2 else 'full'}", "--size", size, "--seed", str(seed))
    if wanted in ("", "sdpa") or wanted.startswith("attention"):
        machine.once("time PyTorch's attention", sys.executable, HERE / "measure_sdpa.py",
                     then=lambda done: machine.block("PyTorch's attention", done.text),
                     is_ours=False, is_timed=True)


def sanitize(machine, wanted):
    """Each rung under each tool: at the sizes of the tests, which are small."""
    machine.section("compute-sanitizer", "| tool | test | result | seconds |", "|---|---|---|---|")
    if shutil.which("compute-sanitizer") is None:
        machine.say("skipped: compute-sanitizer is not in the PATH")
        return
    program = TESTS[-1]
    chosen = [f"/{ladder}_{rung.number}_" for ladder, rungs in machine.ladders("").items()
              for rung in machine.chosen(rungs)]
    names = [name for name in machine.tests_of(program)
             if "AreRightForAnyShape" in name and any(rung in f"{name}_" for rung in chosen)]
    machine.together(
        [((f"sanitize {tool} {name}", "compute-sanitizer", "--tool", tool, "--error-exitcode", "9",
           machine.folder / program, f"--gtest_filter={name}"),
          {"is_ours": False, "then": lambda done, tool=tool, name=name: machine.row(
              tool, name, done.verdict(), f"{done.seconds:.1f}")})
         for tool in ([wanted] if wanted else SANITIZERS) for name in names])


def counter_rows(event, measured):
    """Lines of a table: one per sum that is not 0 on either side; ratios follow from sums."""
    for name, emulated in event["metrics"].items():
        found = measured.get(name)
        if not name.endswith(".sum") or name.startswith(NOT_COMPARED):
            continue
        if emulated or found:
            verdict = "equal" if found == emulated else "DIFFERENT"
            shown = "not measured" if found is None else f"{found:.0f}"
            yield (f"| {event['ladder']}/{event['rung']:02} {event['name']} | `{name}` | "
                   f"{emulated:.0f} | {shown} | {verdict} |")


def measure_counters(machine, event):
    """What ncu says of one rung at the sizes of an emulated run."""
    rung = f"{event['ladder']}/{event['rung']}"
    sizes = "x".join(str(size) for size in event["sizes"].values())
    machine.once(f"ncu {rung}", "ncu", "--clock-control", "none", "--csv", "--print-units", "base",
                 "--metrics", ",".join(event["metrics"]), machine.folder / PROGRAM, "--gpu",
                 "--repetitions", "0", "--kernel", rung, "--size", sizes, "--seed", event["seed"],
                 is_ours=False,
                 then=lambda done: [machine.say(line) for line in counter_rows(
                     event, gpu_machine.sums_of_csv(done.text))])


def counters(machine, wanted):
    """What the emulator has counted of each rung, and ncu at the same size."""
    machine.section("The emulator's counters and Nsight Compute's",
                    "| rung | metric | emulator | ncu | |", "|---|---|---|---|---|")
    if shutil.which("ncu") is None:
        machine.say("skipped: ncu is not in the PATH")
        return
    for ladder, rungs in machine.ladders(wanted).items():
        for rung in machine.chosen(rungs):
            for event in gpu_machine.read_events(
                    machine.folder / EMULATED / f"{ladder}_{rung.number}.jsonl"):
                if event["right"]:
                    measure_counters(machine, event)


def gpu_tests(machine, _):
    """Each group of operations, and each layout, in a process of its own."""
    machine.section("Operations on the GPU", "| tests | result | seconds |", "|---|---|---|")
    suites = dict.fromkeys(name.split(".")[0] for name in machine.tests_of(OPERATIONS))
    machine.together([tests(machine, f"gpu-tests {suite}", OPERATIONS, suite, f"{suite}.*")
                      for suite in suites])
    machine.section("Layouts on the GPU", "| test | result | seconds |", "|---|---|---|")
    machine.together([tests(machine, f"gpu-tests {name}", LAYOUTS, name, name)
                      for name in machine.tests_of(LAYOUTS)])


def training_row(machine, done, name, event):
    if not event or "mfu" not in event:
        machine.row(name, "-", "-", "-", "-", *clocks_in_words(done.clocks), done.verdict())
        return
    machine.row(name, f"{event['tokens_per_second']:.0f}", f"{event['teraflops']:.1f}",
                f"{event['mfu']:.1%}", f"{event['peak_bytes'] / 1e9:.1f}",
                *clocks_in_words(done.clocks), done.verdict())


def json_line(text):
    """The last line of an output that is an object of JSON; None without one."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def train(machine, wanted):
    """Each model by us with both kinds of products, and by PyTorch if it is there."""
    machine.section("Training", "| what | tokens/s | TFLOP/s | MFU | GB | SM MHz | W | slowed down by "
                    "| result |", "|---|---|---|---|---|---|---|---|---|")
    for model, flags in MODELS.items():
        if wanted not in ("", model):
            continue
        for matmul in ("vendor", "ours"):
            name = f"train {model} {matmul}"
            machine.once(name, TRAINING, "--device", "cuda", "--model", model, "--matmul", matmul,
                         *flags, writes_events=True, is_timed=True,
                         then=lambda done, name=name: training_row(machine, done, name,
                                                                   done.event()))
        recompute = ["--recompute"] if "--recompute" in flags else []
        for how in ("eager", "compile"):
            name = f"train {model} PyTorch {how}"
            machine.once(name, sys.executable, HERE / "measure_training.py", model, how, *flags[:2],
                         *recompute, is_ours=False, is_timed=True,
                         then=lambda done, name=name: training_row(machine, done, name,
                                                                   json_line(done.text)))


def kernel_rows(name, text):
    """Lines of a table: each kernel's launches and milliseconds, the longest first."""
    kernels = {}
    for row in gpu_machine.rows_of_csv(text):
        if row["Metric Name"] == DURATION:
            kernel = re.sub(r"^void |[<(].*", "", row["Kernel Name"])
            kernels.setdefault(kernel, []).append(float(row["Metric Value"].replace(",", "")))
    for kernel, times in sorted(kernels.items(), key=lambda item: -sum(item[1])):
        yield f"| {name} | `{kernel}` | {len(times)} | {sum(times) / 1e6:.2f} |"


def profile(machine, wanted):
    """Two steps of each training: kernels one after the other, none beside another."""
    machine.section("Kernels of two steps", "| what | kernel | launches | ms |", "|---|---|---|---|")
    if shutil.which("ncu") is None:
        machine.say("skipped: ncu is not in the PATH")
        return
    for model, flags in MODELS.items():
        for matmul in ("vendor", "ours") if wanted in ("", model) else ():
            name = f"profile {model} {matmul}"
            machine.once(
                name, "ncu", "--clock-control", "none", "--cache-control", "none", "--csv",
                "--print-units", "base", "--metrics", DURATION, "env",
                f"LD_LIBRARY_PATH={machine.environment['LD_LIBRARY_PATH']}", machine.folder / TRAINING,
                "--device", "cuda", "--model", model, "--matmul", matmul, *flags, "--steps", "2",
                is_ours=False, then=lambda done, name=name: machine.say(*kernel_rows(name, done.text)))


PARTS = {"test": test, "time": time, "sanitize": sanitize, "counters": counters,
         "gpu-tests": gpu_tests, "train": train, "profile": profile}
# The parts of a run, and what they take: what has been done by one is left out by the next.
RUN = (("test", HEADLINES), ("time", HEADLINES), ("train", ""), ("profile", ""), ("gpu-tests", ""),
       ("time", ""), ("test", ""), ("sanitize", ""), ("counters", ""))


# --- The command line ----------------------------------------------------------------------------

def archive(output):
    """All results as one file, beside their folder."""
    with tarfile.open(output.with_name(f"{output.name}.tar.gz"), "w:gz") as file:
        file.add(output, arcname=output.name)


def measure(arguments):
    if not (arguments.folder / PROGRAM).is_file():
        sys.exit(f"{arguments.folder} has no {PROGRAM}. What to do: make it with measure_gpu.py "
                 "pack, or name it: --folder FOLDER")
    machine = gpu_machine.Machine(arguments)
    try:
        for name, first in RUN if arguments.part == "run" else [(arguments.part, "")]:
            machine.begin(first, arguments.limit or LIMITS.get(name, gpu_machine.LIMIT))
            PARTS[name](machine, arguments.wanted)
        machine.finish()
    except gpu_machine.BudgetEnded:
        machine.say_on_screen("the budget has ended: the same command goes on from here")
        return BUDGET_ENDED
    finally:
        archive(arguments.output)
    return WRONG if machine.failures else 0


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, add_help=True,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["pack", *PARTS, "run"])
    parser.add_argument("wanted", nargs="?", default="")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/gpu_pack")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("gpu_results"))
    parser.add_argument("--limit", type=float)
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args(words)
    if arguments.jobs < 1:
        parser.error(f"--jobs is {arguments.jobs}, expected 1 or more")
    if arguments.part in ("test", "gpu-tests", "run") and arguments.wanted:
        parser.error(f"{arguments.part} takes no {arguments.wanted}")
    if arguments.part == "sanitize" and arguments.wanted not in ("", *SANITIZERS):
        parser.error(f"there is no tool {arguments.wanted}, expected one of {SANITIZERS}")
    try:
        re.compile(arguments.only)
    except re.error as error:
        parser.error(f"--only is no regular expression: {error}")
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    if arguments.part == "pack":
        pack(pathlib.Path(arguments.wanted) if arguments.wanted else arguments.folder)
    else:
        sys.exit(measure(arguments))


if __name__ == "__main__":
    main()
