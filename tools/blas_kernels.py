#!/usr/bin/env python3
"""The kernels that OpenBLAS should take on a processor that it does not know.

OpenBLAS chooses its kernels by a list of processors. On one that is newer than the list it takes those of 2004
(Prescott), and products take three to four times as long. Prints what OPENBLAS_CORETYPE should be then, else nothing.
"""

import ctypes
import pathlib
import re

FALLBACK = "Prescott"
KERNELS = {"SkylakeX": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"}, "Haswell": {"avx2", "fma"}}


def chosen_kernels():
    """The name of what OpenBLAS takes by itself; "" without an OpenBLAS that says it."""
    try:
        name_of = ctypes.CDLL("libopenblas.so.0").openblas_get_corename
    except (OSError, AttributeError):
        return ""
    name_of.restype = ctypes.c_char_p
    return name_of().decode()


def better_kernels(chosen, cpuinfo):
    """What a processor with these flags (the text of /proc/cpuinfo) should take instead; "" if nothing else."""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if chosen != FALLBACK or not flags:
        return ""
    return next((name for name, needed in KERNELS.items() if needed <= set(flags[1].split())), "")


if __name__ == "__main__":
    print(better_kernels(chosen_kernels(), pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")))
