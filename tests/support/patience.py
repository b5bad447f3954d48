"""How long tests wait for the programs that they start."""

import os


def patient(seconds):
    """The seconds to wait for what takes no longer than `seconds` on an idle machine.

    ctest gives the factor (cmake/UltraTestLimits.cmake); by hand it is 1.
    """
    return seconds * float(os.environ.get("ULTRA_TEST_PATIENCE", "1"))
