"""The figures' modules: the programs' C++ compiled to WebAssembly, by Debian's clang and wasi-libc.

A module is a page's script that holds its bytes, compressed: browsers read no other files beside a
page that lies on a disk.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("-19", "-20", "-21", "-18", "-17", "-16", "")
LIBRARIES = ("fmt", "nlohmann")
INCLUDE_FOLDERS = (Path("/usr/include"), Path("/usr/local/include"))
FLAGS = (
    "--target=wasm32-wasi -std=c++20 -Oz -fexceptions -fno-rtti -fvisibility=hidden"
    " -DFMT_HEADER_ONLY=1 -D_WASI_EMULATED_SIGNAL -Wno-c++11-narrowing -Wno-deprecated-declarations"
)
LINK_FLAGS = (
    "--target=wasm32-wasi -mexec-model=reactor -Wl,--gc-sections,--strip-all -lwasi-emulated-signal"
)
FIGURES = "tools/site/figures"

BASE = [
    "common/base/errors.cpp",
    "common/base/json.cpp",
    "common/base/text.cpp",
    "common/base/units.cpp",
    "common/base/interrupt.cpp",
    "common/tensor/dtype.cpp",
]
ESTIMATE = [
    "chapters/01_memory/model_presets.cpp",
    "common/nn/model_config.cpp",
    "common/nn/named_models.cpp",
    "solutions/01_memory/memory_estimate.cpp",
]

PIPELINE = [
    "chapters/07_pipeline_parallel/lists/*.cpp",
    *(
        f"chapters/07_pipeline_parallel/schedule/{name}.cpp"
        for name in (
            "action_names",
            "make_schedule",
            "messages",
            "placement",
            "schedule_choice",
            "validate",
            "with_messages",
        )
    ),
    *(
        f"chapters/07_pipeline_parallel/simulate/{name}.cpp"
        for name in ("cost_model", "gantt", "model_costs", "simulated_step", "simulator")
    ),
    "solutions/07_pipeline_parallel/afab_list.cpp",
    "solutions/07_pipeline_parallel/interleaved_list.cpp",
    "solutions/07_pipeline_parallel/one_f_one_b_list.cpp",
    "solutions/07_pipeline_parallel/live_activations.cpp",
    "common/train/step_schedule.cpp",
    "common/trace/trace_recorder.cpp",
]

MODULES = {
    "memory": [f"{FIGURES}/memory_figure.cpp", *ESTIMATE],
    "collectives": [
        f"{FIGURES}/collectives_figure.cpp",
        f"{FIGURES}/collective_play.cpp",
        "chapters/02_collectives/algorithms/*.cpp",
        "chapters/02_collectives/choice/algorithm_table.cpp",
        *(
            f"chapters/02_collectives/simulator/{name}.cpp"
            for name in (
                "closed_form",
                "cost_model",
                "link_simulator",
                "simulate_report",
                "topology",
                "topology_parser",
            )
        ),
        "solutions/02_collectives/*.cpp",
        "common/comm/collectives/schedule.cpp",
        "common/comm/engine/operation.cpp",
        "common/tensor/shape.cpp",
    ],
    "zero": [
        f"{FIGURES}/zero_figure.cpp",
        *ESTIMATE,
        "solutions/04_zero/zero_memory.cpp",
        "solutions/04_zero/prefetch.cpp",
        "chapters/04_zero/prefetch.cpp",
        "chapters/04_zero/prefetch_condition.cpp",
        "solutions/01_memory/gradient_accumulation.cpp",
        "common/train/step_schedule.cpp",
    ],
    "pipeline": [f"{FIGURES}/pipeline_figure.cpp", *PIPELINE],
    "planner": [
        f"{FIGURES}/planner_figure.cpp",
        *ESTIMATE,
        *PIPELINE,
        *(
            f"chapters/11_five_d/planner/{room}/*.cpp"
            for room in (
                "export",
                "fitting",
                "layout",
                "memory",
                "report",
                "search",
                "time",
            )
        ),
        "common/replay/cluster/cluster.cpp",
        "common/replay/prices.cpp",
        "common/replay/product_time.cpp",
        "chapters/02_collectives/cost/exchange_price.cpp",
        "chapters/11_five_d/planner/model/model_shape.cpp",
        *(
            f"solutions/11_five_d/{name}.cpp"
            for name in ("fit", "layout_memory", "rank_placement", "step_time")
        ),
        "solutions/02_collectives/ring_cost.cpp",
        "solutions/04_zero/zero_memory.cpp",
        "solutions/07_pipeline_parallel/bubble_fraction.cpp",
        "chapters/02_collectives/simulator/topology.cpp",
        "chapters/06_context_parallel/context_layout.cpp",
        "chapters/06_context_parallel/cost/ring_overlap.cpp",
        "chapters/07_pipeline_parallel/closed_forms/schedule_volume.cpp",
        "chapters/08_expert_parallel/cost/dispatch_cost.cpp",
        "chapters/08_expert_parallel/moe/moe_models.cpp",
    ],
}
"""The sources of each module, as patterns."""


class NoCompiler(Exception):
    """Why nothing can be compiled to WebAssembly here."""


class DoesNotCompile(Exception):
    """What a compiler that is good enough said of the figures' sources."""


def find_compiler() -> str:
    """A clang with a C++ library for WebAssembly that is recent enough.

    @raises NoCompiler with what is missing
    """
    probe = "#include <source_location>\n#include <vector>\n#include <concepts>\nint main() {}\n"
    found = []
    for version in VERSIONS:
        compiler = shutil.which(f"clang++{version}")
        if compiler is None:
            continue
        found.append(Path(compiler).name)
        command = [
            compiler,
            "--target=wasm32-wasi",
            "-std=c++20",
            "-x",
            "c++",
            "-fsyntax-only",
            "-",
        ]
        if (
            subprocess.run(
                command, input=probe, text=True, capture_output=True, check=False
            ).returncode
            == 0
        ):
            return compiler
    if not found:
        raise NoCompiler(
            "there is no clang; the packages are clang-19, lld-19, wasi-libc, "
            "libc++-19-dev-wasm32 and libclang-rt-19-dev-wasm32"
        )
    raise NoCompiler(
        f"{', '.join(found)}: none has a C++20 library for wasm32-wasi; the packages are "
        "wasi-libc, libc++-19-dev-wasm32 and libclang-rt-19-dev-wasm32"
    )


def sources_of(module: str) -> list[str]:
    """The files of a module, relative to the checkout."""
    found = []
    for pattern in [*MODULES[module], *BASE, f"{FIGURES}/module.cpp"]:
        files = sorted(ROOT.glob(pattern))
        if not files:
            raise FileNotFoundError(f"tools/site/wasm.py names {pattern}, which is not there")
        found += [str(file.relative_to(ROOT)) for file in files]
    return list(dict.fromkeys(found))


def build_modules(folder: Path) -> dict[str, bytes]:
    """All modules, compiled in `folder`, which keeps what need not be compiled again.

    @raises NoCompiler where there is none
    @raises DoesNotCompile with the compiler's words about a source
    """
    compiler = find_compiler()
    folder.mkdir(parents=True, exist_ok=True)
    _link_libraries(folder / "include")
    (folder / "build.ninja").write_text(_ninja_file(compiler))
    command = [
        "ninja",
        "-C",
        str(folder),
        "-j",
        os.environ.get("WORKBOOK_JOBS", str(os.cpu_count())),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DoesNotCompile(
            f"{Path(compiler).name} cannot compile the figures; --no-figures leaves them out\n"
            f"{done.stdout[-4000:]}"
        )
    return {module: (folder / f"{module}.wasm").read_bytes() for module in MODULES}


def as_script(module: str, wasm: bytes) -> str:
    """A script that hands the module's bytes to figures.js."""
    packed = base64.b64encode(_deflated(wasm)).decode()
    return f"workbookModules[{json.dumps(module)}] = {json.dumps(packed)};\n"


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def _link_libraries(folder: Path) -> None:
    """Headers of two libraries, without the system's others, which are of another machine."""
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES:
        home = next((base / name for base in INCLUDE_FOLDERS if (base / name).is_dir()), None)
        if home is None:
            raise NoCompiler(f"there are no headers of {name} in {INCLUDE_FOLDERS[0]}")
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(home)


def _ninja_file(compiler: str) -> str:
    lines = [
        f"flags = {FLAGS} -I{ROOT} -Iinclude",
        (
            f"rule header\n  command = {compiler} $flags -x c++-header $in -o $out -MMD -MF"
            " $out.d\n  depfile = $out.d"
        ),
        (
            f"rule compile\n  command = {compiler} $flags -include-pch prelude.pch -c $in -o $out"
            " -MMD -MF $out.d\n  depfile = $out.d"
        ),
        f"rule link\n  command = {compiler} {LINK_FLAGS} $in -o $out",
        f"build prelude.pch: header {ROOT}/{FIGURES}/prelude.hpp",
    ]
    compiled = set()
    for module in MODULES:
        objects = []
        for source in sources_of(module):
            name = f"{source.replace('/', '.')}.o"
            objects.append(name)
            if name not in compiled:
                compiled.add(name)
                lines.append(f"build {name}: compile {ROOT}/{source} | prelude.pch")
        lines.append(f"build {module}.wasm: link {' '.join(objects)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        print(find_compiler())
    except NoCompiler as reason:
        sys.exit(str(reason))
